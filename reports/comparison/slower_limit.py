"""Whether latencies of B are higher than those of A by more than a limit. Pure.

By the ends of the intervals over runs, never by an estimate: a figure without an interval stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kit.core.errors import ConfigError
from kit.core.text import counted
from kit.store.parts.comparison import ComparedRow, Comparison

Key = tuple[str, str, str, str, str]  # phase, layer, op, tier, figure


@dataclass(frozen=True)
class Gated:
    """`asked`: how many figures; `slower`: by more than the limit; `open`: which may be.

    `shares`: how many figures of the comparison are no latencies, which a limit is not for.
    """

    asked: int
    slower: tuple[ComparedRow, ...]
    open: tuple[ComparedRow, ...]
    shares: int = 0


def gate(result: Comparison, limit: float, figures: Sequence[str] = ()) -> Gated:
    """`limit`: a part of 1; `figures`: those that it is for, all without. Raises ConfigError."""
    # What was withheld, such as a p99.9 of few I/Os, is open where it is asked for by name.
    rows = {
        (r.phase, r.layer, r.op, r.tier, r.figure): r
        for r in result.rows
        if r.figure != "share" and (figures or r.withheld is None)
    }
    keys = chosen(rows, figures)
    known = [rows[key] for key in keys]
    slower = tuple(row for row in known if row.interval and row.interval[0] > 1 + limit)
    left = tuple(
        row for row in known if row not in slower and not (row.interval and row.interval[1] <= 1 + limit)
    )
    return Gated(len(known), slower, left, 0 if figures else result.compared - len(known))


def told(limit: float, *, slower: int, open_: int, of: int, shares: int = 0) -> str:
    """Such as "9 figures: 2 slower by more than 10 %, 4 not slower, 3 cannot be told": the counts add up."""
    counts = {
        f"slower by more than {100 * limit:g} %": slower, "not slower": of - slower - open_,
        "cannot be told": open_, "shares of I/Os, which have no limit": shares,
    }  # fmt: skip
    parts = [f"{number} {what}" for at, (what, number) in enumerate(counts.items()) if number or not at]
    return f"{counted(of + shares, 'figure')}: {', '.join(parts)}"


def chosen(keys: Iterable[Key], figures: Sequence[str]) -> list[Key]:
    """Those of the keys that the figures name, `phase:tier:p99`; all without. Raises ConfigError."""
    names: Mapping[Key, list[str]] = {key: names_of(key) for key in keys}
    if unknown := [each for each in figures if not any(each in of for of in names.values())]:
        known = dict.fromkeys(of[-1] for of in names.values())
        raise ConfigError(
            f"no figure {', '.join(unknown)} in these runs; there are {', '.join(known) or 'none'}",
            "name it PHASE:FIGURE, PHASE:OP:FIGURE or PHASE:TIER:FIGURE",
        )
    return [key for key, of in names.items() if not figures or any(each in of for each in figures)]


def names_of(key: Key) -> list[str]:
    """What a figure is called: by its phase alone, or with its layer, operation or tier."""
    phase, layer, op, tier, figure = key
    return [f"{phase}:{figure}", *(f"{phase}:{part}:{figure}" for part in (layer, op, tier))]
