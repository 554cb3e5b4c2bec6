"""How the latencies of a candidate differ from those of a baseline, in numbers and words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.core.sample_size import sample_needed
from kit.core.text import counted
from kit.core.units import commas, format_factor, format_latency
from reports.sheet.evidence import ENOUGH_RUNS, ServedLatency
from reports.sheet.facts import APART, DriveFacts
from reports.statistics.ratios import RatioRange, ratio

WHAT = {"log": "synchronous writes", "cache": "reads from the L2ARC"}


@dataclass(frozen=True)
class Speedup:
    """Baseline over candidate at the NFS server; above 1 the candidate is faster. `same`: None: not told.

    `differs`: what is known to differ, p99 first; the median where p99 does not say the same. `kept`: p99 is
    known to be no longer. `tells`: what would tell more. `basis`: see `basis`.
    """

    role: str
    p50: RatioRange
    p99: RatioRange | None
    same: bool | None
    differs: Sequence[tuple[str, RatioRange]]
    kept: bool
    text: str
    tells: str
    basis: str

    def told(self, word: str) -> list[str]:
        """What is known to be "shorter" or "longer", in words."""
        return [
            f"{name} of {WHAT[self.role]} {format_factor(max(value, 1 / value))} {word}"
            for name, value in ((name, each.value) for name, each in self.differs)
            if (value > 1) == (word == "shorter")
        ]


def changes(facts: DriveFacts, base: Mapping[str, ServedLatency | None], within: float) -> list[Speedup]:
    """Of each role that both have: how the medians and p99 of clients differ. `base`: by role."""
    pairs = [(role, facts.served[role], base[role]) for role in WHAT]
    found = [_speedup(role, mine, other, within) for role, mine, other in pairs if mine and other]
    return [each for each in found if each]


def _speedup(role: str, mine: ServedLatency, other: ServedLatency, within: float) -> Speedup | None:
    p50, p99 = (ratio_of(mine, other, name) for name in ("p50", "p99"))
    if p50 is None:
        return None
    doubted = any(each.doubt or each.fresh for each in (mine, other))
    figures = [] if doubted else [(name, each) for name, each in (("p99", p99), ("median", p50)) if each]
    differs = _differing(figures, mine, other, within)
    is_known = len(figures) == 2 and not (mine.cpu_bound or other.cpu_bound)
    same = False if differs else (is_known and all(is_same(each, within) for _, each in figures)) or None
    kept = bool(not doubted and p99 and p99.range and p99.range[0] >= 1 / (1 + within))
    text, tells = _told(role, mine, other, p50), _tells(role, mine, other)
    return Speedup(role, p50, p99, same, differs, kept, text, tells, basis([mine, other], full=False))


def _differing(
    figures: Sequence[tuple[str, RatioRange]], mine: ServedLatency, other: ServedLatency, within: float
) -> Sequence[tuple[str, RatioRange]]:
    """The figures that are known to differ; the first alone, where the others say the same."""
    differs = []
    for name, each in figures:
        # A CPU hides what the drive does: that the slower of the two is slow.
        slower = mine if each.value < 1 else other
        if is_same(each, within) is False and not slower.cpu_bound:
            differs.append((name, each))
    return differs[:1] if len({each.value > 1 for _, each in differs}) == 1 else differs


def _tells(role: str, mine: ServedLatency, other: ServedLatency) -> str:
    """What would tell whether they differ, where these runs do not."""
    if doubt := mine.doubt or other.doubt:
        return f"valid runs ({doubt})"
    if mine.fresh or other.fresh:
        return "aged drives"
    if not all("p99" in each.of_runs for each in (mine, other)):
        return f"at least {commas(sample_needed(0.99))} {WHAT[role]} in each run"
    if mine.cpu_bound or other.cpu_bound:
        return "a load at which no CPU is the limit"
    few = min(mine.runs, other.runs) < ENOUGH_RUNS
    return f"{'three' if few else 'more'} runs of each (`--repeat`)"


def ratio_of(mine: ServedLatency, other: ServedLatency, name: str) -> RatioRange | None:
    both = mine.of_runs.get(name), other.of_runs.get(name)
    return ratio(both[0], both[1]) if both[0] and both[1] else None


def is_same(of: RatioRange, within: float) -> bool | None:
    """Whether all that a ratio can be is within `within`; None where that is open, False where none is.

    From a run of each, a difference is one only beyond what other runs of them could differ by (APART).
    """
    low, high = 1 / (1 + within), 1 + within
    if of.decides:
        return of.inside(low, high)
    if of.inside(low / (1 + APART), high * (1 + APART), of_this_run=True) is False:
        return False
    return of.inside(low, high, of_this_run=True) or None


def _told(role: str, mine: ServedLatency, other: ServedLatency, p50: RatioRange) -> str:
    """The change of the medians as a sentence."""
    now, then = (format_latency(each.us("p50") or 0) for each in (mine, other))
    faster = p50 if p50.value >= 1 else RatioRange(-p50.log, p50.reach, p50.over)
    word = "as fast" if p50.value >= 1 else "as long"
    what = WHAT[role][:1].upper() + WHAT[role][1:]
    change = f" instead of {then}" if now != then else " as now"
    return f"{what}: median {now}{change}, {format_factor(faster.value)} {word} ({faster.words()})."


def basis(served: Sequence[ServedLatency | None], full: bool = True) -> str:
    """What figures rest on, where runs are few or short, or drives fresh: a sentence, or "".

    `full`: with what follows from it, which is said once a sheet.
    """
    known = [each for each in served if each]
    parts = []
    if known and (runs := min(each.runs for each in known)) < ENOUGH_RUNS:
        parts.append((f"{counted(runs, 'run')} of each", ": what others would give is not known"))
    if lengths := sorted({each.length for each in known} - {""}):
        parts.append((f"a run of {' and '.join(lengths)} length", ", which is no result to publish"))
    if any(each.fresh for each in known):
        parts.append(("drives that were not aged", ": aged ones are slower"))
    said = "; from ".join(f"{what}{follows if full else ''}" for what, follows in parts)
    return f"{'This is from' if full else 'From'} {said}." if said else ""
