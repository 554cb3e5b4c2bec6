"""Whether a figure is slower now than in the past by more than a limit. Pure.

By the ends of ranges, never by an estimate: a figure fails where each explanation that fits, and at least a
step or a slope, says that it is slower by more; it holds where none of them leaves that open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.comparison.slower_limit import chosen, told
from reports.trend.analyse import MOST_RUNS, Trend, TrendLine
from reports.trend.jump_slope_or_wander import runs_to_tell
from reports.trend.sentences import name_of, ratio_text

Outcome = Literal["holds", "fails", "open"]


@dataclass(frozen=True)
class Gate:
    """`limit`: a part of 1. `held`: the lines that it is asked for, and how each came out."""

    limit: float
    held: tuple[tuple[TrendLine, Outcome], ...]

    def of(self, outcome: Outcome) -> list[TrendLine]:
        return [line for line, each in self.held if each == outcome]

    @property
    def outcome(self) -> Outcome:
        """Of all: it fails where a figure fails, and is open where a figure is."""
        outcomes = {each for _, each in self.held}
        return "fails" if "fails" in outcomes else "holds" if outcomes == {"holds"} else "open"

    def at(self, line: TrendLine) -> Outcome | None:
        """None for a line that the gate is not asked for."""
        return next((outcome for each, outcome in self.held if each is line), None)

    def needed(self, line: TrendLine) -> int | None:
        """Runs that would tell a change of the limit; None: more than MOST_RUNS, or that is not known."""
        fits = line.explained.fits
        return runs_to_tell(fits[0].scatter, math.log1p(self.limit), MOST_RUNS) if fits else None


def gate(trend: Trend, limit: float, figures: Sequence[str] = ()) -> Gate:
    """`figures`: names of those that it is asked for, `phase:tier:p99`; all without. Raises ConfigError."""
    keys = set(chosen((line.key for line in trend.lines), figures))
    held = ((line, _outcome(line, math.log1p(limit))) for line in trend.lines if line.key in keys)
    return Gate(limit, tuple(held))


def _outcome(line: TrendLine, limit: float) -> Outcome:
    ends = [each.ends(line.slower) for each in line.explained.contrasts]
    if not ends:
        return "open"
    if line.moved and all(low > limit for low, _ in ends):
        return "fails"
    return "holds" if all(high <= limit for _, high in ends) else "open"


def verdict(gate: Gate) -> str:
    """Such as "Now, of 19 figures: 3 slower by more than 10 %, 12 not slower, 4 cannot be told"."""
    slower, open_ = len(gate.of("fails")), len(gate.of("open"))
    return "Now, of " + told(gate.limit, slower=slower, open_=open_, of=len(gate.held))


def badge(gate: Gate) -> str:
    """The outcome in a few words."""
    of, limit = f"{len(gate.of(gate.outcome))} of {len(gate.held)}", f"{100 * gate.limit:g} %"
    words = {
        "fails": f"Slower now: {of} figures, limit {limit}",
        "open": f"Cannot be told: {of} figures, limit {limit}",
        "holds": f"Not slower now, limit {limit}",
    }
    return words[gate.outcome]


def reasons(trend: Trend, gate: Gate) -> Iterator[str]:
    """A sentence for each figure that fails, then for each that is open."""
    for line in gate.of("fails"):
        yield f"{name_of(line.key)}: {failed(line)}"
    for line in gate.of("open"):
        yield f"{name_of(line.key)}: {left_open(trend, gate, line)}"


def failed(line: TrendLine) -> str:
    """How slow it is now."""
    return f"now : past {ratio_text(line)}, 95 %"


def left_open(trend: Trend, gate: Gate, line: TrendLine) -> str:
    """Why it cannot be told, and what would tell."""
    if not line.explained.fits:
        return "too few runs to know how they scatter; four of one version tell that"
    known, needed = f"now : past {ratio_text(line)}, 95 %", gate.needed(line)
    last = line.used[-1]
    if last in [at for at, _ in line.odd]:
        return f"{known}; {trend.points[last].run} is apart: another run tells whether a new level begins"
    # A scatter from few runs may hold a slope: it is no promise.
    alike = f"if they scatter as these {len(line.used)} did"
    if needed is None:
        return f"{known}; more than {MOST_RUNS} runs would be needed {alike}"
    if needed > len(line.used):
        return f"{known}; about {needed} runs would tell {alike}"
    return f"{known}; it is too near to the limit, or more than one explanation fits"
