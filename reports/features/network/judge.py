"""A client's mean latency as a sum: network + nfsd + rest.

The network's part is the mean of NULL, a call that does nothing, of each client before and after the load
(kit.remote.load.null_calls), less the program's own part. Of several clients each counts with its I/Os. Means
add up, medians do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from kit.core.units import format_latency
from kit.store.labels import CLIENT, SERVER
from kit.store.manifest import Manifest
from kit.store.parts.split import ClientNetwork, LatencyParts, NetworkPhase, NullCalls
from kit.store.phase import Phase, Sum
from kit.store.summary import Range, Summary
from reports.features.feature import Feature, Judged

MOST = 0.5
"""From this share on the network is said to be most of a client's latency."""
_WORTH = 0.2
"""From this share of what nfsd does not see on, the terminal has the sum. The page has all."""
REST = "the wait for a thread of nfsd, data on the wire and the client itself"


def describe(manifest: Manifest) -> list[NetworkPhase]:
    """Of each phase whose clients called NULL, or should have."""
    return [
        NetworkPhase(phase=each.name, clients=each.network, ops=tuple(parts_of(each)))
        for each in manifest.phases
        if each.network
    ]


def parts_of(phase: Phase) -> Iterator[LatencyParts]:
    """Of each op with a mean at the clients."""
    for op in dict.fromkeys(each.op for each in phase.sums if each.layer == CLIENT and each.ios):
        mine, served = (_sums(phase, layer, op) for layer in (CLIENT, SERVER))
        ios = _ios(mine)
        # Where they are as many, a call of nfsd is an I/O of the clients.
        nfsd_us = _mean_us(served) if _ios(served) == ios else None
        found = LatencyParts(op=op, ios=ios, client_us=_mean_us(mine), nfsd_us=nfsd_us)
        yield found.model_copy(update=_of_network(found, mine, {each.host: each for each in phase.network}))


def _of_network(
    found: LatencyParts, sums: Sequence[Sum], called: Mapping[str, ClientNetwork]
) -> dict[str, float | str | None]:
    """Fields of `found`, of all clients: each counts with its I/Os (`sums`)."""
    for host in (each.host for each in sums):
        if host not in called or not called[host].measured:
            why = called[host].why if host in called else "it called no NULL"
            return {"why": f"{host}: {why}"}
    network_us, p50_us = (
        sum(each.ios * of(called[each.host]) for each in sums) / found.ios for of in (network_us_of, _p50_us)
    )
    parts = {"network_us": network_us, "network_p50_us": p50_us}
    if found.nfsd_us is None:
        return {**parts, "why": "latencies of nfsd were not measured for the same calls"}
    return {**parts, "rest_us": found.client_us - network_us - found.nfsd_us}


def _sums(phase: Phase, layer: str, op: str) -> list[Sum]:
    return [each for each in phase.sums if each.layer == layer and each.op == op and each.ios]


def _ios(sums: Sequence[Sum]) -> int:
    return sum(each.ios for each in sums)


def _mean_us(sums: Sequence[Sum]) -> float:
    return sum(each.sum_ns for each in sums) / _ios(sums) / 1e3


def network_us_of(client: ClientNetwork) -> float:
    """The mean of the means before and after, in us. It was measured."""
    return fmean(_less_own_us(each.mean_ns, each) for each in client.measured)


def _p50_us(client: ClientNetwork) -> float:
    """The smaller one: what disturbed one of the two, such as a txg sync, does not count."""
    return min(_less_own_us(each.p50_ns, each) for each in client.measured)


def _less_own_us(value_ns: int, calls: NullCalls) -> float:
    return max(0, value_ns - calls.own_ns) / 1e3


def sentences(found: Sequence[NetworkPhase]) -> Iterator[str]:
    """One a phase and op: the sum, or why it is not known."""
    for phase in found:
        for each in phase.ops:
            taken = f"that a {each.op} takes at the client (mean)"
            whole = f"{phase.phase}: of {format_latency(each.client_us)} {taken}, "
            if each.network_us is None:
                yield f"{phase.phase}, {each.op}: what the network takes was not measured: {each.why}."
                continue
            network = f"{format_latency(each.network_us)} are network"
            if each.rest_us is None or each.nfsd_us is None:
                yield f"{whole}{network}; the rest is the server and {REST}."
                continue
            nfsd = f"{format_latency(each.nfsd_us)} nfsd"
            rest = f"{format_latency(each.rest_us)} the wait for a thread of nfsd, and the rest"
            less = "nothing is left: the network was slower before and after the load than under it"
            yield f"{whole}{network}, {nfsd}, {rest if each.rest_us > 0 else less}."


def mostly(phases: Sequence[Phase]) -> tuple[str, str, str, Range] | None:
    """Phase, op, sentence and range of latency in us, where the network is most of the client's latency.

    Of several the one with the largest share.
    """
    found = [(each, phase) for phase in phases if phase.network for each in parts_of(phase)]
    most = max(found, key=lambda pair: pair[0].network_share, default=None)
    if most is None or most[0].network_share <= MOST:
        return None
    each, phase = most
    network_us = each.network_share * each.client_us
    text = (
        f"Of {format_latency(each.client_us)} that a {each.op} takes at the client (mean), "
        f"{format_latency(network_us)} are network: a call that does nothing (NULL) takes as long "
        "while nothing else runs."
    )
    return phase.name, each.op, text, (network_us, each.client_us)


def _lines(summary: Summary) -> Iterator[str]:
    """Where nfsd has nearly all of the latency, the server's rows say it."""
    for phase in summary.network:
        ops = [
            each
            for each in phase.ops
            if each.network_us is not None and each.client_us - (each.nfsd_us or 0) > _WORTH * each.client_us
        ]
        yield from sentences([phase.model_copy(update={"ops": tuple(ops)})])


FEATURE = Feature(lambda manifest, _, __: Judged({"network": describe(manifest)}), lines=_lines)
