"""A client's latency as a sum, and when the network is said to be most of it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.parts.split import ClientNetwork, LatencyParts, NetworkPhase, NullCalls
from kit.store.phase import Phase, Sum
from reports.features.network.judge import FEATURE, mostly, network_us_of, parts_of, sentences
from tests.reports.synthetic import summary_of
from tests.truth.made_up import SECOND, phase_of


def null(mean_us: float, p50_us: float | None = None, own_us: float = 2.0) -> NullCalls:
    """`mean_us`, `p50_us`: without the program's own part."""
    p50_us = mean_us if p50_us is None else p50_us
    mean_ns, p50_ns, own_ns = (int(1e3 * us) for us in (mean_us + own_us, p50_us + own_us, own_us))
    return NullCalls(calls=400, mean_ns=mean_ns, least_ns=own_ns, p50_ns=p50_ns, p99_ns=None, own_ns=own_ns)


def client(host: str, before: NullCalls | None, after: NullCalls | None, why: str = "") -> ClientNetwork:
    return ClientNetwork(host=host, transport="tcp", connections=1, before=before, after=after, why=why)


def sums(layer: str, host: str, ios: int, mean_us: float, tier: str = "all", op: str = "read") -> Sum:
    found = {"layer": layer, "host": host, "op": op, "tier": tier, "ios": ios}
    return Sum.from_json({**found, "sum_ns": int(ios * mean_us * 1e3)}, "sums")


def phase(*network: ClientNetwork, of: tuple[Sum, ...], name: str = "read") -> Phase:
    return phase_of(name, 0, SECOND, SECOND).model_copy(update={"network": network, "sums": of})


A, B = client("a", null(40), null(60)), client("b", null(100), null(100))
CLIENTS = (sums("client", "a", 300, 250), sums("client", "b", 100, 350))
SERVED = (sums("nfs-server", "s", 200, 50, "dram"), sums("nfs-server", "s", 200, 150, "disk"))


def only(of: Phase) -> LatencyParts:
    (found,) = parts_of(of)
    return found


def test_the_parts_are_means_that_add_up_and_clients_count_with_their_ios() -> None:
    found = only(phase(A, B, of=(*CLIENTS, *SERVED)))
    assert network_us_of(A) == 50
    assert (found.ios, found.client_us, found.network_us, found.nfsd_us) == (400, 275, 62.5, 100)
    assert found.rest_us == 275 - 62.5 - 100 and found.why == ""
    # The smaller of a client's two.
    assert found.network_p50_us == (300 * 40 + 100 * 100) / 400


def test_calls_that_are_not_the_clients_ios_are_no_part_of_them() -> None:
    found = only(phase(A, B, of=(*CLIENTS, SERVED[0])))
    assert found.nfsd_us is None and found.rest_us is None and "nfsd were not measured" in found.why
    assert found.network_us == 62.5


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ((A,), "b: it called no NULL"),
        ((A, client("b", None, None, "the mount goes over RDMA")), "b: the mount goes over RDMA"),
    ],
)
def test_a_client_without_null_leaves_the_sum_unknown(network: tuple[ClientNetwork, ...], why: str) -> None:
    found = only(phase(*network, of=(*CLIENTS, *SERVED)))
    assert found.network_us is None and found.rest_us is None and found.why == why
    (text,) = sentences([NetworkPhase(phase="read", clients=network, ops=(found,))])
    assert text == f"read, read: what the network takes was not measured: {why}."
    assert mostly([phase(*network, of=(*CLIENTS, *SERVED))]) is None


def test_each_op_has_its_own_sum() -> None:
    writes = sums("client", "a", 10, 500, op="write"), sums("nfs-server", "s", 10, 400, "slog", op="write")
    reads, write = parts_of(phase(A, B, of=(*CLIENTS, *SERVED, *writes)))
    assert (reads.op, write.op, write.network_us, write.rest_us) == ("read", "write", 50, 50)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ({"network_us": 45.0, "nfsd_us": 240.0, "rest_us": 25.0},
         "45 µs are network, 240 µs nfsd, 25 µs the wait for a thread of nfsd, and the rest."),
        ({"network_us": 95.0, "nfsd_us": 240.0, "rest_us": -25.0},
         "nothing is left: the network was slower before and after the load than under it."),
        ({"network_us": 45.0}, "45 µs are network; the rest is the server and the wait for a thread of nfsd, "
                               "data on the wire and the client itself."),
    ],
)  # fmt: skip
def test_sentences_say_what_is_known(values: dict[str, Any], ends: str) -> None:
    op = LatencyParts(op="read", ios=10, client_us=310.0, **values)
    (text,) = sentences([NetworkPhase(phase="r", clients=(), ops=(op,))])
    assert text.startswith("r: of 310 µs that a read takes at the client (mean), ") and text.endswith(ends)


def of_share(network_us: float, nfsd_us: float, name: str = "read", after_us: float | None = None) -> Phase:
    """Of a read of 300 us."""
    calls = client("a", null(network_us), null(network_us if after_us is None else after_us))
    served = (sums("nfs-server", "s", 100, nfsd_us, "dram"),) if nfsd_us else ()
    return phase(calls, of=(sums("client", "a", 100, 300), *served), name=name)


def test_the_network_is_said_to_be_most_once_a_run() -> None:
    found = mostly([of_share(160, 50, "some"), of_share(240, 50, "most"), of_share(20, 200, "less")])
    assert found and found[0] == "most" and found[3] == (240, 300)
    assert found[2].startswith("Of 300 µs that a read takes at the client (mean), 240 µs are network: ")


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(of_share(140, 50), id="less than half"),
        # An idle network was slower than that under the load: nfsd leaves less.
        pytest.param(of_share(200, 200), id="nfsd leaves less"),
        pytest.param(of_share(240, 50, after_us=100), id="only before the load"),
        pytest.param(phase(of=CLIENTS), id="no calls"),
    ],
)
def test_otherwise_nothing_is_said(quiet: Phase) -> None:
    assert mostly([quiet]) is None


def test_a_mean_of_a_few_stalls_is_no_network() -> None:
    stalled = client("a", null(240, p50_us=40), null(240, p50_us=40))
    assert mostly([phase(stalled, of=(sums("client", "a", 100, 300),))]) is None


@pytest.mark.parametrize(("nfsd_us", "lines"), [(95.0, 0), (70.0, 1), (None, 1)])
def test_the_terminal_has_a_sum_where_nfsd_does_not_see_all(nfsd_us: float | None, lines: int) -> None:
    ops = [
        {"op": "read", "ios": 9, "client_us": 100.0, "network_us": 5.0, "nfsd_us": nfsd_us, "rest_us": 1.0}
    ]
    unknown = {"op": "write", "ios": 9, "client_us": 100.0, "why": "Kerberos"}
    row = {"phase": "p", "clients": [], "ops": [*ops, unknown]}
    assert len([*FEATURE.lines(summary_of([], network=[row]))]) == lines
