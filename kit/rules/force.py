"""Phases with `force`: what cannot be, or cannot be measured where it goes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.tables.force_table import FORCED_WRITES, PAGE_BYTES, ForceTable
from kit.config.tables.nfs_options import call_bytes
from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.toml_lines import KeyPath, KeyProblems
from kit.config.workload import Workload
from kit.core.units import format_size_bytes
from kit.rules.array_phases import bytes_of as array_bytes
from kit.store.parts.forces import READ_CACHED

_WRITETHROUGH = (
    "n/a on Linux: it is F_FULLFSYNC of macOS and FlushFileBuffers of Windows, for which pg_test_fsync has a "
    "row: write fsync, which reaches the medium here"
)

_FOR_DEVICES = 'it is for bare devices: write target = "device:log", or remove it'


def problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    """Key and text."""
    for number, phase in enumerate(workload.phase):
        if phase.force is None:
            continue
        key: KeyPath = ("phase", number, "force")
        if phase.force.method == "fsync_writethrough":
            yield (*key, "method"), _WRITETHROUGH
        if not phase.on_devices and (phase.force.random or not phase.force.writes):
            name = "random" if phase.force.random else "method"
            yield (*key, name), _FOR_DEVICES
        of_target = _on_device(phase, phase.force, testbed) if phase.on_devices else ()
        if phase.target == "nfs":
            of_target = _over_nfs(phase.force, workload, testbed)
        elif phase.target == "dataset":
            of_target = _in_dataset(phase.force, testbed)
        yield from (((*key, name) if name else key, text) for name, text in of_target)


def _on_device(phase: Phase, force: ForceTable, testbed: Testbed) -> Iterator[tuple[str, str]]:
    if phase.each == "together":
        yield "", 'forced writes to several devices together have no common start: write each = "in turn"'
    if force.append:
        yield "append", 'a device has no end to append to: remove append, or write target = "nfs"'
    if force.files > 1:
        yield (
            "files",
            f"{force.files} files, and a device has none: write files = 1 and threads = {force.threads}",
        )
    if not force.direct and force.record % PAGE_BYTES:
        yield (
            "record",
            f"{force.record} bytes, and the page cache of a device has pages of {PAGE_BYTES}: it would read "
            f"a part of one before it writes it. Write a multiple of {PAGE_BYTES}, or direct = true and a "
            "multiple of 512",
        )
    if force.method == READ_CACHED and not force.direct:
        yield "direct", "the page cache would answer the reads: write direct = true"
    if not force.random:
        yield from _fits(phase, force, testbed)


def _fits(phase: Phase, force: ForceTable, testbed: Testbed) -> Iterator[tuple[str, str]]:
    """What is written over is not larger than its device."""
    devices = testbed.devices_of(phase)
    sizes = {f"device '{each.name}' has {format_size_bytes(each.size)}": each.size for each in devices}
    if phase.array:
        most = array_bytes(phase.array, [each.size for each in devices])
        sizes = {f"array has {format_size_bytes(most)} at most": most}
    for found, size in sizes.items():
        if force.file > size:
            text = f"{format_size_bytes(force.file)} are written over, and the {found}: make file smaller"
            yield "file", text


def _over_nfs(force: ForceTable, workload: Workload, testbed: Testbed) -> Iterator[tuple[str, str]]:
    if testbed.is_appliance:
        yield (
            "",
            "the files of forced writes are made on the server, and this one is an appliance: use a fio job",
        )
        return
    if workload.nfs.engine != "kernel":
        yield "", "forced writes go through a mount: remove engine from [nfs]"
    if force.method == "none":
        yield (
            "method",
            "over NFS a write that nothing forces ends in the client's page cache, and the server sees it at "
            'any time later: write target = "device:log", or force it',
        )
    each_bytes = force.record if force.direct or force.method in FORCED_WRITES else force.group_bytes
    most = call_bytes("wsize", workload.nfs.options)
    if each_bytes + (0 if force.direct else 2 * PAGE_BYTES) > most:
        yield (
            "record" if force.per_force == 1 else "per_force",
            f"{format_size_bytes(each_bytes)} at once, and a WRITE has {format_size_bytes(most)} at most "
            "(wsize): one force would be several calls, which cannot be compared: make it smaller",
        )
    yield from _room(force, testbed, len(testbed.client))


def _in_dataset(force: ForceTable, testbed: Testbed) -> Iterator[tuple[str, str]]:
    if force.direct:
        yield (
            "direct",
            "in the dataset it passes the ARC where the record is whole (OpenZFS 2.3), and does nothing "
            "elsewhere: write direct = false",
        )
    yield from _room(force, testbed)


def _room(force: ForceTable, testbed: Testbed, clients: int = 1) -> Iterator[tuple[str, str]]:
    if clients * force.files * force.file * 2 > sum(device.size for device in testbed.devices("data")):
        yield "file", "the files do not fit twice into the data devices: make file smaller, or files fewer"
