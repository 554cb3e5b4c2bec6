"""The answer of a run: the one sentence above page and table, by its outcomes and the kind of its workload.

What failed comes first; then what a soak, faults, other loads, power losses, a split, arrays or ageing say.
A run decides nothing about the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from kit.core.text import counted
from kit.core.units import format_factor, format_latency
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.analysis import ageing, clients, import_source
from reports.analysis.findings import PhaseFinding
from reports.devices.stripes import Stripes, sentences_of
from reports.features.all import FEATURES

# So many I/Os that are far from the rest are more than a few bad moments.
_LEAST_FAR = 10


def answer(
    manifest: Manifest,
    summary: Summary,
    stripes: Stripes | None = None,
    aged: pl.DataFrame | None = None,
    found: Sequence[PhaseFinding] = (),
) -> str:
    """The sentence; "" if the workload asks nothing of its own, and nothing failed."""
    if not summary.rows:
        return "No I/O was measured."
    if is_told(summary):
        first, *more = summary.causes
        word = "Failed" if first.makes == "invalid" else "Unknown"
        return f"{word}: {_where(first, manifest)}{_others(first, more)}"
    if not summary.is_usable:
        return "The numbers of this run cannot be trusted."
    kinds: Sequence[Iterable[str]] = (
        _imported(manifest, summary, found) if manifest.import_ else (),
        *(feature.answer(summary) for feature in FEATURES),
        sentences_of(stripes) if stripes else (),
        ageing.sentences(aged) if ageing.is_asked(aged) else (),
    )
    # Of each kind that the run is the sentence that answers it; a soak has faults, too.
    return " ".join(said for kind in kinds for said in [*kind][:1])


def _others(first: Outcome, more: Sequence[Outcome]) -> str:
    """How many other causes the verdict has; beside a failure those that are not known are apart."""
    failed = sum(each.makes == "invalid" for each in more)
    if not failed and first.makes != "invalid":
        return f" {counted(len(more), 'more reason')} below." if more else ""
    unknown = len(more) - failed
    numbers = (failed, "failed"), (unknown, f"{'is' if unknown == 1 else 'are'} not known (below)")
    told = " and ".join(f"{number} {words}" for number, words in numbers if number)
    return f" Of the other limits and checks, {told}; all others that were judged hold." if told else ""


def is_told(summary: Summary) -> bool:
    """Whether the first cause of the verdict is the answer: it failed, or no number can be used."""
    return bool(summary.causes) and (summary.verdict == "invalid" or not summary.is_usable)


def _imported(manifest: Manifest, summary: Summary, found: Sequence[PhaseFinding]) -> Iterator[str]:
    """A slow client, the ends of a table of methods, or the time in which I/Os were worst."""
    yield from clients.slowest(summary.clients)
    yield from _methods(import_source.means(manifest, summary))
    yield from (each.text for each in found if each.ios >= _LEAST_FAR or each.kind == "stall")


def _methods(means: Sequence[tuple[str, float]]) -> Iterator[str]:
    """The fastest and the slowest row of the first section, and of each other with the same methods."""
    sections: dict[str, dict[str, float]] = {}
    for name, us in means:
        section, _, method = name.rpartition(": ")
        sections.setdefault(section, {})[method] = us
    first = next(iter(sections.values()), {})
    said = [
        f"{section[:1].upper()}{section[1:]}: {fast} is the fastest, {format_latency(of[fast])}; "
        f"{slow} the slowest, {format_latency(of[slow])}, {format_factor(of[slow] / of[fast])} as long."
        for section, of in sections.items()
        if of.keys() == first.keys() and len(of) > 1
        for fast, slow in [(min(of, key=of.__getitem__), max(of, key=of.__getitem__))]
    ]
    if said:
        yield " ".join(said)


def _where(outcome: Outcome, manifest: Manifest) -> str:
    """Its sentence; with the phase where several have such I/Os."""
    title = next((each.title or each.name for each in manifest.phases if each.name == outcome.phase), "")
    text = outcome.marked
    return f"{text.removesuffix('.')} ({title})." if title and len(manifest.phases) > 1 else text
