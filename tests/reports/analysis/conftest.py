"""A run without anything to look at."""

import pytest

from tests.reports import synthetic


@pytest.fixture(scope="module")
def calm():
    """Five tiers, each of one mode."""
    rows = []
    for phase, op, tier, bins in synthetic.LOAD:
        start = {"read": 0, "write-slog": 100, "write-pool": 200}[phase] * synthetic.SECOND
        lo, hi, _ = bins[len(bins) // 2]
        for second in range(12):
            rows.append(
                (start + second * synthetic.SECOND, phase, "nfs-server", "lab", op, tier, lo, hi, 100)
            )
    return synthetic.table(rows)
