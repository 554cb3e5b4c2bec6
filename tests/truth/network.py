"""The network as most of a client's latency: calls of NULL before and after a load, and the load."""

from __future__ import annotations

from functools import partial

import numpy as np

from kit.core.clock import Clock
from kit.instruments.network_floor import summed
from kit.nfs.null_calls import CALLS
from kit.store.parts.split import ClientNetwork, NullCalls
from kit.store.phase import Phase, Sum
from reports.features.network.judge import mostly
from tests.truth.made_up import SECOND, phase_of
from tests.truth.trials import Trial

Draw = np.random.Generator
_DOCUMENT = 'docs/why-slow.md, "Before the server"'
_CLAIM = '"Of 310 us that a read takes at the client (mean), 240 us are network"'
_CLIENT_US, _IOS = 300.0, 4000
_SIGMA = 0.25
# A stall of some calls (a txg sync, another tenant): this part of them, each so many times as long.
_STALLS, _TIMES = 0.01, 40


def _null(draw: Draw, mean_us: float) -> NullCalls:
    """Calls of this true mean, some of which stall."""
    taken = mean_us * np.exp(_SIGMA * draw.standard_normal(CALLS) - _SIGMA**2 / 2)
    taken *= np.where(draw.random(CALLS) < _STALLS, _TIMES, 1)
    return summed([int(each * 1e3) for each in taken], [2000], Clock("real", 1))


def _phase(draw: Draw, share: float, idle: float, disturbed: float, traced: bool) -> Phase:
    """`share`: of the client's mean that is network under the load. `idle`: the network is so many times as
    slow while nothing runs; `disturbed`: one of the two times so many times as slow again."""
    network_us = share * _CLIENT_US + 2
    passes = [idle * network_us, idle * disturbed * network_us]
    before, after = (_null(draw, each) for each in draw.permutation(passes))
    client = ClientNetwork(host="client", transport="tcp", connections=1, before=before, after=after)
    # What is not network is half nfsd, and half the wait for a thread.
    nfsd_us = (1 - share) * _CLIENT_US / 2
    sums = [_sum("client", "client", "all", _CLIENT_US)]
    sums += [_sum("nfs-server", "server", "dram", nfsd_us)] if traced else []
    phase = phase_of("read", 0, 10 * SECOND, SECOND)
    return phase.model_copy(update={"network": (client,), "sums": tuple(sums)})


def _sum(layer: str, host: str, tier: str, mean_us: float) -> Sum:
    found = {"layer": layer, "host": host, "op": "read", "tier": tier, "ios": _IOS}
    return Sum.from_json({**found, "sum_ns": int(_IOS * mean_us * 1e3)}, "sums")


def _says(draw: Draw, share: float, idle: float = 1.0, disturbed: float = 1.0, traced: bool = True) -> bool:
    return mostly([_phase(draw, share, idle, disturbed, traced)]) is not None


def _trial(data: str, promise: str, *, most: float = 1.0, least: float = 0.0, **case: float) -> Trial:
    return Trial(_CLAIM, data, partial(_says, **case), most, least, 1000, 60, f"{_DOCUMENT}: {promise}")  # type: ignore[arg-type]


TRIALS = [
    _trial("45 % are network", "1 %", share=0.45, most=0.01),
    _trial("45 %, not traced", "1 %", share=0.45, traced=False, most=0.01),
    _trial("40 %, one of the two times is twice as slow", "1 %", share=0.4, disturbed=2.0, most=0.01),
    _trial("20 %, idle the network is twice as slow", "1 %", share=0.2, idle=2.0, most=0.01),
    # The limit of the method, as the document says.
    _trial("30 %, idle the network is twice as slow", "all cases", share=0.3, idle=2.0, least=0.95),
    _trial("60 %", "95 %", share=0.6, least=0.95),
    _trial("60 %, one of the two times is twice as slow", "95 %", share=0.6, disturbed=2.0, least=0.95),
]
