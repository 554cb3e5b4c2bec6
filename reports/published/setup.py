"""What was measured on what: a publication beside this run, key by key."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.text import whole
from kit.core.units import commas, format_binary_bytes, format_latency, format_time_s
from kit.store.manifest import Device, Manifest
from kit.store.phase import Phase
from kit.store.stored import Json
from kit.store.summary import Reference
from reports.published.references import Setup

NOT_STATED = "not stated"
NOT_RECORDED = "not recorded"
# The publication that the presets were chosen for.
_CHOSEN_FOR = "sun-7410-2009"
# By the title of a preset: parameters chosen so that the device resembles the published ones; times in ns.
# Comments of kit/emulation/presets say so too. Another value than these is the choice of a testbed.
CHOSEN: Mapping[str, Mapping[str, float]] = {
    "Disk of 10,000 turns a minute, write cache off": {"settle": 1_800_000, "head_switch": 1_800_000},
    "Disk of 7200 turns a minute, write cache off": {"stroke_percent": 0.6},
    "Read-optimised SSD of 2009 (MLC, SATA 3 Gbit/s)": {"command": 38_000},
    "Write-optimised SSD of 2009 (SLC, protected buffer)": {"write_command": 96_000},
}


@dataclass(frozen=True)
class SetupRow:
    """`published` and `run` as people read them; `same`: None if they cannot be compared."""

    name: str
    published: str
    run: str
    same: bool | None


@dataclass(frozen=True)
class SetupTable:
    """`title`: of the publication. `chosen`: what was chosen to be like it; empty for real devices."""

    title: str
    rows: tuple[SetupRow, ...]
    chosen: str


def setup_table(manifest: Manifest, reference: Reference | None, setup: Setup | None) -> SetupTable | None:
    """The set-up of a run beside the one that `reference` was measured on; None if either has none.

    `same` is None where the publication does not state a value or the run does not record it. It is True if
    each value of the run (each phase's, each disk's) equals the published one, else False. Not equality
    decides three rows:

    - Server: False for an emulated testbed, which is nobody's product; else None, for names say too little.
    - Working set: False if it is below the published minimum, else None.
    - Ageing: False if one of them aged its SSDs and the other did not, else None, because how much they were
      written is no number that both have.

    A thread has one I/O outstanding. An import is a log of some program: it has no table.
    """
    if reference is None or setup is None or manifest.import_ is not None:
        return None
    return SetupTable(reference.title, tuple(_rows(manifest, setup)), _chosen(manifest, reference))


def _rows(manifest: Manifest, setup: Setup) -> Iterator[SetupRow]:
    row = functools.partial(_row, setup)
    testbed, phases = manifest.testbed, manifest.phases
    server = "the built-in lab" if testbed.server == "lab" else testbed.server
    other = False if testbed.emulated else None
    yield row("Server", "server", [server] if server else [], same=lambda *_: other)
    disks = testbed.of_role("data")
    speeds = [speed for disk in disks if (speed := _rpm(disk)) is not None]
    yield row("Disks", "disks", _number(manifest, disks), more=_titles(manifest, disks))
    yield row("Disk speed", "disk_rpm", speeds if len(speeds) == len(disks) else [], _speed)
    for role, name in (("cache", "L2ARC devices"), ("log", "SLOG devices")):
        devices = testbed.of_role(role)
        yield row(name, f"{role}_devices", _number(manifest, devices), more=_titles(manifest, devices))
    yield row("Record size", "record_size", _record_size(manifest), format_binary_bytes)
    sizes = [size for phase in phases for size in io_sizes(phase)]
    yield row("I/O size", "io_size", sizes, format_binary_bytes)
    yield row("Protocol", "nfs_version", nfs_versions(manifest), lambda version: f"NFSv{version}")
    yield row("Clients", "clients", [len(testbed.clients)] if testbed.clients else [])
    yield row("Threads of a client", "threads", [p.outstanding for p in phases if p.outstanding])
    used = (manifest.working_set or {}).get("bytes")
    known = [used] if isinstance(used, int) else []
    yield row("Working set", "working_set_min", known, format_binary_bytes, least=" or more", same=_reaches)
    aged, more = _aged(manifest)
    yield row("Ageing of the SSDs", "aged", aged, _yes, more=more, same=_unlike)
    lengths = [p.end_ns - p.start_ns for p in phases if p.end_ns > p.start_ns]
    yield row("Duration of a phase", "duration", lengths, lambda ns: format_time_s(ns / 1e9))


def io_sizes(phase: Phase) -> list[int]:
    """Of all its I/Os, or of its reads and of its writes."""
    return [phase.block_bytes] if phase.block_bytes else [*phase.block_bytes_by_op.values()]


def _row(
    setup: Setup,
    name: str,
    key: str,
    run: Sequence[Any],
    write: Callable[[Any], str] = str,
    *,
    more: str = "",
    least: str = "",
    same: Callable[[Any, Sequence[Any]], bool | None] | None = None,
) -> SetupRow:
    """`run`: the values of the run, none if it does not record them; `more`: words on them.

    `least`: words after a published value that is the least one; `same`: instead of equality.
    """
    value, note = getattr(setup, key), getattr(setup.notes, key)
    published = NOT_STATED if value is None else write(value) + least
    observed = ", ".join(dict.fromkeys(map(write, run))) or NOT_RECORDED
    known = value is not None and run
    judged = (same or _equal)(value, run) if known else None
    return SetupRow(name, _with(published, note), _with(observed, more), judged)


def _equal(value: Any, run: Sequence[Any]) -> bool:
    return all(each == value for each in run)


def _reaches(least: int, run: Sequence[int]) -> bool | None:
    return None if min(run) >= least else False


def _unlike(value: bool, run: Sequence[bool]) -> bool | None:
    return None if value in run else False


def _with(text: str, more: str | None) -> str:
    return f"{text} ({more})" if more else text


def _number(manifest: Manifest, devices: Sequence[Device]) -> list[int]:
    """How many; of an appliance nobody knows."""
    return [] if manifest.appliance else [len(devices)]


def _titles(manifest: Manifest, devices: Sequence[Device]) -> str:
    """The models of emulated devices; that of a real one is its serial number."""
    titles = dict.fromkeys(str(device.model) for device in devices)
    return "; ".join(titles) if manifest.testbed.emulated else ""


def _rpm(device: Device) -> int | None:
    """Turns a minute: 0 of what does not turn, None of a device that says nothing about it."""
    if device.latency_ns is not None:
        return 0
    model = device.parameters or {}
    model = model.get("controller") or model
    disk = model.get("disk")
    if disk:
        return int(disk["rpm"])
    return 0 if model.get("ssd") else None


def _record_size(manifest: Manifest) -> list[int]:
    properties = (manifest.dataset and manifest.dataset.properties) or {}
    size = whole(properties.get("recordsize", ""))
    return [] if size is None else [size]


def nfs_versions(manifest: Manifest) -> list[str]:
    """Of the options in effect; on an appliance they are by the client's name. libnfs has only v3."""
    if manifest.mount is None:
        return []
    if (manifest.mount.source or "").startswith("nfs://"):
        return ["3"]
    texts = [manifest.mount.options, *(manifest.mount.model_extra or {}).values()]
    return [found[1] for text in texts if (found := re.search(r"(?:^|,)vers=([0-9.]+)", str(text)))]


