"""Checks of the network between clients and server, at both ends. Pure.

Sources: ip-address(8) and ip-route(8) with -json; Documentation/ABI/testing/sysfs-class-net.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kit.doctor.facts import NFS_PORT, HostFacts, Unknown, as_object, parse_json
from kit.doctor.finding import Examination, ExaminedHost, State, Verdict

NET = "/sys/class/net"
FILES = (f"{NET}/*/speed", f"{NET}/*/duplex", f"{NET}/*/ifindex")
COMMANDS = {"links": ("ip", "-json", "-details", "-statistics", "address")}

_VIRTUAL_BUSES = ("virtio", "xen", "vmbus")
_FAST_MBIT = 10_000
_NAME = re.compile(r"[^\s/\x00-\x1f]{1,15}")


@dataclass(frozen=True)
class Link:
    """A network interface. `virtual`: its kind, "" for a physical one; `speed_mbit`: None if unknown.

    `statistics`: of `ip -statistics`, unchecked.
    """

    name: str
    mtu: int
    state: str
    virtual: str
    speed_mbit: int | None
    duplex: str
    statistics: object


def _interfaces(facts: HostFacts) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = parse_json(facts.output("links"), "the output of `ip address`", list)
    if not entries or not all(isinstance(entry, dict) and "ifname" in entry for entry in entries):
        raise Unknown("`ip address` lists no interfaces")
    return entries


def link_to(facts: HostFacts) -> Link:
    """The client's interface on the route to the server."""
    name = _route(facts)[0]
    for entry in _interfaces(facts):
        if entry["ifname"] == name:
            return _link(facts, name, entry)
    raise Unknown(f"there is no interface {name}")


def link_of(facts: HostFacts, addresses: tuple[str, ...]) -> Link:
    """The server's interface that has one of the addresses."""
    for entry in _interfaces(facts):
        information = entry.get("addr_info")
        for address in information if isinstance(information, list) else []:
            if isinstance(address, dict) and address.get("local") in addresses:
                return _link(facts, str(entry["ifname"]), entry)
    expected = ", ".join(addresses) or "that the clients use"
    raise Unknown(f"no interface has the address {expected}; is there a NAT?")


def _link(facts: HostFacts, name: str, entry: dict[str, object]) -> Link:
    mtu = entry.get("mtu")
    if not isinstance(mtu, int) or isinstance(mtu, bool) or mtu <= 0:
        raise Unknown(f"no MTU of {name} in the output of `ip address`")
    # In a network namespace /sys may show another namespace, where the name is a different interface.
    same = facts.optional(f"{NET}/{name}/ifindex") == str(entry.get("ifindex"))
    speed = _or_empty(facts, f"{NET}/{name}/speed")
    return Link(
        name=name,
        mtu=mtu,
        state=str(entry.get("operstate")),
        virtual=_virtual_kind(entry),
        speed_mbit=int(speed) if same and re.fullmatch("[1-9][0-9]{0,8}", speed) else None,
        duplex=_or_empty(facts, f"{NET}/{name}/duplex") if same else "",
        statistics=entry.get("stats64"),
    )


def _virtual_kind(entry: dict[str, object]) -> str:
    """Kind of a virtual interface: veth, bridge...; loopback; the bus of a hypervisor's card; else ""."""
    information = entry.get("linkinfo")
    if isinstance(information, dict) and isinstance(information.get("info_kind"), str):
        return str(information["info_kind"])
    if entry.get("link_type") == "loopback":
        return "loopback"
    return str(entry["parentbus"]) if entry.get("parentbus") in _VIRTUAL_BUSES else ""


def _or_empty(facts: HostFacts, path: str) -> str:
    """Text of a file; "" if it is unreadable, as for an interface that is down."""
    try:
        return facts.optional(path) or ""
    except Unknown:
        return ""


def _judge_link(link: Link) -> Verdict:
    text = f"{link.name}: {link.virtual or 'physical'}, MTU {link.mtu}"
    if link.speed_mbit:
        text += f", {link.speed_mbit} Mb/s"
    if link.duplex in ("full", "half"):
        text += f", {link.duplex} duplex"
    if link.state == "DOWN":
        return "fail", f"{text}, down"
    if link.duplex == "half":
        return "warn", text
    if link.virtual:
        return "note", f"{text}; a virtual interface"
    if link.speed_mbit is None:
        return "warn", f"{text}; its speed could not be determined"
    return "note" if link.speed_mbit < _FAST_MBIT else "ok", text


