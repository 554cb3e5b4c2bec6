"""Options of a fio job that bypass what the kit sets, or hide what it measures. Pure.

Sources: fio's HOWTO; backend.c (keep_running, do_io), filesetup.c, init.c of fio 3.33 and 3.39.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.config.fio_job import DIRECTORY, RUNTIME, SIZE, FioJob, FioSection, parse_fio_bytes, part_bytes
from kit.config.toml import Place
from kit.core.units import format_size_bytes

_OF_WRITES = {"sync", "fsync", "fdatasync", "end_fsync"}
_OF_FILES = {"directory", "filesize", "fallocate", "create_on_open", "nrfiles", "openfiles"}
_OF_RANDOM = {"norandommap", "random_distribution", "random_generator"}
# Engines that have one I/O on the way whatever iodepth says; psync is fio's default on Linux.
_ONE_AT_A_TIME = frozenset({"psync", "sync", "pvsync"})

SECTOR_BYTES = 512

Problems = Iterator[tuple[Place, str]]


def file_problems(job: FioJob) -> Problems:
    """Where fio would make its file, and what the plan does not count with."""
    for section in job.sections:
        if "offset" in section.options:
            yield (
                section.place_of("offset"),
                f"[{section.name}] offset: the plan counts with the whole working set: remove it (it is for "
                "phases on bare devices)",
            )
        if "directory" not in section.options:
            yield (
                section.place,
                f"[{section.name}]: directory is missing, so fio would make the file on the client's own "
                f"disk, where it happens to start: add directory={DIRECTORY}",
            )


def dataset_problems(job: FioJob) -> Problems:
    """I/O of a load on the server that would pass the ARC."""
    for section in job.sections:
        if section.options.get("direct", "0") == "1":
            yield (
                section.place_of("direct"),
                f"[{section.name}] direct=1: in the dataset it passes the ARC (since OpenZFS 2.3), "
                "so no tier but the pool's devices could answer: remove it",
            )


def device_problems(job: FioJob, device_bytes: int) -> Problems:
    """What only a file can have, and I/Os that are beyond the device or never reach it."""
    for section in job.sections:
        yield from _span_problems(section, device_bytes)
        for name in sorted(_OF_FILES & section.options.keys()):
            yield section.place_of(name), f"[{section.name}] {name}: a device has none: remove it"
        if section.options.get("direct", "0") != "1":
            yield (
                section.place_of("direct"),
                f"[{section.name}] direct=1 is missing: the page cache of the server would answer reads and "
                "collect writes, so the device's I/Os are not fio's: add direct=1",
            )


def _span_problems(section: FioSection, device_bytes: int) -> Problems:
    """The part of the device that the section takes; without `size` it is all from `offset` on.

    fio itself makes parts in % whole blocks.
    """
    offset, size = (section.options.get(each, "") for each in ("offset", "size"))
    first, part, block = part_bytes(offset, device_bytes), part_bytes(size, device_bytes), section.block_bytes
    of_offset = section.place_of("offset"), f"[{section.name}] offset={offset}"
    of_size = section.place_of("size"), f"[{section.name}] size={size}"
    room = device_bytes - first
    if block % SECTOR_BYTES:
        text = f"{block} bytes, and direct I/O is in sectors: write a multiple of {SECTOR_BYTES}"
        yield section.place_of("bs"), f"[{section.name}] bs: {text}"
        return
    if _bytes(offset) % SECTOR_BYTES:
        near = first // SECTOR_BYTES * SECTOR_BYTES
        text = f"direct I/O begins at a sector of {SECTOR_BYTES} bytes"
        yield of_offset[0], f"{of_offset[1]}: {text}: write a multiple, such as offset={near}"
    if size and not part:
        text = "no I/O fits into nothing (fio would take all of the device)"
        yield of_size[0], f"{of_size[1]}: {text}: write a part, such as size=10%, or size={SIZE}"
    elif _bytes(size) % block:
        near = max(part // block, 1) * block
        text = f"not whole I/Os of {block} bytes (bs), so the rest is never reached"
        yield of_size[0], f"{of_size[1]}: {text}: write a multiple, such as size={near}"
    if first and room < block:
        yield (
            of_offset[0],
            f"{of_offset[1]}: the device has {format_size_bytes(device_bytes)}, so no I/O of {block} bytes "
            "(bs) fits after it: write a smaller one, such as offset=50%",
        )
    elif first and part > room:
        fits = f"{100 - int(offset[:-1])}%" if offset.endswith("%") else str(room // block * block)
        yield (
            of_offset[0],
            f"{of_offset[1]}: with size={size} it is beyond the end of the device: write size={fits}, the "
            "largest that fits, or a smaller offset",
        )


def problems(job: FioJob, set_bytes: int, set_name: str) -> Problems:
    """Place and text of what no load may do, also one that is not measured.

    `set_bytes`: of the working set or device, which `set_name` is called.
    """
    for section in job.sections:
        yield from _size_problems(section, set_bytes, set_name)
        yield from _time_problems(section)
        for name in ("disable_lat", "disable_clat"):
            if section.options.get(name, "0") not in ("0", ""):
                yield (
                    section.place_of(name),
                    f"[{section.name}] {name}={section.options[name]}: fio would log no latencies, which the "
                    "kit measures: remove it",
                )
        depth, engine = section.options.get("iodepth", "1"), section.options.get("ioengine", "psync")
        if engine in _ONE_AT_A_TIME and int(depth) > 1:
            yield (
                section.place_of("iodepth"),
                f"[{section.name}] iodepth={depth}: ioengine={engine} has one I/O on the way at a time, so "
                f"the depth would be 1: write ioengine=libaio, or numjobs={depth} instead",
            )


def options_in_use(section: FioSection) -> dict[str, str]:
    """The options without those that its kind of load does not use (fio(1))."""
    unused = set()
    if len(section.operations) < 2:
        unused |= {"rwmixread"}
    if "write" not in section.operations:
        unused |= _OF_WRITES
    if not section.is_random:
        unused |= _OF_RANDOM
    return {name: value for name, value in section.options.items() if name not in unused}


def cache_problems(job: FioJob) -> Problems:
    """I/Os that the client's own cache would answer unnoticed; `direct=0` is a choice (kit.plan.notes)."""
    for section in job.sections:
        if "direct" not in section.options:
            what = "answer reads" if "read" in section.operations else "collect writes into others"
            yield (
                section.place,
                f"[{section.name}] direct is missing: the page cache of the client would {what}, so the "
                "server's I/Os are not the client's and cannot be compared: add direct=1",
            )


