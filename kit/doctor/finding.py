"""One finding: what a check found on a host, how bad that is, what it means and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kit.core.text import safe_text
from kit.doctor.checks import CHECKS
from kit.doctor.facts import Facts, Unknown

State = Literal["ok", "note", "warn", "fail"]
WORST_FIRST: tuple[State, ...] = ("fail", "warn", "note", "ok")
_LONGEST = 1000


@dataclass(frozen=True)
class Wanted:
    """What a workload and a testbed ask of its hosts. None: no workload was named.

    `outstanding`: requests that are on their way at once, over all clients. `traced`: whether the
    tracer is to be used on the server. `libnfs`: fio reads without a mount.
    """

    nfs_version: str | None = None
    outstanding: int | None = None
    clients: int = 1
    traced: bool = True
    libnfs: bool = False


@dataclass(frozen=True)
class Subject:
    """One host and what is known of it. `offset_s`: its wall clock less this machine's.

    `server`: of a client, what is known of the server, if anything. `serves`: of a server, the
    addresses at which the clients look for it.
    """

    name: str
    facts: Facts
    wanted: Wanted = Wanted()
    server: Facts | None = None
    serves: tuple[str, ...] = ()
    offset_s: float | None = None
    round_trip_s: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The outcome of a check, before it is known of which host."""

    check: str
    state: State
    found: str


@dataclass(frozen=True)
class Finding:
    """What a check found on a host.

    `fail`: a run cannot work here. `warn`: numbers may be off, or it could not be found out.
    `note`: good to know, above all when runs are compared.
    """

    host: str
    check: str
    state: State
    found: str

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise ValueError(f"'{self.check}' is not in the list of checks")
        # What hosts say ends on a terminal and in a file that others open.
        shown = safe_text(" ".join(self.found.split()))
        object.__setattr__(self, "found", shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}...")

    def as_json(self) -> dict[str, Any]:
        check = CHECKS[self.check]
        return {
            "host": self.host,
            "check": self.check,
            "state": self.state,
            "found": self.found,
            "meaning": check.meaning,
            "remedy": "" if self.state == "ok" else check.remedy,
        }


Examination = Callable[[Subject], Iterator[Judgement]]


@dataclass(frozen=True)
class Examined:
    """A check's function, and the names of what it can find."""

    checks: tuple[str, ...]
    look: Examination


def examine(subject: Subject, examinations: tuple[Examined, ...]) -> Iterator[Finding]:
    """Every check has at least one finding; one that cannot be made says so, and is a warning."""
    for examination in examinations:
        missing = list(examination.checks)
        why = "nothing was found out"
        try:
            for judged in examination.look(subject):
                if judged.check in missing:
                    missing.remove(judged.check)
                yield Finding(subject.name, judged.check, judged.state, judged.found)
        except Unknown as unknown:
            why = str(unknown)
        for check in missing:
            yield Finding(subject.name, check, "warn", undetermined(why))


def undetermined(why: str) -> str:
    return f"could not be determined: {why}"