def _judge_errors(link: Link) -> Verdict:
    try:
        statistics = HostFacts(as_object(link.statistics))
        counters = {
            f"{direction} {name}": int(statistics.number(direction, name))
            for direction in ("rx", "tx")
            for name in ("errors", "dropped")
        }
    except Unknown:
        raise Unknown("no error counters in the output of `ip -statistics`") from None
    nonzero = {name: count for name, count in counters.items() if count}
    if any(count < 0 for count in nonzero.values()):
        raise Unknown(f"invalid error counters {nonzero}")
    # Drops include frames of unused protocols; errors are always faults.
    state: State = "warn" if any("errors" in name for name in nonzero) else "note" if nonzero else "ok"
    shown = ", ".join(f"{count} {name}" for name, count in nonzero.items())
    return state, f"{link.name}: {shown or 'none'}"


def _route(facts: HostFacts) -> tuple[str, str | None]:
    """Interface and gateway of the route to the server."""
    answer = as_object(facts.part("peer").get("route"))
    out, code = answer.get("out"), answer.get("code")
    if not isinstance(out, str) or code != 0:
        raise Unknown(f"`ip route get`: {str(answer.get('err') or code).strip()[:200]}")
    entry = as_object((parse_json(out, "the output of `ip route get`", list) or [{}])[0])
    name = entry.get("dev")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Unknown("no interface in the output of `ip route get`")
    gateway = entry.get("gateway")
    return name, gateway if isinstance(gateway, str) else None


def addresses(facts: HostFacts) -> tuple[str, ...]:
    """The server's addresses as resolved by the client, best first."""
    resolved = facts.part("peer").get("addresses")
    if not isinstance(resolved, list) or not resolved or not all(isinstance(text, str) for text in resolved):
        raise Unknown("no address of the server is known")
    return tuple(resolved)


def _client_route(subject: ExaminedHost) -> Verdict:
    address = addresses(subject.facts)[0]
    answer = subject.facts.part("peer").get("route")
    if isinstance(answer, dict) and isinstance(answer.get("code"), int) and answer["code"] != 0:
        return "fail", f"to {address}: {str(answer.get('err')).strip()[:200]}"
    name, gateway = _route(subject.facts)
    if gateway:
        return "warn", f"to {address} through {name} and the gateway {gateway}"
    return "ok", f"to {address} through {name}"


def _nfs_port(subject: ExaminedHost) -> Verdict:
    peer = subject.facts.raw.get("peer")
    if isinstance(peer, dict) and isinstance(peer.get("error"), str):
        return "fail", peer["error"]
    address = addresses(subject.facts)[0]
    connect = subject.facts.part("peer").get("connect")
    if isinstance(connect, dict) and isinstance(connect.get("error"), str):
        return "fail", f"{address} port {NFS_PORT}: {connect['error']}"
    connect_ms = subject.facts.number("peer", "connect", "ms")
    if connect_ms < 0:
        raise Unknown(f"invalid connect time {connect_ms} ms")
    return "ok", f"{address} port {NFS_PORT}: connected in {connect_ms:.1f} ms"


def _mtu(subject: ExaminedHost) -> Verdict:
    client = link_to(subject.facts)
    if subject.server is None:
        raise Unknown(f"here it is {client.mtu}; the server's is not known")
    server = link_of(subject.server, addresses(subject.facts))
    # A host that is its own client routes to itself through `lo`.
    if client.virtual == "loopback":
        return "note", "client and server are the same host"
    if client.mtu == server.mtu:
        return "ok", f"{client.mtu} at both ends"
    return "warn", f"{client.mtu} on the client ({client.name}), {server.mtu} on the server ({server.name})"


def _link_checks(link_in: Callable[[ExaminedHost], Link]) -> dict[str, Examination]:
    """The checks of an interface, of a client or the server."""
    return {
        "link": lambda subject: _judge_link(link_in(subject)),
        "link-errors": lambda subject: _judge_errors(link_in(subject)),
    }


CLIENT: dict[str, Examination] = {
    "nfs-port": _nfs_port,
    "route": _client_route,
    **_link_checks(lambda subject: link_to(subject.facts)),
    "mtu": _mtu,
}
SERVER = _link_checks(lambda subject: link_of(subject.facts, subject.serves))
