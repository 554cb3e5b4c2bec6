"""How a device is purged: everything on it forgotten, by the device itself.

The decision is a pure function of what was found out. A purge never touches a sibling namespace, and
what could not be found out about siblings is taken as "there are some". Nothing is ever forced.
Sources: NVM Express base specification 2.0 (Identify Controller: OACS, FNA, SANICAP, CMIC; Sanitize
Status log), nvme-cli's JSON output (nvme-print-json.c), blkdiscard(8).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kit.core.errors import HostError, SafetyRefusal
from kit.devices.block_device import BlockDevice
from kit.hosts.base import Host

Wanted = Literal["auto", "format", "sanitize", "discard"]
_NAMESPACE = re.compile(r"(nvme\d+)(?:c\d+)?n(\d+)")
_SANITIZE_STATUS = re.compile(r"\((\d+)\)")
# Bits of OACS, FNA, SANICAP and CMIC.
_OACS_FORMAT, _OACS_NAMESPACES = 1 << 1, 1 << 3
_FNA_FORMATS_ALL, _FNA_ERASES_ALL = 1 << 0, 1 << 1
_SANICAP_BLOCK_ERASE = 1 << 1
_CMIC_CONTROLLERS = 1 << 1
_DEADLINE_S = 7200.0
_SANITIZE_POLL_S = 2.0


@dataclass(frozen=True)
class Nvme:
    """An NVMe device's controller. `namespaces`: all that are allocated; None where that is not known."""

    controller: str
    namespaces: tuple[int, ...] | None
    oacs: int | None
    fna: int | None
    sanicap: int | None


@dataclass(frozen=True)
class Purge:
    """What will be done: `method` is "nvme format", "nvme sanitize" or "blkdiscard"."""

    method: str
    argv: tuple[str, ...]


def decide(device: BlockDevice, nvme: Nvme | None, wanted: Wanted = "auto") -> Purge:
    """Which way to purge. `nvme` is None for other devices, and where nvme-cli is missing.

    Raises SafetyRefusal if a sibling namespace would be hit or the device has no way to forget.
    """
    if wanted == "discard" or (wanted == "auto" and nvme is None):
        return _discard(device)
    if nvme is None:
        raise _refused(
            device, f"purge = \"{wanted}\" needs an NVMe device and nvme-cli on the server",
            'install nvme-cli, or write purge = "discard"',
        )  # fmt: skip
    if wanted in ("auto", "format") and nvme.oacs is not None and nvme.oacs & _OACS_FORMAT:
        _spare_siblings(device, nvme, "nvme format", _format_hits_all(nvme))
        return Purge("nvme format", ("nvme", "format", device.path, "--ses=1"))
    if wanted in ("auto", "sanitize") and nvme.sanicap is not None and nvme.sanicap & _SANICAP_BLOCK_ERASE:
        _spare_siblings(device, nvme, "nvme sanitize", True)
        return Purge("nvme sanitize", ("nvme", "sanitize", nvme.controller, "--sanact=2"))
    if wanted == "auto":
        return _discard(device)
    raise _refused(
        device, f"its controller does not say that it can {wanted}", 'write purge = "auto" or "discard"'
    )


def _format_hits_all(nvme: Nvme) -> bool:
    """Whether a format with secure erase takes other namespaces with it; not known counts as yes."""
    return nvme.fna is None or bool(nvme.fna & (_FNA_FORMATS_ALL | _FNA_ERASES_ALL))


def _spare_siblings(device: BlockDevice, nvme: Nvme, method: str, hits_all: bool) -> None:
    if not hits_all or (nvme.namespaces is not None and len(nvme.namespaces) == 1):
        return
    if nvme.namespaces is None:
        found = f"which namespaces {nvme.controller} has could not be determined"
    else:
        numbers = ", ".join(map(str, nvme.namespaces)) or "none of which is told"
        found = f"{nvme.controller} has {len(nvme.namespaces)} namespaces ({numbers})"
    raise _refused(
        device, f"{found}, and {method} would erase them all",
        'purge = "discard" discards this namespace alone; its siblings still share the flash with it',
    )  # fmt: skip


