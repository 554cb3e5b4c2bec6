"""Random seeds of a run. All come from one seed, which the manifest stores: a run can be replayed. Pure.

The seed is derived from the run's id, so each repeat has its own. With the same seed in all repeats,
runs would vary too little, and confidence intervals over runs would be too narrow.
"""

from __future__ import annotations

import hashlib

SEED_BITS = 63
# A run's id, from which its seed is derived: UTC time and random digits.
RUN_ID = r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}"


def seed_of_run(run_id: str) -> int:
    """The default seed of a run: 63 bits."""
    return _number(run_id, SEED_BITS)


def seed_of_build(seed: int, build: str, turn: int) -> int:
    """The seed of one run of a series that was given one: each build and round has its own."""
    return _number(f"{seed} {build} {turn}", SEED_BITS)


def seed_for(seed: int, purpose: str) -> int:
    """The seed for one use in the run, such as a phase: 31 bits (fio's randseed)."""
    return _number(f"{seed} {purpose}", 31)


def _number(text: str, bits: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - bits)
