"""Report of the doctor: as JSON, and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kit.core.errors import EXIT_HOST, EXIT_OK
from kit.doctor.checks import CHECKS
from kit.doctor.finding import WORST_FIRST, Finding

FORMAT = 1
_ORDER = list(CHECKS)
_FOLDED = ("note", "ok")


@dataclass(frozen=True)
class Examinee:
    """A diagnosed host. `examined`: whether its facts could be read."""

    name: str
    roles: tuple[str, ...]
    reachable: bool
    examined: bool


@dataclass(frozen=True)
class Diagnosis:
    """Hosts and findings, worst first."""

    hosts: tuple[Examinee, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """5 if a run cannot work here, else 0."""
        return EXIT_HOST if any(finding.state == "fail" for finding in self.findings) else EXIT_OK

    def as_json(self) -> dict[str, Any]:
        """docs/formats/output.md, "Findings of the doctor"."""
        return {
            "format": FORMAT,
            "ready": self.exit_code == EXIT_OK,
            "hosts": [asdict(host) for host in self.hosts],
            "findings": [finding.as_json() for finding in self.findings],
        }


def make_report(hosts: tuple[Examinee, ...], findings: list[Finding]) -> Diagnosis:
    """Sort the findings: worst first, then in the order of the testbed's hosts, then of the checks."""
    positions = {host.name: number for number, host in reversed(list(enumerate(hosts)))}

    def order(finding: Finding) -> tuple[int, int, int]:
        return (
            WORST_FIRST.index(finding.state),
            positions.get(finding.host, len(positions)),
            _ORDER.index(finding.check),
        )

    return Diagnosis(hosts, tuple(sorted(findings, key=order)))


def words(report: Diagnosis, verbose: bool = False) -> str:
    """Text for people; checks that are ok, and notes, are a line per host unless `verbose`."""
    lines: list[str] = []
    folded: dict[tuple[str, str], list[str]] = {}
    for finding in report.findings:
        check, first = CHECKS[finding.check], f"{finding.host}: {finding.check}: {finding.observed}"
        if finding.state in _FOLDED and not verbose:
            folded.setdefault((finding.state, finding.host), []).append(finding.check)
        elif finding.state != "ok":
            lines += [f"{finding.state:4}  {first}", f"      means: {check.meaning}"]
            lines.append(f"      to do: {finding.remedy}")
        else:
            lines.append(f"ok    {first}")
    lines += [f"{state:4}  {name}: {', '.join(checks)}" for (state, name), checks in folded.items()]
    if any(state == "note" for state, _ in folded):
        lines.append("--all says what each note means")
    counts = {state: sum(finding.state == state for finding in report.findings) for state in WORST_FIRST}
    lines.append(", ".join(f"{count} {state}" for state, count in counts.items()))
    if report.exit_code:
        lines.append("a run cannot work here until the failed checks are corrected")
    elif counts["warn"]:
        lines.append("a run can work here; the warnings may make its results wrong")
    else:
        lines.append("a run can work here")
    return "\n".join(lines)
