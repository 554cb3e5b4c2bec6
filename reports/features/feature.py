"""What a run's summary asks of a feature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.summary import Row, Summary


class Judged(NamedTuple):
    """What a feature makes of a run.

    `parts`: values by key of summary.json; what is empty is left out. `notes`: sentences below the verdict.
    `kept`: the sentence of a valid run, such as how many writes power losses left.
    """

    parts: Mapping[str, Any]
    outcomes: Sequence[Outcome] = ()
    notes: Sequence[str] = ()
    kept: str = ""


def _silent(_: Summary) -> Iterator[str]:
    return iter(())


class Feature(NamedTuple):
    """`judge`: of a stored run and the rows of its summary. It asks of a run without the feature nothing.

    `answer`: sentences for the first line of a run, the one that answers it first. `lines`: for the terminal,
    below the tiers. `measured`: what was done besides the phases, for the line below the first.
    """

    judge: Callable[[Manifest, Latency, Sequence[Row]], Judged]
    answer: Callable[[Summary], Iterable[str]] = _silent
    lines: Callable[[Summary], Iterable[str]] = _silent
    measured: Callable[[Summary], Iterable[str]] = _silent