def _aged(manifest: Manifest) -> tuple[list[bool], str]:
    """Whether all SSDs that age were written before, and how."""
    table = manifest.precondition
    if table is None:
        return [], ""
    names = ", ".join(str(device.get("device")) for device in table.get("devices") or ())
    settings = table.get("settings") or {}
    if not names:
        return [False], ""
    fills = settings.get("fills")
    how = f"{fills} fills" if fills else str(settings.get("method")).upper()
    return [not table.get("fresh")], f"{how}: {names}{' alone' if table.get('fresh') else ''}"


def _speed(rpm: int) -> str:
    return f"{commas(rpm)} rpm" if rpm else "do not turn"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _chosen(manifest: Manifest, reference: Reference) -> str:
    """What was chosen so that emulated devices are like the published ones, and what follows from it."""
    if not manifest.testbed.emulated:
        return ""
    parts: dict[str, None] = {}
    for device in manifest.testbed.devices:
        title, values = str(device.model), _values(device)
        chosen = CHOSEN.get(title, {}).items() if reference.name == _CHOSEN_FOR else ()
        names = [f"{name} {_parameter(name, value)}" for name, value in chosen if values.get(name) == value]
        if names:
            parts[f"{' and '.join(names)} ({title})"] = None
    if not parts:
        return "The devices are models: bands inside the published ranges say nothing about hardware."
    return (
        f"The devices are models. These values were chosen so that they resemble the published ones: "
        f"{'; '.join(parts)}. That the bands lie in the published ranges is therefore no discovery."
    )


def _values(device: Device) -> Json:
    """The parameters of the model of an emulated device; times in ns."""
    model = device.parameters or {}
    return model.get(str(model.get("model"))) or {}


def _parameter(name: str, value: float) -> str:
    return f"{value:g} %" if name.endswith("_percent") else format_latency(value / 1e3)
