"""What a search asks for and concludes, of servers that are made up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kit.capacity.search import MOST_LOOKS, RateLook, search, share_range
from kit.config.tables.capacity_table import Capacity
from kit.core.bins import bin_index
from kit.store.load.open_loop import CapacitySearch, OpenLoop
from kit.store.parts.forces import Latencies

LIMIT_NS = 1_000_000


def look_of(look: RateLook, share: float, slow: float = 1.0, late_ns: int = 1000) -> OpenLoop:
    """A look of which that share is above the limit, the same in each batch; of these a part is `slow`."""
    each = look.ios // 20
    above = [int(share * each * (n + 1)) - int(share * each * n) for n in range(20)]
    due = each * 20
    same = Latencies(sum_ns=due, min_ns=1, max_ns=1, bins=((1, due),))
    return OpenLoop(
        op="read", block_bytes=512, threads=64, rate_per_s=look.rate, elapsed_ns=1, limit_ns=LIMIT_NS,
        due=due, unstarted=0, above=sum(above), slow=sum(int(slow * n) for n in above),
        actual=same, intended=same,
        late=Latencies(sum_ns=due * late_ns, min_ns=late_ns, max_ns=late_ns, bins=((_bin(late_ns), due),)),
        batches=tuple((each, n, int(slow * n)) for n in above),
    )  # fmt: skip


def _bin(ns: int) -> int:
    return int(bin_index([ns])[0])


def found(
    share: Callable[[RateLook], float], slow: float = 1.0, late_ns: int = 1000, **keys: object
) -> CapacitySearch:
    looks = search(Capacity.model_validate({"p99_max": "1ms", **keys}))
    look = next(looks)
    for _ in range(500):
        try:
            look = looks.send(look_of(look, share(look), slow, late_ns))
        except StopIteration as end:
            return CapacitySearch.model_validate(end.value)
    raise AssertionError("it does not end")


def test_a_server_with_an_edge_is_found_within_the_precision() -> None:
    answer = found(lambda look: 0.001 if look.rate <= 9100 else 0.2)
    assert answer.end == "found" and answer.rate_per_s and answer.broken_per_s
    assert answer.rate_per_s <= 9100 < answer.broken_per_s <= answer.rate_per_s * 1.05
    assert answer.steps[-1].purpose == "confirm" and answer.steps[-1].load.rate_per_s == answer.rate_per_s
    before = [step.load.rate_per_s for step in answer.steps[:-1]]
    assert max(before) > answer.rate_per_s, "it is confirmed after rates above it"


def test_rates_near_the_edge_are_neither_kept_nor_broken() -> None:
    shares = {100: 0.001, 200: 0.01}
    answer = found(lambda look: shares.get(int(look.rate), 0.0095 if look.rate < 230 else 0.05))
    unclear = [step for step in answer.steps if step.judged == "unclear"]
    assert unclear and all(step.low < 0.01 < step.high for step in unclear)
    assert answer.rate_per_s == 100 and answer.broken_per_s and answer.broken_per_s >= 230


def test_nothing_is_found_below_the_lowest_or_beyond_the_highest_rate() -> None:
    assert found(lambda _: 0.5).end == "below"
    answer = found(lambda _: 0.0, rate_max=5000)
    assert (answer.end, answer.rate_per_s, answer.broken_per_s) == ("beyond", 5000, None)
    assert found(lambda _: 0.01).end == "unknown", "the lowest rate is at the limit"


def test_a_rate_that_is_not_kept_again_is_not_the_answer() -> None:
    answer = found(lambda look: 0.05 if look.purpose == "confirm" or look.rate > 1000 else 0.001)
    assert answer.end == "unknown" and "not the same all the time" in answer.why
    once = iter([True])
    answer = found(
        lambda look: 0.05 if look.rate > 1000 or (look.purpose == "confirm" and next(once, False)) else 0.001
    )
    assert answer.end == "unknown" or answer.rate_per_s


def test_a_client_that_is_late_leaves_it_open_and_says_what_was_kept() -> None:
    for slow, late_ns in ((0.0, 1000), (1.0, 2 * LIMIT_NS)):
        answer = found(lambda look: 0.0 if look.rate < 1000 else 0.1, slow, late_ns)
        assert answer.end == "unknown" and "too late" in answer.why and answer.rate_per_s == 800
        assert [step.judged for step in answer.steps][-1] == "late"


def test_no_rate_is_looked_at_more_often_than_that() -> None:
    looks: dict[tuple[float, str], int] = {}

    def share(look: RateLook) -> float:
        looks[look.rate, look.purpose] = looks.get((look.rate, look.purpose), 0) + 1
        return 0.0001 if look.rate < 1000 else 0.0098 if look.rate < 1500 else 0.5

    assert found(share).end == "found" and max(looks.values()) <= MOST_LOOKS


def test_the_range_is_wider_where_batches_differ() -> None:
    random = np.random.default_rng(1)
    alike = [(500, int(x)) for x in random.binomial(500, 0.01, 20)]
    apart = [(500, x) for x in [0] * 18 + [50, 50]]
    low, high = share_range(alike)
    assert low < 0.01 < high < 0.02
    wide_low, wide_high = share_range(apart)
    assert wide_low < low and wide_high > high
    assert share_range([(5000, 0)]) == (0.0, 1.0), "one batch says nothing"
    assert share_range([(1000, 0)] * 20)[1] == pytest.approx(0.0, abs=0.001)
    assert share_range([(1000, 1000)] * 20)[0] == pytest.approx(1.0, abs=0.001)
