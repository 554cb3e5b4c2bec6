"""What a verdict rests on: each check of a run and how it came out. `outcomes` of summary.json."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import model_validator

from kit.store.checks.ids import EXPECT, IDS, makes_of
from kit.store.checks.known_failures import Known
from kit.store.stored import Stored, contradiction

Verdict = Literal["valid", "invalid", "unknown"]
# Why a check was not judged: the workload does not ask for it, nothing here can make it, or it left it open.
Open = Literal["not asked for", "not available", "not known"]
State = Literal["ok", "failed", "known", "not asked for", "not available", "not known"]


class Outcome(Stored):
    """One check. `id`: of kit.store.checks.ids; `phase`: None of the run; `subject`: of what, for people.

    `holds`: None where it was not judged, and `open` why not. `makes`: what it makes of the run by itself.
    `text`: what was found. `known`: the entry that says so, if its failure is known.
    """

    id: str
    phase: str | None = None
    subject: str = ""
    holds: bool | None
    open: Open | None = None
    makes: Verdict = "valid"
    text: str = ""
    known: Known | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.holds and (self.makes != "valid" or self.known):
            raise contradiction(
                f"holds is true, makes is {self.makes}, known is {self.known and self.known.check}"
            )
        if self.open and self.holds is not None:
            raise contradiction(f"open is {self.open}, and holds is {self.holds}")
        return self

    @classmethod
    def ok(cls, id_: str, phase: str | None = None, subject: str = "", text: str = "") -> Self:
        """It holds."""
        return cls(id=id_, phase=phase, subject=subject, holds=True, text=text)

    @classmethod
    def failed(cls, id_: str, text: str, phase: str | None = None, subject: str = "") -> Self:
        """It does not hold: the run is what the list of ids says."""
        return cls(id=id_, phase=phase, subject=subject, holds=False, makes=makes_of(id_), text=text)

    @classmethod
    def unknown(cls, id_: str, text: str, phase: str | None = None, subject: str = "") -> Self:
        """It was made, and it is not known whether it holds: the run is unknown."""
        return cls(
            id=id_, phase=phase, subject=subject, holds=None, open="not known", makes="unknown", text=text
        )

    @classmethod
    def judged(
        cls, id_: str, holds: bool | None, text: str, phase: str | None = None, subject: str = ""
    ) -> Self:
        """Of a limit: it holds, it does not, or it is open; `text` where it does not hold."""
        if holds:
            return cls.ok(id_, phase, subject)
        return (cls.unknown if holds is None else cls.failed)(id_, text, phase, subject)

    @classmethod
    def absent(
        cls, id_: str, why: Literal["not asked for", "not available"], text: str = "",
        phase: str | None = None, subject: str = "",
    ) -> Self:  # fmt: skip
        """It was not made, and says nothing."""
        return cls(id=id_, phase=phase, subject=subject, holds=None, open=why, text=text)

    @property
    def state(self) -> State:
        """How it came out, in a word."""
        if self.known:
            return "known"
        if self.open and self.holds is None:
            return self.open
        return "ok" if self.holds else "failed"

    @property
    def decides(self) -> bool:
        """Whether the run is not valid because of it."""
        return self.makes != "valid"

    @property
    def by_nature(self) -> bool:
        """Whether no run of its kind is without it."""
        return self.id in IDS and IDS[self.id].by_nature

    @property
    def of_amount(self) -> bool:
        """Whether what was measured can be used, and is too little to be judged, or to tell of a limit."""
        is_open = self.makes == "unknown" and (self.is_expectation or self.is_requirement)
        return is_open or (self.id in IDS and IDS[self.id].of_amount)

    @property
    def is_requirement(self) -> bool:
        """Whether a run for which it does not hold is invalid."""
        return makes_of(self.id) == "invalid"

    @property
    def is_expectation(self) -> bool:
        """Whether it is a limit of an `[[expect]]`."""
        return self.id.startswith(f"{EXPECT}:")

    @property
    def marked(self) -> str:
        """`text`, with the entry of a known failure."""
        return f"{self.text} [{self.known.words}]" if self.known else self.text

    def __str__(self) -> str:
        """The sentence for people."""
        return f"{self.phase}: {self.text}" if self.phase else self.text


@dataclass(frozen=True)
class Tally:
    """How many outcomes there are of each kind: the count that every command and page shows.

    `made`, `hold`: all that were judged, and those of them that hold; `asked`, `met`: of these, expectations.
    `unavailable`: which could not be made here; `unjudged`: expectations that could not.
    """

    made: int
    hold: int
    unavailable: int
    asked: int
    met: int
    unjudged: int

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self:
        counted = [each for each in outcomes if each.open != "not asked for" and not each.by_nature]
        judged = [each for each in counted if each.open != "not available"]
        wishes = [each for each in judged if each.is_expectation]
        unjudged = sum(each.is_expectation for each in counted) - len(wishes)
        held, met = (sum(bool(each.holds) for each in part) for part in (judged, wishes))
        return cls(len(judged), held, len(counted) - len(judged) - unjudged, len(wishes), met, unjudged)

    @property
    def words(self) -> str:
        """Such as "85 of 85 checks hold, 8 of 8 expectations among them"."""
        wishes = f", {self.met} of {self.asked} expectations among them" if self.asked else ""
        return f"{self.hold} of {self.made} checks hold{wishes}" if self.made else "no checks asked for"
