"""The formulas of tests/queues.py against simulations of the same queues."""

from __future__ import annotations

import numpy as np
import pytest

from tests.queues import highest, md1_above, md1_times, mmk_above, mmk_times, quantile


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_of_one_server_with_a_constant_service(rate: float) -> None:
    times = md1_times(np.random.default_rng(1), rate, 4_000_000)
    for q in (0.5, 0.99):
        expected = quantile(lambda limit: md1_above(rate, limit), q, 40)
        assert np.quantile(times, q) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("rate", "servers"), [(0.5, 1), (2.0, 3), (2.5, 4)])
def test_of_several_servers_with_exponential_services(rate: float, servers: int) -> None:
    times = mmk_times(np.random.default_rng(1), rate, 400_000, servers)
    for limit in (1.0, 3.0):
        assert (times > limit).mean() == pytest.approx(mmk_above(rate, limit, servers), rel=0.05)


def test_the_highest_rate_has_that_share_above() -> None:
    assert md1_above(highest(lambda rate: md1_above(rate, 8), 0.99), 8) == pytest.approx(0.01, rel=1e-6)
