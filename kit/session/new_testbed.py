"""The work of `hsp new testbed`: from names of disks to the files that measure and judge them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.config.testbed import Testbed
from kit.config.toml import validate
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.text import safe_text
from kit.core.units import format_decimal_bytes
from kit.devices.inventory import BY_ID
from kit.devices.listing import ListedDisk, device_block, list_devices, quoted
from kit.hosts.base import Host

CandidateRole = Literal["log", "cache"]
# Of a mirror: more disks would be erased for nothing.
_DATA_DISKS = 2
_NAME_LENGTH = 24
# What a buyer fills in; the values are examples.
_TO_FILL_IN = '# price = "180 EUR"\n# endurance = "1752TB"    # rated, from its data sheet\n'
_NEEDS = {
    "log": 'sync_write_p99 = "1ms"      # of synchronous writes, at the NFS server',
    "cache": 'read_p99 = "1ms"            # of reads that the L2ARC answers, at the NFS server',
}


@dataclass(frozen=True)
class Chosen:
    """Disks by what they are for; `left`: free, and not needed."""

    candidates: tuple[ListedDisk, ...]
    data: tuple[ListedDisk, ...]
    left: tuple[ListedDisk, ...]


def choose(host: Host, candidates: Sequence[str], data: Sequence[str]) -> Chosen:
    """Look for the disks; without `data`, of those that are free. Writes nothing.

    Raises ConfigError for a name of no disk, and where disks for data are missing, SafetyRefusal
    for a disk that is in use.
    """
    listed = list_devices(host)
    named = [_find(name, listed, host.name) for name in (*candidates, *data)]
    for number, disk in enumerate(named):
        if disk in named[:number]:
            raise ConfigError(f"{_told(disk)} is named twice", "name each disk once")
    free = [disk for disk in listed if disk.available and disk not in named]
    chosen = named[len(candidates) :] or _for_data(free)
    if not chosen:
        others = [f"{_told(disk)}: {_why(disk)}" for disk in listed if disk not in named]
        found = "; ".join(others) or "it has no others"
        raise ConfigError(
            f"disks for data are needed: none of {host.name} is free besides the candidates ({found})",
            "connect one or two, or free some: the pool is made of them, and all that is on them is lost",
        )
    left = tuple(disk for disk in free if disk not in chosen)
    return Chosen(tuple(named[: len(candidates)]), tuple(chosen), left)


def _for_data(free: Sequence[ListedDisk]) -> list[ListedDisk]:
    """Disks of one kind, rotating before flash, the largest first."""
    rotating = [disk for disk in free if disk.node.rotational]
    return sorted(rotating or free, key=lambda disk: -disk.node.size_bytes)[:_DATA_DISKS]


def _find(name: str, listed: Sequence[ListedDisk], host: str) -> ListedDisk:
    """The disk that `name` is: a link, a link's last part, a kernel's name, or a serial number."""
    found = [
        disk
        for disk in listed
        if name
        in (*disk.node.links, f"/dev/{disk.node.kernel_name}", disk.node.kernel_name, disk.node.serial)
        or f"{BY_ID}{name}" in disk.node.links
    ]
    if len(found) != 1:
        known = "; ".join(_told(disk) for disk in listed if disk.available) or "none"
        what = f"{len(found)} disks" if found else "no disk"
        raise ConfigError(f"{host} has {what} of the name {safe_text(name)}", f"available disks: {known}")
    if not found[0].available:
        raise SafetyRefusal(f"{_told(found[0])} is not touched: {_why(found[0])}", found[0].reasons[0].remedy)
    return found[0]


def _told(disk: ListedDisk) -> str:
    return safe_text(disk.path or f"/dev/{disk.node.kernel_name}")


def _why(disk: ListedDisk) -> str:
    return safe_text("; ".join(reason.text for reason in disk.reasons)) or "free"


def describe(chosen: Chosen, role: CandidateRole) -> list[str]:
    """Which disk is for what."""
    parts = (
        (f"candidates, as {role} devices", chosen.candidates),
        ("data", chosen.data),
        ("left alone", chosen.left),
    )
    return [
        f"{what}: {_told(disk)}, {safe_text(disk.node.model) or 'no model'}, "
        f"{format_decimal_bytes(disk.node.size_bytes)}"
        for what, disks in parts
        for disk in disks
    ]


def names(candidates: Sequence[ListedDisk]) -> list[str]:
    """A name for each candidate, of its model: models that several have get a number."""
    found: list[str] = []
    for disk in candidates:
        model = re.sub(r"[^a-z0-9]+", "-", disk.node.model.lower()).strip("-")[:_NAME_LENGTH].strip("-")
        name, number = model or "ssd", 1
        while name in found:
            number += 1
            name = f"{model or 'ssd'}-{number}"
        found.append(name)
    return found


def testbed_text(name: str, server: str, clients: Sequence[str], chosen: Chosen, role: CandidateRole) -> str:
    """The testbed. Raises ConfigError where a disk's link or serial number cannot stand in one."""
    blocks = [device_block(disk, f"data{number}", "data") for number, disk in enumerate(chosen.data)]
    for number, (disk, candidate) in enumerate(zip(chosen.candidates, names(chosen.candidates), strict=True)):
        # In use is the first; each of the others takes its place in turn.
        idle = "idle = true\n" if number else ""
        blocks.append(f"{device_block(disk, f'{role}-{candidate}', role)}\n{idle}{_TO_FILL_IN}".rstrip())
    hosts = [
        f"[server]\nhost = {quoted(server)}",
        *(f"[[client]]\nhost = {quoted(client)}" for client in clients),
    ]
    head = "# All that is on these disks is lost in a run. Yours to fill in: prices and rated endurance.\n"
    hosts = [f"{head}\nname = {quoted(name)}", *hosts]
    text = "\n\n".join([*hosts, *blocks]) + "\n"
    validate(tomllib.loads(text), Testbed, lambda key: (Path(f"{name}-testbed.toml"), 1))
    return text


def workload_text(name: str, chosen: Chosen) -> str:
    """The workload: that of the kit, with the testbed's candidates."""
    data = 'pool.data = "stripe"            # one disk\n' if len(chosen.data) == 1 else ""
    return (
        f"# Which candidate of {name}-testbed.toml to buy. All else is as in the workload candidates.\n\n"
        f'format = 1\nname = "{name}"\ntitle = "Which SSD to buy"\nbase = "candidates"\n{data}'
    )


def need_text(role: CandidateRole, candidates: Sequence[str]) -> str:
    """What is needed: one line to change, and others to take in."""
    return f"""\
# What you need; `hsp sheet` holds each candidate against it. Yours to fill in; docs/sheet.md has every key.

format = 1
{_NEEDS[role]}
# budget = "600 EUR"            # needs the prices in the testbed
# written_per_day = "200GB"     # by all clients
# years = 5                     # so long the rated endurance has to last
# survives_power_loss = true    # needs 60 power losses (hsp run candidates-power-loss makes 20), or:
# power_losses_min = 20         # 60 show that fewer than 4.9 % lose data, 20 fewer than 13.9 %
# today = "{candidates[0]}"     # if the server has this one today: the others are held against it
"""
