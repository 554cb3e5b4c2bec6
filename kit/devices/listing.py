"""Output of `hsp host disks`: each disk of a host, whether it is available, and its table for a testbed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.text import safe_text
from kit.core.units import format_size_bytes
from kit.devices.inventory import Node, preferred_link
from kit.devices.probe import probe
from kit.devices.refusal_reasons import Code, DeviceSpec, Reason, reasons
from kit.devices.tool_output import Health
from kit.hosts.base import Host

_NODE_KEYS = (
    "kernel_name", "model", "serial", "wwn", "size_bytes", "sector_bytes", "physical_sector_bytes",
    "transport", "rotational", "write_cache",
)  # fmt: skip


@dataclass(frozen=True)
class ListedDisk:
    """A disk. `path`: its by-id link, None if it has none. Without reasons it is available."""

    node: Node
    path: str | None
    health: Health
    reasons: tuple[Reason, ...]

    @property
    def available(self) -> bool:
        return not self.reasons

    def as_json(self) -> dict[str, Any]:
        node = self.node
        return {
            "path": self.path,
            "links": list(node.links),
            **{name: getattr(node, name) for name in _NODE_KEYS},
            "wear_percent": self.health.wear_percent,
            "temperature_c": self.health.temperature_c,
            "smart_warning": self.health.warning,
            "available": self.available,
            "reasons": [{"code": r.code.value, "text": r.text, "remedy": r.remedy} for r in self.reasons],
        }


def list_devices(host: Host) -> tuple[ListedDisk, ...]:
    """All disks of the host. Writes nothing. Raises SafetyRefusal if they cannot be examined."""
    inventory = probe(host, None, health=True)
    listed = []
    for name in inventory.disks:
        node = inventory.nodes[name]
        path = preferred_link(node)
        spec = DeviceSpec(path or f"/dev/{name}", node.serial, node.size_bytes)
        listed.append(ListedDisk(node, path, inventory.disks[name].health, reasons(inventory, spec)))
    return tuple(listed)


def describe(listed: ListedDisk, *, all_: bool = False) -> str:
    """Lines for a terminal, without control characters; `all_`: with each probe that could not tell."""
    node, health = listed.node, listed.health
    about = [
        safe_text(node.model) or "no model",
        f"serial {safe_text(node.serial) or 'none'}",
        format_size_bytes(node.size_bytes),
        *([safe_text(node.transport)] if node.transport else []),
        "rotating" if node.rotational else "flash or virtual",
        f"write cache: {safe_text(node.write_cache)}",
        "wear unknown" if health.wear_percent is None else f"wear {health.wear_percent} %",
        "temperature unknown" if health.temperature_c is None else f"{health.temperature_c} C",
        *(["SMART WARNS"] if health.warning else []),
    ]
    lines = [
        safe_text(listed.path or f"/dev/{node.kernel_name} (no by-id link)"),
        f"  {', '.join(about)}",
    ]
    if listed.available:
        return "\n".join([*lines, "  available: yes"])
    return "\n".join([*lines, "  available: no, because", *_why_not(listed.reasons, all_=all_)])


def _why_not(why: Sequence[Reason], *, all_: bool) -> list[str]:
    # Without a link there is no name to write either.
    twice = Code.KERNEL_NAME if Code.NO_ID in {each.code for each in why} else None
    shown = [each for each in why if each.code is not twice]
    known = [each for each in shown if each.code is not Code.UNDETERMINED]
    unknown = len(shown) - len(known)
    if all_ or unknown < 2:
        return [f"    {safe_text(each.text)}" for each in shown]
    text = f"    {unknown} probes could not tell who uses it (root needed?): --all lists them"
    return [text, *(f"    {safe_text(each.text)}" for each in known)]


_GIB = 1 << 30
# A log device holds seconds of writes; below this, flash is too small to be worth its place as a cache.
_LOG_BYTES = 64 * _GIB


def proposed_roles(disks: Sequence[ListedDisk]) -> dict[str, tuple[str, str]]:
    """Role and why, by kernel name: a proposal by kind and size alone.

    Disks that rotate hold the data; beside them the smallest flash disk is the log, the others are caches.
    """
    flash = sorted(
        (disk for disk in disks if not disk.node.rotational), key=lambda disk: disk.node.size_bytes
    )
    if len(flash) == len(disks):
        return {disk.node.kernel_name: ("data", "no disk here rotates") for disk in disks}
    roles = {disk.node.kernel_name: ("data", "it rotates") for disk in disks}
    for disk in flash:
        is_log = disk is flash[0] and (len(flash) > 1 or disk.node.size_bytes <= _LOG_BYTES)
        log = ("log", "the smallest flash disk: it holds seconds of synchronous writes")
        roles[disk.node.kernel_name] = log if is_log else ("cache", "flash: it holds copies of what is read")
    return roles


def device_block(listed: ListedDisk, name: str = "", role: str = "data", why: str = "") -> str:
    """A [[device]] table of a testbed. Without a name it has the kernel's. `why`: of a proposed role."""
    node = listed.node
    mib, rest = divmod(node.size_bytes, 1 << 20)
    size = f"{node.size_bytes}B" if rest else f"{mib}MiB"
    return "\n".join(
        [
            "[[device]]",
            f"name = {quoted(name or _name(node.kernel_name))}",
            f"role = {quoted(role)}" + (f"  # a proposal: {why}" if why else ""),
            f"path = {quoted(listed.path or '')}",
            f"serial = {quoted(node.serial)}",
            f"size = {quoted(size)}",
        ]
    )


def quoted(text: str) -> str:
    """A TOML basic string of printable ASCII, whatever is in `text`."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if " " <= char <= "~":
        return char
    # TOML has no lone surrogates; one stands for a byte that is not text.
    code = ord(char) if not 0xD800 <= ord(char) < 0xE000 else 0xFFFD
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _name(kernel_name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", kernel_name.lower())[:31]
