"""The highest rate that keeps a limit of the p99, searched for in queues of which it is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from kit.capacity.search import RateLook, search
from kit.config.tables.capacity_table import Capacity
from kit.store.load.open_loop import CapacitySearch, OpenLoop
from kit.store.parts.forces import Latencies
from tests.queues import Floats, highest, md1_above, md1_times, mmk_above, mmk_times
from tests.truth.trials import Trial

_DOCUMENT = "docs/capacity.md"
_PER_S = 10_000.0  # Services of one server, each second.
Times = Callable[[np.random.Generator, float, int], Floats]


def look_at(
    times: Times, limit: float, draw: np.random.Generator, look: RateLook, least_s: float
) -> OpenLoop:
    """A look at a queue that is empty at first. `times`, `limit`: in services; `least_s`: its duration."""
    ios = draw.poisson(max(look.ios, look.rate * least_s))
    above = times(draw, look.rate / _PER_S, ios) > limit
    same = Latencies(sum_ns=ios, min_ns=1, max_ns=1, bins=((1, ios),))
    batches = tuple((len(part), *[int(part.sum())] * 2) for part in np.array_split(above, 20))
    return OpenLoop(
        op="read", block_bytes=512, threads=64, rate_per_s=look.rate, due=ios, above=int(above.sum()),
        slow=int(above.sum()), unstarted=0, limit_ns=10**9, elapsed_ns=1, batches=batches,
        actual=same, intended=same, late=same,
    )  # fmt: skip


def searched(
    times: Times, limit: float, draw: np.random.Generator, least_s: float = 0.0, **keys: object
) -> CapacitySearch:
    """The answer of a search with the defaults of [capacity], but for `keys`."""
    looks = search(Capacity.model_validate({"p99_max": "1ms", **keys}))
    look = next(looks)
    while True:
        try:
            look = looks.send(look_at(times, limit, draw, look, least_s))
        except StopIteration as end:
            return CapacitySearch.model_validate(end.value)


@cache
def truth(servers: int, limit: float) -> float:
    """The rate of which 1 % are above the limit; 0 servers: one with a constant service."""
    if not servers:
        return _PER_S * highest(lambda rate: md1_above(rate, limit), 0.99)
    return _PER_S * highest(lambda rate: mmk_above(rate, limit, servers), servers * 0.999)


def _of(
    servers: int, limit: float, draw: np.random.Generator, **keys: object
) -> tuple[CapacitySearch, float]:
    times = partial(mmk_times, servers=servers) if servers else md1_times
    return searched(times, limit, draw, **keys), truth(servers, limit)  # type: ignore[arg-type]


def _above(draw: np.random.Generator, servers: int, limit: float, by: float) -> bool:
    found, true = _of(servers, limit, draw)
    return (found.rate_per_s or 0) > true * (1 + by)


def _below(draw: np.random.Generator, servers: int, limit: float, by: float) -> bool:
    found, true = _of(servers, limit, draw)
    return found.end == "found" and (found.rate_per_s or 0) < true * (1 - by)


def _outside(draw: np.random.Generator, servers: int, limit: float) -> bool:
    found, true = _of(servers, limit, draw)
    return found.end == "found" and not (found.rate_per_s or 0) <= true <= (found.broken_per_s or 0)


def _open(draw: np.random.Generator, servers: int, limit: float) -> bool:
    return _of(servers, limit, draw)[0].end != "found"


def _name(servers: int, limit: float) -> str:
    kind = f"M/M/{servers}" if servers else "M/D/1"
    return f"{kind}, the limit is {limit:g} services"


_QUEUES = ((0, 4.0), (0, 8.0), (0, 20.0), (4, 8.0))
TRIALS: list[Trial] = [
    *(
        Trial(
            claim, _name(*queue), partial(says, servers=queue[0], limit=queue[1], **more), at_most=at_most,
            cases=200 if not queue[0] else 60, few=3 * (queue == (0, 8.0)), promise=_DOCUMENT,
        )
        for queue in _QUEUES
        for claim, says, more, at_most in (
            ("a capacity that is above the true one", _above, {"by": 0.0}, 0.03),
            ("a capacity that is more than 15 % below the true one", _below, {"by": 0.15}, 0.05),
            ("a range without the true capacity", _outside, {}, 0.05),
            ("a search without an answer", _open, {}, 0.05),
        )
    )
]  # fmt: skip
