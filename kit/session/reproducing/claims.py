"""Claims of the documents, and whether a stored run reproduces them (docs/claims.md)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import reports
from kit.config.toml import nearest
from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN, ConfigError
from kit.core.table import TextTable
from kit.core.units import format_latency, format_latency_range, format_percent
from kit.store.run_directory import RunDir
from reports.published.share import share_inside
from reports.series.cells import StoredRun

LIST = Path(__file__).with_suffix(".toml")
State = Literal["pass", "fail", "unknown"]
_CODES: dict[State, int] = {"pass": EXIT_OK, "unknown": EXIT_UNKNOWN, "fail": EXIT_EXPECTATION}
# Short, and with another word for writes to disks than for reads from them.
_WORDS = {"dram": "DRAM (ARC)", "l2arc": "L2ARC", "disk": "disk", "slog": "SLOG", "pool": "pool disk"}


@dataclass(frozen=True)
class ClaimedTier:
    """What is claimed of a tier at the NFS server. `published_us`: the range of the reference.

    `p50_tolerance`: a part of `p50_us`. `inside` and `inside_min`: the part of the I/Os in that range.
    """

    tier: str
    p50_us: float
    published_us: tuple[float, float]
    inside: float
    p50_tolerance: float
    inside_min: float

    @property
    def p50_range_us(self) -> tuple[float, float]:
        return self.p50_us * (1 - self.p50_tolerance), self.p50_us * (1 + self.p50_tolerance)


@dataclass(frozen=True)
class DocumentedClaim:
    """`minutes` on two cores; `first_minutes` with what is built once. `run`: that measured the figures."""

    name: str
    title: str
    workload: str
    minutes: int
    first_minutes: int
    run: str
    tiers: tuple[ClaimedTier, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def head(self) -> str:
        return (
            f"{self.title} (run {self.run}). `hsp reproduce {self.name}` takes about "
            f"{self.minutes} minutes on two cores, {self.first_minutes} the first time."
        )

    def table(self) -> TextTable:
        """Figures and tolerances, as docs/claims.md has them."""
        rows = []
        for each in self.tiers:
            within = f"{format_percent(each.p50_tolerance)}: {format_latency_range(*each.p50_range_us)}"
            rows += [
                (_p50(each), format_latency(each.p50_us), within),
                (_inside(each), format_percent(each.inside), f"at least {format_percent(each.inside_min)}"),
            ]
        return TextTable(("figure", "claimed", "tolerance"), rows)


@dataclass(frozen=True)
class ReproducedFigure:
    """`low` to `high` passes; `found` is None where it is not known. In `unit`: "us", or 1 for a part."""

    tier: str
    figure: str
    low: float
    high: float
    unit: Literal["us", "1"]
    found: float | None
    state: State


@dataclass(frozen=True)
class Reproduction:
    """A claim beside a run. `reasons`: why the run is not valid. One that misses an expectation fails."""

    claim: str
    run: str
    path: str
    state: State
    reasons: tuple[str, ...]
    figures: tuple[ReproducedFigure, ...]

    @property
    def exit_code(self) -> int:
        return _CODES[self.state]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, width: int) -> Iterator[str]:
        yield f"{self.state.upper()}  {self.claim}, by run {self.run}"
        yield from self.reasons
        rows = []
        for each in self.figures:
            claimed, found = _shown(each.low, each.high, each.unit), "not known"
            if each.found is not None:
                found = format_latency(each.found) if each.unit == "us" else format_percent(each.found)
            rows.append((each.figure, claimed, found, each.state))
        yield from TextTable(("figure", "must be", "found", ""), rows, numeric=(2,)).lines(width)


def claims() -> tuple[DocumentedClaim, ...]:
    """All claims of the kit."""
    return tuple(_claim(each) for each in tomllib.loads(LIST.read_text())["claim"])


def chosen(names: Sequence[str]) -> tuple[DocumentedClaim, ...]:
    """The claims with these names; all without a name. Raises ConfigError."""
    known = {each.name: each for each in claims()}
    for name in names:
        if name not in known:
            hint = nearest(name, [*known], "the claims are")
            raise ConfigError(
                f"there is no claim '{name[:40]}'", f"{hint}; `hsp reproduce --list` shows them"
            )
    return tuple(known[name] for name in dict.fromkeys(names or known))


def of_workload(run: RunDir) -> tuple[DocumentedClaim, ...]:
    """The claims that a stored run can reproduce. Raises ConfigError if there is none."""
    manifest = reports.stored_run(run)[0].manifest
    found = tuple(each for each in claims() if each.workload == manifest.workload)
    if not found:
        known = ", ".join(dict.fromkeys(each.workload for each in claims()))
        raise ConfigError(
            f"{run.path} is a run of {manifest.workload}, of which nothing is claimed",
            f"there are claims of {known}",
        )
    return found


def judge(claim: DocumentedClaim, run: RunDir) -> Reproduction:
    """Whether the run reproduces the claim. Raises ConfigError for a run of something else."""
    stored, _ = reports.stored_run(run)
    manifest, summary = stored.manifest, stored.summary
    if manifest.workload != claim.workload or not manifest.testbed.emulated or manifest.length:
        length = f", at length {manifest.length}" if manifest.length else ""
        place = "in the lab" if manifest.testbed.emulated else "on hosts of your own"
        raise ConfigError(
            f"{run.path} is a run of {manifest.workload} {place}{length}: '{claim.name}' is about "
            f"{claim.workload} in the built-in lab, whole",
            f"hsp reproduce {claim.name}",
        )
    valid, known = summary.verdict == "valid", summary.verdict != "unknown"
    reasons = () if valid else (f"The run is {summary.state}.", *summary.shown_reasons)
    figures = tuple(figure for each in claim.tiers for figure in _figures(each, stored, decides=known))
    states = {*(each.state for each in figures), *([] if valid or not known else ["fail"])}
    state: State = "fail" if "fail" in states else "unknown" if "unknown" in states else "pass"
    return Reproduction(claim.name, manifest.run or run.path.name, str(run.path), state, reasons, figures)


def _figures(tier: ClaimedTier, stored: StoredRun, *, decides: bool) -> Iterator[ReproducedFigure]:
    """`decides`: the run can be trusted; it may miss an expectation."""
    row = next((each for each in stored.summary.main_rows if each.tier == tier.tier), None)
    p50 = row.p50_us if row else None
    inside = share_inside(stored.latency.bins, row, tier.published_us) if row else None
    low, high = tier.p50_range_us
    yield ReproducedFigure(tier.tier, _p50(tier), low, high, "us", p50, _state(p50, low, high, decides))
    at_least = tier.inside_min
    state = _state(inside, at_least, 1, decides)
    yield ReproducedFigure(tier.tier, _inside(tier), at_least, 1, "1", inside, state)


def _state(found: float | None, low: float, high: float, decides: bool) -> State:
    if found is None or not decides:
        return "unknown"
    return "pass" if low <= found <= high else "fail"


def _p50(tier: ClaimedTier) -> str:
    return f"p50, {_WORDS[tier.tier]}"


def _inside(tier: ClaimedTier) -> str:
    return f"{_WORDS[tier.tier]} in {format_latency_range(*tier.published_us)}"


def _shown(low: float, high: float, unit: str) -> str:
    return format_latency_range(low, high) if unit == "us" else f"at least {format_percent(low)}"


def _claim(table: dict[str, Any]) -> DocumentedClaim:
    measured = json.loads(LIST.with_name(table["measured"]).read_text())
    rows = {each["tier"]: each for each in measured["rows"]}
    tiers = []
    for each in table["tier"]:
        row, wanted = rows[each["name"]], (each["p50_tolerance"], each["inside_min"])
        low, high = row["published_us"]
        tiers.append(ClaimedTier(each["name"], row["p50_us"], (low, high), row["inside"], *wanted))
    names = ("name", "title", "workload", "minutes", "first_minutes")
    return DocumentedClaim(**{name: table[name] for name in names}, run=measured["run"], tiers=tuple(tiers))
