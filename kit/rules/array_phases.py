"""Phases on an md array: what cannot be. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kit.config.tables.phase_table import ARRAY, LEAST_MEMBERS, ArrayLayout, Phase
from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.config.toml_lines import KeyProblems
from kit.core.text import counted
from kit.core.units import format_size_bytes

# At the begin of each member are the superblock and room for it (mdadm --examine: Data Offset).
_HEAD_BYTES = 1 << 20


def bytes_of(layout: ArrayLayout, sizes: Sequence[int]) -> int:
    """The most that the array of devices of these sizes holds; mdadm decides how much less."""
    number = len(sizes)
    held = {"raid0": number, "raid1": 1, "raid5": number - 1, "raid10": number / 2}[layout.level]
    return int(max(0, min(sizes) - _HEAD_BYTES) // layout.chunk * layout.chunk * held)


def problems(phase: Phase, devices: Sequence[Device], testbed: Testbed) -> KeyProblems:
    """`devices`: those that the phase may have, all data devices but where it names some."""
    layout = phase.array
    assert layout is not None, "it is a phase on an array"
    least = LEAST_MEMBERS[layout.level]
    if layout.members is not None and layout.members > len(devices):
        yield (
            ("array", "members"),
            f"{layout.members}: the phase has {counted(len(devices), 'data device')} of the testbed "
            f"'{testbed.name}': add devices, or write fewer members",
        )
        return
    members = devices[: layout.members]
    if len(members) < least:
        yield (
            ("array", "level"),
            f'"{layout.level}" needs at least {counted(least, "device")}, and the phase has '
            f"{len(members)} of the testbed '{testbed.name}': add data devices, or choose another level",
        )
        return
    smallest = min(device.size for device in members)
    larger = [device for device in members if device.size > smallest]
    if larger:
        lost = sum(device.size - smallest for device in larger)
        what = (
            f"past {format_size_bytes(smallest)} of each, stripes would have fewer members"
            if layout.level == "raid0"
            else f"{format_size_bytes(lost)} of {', '.join(each.name for each in larger)} would be unused"
        )
        yield (
            ("array", "level"),
            f"the members are of unlike size ({_sizes(members)}): {what}: name devices of one size in "
            "devices",
        )
    if any(device.name == ARRAY for device in testbed.device):
        yield ("target",), f"a device of the testbed is called '{ARRAY}', as the array is: rename it"
    if bytes_of(layout, [device.size for device in members]) < layout.chunk:
        yield (
            ("array", "chunk"),
            f"{format_size_bytes(layout.chunk)}: not one fits on members of {format_size_bytes(smallest)}: "
            "choose a smaller one",
        )


def _sizes(members: Sequence[Device]) -> str:
    return ", ".join(f"{device.name} {format_size_bytes(device.size)}" for device in members)
