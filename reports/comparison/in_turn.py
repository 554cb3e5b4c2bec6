"""Whether two sides were measured in turn; if not, a change of the machine looks like a difference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

LOOKS_THE_SAME = "another change of the machine could be the cause"
_UNKNOWN = f"It is not known whether A and B were measured in turn; if not, {LOOKS_THE_SAME}."


def not_in_turn(a: Sequence[str | None], b: Sequence[str | None]) -> str | None:
    """A sentence if the runs of A and B were not measured in turn; None if they were.

    `a`, `b`: when each run of a side began (ISO 8601), None where that is not known. In turn, as ABBA or
    ABAB: at least every second run of the smaller side has the other side beside it, and no more than three
    of four pairs of a run of A and one of B have the same order.
    """
    if None in (*a, *b) or set(a) & set(b):
        return _UNKNOWN
    try:
        times = [
            (datetime.fromisoformat(each), side) for side, of in (("A", a), ("B", b)) for each in of if each
        ]
        sides = [side for _, side in sorted(times)]
    except (ValueError, TypeError):
        # A stranger's file may have anything there, or a time without its zone.
        return _UNKNOWN
    switches = sum(x != y for x, y in itertools.pairwise(sides))
    later = sum(sides[:at].count("A") for at, side in enumerate(sides) if side == "B") / (len(a) * len(b))
    if switches >= min(len(a), len(b)) / 2 + 1 and abs(later - 0.5) <= 0.25:
        return None
    if switches == 1:
        first, last = sides[0], sides[-1]
        return f"All runs of {last} were measured after those of {first}: {LOOKS_THE_SAME}."
    return f"The runs of A and B were not measured in turn: {LOOKS_THE_SAME}."
