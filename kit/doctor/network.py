"""Checks of the network between clients and server, at both ends. Pure.

Sources: ip-address(8) and ip-route(8) with -json; Documentation/ABI/testing/sysfs-class-net.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kit.doctor.facts import MISSING, NFS_PORT, Facts, Unknown
from kit.doctor.finding import Examined, Judgement, State, Subject

NET = "/sys/class/net"
FILES = (f"{NET}/*/speed", f"{NET}/*/duplex", f"{NET}/*/ifindex")
COMMANDS = {"links": ("ip", "-json", "-details", "-statistics", "address")}

_VIRTUAL_BUSES = ("virtio", "xen", "vmbus")
_FAST_MBIT = 10_000
_NAME = re.compile(r"[^\s/\x00-\x1f]{1,15}")
_COUNTERS = ("errors", "dropped")


@dataclass(frozen=True)
class Link:
    """A network interface. `virtual`: its kind, "" for a physical one; `speed_mbit`: None if unknown.

    `counters`: errors and drops since boot, by name.
    """

    name: str
    mtu: int
    state: str
    virtual: str
    speed_mbit: int | None
    duplex: str
    counters: dict[str, int]


def _interfaces(facts: Facts) -> list[dict[str, object]]:
    entries = _json(facts.output("links"))
    if not entries or not all(isinstance(entry, dict) and "ifname" in entry for entry in entries):
        raise Unknown("`ip address` lists no interfaces")
    return entries


def _json(text: str) -> list[dict[str, object]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Unknown(f"the output of `ip` is not JSON: {text.strip()[:60]!r}") from None
    if not isinstance(value, list):
        raise Unknown("the output of `ip` is not a list")
    return value


def link_to(facts: Facts) -> Link:
    """The client's interface on the route to the server."""
    return _link(facts, _route(facts)[0])


def link_of(facts: Facts, addresses: tuple[str, ...]) -> Link:
    """The server's interface that has one of the addresses."""
    for entry in _interfaces(facts):
        information = entry.get("addr_info")
        for address in information if isinstance(information, list) else []:
            if isinstance(address, dict) and address.get("local") in addresses:
                return _link(facts, str(entry["ifname"]))
    expected = ", ".join(addresses) or "that the clients use"
    raise Unknown(f"no interface has the address {expected}; is there a NAT?")


def _link(facts: Facts, name: str) -> Link:
    for entry in _interfaces(facts):
        if entry["ifname"] == name:
            break
    else:
        raise Unknown(f"there is no interface {name}")
    mtu, state = entry.get("mtu"), str(entry.get("operstate"))
    if not isinstance(mtu, int) or isinstance(mtu, bool) or mtu <= 0:
        raise Unknown(f"no MTU of {name} in the output of `ip address`")
    # In a network namespace /sys may show another namespace, where the name is a different interface.
    same = facts.optional(f"{NET}/{name}/ifindex") == str(entry.get("ifindex"))
    return Link(
        name=name,
        mtu=mtu,
        state=state,
        virtual=_virtual_kind(entry),
        speed_mbit=_speed(facts, name) if same else None,
        duplex=_or_empty(facts, f"{NET}/{name}/duplex") if same else "",
        counters=_counters(entry),
    )


def _virtual_kind(entry: dict[str, object]) -> str:
    """Kind of a virtual interface: veth, bridge...; loopback; the bus of a hypervisor's card; else ""."""
    information = entry.get("linkinfo")
    if isinstance(information, dict) and isinstance(information.get("info_kind"), str):
        return str(information["info_kind"])
    if entry.get("link_type") == "loopback":
        return "loopback"
    return str(entry["parentbus"]) if entry.get("parentbus") in _VIRTUAL_BUSES else ""


def _speed(facts: Facts, name: str) -> int | None:
    text = _or_empty(facts, f"{NET}/{name}/speed")
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,8}", text) else None


def _or_empty(facts: Facts, path: str) -> str:
    """Text of a file; "" if it is unreadable, as for an interface that is down."""
    try:
        return facts.optional(path) or ""
    except Unknown:
        return ""


