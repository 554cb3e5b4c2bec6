"""Findings: the result of a check on a host, its severity, its meaning and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kit.core.text import safe_text
from kit.doctor import packages
from kit.doctor.checks import CHECKS
from kit.doctor.facts import HostFacts, Unknown

State = Literal["ok", "note", "warn", "fail"]
WORST_FIRST: tuple[State, ...] = ("fail", "warn", "note", "ok")
_MAX_CHARACTERS = 1000


@dataclass(frozen=True)
class Requirements:
    """Requirements of a workload and a testbed. None: no workload was given.

    `outstanding`: most requests in flight, over all clients. `traced`: whether the tracer will run on the
    server. `libnfs`: fio reads without a mount. `pool`: there is one, and `over_nfs`: clients use it; a
    workload may do without. `run_bytes`: what it writes to /run of one host at most.
    """

    nfs_version: str | None = None
    outstanding: int | None = None
    clients: int = 1
    traced: bool = True
    libnfs: bool = False
    pool: bool = True
    over_nfs: bool = True
    run_bytes: int | None = None


@dataclass(frozen=True)
class ExaminedHost:
    """A host and its facts. `offset_s`: its wall clock minus this machine's.

    `server`: for a client, the facts of the server, if known. `serves`: for a server, its addresses that
    the clients use.
    """

    name: str
    facts: HostFacts
    requirements: Requirements = Requirements()
    server: HostFacts | None = None
    serves: tuple[str, ...] = ()
    offset_s: float | None = None
    round_trip_s: float | None = None


@dataclass(frozen=True)
class Finding:
    """The result of a check on a host.

    `fail`: a run cannot work. `warn`: results may be wrong, or the check was not possible. `note`:
    information, mainly for comparisons. `there`: a remedy for this host alone. `unknown`: the check was not
    possible.
    """

    host: str
    check: str
    state: State
    observed: str
    there: str = ""
    unknown: bool = False

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise ValueError(f"'{self.check}' is not in the list of checks")
        # Text from hosts is printed on a terminal and stored in files.
        text = safe_text(" ".join(self.observed.split()))
        text = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
        object.__setattr__(self, "observed", text)

    @property
    def remedy(self) -> str:
        """What to do; "" if nothing is to be done."""
        return "" if self.state == "ok" else f"{CHECKS[self.check].remedy} {self.there}".rstrip()

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "check": self.check,
            "state": self.state,
            "found": self.observed,
            "meaning": CHECKS[self.check].meaning,
            "remedy": self.remedy,
            **({"unknown": True} if self.unknown else {}),
        }


# State and what was observed.
Verdict = tuple[State, str]
Examination = Callable[[ExaminedHost], Verdict]


def examine(subject: ExaminedHost, examinations: Mapping[str, Examination]) -> Iterator[Finding]:
    """Run all checks; an impossible one gives a warning. `examinations`: by name of the check."""
    for check, look in examinations.items():
        is_unknown = False
        try:
            verdict = look(subject)
        except Unknown as unknown:
            verdict, is_unknown = undetermined(unknown), True
        yield Finding(subject.name, check, *verdict, packages.advice(subject.facts, check), is_unknown)


def undetermined(reason: object) -> Verdict:
    """The verdict of a check that was not possible."""
    return "warn", f"could not be determined: {reason}"
