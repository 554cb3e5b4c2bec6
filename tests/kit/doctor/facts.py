"""Facts that a lab's guest gave (data/), and what is changed in them for a test."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.doctor.diagnosis import Gathered, Target, judge
from kit.doctor.facts import Facts
from kit.doctor.finding import Finding, Requirements
from kit.doctor.report import Report

DATA = Path(__file__).with_name("data")
Change = Callable[[dict[str, Any]], object]
RECORDED: dict[str, dict[str, Any]] = {
    role: json.loads((DATA / f"{role}.json").read_text()) for role in ("server", "client")
}


def no_host() -> Any:
    raise AssertionError("nothing is to be asked any more")


def gathered(role: Any, raw: Any, name: str = "", **more: Any) -> Gathered:
    """An answer as if it had just come, quickly and from a host whose clock is right."""
    more = {"round_trip_s": 0.05, "offset_s": 0.002, **more}
    return Gathered(Target(name or role, (role,), no_host), Facts(raw), **more)


def changed(role: str, *changes: Change) -> dict[str, Any]:
    raw = copy.deepcopy(RECORDED[role])
    for change in changes:
        change(raw)
    return raw


def report(
    server: dict[str, Any] | None = None,
    client: dict[str, Any] | None = None,
    requirements: Requirements | None = None,
    **more: Any,
) -> Report:
    """Of one server and one client, each as it was recorded unless given; `more` is about both."""
    both = [
        gathered("server", server or RECORDED["server"], **more),
        gathered("client", client or RECORDED["client"], **more),
    ]
    return judge(both, requirements or Requirements())


def only(found: Report, host: str, check: str) -> Finding:
    (one,) = (finding for finding in found.findings if (finding.host, finding.check) == (host, check))
    return one


def file(path: str, content: Any) -> Change:
    """A file with that content; None: there is none."""

    def change(raw: dict[str, Any]) -> None:
        raw["files"].pop(path, None)
        if content is not None:
            raw["files"][path] = content

    return change


def said(command: str, out: str, code: int = 0, err: str = "") -> Change:
    return lambda raw: raw.update({f"command {command}": {"code": code, "out": out, "err": err}})


def program(name: str, path: str | None, elsewhere: str | None = None) -> Change:
    return lambda raw: raw["programs"].update({name: {"path": path, "elsewhere": elsewhere or path}})


def part(name: str, value: Any) -> Change:
    return lambda raw: raw.update({name: value})


def links(change: Callable[[list[dict[str, Any]]], object]) -> Change:
    """Of what `ip address` says."""

    def apply(raw: dict[str, Any]) -> None:
        found = json.loads(raw["command links"]["out"])
        change(found)
        raw["command links"]["out"] = json.dumps(found)

    return apply


def a_wire(speed: str, duplex: str = "full", **more: Any) -> Change:
    """The interface eth0 is a network card and not a veth."""

    def change(raw: dict[str, Any]) -> None:
        found = json.loads(raw["command links"]["out"])
        entry = next(entry for entry in found if entry["ifname"] in ("eth0", "srv0"))
        entry.pop("linkinfo")
        entry.update({"parentbus": "pci", **more})
        name = f"/sys/class/net/{entry['ifname']}"
        raw["command links"]["out"] = json.dumps(found)
        raw["files"].update(
            {f"{name}/ifindex": str(entry["ifindex"]), f"{name}/speed": speed, f"{name}/duplex": duplex}
        )

    return change