def _size_problems(section: FioSection, set_bytes: int, set_name: str) -> Problems:
    for name in ("size", "filesize", "io_size"):
        value = section.options.get(name, "")
        if (value.endswith("%") and int(value[:-1]) > 100) or _bytes(value) > set_bytes:
            what = "do more than" if name == "io_size" else "use more than"
            yield (
                section.place_of(name),
                f"[{section.name}] {name}={value}: fio would {what} its {format_size_bytes(set_bytes)} "
                f"({set_name}): write {name}={SIZE}",
            )
    for name in ("io_size", "number_ios"):
        value = section.options.get(name, SIZE)
        if value != SIZE and not (name == "io_size" and _bytes(value) > set_bytes):
            yield (
                section.place_of(name),
                f"[{section.name}] {name}={value}: fio ignores it beside time_based; how long the load runs "
                "is the duration of the workload: remove it",
            )


def _time_problems(section: FioSection) -> Problems:
    runtime = section.options.get("runtime")
    if runtime != RUNTIME:
        found = f"={runtime}" if runtime else " is missing"
        yield (
            section.place_of("runtime"),
            f"[{section.name}] runtime{found}: the duration of the phase or warm-up in the workload would be "
            f"ignored: write runtime={RUNTIME}",
        )
    if section.options.get("time_based", "0") == "0":
        yield (
            section.place_of("time_based"),
            f"[{section.name}] time_based is missing: fio would end as soon as it has done size once, before "
            "the duration in the workload is over: add time_based",
        )
    ramp = section.options.get("ramp_time", "0")
    if not re.fullmatch("0+[a-z]*", ramp):
        yield (
            section.place_of("ramp_time"),
            f"[{section.name}] ramp_time={ramp}: the server answers its I/Os, but fio does not log them, so "
            "the counts could not agree: remove it, and warm up with the table [warmup] of the workload",
        )


def _bytes(value: str) -> int:
    """A size of a checked job; 0 for a variable, a percentage or none."""
    return parse_fio_bytes(value) if value and not value.startswith("$") and not value.endswith("%") else 0