def _discard(device: BlockDevice) -> Purge:
    if not device.discard_bytes:
        raise _refused(
            device, "it has no discard (DISC-MAX of lsblk is 0), so it cannot be told to forget",
            'purge it with its vendor\'s tool and write precondition = "none", or use another device',
        )  # fmt: skip
    return Purge("blkdiscard", ("blkdiscard", device.path))


def look_up_nvme(host: Host, device: BlockDevice) -> Nvme | None:
    """The controller of an NVMe device; None for other devices and without nvme-cli."""
    name = _NAMESPACE.fullmatch(device.kernel_name)
    if name is None or host.run(["sh", "-c", "command -v nvme"], check=False).returncode != 0:
        return None
    controller = f"/dev/{name[1]}"
    identify = _json(host, ["nvme", "id-ctrl", controller, "--output-format=json"])
    every = _json(host, ["nvme", "list-ns", controller, "--all", "--output-format=json"])
    active = _json(host, ["nvme", "list-ns", controller, "--output-format=json"])
    return parse_nvme(controller, identify, every, active)


def parse_nvme(controller: str, identify: Any, every: Any, active: Any) -> Nvme:
    """From the JSON of `nvme id-ctrl`, `list-ns --all` and `list-ns`; None where a command failed."""
    oacs, cmic = _number(identify, "oacs"), _number(identify, "cmic")
    if oacs is not None and oacs & _OACS_NAMESPACES:
        # Namespaces can be there without being attached to this controller.
        namespaces = _namespaces(every)
    elif cmic is not None and not cmic & _CMIC_CONTROLLERS:
        namespaces = _namespaces(active)
    else:
        namespaces = None
    fna, sanicap = _number(identify, "fna"), _number(identify, "sanicap")
    return Nvme(controller, namespaces, oacs, fna, sanicap)


def _namespaces(listed: Any) -> tuple[int, ...] | None:
    try:
        return tuple(sorted(int(entry["nsid"]) for entry in listed["nsid_list"]))
    except (KeyError, TypeError, ValueError):
        return None


def _number(value: Any, key: str) -> int | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _json(host: Host, argv: list[str]) -> Any:
    answer = host.run(argv, check=False)
    try:
        return json.loads(answer.stdout) if answer.returncode == 0 else None
    except ValueError:
        return None


def plan_purge(host: Host, device: BlockDevice, wanted: Wanted = "auto") -> Purge:
    """Find out and decide; nothing is changed. Raises SafetyRefusal or HostError."""
    return decide(device, look_up_nvme(host, device), wanted)


def purge(
    host: Host, device: BlockDevice, wanted: Wanted = "auto", pause: Callable[[float], None] = time.sleep
) -> Purge:
    """Find out, decide, do it. Returns what was done. Raises SafetyRefusal or HostError."""
    chosen = plan_purge(host, device, wanted)
    host.run(list(chosen.argv), deadline_s=_DEADLINE_S)
    if chosen.method == "nvme sanitize":
        _wait_sanitized(host, chosen.argv[2], pause)
    return chosen


def _wait_sanitized(host: Host, controller: str, pause: Callable[[float], None]) -> None:
    """A sanitize goes on after its command; until it is done, the device answers nothing useful."""
    end = time.monotonic() + _DEADLINE_S
    while True:
        status = sanitize_status(_json(host, ["nvme", "sanitize-log", controller, "--output-format=json"]))
        if status in (1, 4):  # done; 4: done, without deallocating
            return
        if status != 2 or time.monotonic() > end:
            raise HostError(
                f"on {host.name}: the sanitize of {controller} did not end well (status {status})",
                f"see nvme sanitize-log {controller}; the device may need another sanitize before it works",
            )
        pause(_SANITIZE_POLL_S)


def sanitize_status(log: Any) -> int | None:
    """SSTAT bits 2:0 of the Sanitize Status log (2: still going on); None if they are not there."""
    try:
        (entry,) = log.values()
        found = _SANITIZE_STATUS.match(str(entry["sstat"]["status"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return int(found[1]) if found else None


def _refused(device: BlockDevice, reason: str, hint: str) -> SafetyRefusal:
    return SafetyRefusal(f"{device.path} is not purged: {reason}", hint)