def _counters(entry: dict[str, object]) -> dict[str, int]:
    statistics = entry.get("stats64")
    counters: dict[str, int] = {}
    for direction in ("rx", "tx"):
        values = statistics.get(direction) if isinstance(statistics, dict) else None
        for name in _COUNTERS:
            value = values.get(name) if isinstance(values, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                counters[f"{direction} {name}"] = value
    return counters


def judge_link(link: Link) -> Iterator[Judgement]:
    """Judge an interface, of a client or the server."""
    text = f"{link.name}: {link.virtual or 'physical'}, MTU {link.mtu}"
    if link.speed_mbit:
        text += f", {link.speed_mbit} Mb/s"
    if link.duplex in ("full", "half"):
        text += f", {link.duplex} duplex"
    state: State = "ok"
    if link.state == "DOWN":
        state, text = "fail", f"{text}, down"
    elif link.duplex == "half":
        state = "warn"
    elif link.virtual:
        state, text = "note", f"{text}; a virtual interface"
    elif link.speed_mbit is None:
        state, text = "warn", f"{text}; its speed could not be determined"
    elif link.speed_mbit < _FAST_MBIT:
        state = "note"
    yield Judgement("link", state, text)
    nonzero = {name: count for name, count in link.counters.items() if count}
    if len(link.counters) < 2 * len(_COUNTERS):
        raise Unknown("no error counters in the output of `ip -statistics`")
    # Drops include frames of unused protocols; errors are always faults.
    severity: State = "warn" if any("errors" in name for name in nonzero) else "note"
    shown = ", ".join(f"{count} {name}" for name, count in nonzero.items())
    yield Judgement("link-errors", severity if nonzero else "ok", f"{link.name}: {shown or 'none'}")


def _route(facts: Facts) -> tuple[str, str | None]:
    """Interface and gateway of the route to the server."""
    answer = facts.part("peer").get("route")
    if not isinstance(answer, dict):
        raise Unknown(MISSING)
    out, code = answer.get("out"), answer.get("code")
    if not isinstance(out, str) or code != 0:
        error = str(answer.get("error") or answer.get("err") or code).strip()
        raise Unknown(f"`ip route get`: {error[:200]}")
    entry = (_json(out) or [{}])[0]
    name = entry.get("dev") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Unknown("no interface in the output of `ip route get`")
    gateway = entry.get("gateway")
    return name, gateway if isinstance(gateway, str) else None


def addresses(facts: Facts) -> tuple[str, ...]:
    """The server's addresses as resolved by the client, best first."""
    resolved = facts.part("peer").get("addresses")
    if not isinstance(resolved, list) or not resolved or not all(isinstance(text, str) for text in resolved):
        raise Unknown("no address of the server is known")
    return tuple(resolved)


def _client_route(subject: Subject) -> Iterator[Judgement]:
    address = addresses(subject.facts)[0]
    answer = subject.facts.part("peer").get("route")
    if isinstance(answer, dict) and isinstance(answer.get("code"), int) and answer["code"] != 0:
        yield Judgement("route", "fail", f"to {address}: {str(answer.get('err')).strip()[:200]}")
        return
    name, gateway = _route(subject.facts)
    if gateway:
        yield Judgement("route", "warn", f"to {address} through {name} and the gateway {gateway}")
    else:
        yield Judgement("route", "ok", f"to {address} through {name}")


def _client_link(subject: Subject) -> Iterator[Judgement]:
    yield from judge_link(link_to(subject.facts))


def _server_link(subject: Subject) -> Iterator[Judgement]:
    yield from judge_link(link_of(subject.facts, subject.serves))


def _nfs_port(subject: Subject) -> Iterator[Judgement]:
    peer = subject.facts.raw.get("peer")
    if isinstance(peer, dict) and isinstance(peer.get("error"), str):
        yield Judgement("nfs-port", "fail", peer["error"])
        return
    address = addresses(subject.facts)[0]
    connect = subject.facts.part("peer").get("connect")
    if not isinstance(connect, dict):
        raise Unknown(MISSING)
    if isinstance(connect.get("error"), str):
        yield Judgement("nfs-port", "fail", f"{address} port {NFS_PORT}: {connect['error']}")
        return
    connect_ms = subject.facts.number("peer", "connect", "ms")
    if connect_ms < 0:
        raise Unknown(f"invalid connect time {connect_ms} ms")
    yield Judgement("nfs-port", "ok", f"{address} port {NFS_PORT}: connected in {connect_ms:.1f} ms")


def _mtu(subject: Subject) -> Iterator[Judgement]:
    client = link_to(subject.facts)
    if subject.server is None:
        raise Unknown(f"here it is {client.mtu}; the server's is not known")
    server = link_of(subject.server, addresses(subject.facts))
    # A host that is its own client routes to itself through `lo`.
    if client.virtual == "loopback":
        yield Judgement("mtu", "note", "client and server are the same host")
    elif client.mtu == server.mtu:
        yield Judgement("mtu", "ok", f"{client.mtu} at both ends")
    else:
        text = f"{client.mtu} on the client ({client.name}), {server.mtu} on the server ({server.name})"
        yield Judgement("mtu", "warn", text)


CLIENT = (
    Examined(("nfs-port",), _nfs_port),
    Examined(("route",), _client_route),
    Examined(("link", "link-errors"), _client_link),
    Examined(("mtu",), _mtu),
)
SERVER = (Examined(("link", "link-errors"), _server_link),)
