"""Purge of a device: the device itself erases all its content.

The choice of the method is a pure function of the device's facts. A purge never affects a sibling namespace;
if it is unknown whether there are siblings, the kit assumes that there are. Nothing is ever forced.
Sources: NVM Express base specification 2.0 (Identify Controller: OACS, FNA, SANICAP, CMIC; Sanitize
Status log), nvme-cli's JSON output (nvme-print-json.c), blkdiscard(8).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import json_value
from kit.devices.block_device import BlockDevice
from kit.hosts.base import Host
from kit.hosts.held_device import PLACE

Requested = Literal["auto", "format", "sanitize", "discard"]
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
    """Controller of an NVMe device. `namespaces`: all allocated ones; None if unknown."""

    controller: str
    namespaces: tuple[int, ...] | None
    oacs: int | None
    fna: int | None
    sanicap: int | None


@dataclass(frozen=True)
class Purge:
    """A purge: `method` is "nvme format", "nvme sanitize" or "blkdiscard"."""

    method: str
    argv: tuple[str, ...]


def decide(device: BlockDevice, nvme: Nvme | None, requested: Requested = "auto") -> Purge:
    """Choose the method. `nvme` is None for other devices, and without nvme-cli.

    Raises SafetyRefusal if a sibling namespace would be erased too, or if the device has no method.
    """
    if requested == "discard" or (requested == "auto" and nvme is None):
        return _discard(device)
    if nvme is None:
        raise _refused(
            device, f"purge = \"{requested}\" needs an NVMe device and nvme-cli on the server",
            'install nvme-cli, or write purge = "discard"',
        )  # fmt: skip
    if requested in ("auto", "format") and nvme.oacs is not None and nvme.oacs & _OACS_FORMAT:
        # A format with secure erase can erase the other namespaces too; unknown counts as yes.
        erases_all = nvme.fna is None or bool(nvme.fna & (_FNA_FORMATS_ALL | _FNA_ERASES_ALL))
        _check_siblings(device, nvme, "nvme format", erases_all)
        return Purge("nvme format", ("nvme", "format", device.path, "--ses=1"))
    if requested in ("auto", "sanitize") and nvme.sanicap is not None and nvme.sanicap & _SANICAP_BLOCK_ERASE:
        _check_siblings(device, nvme, "nvme sanitize", True)
        return Purge("nvme sanitize", ("nvme", "sanitize", nvme.controller, "--sanact=2"))
    if requested == "auto":
        return _discard(device)
    raise _refused(
        device, f"its controller does not support {requested}", 'write purge = "auto" or "discard"'
    )


def _check_siblings(device: BlockDevice, nvme: Nvme, method: str, erases_all: bool) -> None:
    """Raises SafetyRefusal if `method` would erase sibling namespaces."""
    if not erases_all or (nvme.namespaces is not None and len(nvme.namespaces) == 1):
        return
    if nvme.namespaces is None:
        siblings = f"the namespaces of {nvme.controller} could not be determined"
    else:
        numbers = ", ".join(map(str, nvme.namespaces)) or "not listed"
        siblings = f"{nvme.controller} has {len(nvme.namespaces)} namespaces ({numbers})"
    raise _refused(
        device, f"{siblings}, and {method} would erase them all",
        'purge = "discard" discards this namespace alone; its siblings still share the flash with it',
    )  # fmt: skip


def _discard(device: BlockDevice) -> Purge:
    if not device.discard_bytes:
        raise _refused(
            device, "it has no discard (DISC-MAX of lsblk is 0)",
            'purge it with its vendor\'s tool and write precondition = "none", or use another device',
        )  # fmt: skip
    return Purge("blkdiscard", ("blkdiscard", device.path))


def look_up_nvme(host: Host, kernel_name: str) -> Nvme | None:
    """Read the controller of an NVMe device; None for other devices and without nvme-cli."""
    name = _NAMESPACE.fullmatch(kernel_name)
    if name is None or host.run(["sh", "-c", "command -v nvme"], check=False).returncode != 0:
        return None
    controller = f"/dev/{name[1]}"
    identify = _json(host, ["nvme", "id-ctrl", controller, "--output-format=json"])
    every = _json(host, ["nvme", "list-ns", controller, "--all", "--output-format=json"])
    active = _json(host, ["nvme", "list-ns", controller, "--output-format=json"])
    return parse_nvme(controller, identify, every, active)


def parse_nvme(controller: str, identify: Any, every: Any, active: Any) -> Nvme:
    """Parse the JSON of `nvme id-ctrl`, `list-ns --all` and `list-ns`; None for a failed command."""
    oacs, cmic = _number(identify, "oacs"), _number(identify, "cmic")
    if oacs is not None and oacs & _OACS_NAMESPACES:
        # There may be namespaces that are not attached to this controller.
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
    number = value.get(key) if isinstance(value, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _json(host: Host, argv: list[str]) -> Any:
    answer = host.run(argv, check=False)
    try:
        return json_value(answer.stdout) if answer.returncode == 0 else None
    except ValueError:
        return None


def plan_purge(host: Host, device: BlockDevice, requested: Requested = "auto") -> Purge:
    """Choose the method for a device; nothing is changed. Raises SafetyRefusal or HostError."""
    return decide(device, look_up_nvme(host, device.kernel_name), requested)


def purge(
    host: Host,
    device: BlockDevice,
    requested: Requested = "auto",
    pause: Callable[[float], None] = time.sleep,
) -> Purge:
    """Purge a device; returns the purge. Raises SafetyRefusal or HostError."""
    chosen = plan_purge(host, device, requested)
    held = device.held
    if held and chosen.method == "blkdiscard":
        host.run(held.command(["blkdiscard", PLACE]), deadline_s=_DEADLINE_S)
        return chosen
    # nvme takes names alone.
    if held:
        held.check(host)
    host.run(list(chosen.argv), deadline_s=_DEADLINE_S)
    if held:
        held.check(host)
    if chosen.method == "nvme sanitize":
        _wait_sanitized(host, chosen.argv[2], pause)
    return chosen


def _wait_sanitized(host: Host, controller: str, pause: Callable[[float], None]) -> None:
    """Wait for the end of a sanitize, which continues after its command. Raises HostError."""
    end = time.monotonic() + _DEADLINE_S
    while True:
        status = sanitize_status(_json(host, ["nvme", "sanitize-log", controller, "--output-format=json"]))
        if status in (1, 4):  # done; 4: done, without deallocating
            return
        if status != 2 or time.monotonic() > end:
            raise HostError(
                f"on {host.name}: the sanitize of {controller} failed (status {status})",
                f"see nvme sanitize-log {controller}; the device may need another sanitize before it works",
            )
        pause(_SANITIZE_POLL_S)


def sanitize_status(log: Any) -> int | None:
    """SSTAT bits 2:0 of the Sanitize Status log (2: in progress); None if they are missing."""
    try:
        (entry,) = log.values()
        match = _SANITIZE_STATUS.match(str(entry["sstat"]["status"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return int(match[1]) if match else None


def _refused(device: BlockDevice, reason: str, hint: str) -> SafetyRefusal:
    return SafetyRefusal(f"{device.path} is not purged: {reason}", hint)
