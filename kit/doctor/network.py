"""The way between clients and server, as both ends see it. Pure.

Sources: ip-address(8) and ip-route(8) with -json; Documentation/ABI/testing/sysfs-class-net.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kit.doctor.facts import NFS_PORT, Facts, Unknown
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
    """A network interface. `virtual` is its kind, empty for a wire; `speed_mbit` is None if nobody knows.

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
    found = _json(facts.output("links"))
    if not found or not all(isinstance(entry, dict) and "ifname" in entry for entry in found):
        raise Unknown("`ip address` does not say")
    return found


def _json(text: str) -> list[dict[str, object]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unknown(f"`ip` did not answer in JSON: {text.strip()[:60]!r}") from None
    if not isinstance(found, list):
        raise Unknown("`ip` did not answer with a list")
    return found


def link_to(facts: Facts) -> Link:
    """The client's interface on its way to the server."""
    return _link(facts, _route(facts)[0])


def link_of(facts: Facts, addresses: tuple[str, ...]) -> Link:
    """The server's interface that has one of the addresses."""
    for entry in _interfaces(facts):
        information = entry.get("addr_info")
        for address in information if isinstance(information, list) else []:
            if isinstance(address, dict) and address.get("local") in addresses:
                return _link(facts, str(entry["ifname"]))
    wanted = ", ".join(addresses) or "that the clients name"
    raise Unknown(f"no interface has the address {wanted}; is there a translation on the way?")


def _link(facts: Facts, name: str) -> Link:
    for entry in _interfaces(facts):
        if entry["ifname"] == name:
            break
    else:
        raise Unknown(f"there is no interface {name}")
    mtu, state = entry.get("mtu"), str(entry.get("operstate"))
    if not isinstance(mtu, int) or isinstance(mtu, bool) or mtu <= 0:
        raise Unknown(f"`ip address` does not say the MTU of {name}")
    # Within a network namespace /sys may be that of another: there this name is another interface.
    here = facts.optional(f"{NET}/{name}/ifindex") == str(entry.get("ifindex"))
    return Link(
        name=name,
        mtu=mtu,
        state=state,
        virtual=_virtual_kind(entry),
        speed_mbit=_speed(facts, name) if here else None,
        duplex=_or_empty(facts, f"{NET}/{name}/duplex") if here else "",
        counters=_counters(entry),
    )


def _virtual_kind(entry: dict[str, object]) -> str:
    """veth, bridge, bond...; loopback; or the bus of a hypervisor's network card."""
    information = entry.get("linkinfo")
    if isinstance(information, dict) and isinstance(information.get("info_kind"), str):
        return str(information["info_kind"])
    if entry.get("link_type") == "loopback":
        return "loopback"
    return str(entry["parentbus"]) if entry.get("parentbus") in _VIRTUAL_BUSES else ""


def _speed(facts: Facts, name: str) -> int | None:
    said = _or_empty(facts, f"{NET}/{name}/speed")
    return int(said) if re.fullmatch(r"[1-9][0-9]{0,8}", said) else None


def _or_empty(facts: Facts, path: str) -> str:
    """The driver of an interface that is down, or has none, refuses to say."""
    try:
        return facts.optional(path) or ""
    except Unknown:
        return ""


def _counters(entry: dict[str, object]) -> dict[str, int]:
    statistics = entry.get("stats64")
    found: dict[str, int] = {}
    for way in ("rx", "tx"):
        counted = statistics.get(way) if isinstance(statistics, dict) else None
        for name in _COUNTERS:
            value = counted.get(name) if isinstance(counted, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[f"{way} {name}"] = value
    return found


def judge_link(link: Link) -> Iterator[Judgement]:
    """Of either end."""
    what = f"{link.name}: {link.virtual or 'a wire'}, MTU {link.mtu}"
    if link.speed_mbit:
        what += f", {link.speed_mbit} Mb/s"
    if link.duplex in ("full", "half"):
        what += f", {link.duplex} duplex"
    state: State = "ok"
    if link.state == "DOWN":
        state, what = "fail", f"{what}, down"
    elif link.duplex == "half":
        state = "warn"
    elif link.virtual:
        state, what = "note", f"{what}; a virtual interface"
    elif link.speed_mbit is None:
        state, what = "warn", f"{what}; its speed could not be determined"
    elif link.speed_mbit < _FAST_MBIT:
        state = "note"
    yield Judgement("link", state, what)
    bad = {name: count for name, count in link.counters.items() if count}
    if len(link.counters) < 2 * len(_COUNTERS):
        raise Unknown("`ip -statistics` does not say")
    # Drops are also frames for protocols that nobody listens to; errors are always faults.
    worse: State = "warn" if any("errors" in name for name in bad) else "note"
    shown = ", ".join(f"{count} {name}" for name, count in bad.items())
    yield Judgement("link-errors", worse if bad else "ok", f"{link.name}: {shown or 'none'}")


def _route(facts: Facts) -> tuple[str, str | None]:
    """Interface and gateway on the way to the server."""
    answer = facts.part("peer").get("route")
    if not isinstance(answer, dict):
        raise Unknown("the host did not say")
    out, code = answer.get("out"), answer.get("code")
    if not isinstance(out, str) or code != 0:
        said = str(answer.get("error") or answer.get("err") or code).strip()
        raise Unknown(f"`ip route get`: {said[:200]}")
    entry = (_json(out) or [{}])[0]
    name = entry.get("dev") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Unknown("`ip route get` names no interface")
    gateway = entry.get("gateway")
    return name, gateway if isinstance(gateway, str) else None


def addresses(facts: Facts) -> tuple[str, ...]:
    """Where the client looks for the server, best first."""
    found = facts.part("peer").get("addresses")
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise Unknown("no address of the server is known")
    return tuple(found)


def _client_route(subject: Subject) -> Iterator[Judgement]:
    where = addresses(subject.facts)[0]
    answer = subject.facts.part("peer").get("route")
    if isinstance(answer, dict) and isinstance(answer.get("code"), int) and answer["code"] != 0:
        yield Judgement("route", "fail", f"to {where}: {str(answer.get('err')).strip()[:200]}")
        return
    name, gateway = _route(subject.facts)
    if gateway:
        yield Judgement("route", "warn", f"to {where} through {name} and the gateway {gateway}")
    else:
        yield Judgement("route", "ok", f"to {where} through {name}")


def _client_link(subject: Subject) -> Iterator[Judgement]:
    yield from judge_link(link_to(subject.facts))


def _server_link(subject: Subject) -> Iterator[Judgement]:
    yield from judge_link(link_of(subject.facts, subject.serves))


def _nfs_port(subject: Subject) -> Iterator[Judgement]:
    peer = subject.facts.raw.get("peer")
    if isinstance(peer, dict) and isinstance(peer.get("error"), str):
        yield Judgement("nfs-port", "fail", peer["error"])
        return
    where = addresses(subject.facts)[0]
    connect = subject.facts.part("peer").get("connect")
    if not isinstance(connect, dict):
        raise Unknown("the host did not say")
    if isinstance(connect.get("error"), str):
        yield Judgement("nfs-port", "fail", f"{where} port {NFS_PORT}: {connect['error']}")
        return
    took_ms = subject.facts.number("peer", "connect", "ms")
    if took_ms < 0:
        raise Unknown("it took less than no time")
    yield Judgement("nfs-port", "ok", f"{where} port {NFS_PORT} took a connection in {took_ms:.1f} ms")


def _mtu(subject: Subject) -> Iterator[Judgement]:
    own = link_to(subject.facts)
    if subject.server is None:
        raise Unknown(f"here it is {own.mtu}; the server's is not known")
    other = link_of(subject.server, addresses(subject.facts))
    alike = own.mtu == other.mtu
    # A host that is its own client routes to itself through `lo`, whatever card has the address.
    if own.virtual == "loopback":
        yield Judgement("mtu", "note", "client and server are one host: no wire between them")
    elif alike:
        yield Judgement("mtu", "ok", f"{own.mtu} at both ends")
    else:
        yield Judgement("mtu", "warn", f"{own.mtu} here ({own.name}), {other.mtu} there ({other.name})")


CLIENT = (
    Examined(("nfs-port",), _nfs_port),
    Examined(("route",), _client_route),
    Examined(("link", "link-errors"), _client_link),
    Examined(("mtu",), _mtu),
)
SERVER = (Examined(("link", "link-errors"), _server_link),)
