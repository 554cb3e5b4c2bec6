"""Recorded facts of a lab's guest (data/), and changes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.doctor.diagnosis import DiagnosedHost, Gathered, judge
from kit.doctor.facts import HostFacts
from kit.doctor.finding import Finding, Requirements
from kit.doctor.report import Diagnosis

DATA = Path(__file__).with_name("data")
Change = Callable[[dict[str, Any]], object]
RECORDED: dict[str, dict[str, Any]] = {
    role: json.loads((DATA / f"{role}.json").read_text()) for role in ("server", "client")
}


def no_host() -> Any:
    raise AssertionError("no more commands are expected")


def gathered(role: Any, raw: Any, name: str = "", **readings: Any) -> Gathered:
    """Facts that came quickly, from a host whose clock is right unless `readings` say otherwise."""
    readings = {"round_trip_s": 0.05, "offset_s": 0.002, **readings}
    return Gathered(DiagnosedHost(name or role, (role,), no_host), HostFacts(raw), **readings)


def changed(role: str, *changes: Change) -> dict[str, Any]:
    raw = copy.deepcopy(RECORDED[role])
    for change in changes:
        change(raw)
    return raw


def report(
    server: dict[str, Any] | None = None,
    client: dict[str, Any] | None = None,
    requirements: Requirements | None = None,
    **readings: Any,
) -> Diagnosis:
    """Report on a server and a client with the given facts, else the recorded ones; `readings` of both."""
    hosts = [
        gathered("server", server or RECORDED["server"], **readings),
        gathered("client", client or RECORDED["client"], **readings),
    ]
    return judge(hosts, requirements or Requirements())


def finding_of(report: Diagnosis, host: str, check: str) -> Finding:
    (finding,) = (f for f in report.findings if (f.host, f.check) == (host, check))
    return finding


def file(path: str, content: Any) -> Change:
    """A file with that content; None: there is none."""

    def change(raw: dict[str, Any]) -> None:
        raw["files"].pop(path, None)
        if content is not None:
            raw["files"][path] = content

    return change


def output(name: str, out: str, code: int = 0, err: str = "") -> Change:
    """The result of a command."""
    return part(f"command {name}", {"code": code, "out": out, "err": err})


def program(name: str, path: str | None, elsewhere: str | None = None) -> Change:
    return lambda raw: raw["programs"].update({name: {"path": path, "elsewhere": elsewhere or path}})


def part(name: str, value: Any) -> Change:
    return lambda raw: raw.update({name: value})


def links(change: Callable[[list[dict[str, Any]]], object]) -> Change:
    """A change of the output of `ip address`."""

    def apply(raw: dict[str, Any]) -> None:
        entries = json.loads(raw["command links"]["out"])
        change(entries)
        raw["command links"]["out"] = json.dumps(entries)

    return apply


def physical_link(speed: str, duplex: str = "full", **more: Any) -> Change:
    """The interface between server and client is a network card instead of a veth."""

    def apply(raw: dict[str, Any]) -> None:
        def change(entries: list[dict[str, Any]]) -> None:
            entry = next(entry for entry in entries if entry["ifname"] in ("eth0", "srv0"))
            entry.pop("linkinfo")
            entry.update({"parentbus": "pci", **more})
            name, index = f"/sys/class/net/{entry['ifname']}", str(entry["ifindex"])
            raw["files"] |= {f"{name}/ifindex": index, f"{name}/speed": speed, f"{name}/duplex": duplex}

        links(change)(raw)

    return apply
