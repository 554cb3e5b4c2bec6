"""hsp size: shares by a sample of one in 8 blocks, beside those by all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np

from reports.size.curve import Size, sizing_of
from tests.reports.size import loads
from tests.truth.trials import Trial

_BLOCKS, _READS, _ONE_IN = 20_000, 120_000, 8
_ALL = _BLOCKS * loads.BLOCK
# The ARC now, and what is asked for, as parts of all blocks: three ARCs, and three L2ARCs below the first.
_NOW = 0.1
_SIZES = ((0.1, 0.0), (0.2, 0.0), (0.4, 0.0), (0.1, 0.2), (0.1, 0.35), (0.1, 0.5))
_LOADS = {
    "uniform": "uniform reads", "0.8": "Zipf 0.8", "1.1": "Zipf 1.1", "scan": "a scan beside a hot set",
}  # fmt: skip
# What is known of all reads: their number (a list of keys), what disks answered (a run), or neither.
_KNOWN = {"number": "their number is known", "disks": "the disks' part is known", "none": "no more is known"}


@cache
def _case(kind: str, known: str, seed: int, version: tuple[int, int] = (2, 3)) -> tuple[Size, float, float]:
    """What is said of one size, the share that both caches answer, and that of the disks' reads now."""
    random = np.random.default_rng(seed)
    full = loads.trace(kind, _BLOCKS, _READS, random)
    sample = loads.sampled(full, _ONE_IN)
    arc, l2arc = (int(part * _ALL) for part in _SIZES[random.integers(len(_SIZES))])
    server = loads.server(int(_NOW * _ALL), version=version)
    now, below = (loads.below(full, server, *size) for size in ((server.arc, 0), (arc, l2arc)))
    if known != "number":
        sample = replace(sample, all_reads=None, measured_below=now if known == "disks" else None)
    said = sizing_of(sample, server, [] if l2arc else [arc], [l2arc] if l2arc else [])
    return said.sizes[0], 1 - below, 1 - below / now


def holds(random: np.random.Generator, *, kind: str, known: str, version: tuple[int, int] = (2, 3)) -> bool:
    said, share, gain = _case(kind, known, int(random.integers(1 << 62)), version)
    if said.answered is None:
        return True
    of_disks = said.gain is None or said.gain.low <= gain <= said.gain.high
    return of_disks and said.answered.low <= share <= said.answered.high


def near(random: np.random.Generator, *, kind: str, known: str) -> bool:
    said, share, _ = _case(kind, known, int(random.integers(1 << 62)))
    return said.answered is None or abs(said.answered.value - share) <= 0.03


def told(random: np.random.Generator, *, kind: str, known: str) -> bool:
    return _case(kind, known, int(random.integers(1 << 62)))[0].answered is not None


TRIALS = [
    *(
        Trial(claim, f"{data}, {_KNOWN[known]}", partial(says, kind=kind, known=known), 1.0, 0.9,
              cases=60 if (kind, known) == ("0.8", "number") else 20)
        for kind, data in _LOADS.items()
        for known in ("number", "disks")
        for claim, says in (("the range holds the share", holds), ("within 3 points", near))
    ),
    *(
        Trial("a share is said", data, partial(told, kind=kind, known="number"), at_least=0.5, cases=20)
        for kind, data in _LOADS.items()
    ),
    *(
        Trial(
            "the range holds the share", f"{data}, {_KNOWN['none']}", partial(holds, kind=kind, known="none"),
            at_least=0.9, cases=20,
        )
        for kind, data in _LOADS.items()
    ),
    Trial(
        "the range holds the share", "Zipf 0.8, OpenZFS 2.1",
        partial(holds, kind="0.8", known="number", version=(2, 1)), at_least=0.9, cases=20,
    ),
]  # fmt: skip
