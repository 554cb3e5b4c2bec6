"""Random numbers of a run: all from one seed, which its manifest has, so that a run can be replayed. Pure.

The seed comes from the run's id, so it is another one in every repeat: with one for all, repeats would be
alike in what varies between runs, and intervals over runs too narrow.
"""

from __future__ import annotations

import hashlib

SEED_BITS = 63


def seed_of_run(run_id: str) -> int:
    """The seed of a run that was given none: 63 bits."""
    return _number(run_id, SEED_BITS)


def seed_for(seed: int, purpose: str) -> int:
    """A seed for one of the run's sources of randomness, such as a phase: 31 bits (fio's randseed)."""
    return _number(f"{seed} {purpose}", 31)


def _number(text: str, bits: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - bits)
