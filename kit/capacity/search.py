"""The search for the highest rate that keeps a limit of the p99: which rate to look at next, when to stop.

A rate keeps the limit if not more than 1 % of its I/Os take longer. That share has a range from the batches
of its looks (A. M. Law, Simulation Modeling and Analysis, 2015, ch. 9: batch means): I/Os that wait in one
queue are slow together, so that the range of as many independent I/Os would be too narrow. Between "keeps"
(all of the range is below 1 %) and "breaks" (all of it is above) a rate is looked at again, and stays unclear
after some looks: no rate flips between the two. The result is measured anew, after rates above it, since the
looks that chose it are those that were lucky. The delay of the load's own program is in all latencies, so a
rate that is kept is kept without it, too; where a limit is broken, it must be broken without it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from kit.capacity.open_load import BATCHES
from kit.config.tables.capacity_table import Capacity
from kit.store.load.open_loop import CapacitySearch, CapacityStep, End, Judged, OpenLoop, Purpose

SHARE = 0.01
# Looks at one rate, at most; and those that confirm, which are judged together.
MOST_LOOKS, CONFIRMING = 8, 4
# Of the normal distribution: a rate is judged after each look, up to 8 times, so that 95 % of all judgements
# hold. With few batches its range is wider (Cornish-Fisher, as Student's t has it).
_Z = 2.6
# Rates below the one that was not confirmed, at most.
_MOST_STEPS_DOWN = 3


@dataclass(frozen=True)
class RateLook:
    """To be made: `ios` I/Os at least, at `rate` a second."""

    rate: float
    ios: int
    purpose: Purpose


Search = Generator[RateLook, OpenLoop, CapacitySearch]


def share_range(batches: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Between which the share of I/Os above the limit is (of 1), by (I/Os, above) of each batch.

    Batches of several looks are put together: the longer they are, the less one depends on the one before.
    A Wilson range (E. B. Wilson, 1927) of as many I/Os as have the variance that the batches have.
    """
    ios, above = (sum(each[part] for each in batches) for part in (0, 1))
    step = -(-len(batches) // BATCHES)
    parts = [batches[at : at + step] for at in range(0, len(batches), step)]
    batches = [(sum(n for n, _ in part), sum(x for _, x in part)) for part in parts]
    count = sum(1 for n, _ in batches if n)
    if count < 2:
        return 0.0, 1.0
    share = above / ios
    spread = sum((x - share * n) ** 2 for n, x in batches) * count / (count - 1)
    # Of independent I/Os it is the first of the two.
    times = max(1.0, spread / (ios * share * (1 - share))) if 0 < above < ios else 1.0
    z = _Z * (1 + (_Z**2 + 1) / (4 * (count - 1)))
    n, centre = ios / times, share + z**2 * times / (2 * ios)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    whole = 1 + z**2 / n
    return max(0.0, (centre - half) / whole), min(1.0, (centre + half) / whole)


def judged(purpose: Purpose, load: OpenLoop) -> CapacityStep:
    """What the looks at one rate say."""
    low, high = share_range([(ios, above) for ios, above, _ in load.batches])
    state: Judged = "keeps" if high < SHARE else "breaks" if low > SHARE else "unclear"
    if state == "breaks":
        least, _ = share_range([(ios, slow) for ios, _, slow in load.batches])
        late_ns = load.late.rank_ns(math.ceil(0.99 * load.late.ios)) or 0
        if least <= SHARE or late_ns > load.limit_ns:
            state = "late"
    return CapacityStep(purpose=purpose, judged=state, low=low, high=high, load=load)


def is_futile(step: CapacityStep, looks: int) -> bool:
    """Whether the range that is to be expected after all looks has 1 % well inside."""
    half = (step.high - step.low) / 2 * math.sqrt(looks / MOST_LOOKS)
    return looks > 1 and abs(step.load.above / step.load.due - SHARE) < half / 2


class _Searching:
    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.steps: list[CapacityStep] = []

    def look(self, rate: float, purpose: Purpose) -> Generator[RateLook, OpenLoop, Judged]:
        """At one rate, until it is clear."""
        looks: list[OpenLoop] = []
        confirms = purpose == "confirm"
        while True:
            looks.append((yield RateLook(rate, self.capacity.ios, purpose)))
            step = judged(purpose, OpenLoop.in_turn(looks))
            settled = step.judged != "unclear" or is_futile(step, len(looks))
            enough = settled and (not confirms or len(looks) >= CONFIRMING)
            if step.judged == "late" or enough or len(looks) >= MOST_LOOKS:
                self.steps.append(step)
                return step.judged

    def ramp(self) -> Generator[RateLook, OpenLoop, tuple[float | None, float | None, Judged]]:
        """The last rate that kept the limit, the first that did not, and how that was judged."""
        kept, rate = None, float(self.capacity.rate_min)
        while True:
            state = yield from self.look(rate, "ramp")
            if state != "keeps":
                return kept, rate, state
            if rate >= self.capacity.rate_max:
                return rate, None, state
            kept, rate = rate, min(2 * rate, float(self.capacity.rate_max))

    def between(self, kept: float, other: float) -> Generator[RateLook, OpenLoop, tuple[float, Judged]]:
        """The highest rate that kept the limit, where one that did not is within the precision."""
        state: Judged = "unclear"
        while other > kept * (1 + self.capacity.precision) and state != "late":
            rate = math.sqrt(kept * other)
            state = yield from self.look(rate, "between")
            kept, other = (rate, other) if state == "keeps" else (kept, rate)
        return kept, state

    def above(self, kept: float) -> Generator[RateLook, OpenLoop, None]:
        """The lowest rate that breaks the limit for sure, within the precision of those that are unclear."""
        open_ = max([kept, *(step.load.rate_per_s for step in self.steps if step.judged == "unclear")])
        while open_ < self.capacity.rate_max:
            broken = self.broken(open_)
            if broken is not None and broken <= open_ * (1 + self.capacity.precision):
                return
            rate = math.sqrt(open_ * broken) if broken else min(1.5 * open_, self.capacity.rate_max)
            state = yield from self.look(rate, "above")
            open_ = open_ if state == "breaks" else rate

    def confirmed(self, rate: float) -> Generator[RateLook, OpenLoop, tuple[float, Judged]]:
        """The rate, or one that is a few steps lower."""
        for _ in range(1 + _MOST_STEPS_DOWN):
            state = yield from self.look(rate, "confirm")
            if state in ("keeps", "late"):
                break
            rate = max(rate / (1 + self.capacity.precision), float(self.capacity.rate_min))
        return rate, state

    def broken(self, rate: float) -> float | None:
        """The lowest rate above `rate` that broke the limit."""
        rates = (step.load.rate_per_s for step in self.steps if step.judged == "breaks")
        return min((each for each in rates if each > rate), default=None)

    def end(self, rate: float | None, why: str = "", end: End = "found") -> CapacitySearch:
        return CapacitySearch(
            p99_max_ns=self.capacity.p99_max, end="unknown" if why else end, rate_per_s=rate,
            broken_per_s=self.broken(rate or 0), why=why, steps=tuple(self.steps),
        )  # fmt: skip

    @property
    def late(self) -> CapacitySearch:
        rate = self.steps[-1].load.rate_per_s
        kept = max((e.load.rate_per_s for e in self.steps if e.judged == "keeps"), default=None)
        text = (
            f"at {rate:,.0f} a second the limit is broken, but not for sure without the time by which the "
            "load's own program started I/Os too late: the client is too slow or too busy to ask for more"
        )
        return self.end(kept, text)

    def result(self, rate: float, kept: float, state: Judged, *, is_highest: bool) -> CapacitySearch:
        """Of a rate that was confirmed, if it was. `is_highest`: `kept` is the highest that may be."""
        lowest = self.broken(0)
        if state != "keeps":
            text = f"{kept:,.0f} a second kept the limit at first, and neither that nor less did so again"
            return self.end(None, f"{text}: the server is not the same all the time")
        if is_highest and rate == kept:
            return self.end(rate, "", "beyond")
        if lowest and lowest <= rate:
            return self.end(None, f"{rate:,.0f} a second kept the limit, and {lowest:,.0f} broke it")
        if not self.broken(rate):
            why = "no rate above it broke the limit for sure: give each look more I/Os (ios)"
            return self.end(rate, why)
        return self.end(rate)


def search(capacity: Capacity) -> Search:
    """Gives the looks to make, gets what each found, and returns the result."""
    at = _Searching(capacity)
    kept, other, state = yield from at.ramp()
    if state == "late":
        return at.late
    if kept is None:
        why = "whether the lowest rate keeps the limit is open: give it more I/Os (ios), or a lower rate_min"
        return at.end(None, why if state == "unclear" else "", "below")
    if other is not None:
        kept, state = yield from at.between(kept, other)
    if state == "late":
        return at.late
    if other is not None:
        yield from at.above(kept)
    rate, state = yield from at.confirmed(kept)
    if state == "late":
        return at.late
    return at.result(rate, kept, state, is_highest=other is None)
