"""kit.core.seed: different seeds for runs and purposes, reproducible."""

from __future__ import annotations

from kit.core.seed import SEED_BITS, seed_for, seed_of_build, seed_of_run


def test_each_run_has_its_own_reproducible_seed() -> None:
    ids = [f"20260101T000000Z-{number:06x}" for number in range(1000)]
    seeds = [seed_of_run(run_id) for run_id in ids]
    assert len(set(seeds)) == len(ids)
    assert seeds == [seed_of_run(run_id) for run_id in ids]
    assert all(0 <= seed < 1 << SEED_BITS for seed in seeds)
    assert max(seeds) > 1 << (SEED_BITS - 4)


def test_phases_of_a_run_have_different_seeds() -> None:
    names = ["warm-up", "read", "write-slog", "write-pool"]
    for seed in (0, 1, (1 << SEED_BITS) - 1):
        observed = {seed_for(seed, name) for name in names}
        assert len(observed) == len(names)
        # fio's randseed is a whole number; ours stays where every version reads it.
        assert all(0 <= value < 1 << 31 for value in observed)


def test_builds_and_rounds_of_a_series_have_different_seeds() -> None:
    builds = ("base", "io-size=4k", "base-again")
    seeds = [seed_of_build(seed, build, turn) for seed in (0, 7) for build in builds for turn in (1, 2, 11)]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 1 << SEED_BITS for seed in seeds)
    assert seeds[0] == seed_of_build(0, "base", 1)
