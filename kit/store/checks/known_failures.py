"""Known failures: `[[known]]` of a workload or of a file (docs/verdict.md). Foreign texts, never commands."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Literal

from kit.store.checks.ids import EXPECT, IDS, id_of_expectation, id_of_ratio
from kit.store.stored import Stored

# With one of these nothing was measured: no entry excuses it.
NEVER_KNOWN = frozenset({
    "NOT-ENDED", "NO-PHASES", "NOT-MEASURED", "NO-IO", "RUN-FILES", "PLAN-DIGEST", "STORED-SUMMARY",
    "MANIFEST-VALUES",
})  # fmt: skip
# The largest family of ids, POWER-*, has fewer.
_MOST_IDS = 12
_ROW = frozenset({"min_count", "inside", "inside_share_min"})


class Known(Stored):
    """A failure that is known. `check`: an id, `ID:phase` or an expectation's; `*` and `?` stand for others.

    What would name nearly everything names nothing: a run must not excuse itself. `until`: the last day (ISO,
    UTC) on which it is known.
    """

    check: str
    reason: str
    issue: str = ""
    until: str | None = None

    @property
    def words(self) -> str:
        """Such as "known until 2027-01-31: firmware 1.2 stalls (https://...)"."""
        until = f" until {self.until}" if self.until else ""
        return f"known{until}: {self.reason}{f' ({self.issue})' if self.issue else ''}"

    def is_over(self, today: date) -> bool:
        """Whether its last day has passed; a date that cannot be read has."""
        try:
            return self.until is not None and date.fromisoformat(self.until) < today
        except ValueError:
            return True

    def names(self, id_: str, phase: str | None = None) -> bool:
        """Whether it names the id, of any phase or of this one."""
        if id_.startswith(f"{EXPECT}:"):
            return self.check.startswith(f"{EXPECT}:") and fnmatchcase(id_, self.check)
        head, colon, of_phase = self.check.partition(":")
        if self.is_too_wide or not fnmatchcase(id_, head):
            return False
        return not colon or (phase is not None and fnmatchcase(phase, of_phase))

    @property
    def is_too_wide(self) -> bool:
        """Whether its pattern is of nearly every id."""
        return _ids_of(self.check.partition(":")[0]) > _MOST_IDS


@functools.lru_cache(1000)
def _ids_of(pattern: str) -> int:
    """How many ids of checks it is of."""
    return sum(fnmatchcase(id_, pattern) for id_ in IDS)


State = Literal["known", "passes", "open", "over"]


class KnownState(Known):
    """Its check failed (`known`), holds (`passes`), was not judged (`open`), or its last day is `over`."""

    state: State


def names_something(known: Known, phases: Iterable[str], expected: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a run with these phases and expectations has a check that `known` names."""
    ids = (id_ for id_ in IDS if id_ not in NEVER_KNOWN)
    of_phases = [None, *phases]
    if any(known.names(id_, phase) for id_ in ids for phase in of_phases):
        return True
    return any(known.names(id_) for wish in expected for id_ in ids_of_expectation(wish))


def ids_of_expectation(wish: Mapping[str, Any]) -> Iterable[str]:
    """The ids that reasons of one expectation can have. `wish`: its keys, without those that are not set."""
    if "axis" in wish:
        yield id_of_ratio(wish)
        return
    yield id_of_expectation(wish, "min_count")
    for name in wish:
        if name in _ROW or name.endswith(("_max", "_min")):
            to = {**{part: wish[part] for part in ("phase", "op", "tier")}, **(wish.get("ratio_to") or {})}
            yield id_of_expectation(wish, name, to if "_ratio_" in name else None)
