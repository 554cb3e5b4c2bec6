"""The result of `hsp slog` as text, and as one row that anybody can share. Latencies in us."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.table import Row, TextTable
from kit.core.text import safe_text
from kit.store.labels import EMULATED
from kit.store.printed.slog import FLUSHED, JOURNAL, THREADS, SlogTest
from kit.store.stored import Json
from reports.features.slog import rows
from reports.features.slog.write_cache import CacheVerdict

_BESIDE = (4 << 10, 64 << 10)
_BESIDE_HEAD = (
    "device", "4 KiB\np50", "p99", "p99.9", "64 KiB\np50", "p99", "p99.9", "forces/s\n1 thread", "16 threads",
)  # fmt: skip
_MIB = 1 << 20


def text(test: SlogTest, cache: CacheVerdict, width: int) -> Iterator[str]:
    """The lines of the terminal; names of the host are inert in them."""
    return map(safe_text, _lines(test, cache, width))


def _lines(test: SlogTest, cache: CacheVerdict, width: int) -> Iterator[str]:
    device = test.device
    lab = f". {EMULATED}" if device.emulated else ""
    yield f"{rows.identity(test)}, {rows.state(test)}{lab}"
    yield f"kernel {test.kernel}, {test.utc[:10]}; write cache: {device.write_cache or 'not known'}" + (
        "" if test.flushes else "; the kernel sends no FLUSH"
    )
    yield ""
    yield "Latency in µs, one write at a time; O_DSYNC is the write with FUA, then FLUSH"
    yield from TextTable(rows.HEAD, list(rows.by_size(test)), range(len(rows.HEAD))).lines(width, "  ")
    yield from (f"  {line}" for line in rows.idle(test))
    yield ""
    yield "4 KiB, write and FLUSH, by threads"
    head = rows.THREADS_HEAD
    yield from TextTable(head, list(rows.by_threads(test)), range(len(head))).lines(width, "  ")
    yield ""
    yield from _diskinfo(test)
    yield from _ceph(test)
    yield ""
    yield cache.sentence
    yield f"  {cache.why}."


def side_by_side(tests: Sequence[tuple[SlogTest, CacheVerdict]], width: int) -> Iterator[str]:
    """One line a device, then what is said of each; names of the host are inert in it."""
    devices: list[Row] = []
    for test, _ in tests:
        durable = {forces.record_bytes: rows.shown(forces.group) for forces in test.by_size(FLUSHED)}
        rates = {forces.threads: f"{forces.forces_per_s:.0f}" for forces in test.by_threads()}
        sizes = [value for size in _BESIDE for value in durable.get(size, rows.shown(None)).values()]
        ends = (rates.get(each, rows.WITHHELD) for each in (1, THREADS[-1]))
        devices.append((test.device.name, *sizes, *ends))
    yield "Side by side: write and FLUSH, latency in µs; 4 KiB forces a second by 1 and by 16 threads"
    yield from map(
        safe_text, TextTable(_BESIDE_HEAD, devices, range(1, len(_BESIDE_HEAD))).lines(width, "  ")
    )
    for test, cache in tests:
        yield safe_text(f"{rows.identity(test)}, {rows.state(test)}: {cache.sentence}")


def row(test: SlogTest, cache: CacheVerdict) -> Json:
    """One row of a table of models: nothing in it says whose the device is."""
    device = test.device
    found: Json = {
        "model": device.emulated or device.model,
        "emulated": device.emulated is not None,
        "firmware": device.firmware,
        "size_bytes": device.size_bytes,
        "transport": device.transport,
        "write_cache": device.write_cache,
        "power_loss_protection": cache.code,
        "state": test.state.kind,
        "kernel": test.kernel,
        "date": test.utc[:10],
        "kit": test.kit,
    }
    for forces in test.by_size(FLUSHED):
        for name, value in rows.quantiles(forces.group).items():
            found[f"write_flush_{forces.record_bytes}_{name}"] = value
    for forces in test.by_threads():
        found[f"forces_per_s_4096_{forces.threads}"] = round(forces.forces_per_s, 1)
    return found


def _diskinfo(test: SlogTest) -> Iterator[str]:
    """As `diskinfo -wS` of FreeBSD prints it (usr.sbin/diskinfo/diskinfo.c, slogbench): means, in MiB/s."""
    yield "As diskinfo -wS prints it:"
    yield "Synchronous random writes:"
    for forces in test.by_size(FLUSHED):
        us = forces.group.mean_ns / 1e3
        rate = forces.record_bytes / us * 1e6 / _MIB
        yield f"        {forces.record_bytes / 1024:4.4g} kbytes: {us:8.1f} usec/IO = {rate:8.1f} Mbytes/s"


def _ceph(test: SlogTest) -> Iterator[str]:
    """The usual test of Ceph's journal devices: fio --direct=1 --sync=1 --rw=write --bs=4k --numjobs=1."""
    for forces in test.by_size(JOURNAL):
        rate, mean_us = forces.forces_per_s, forces.group.mean_ns / 1e3
        yield "As the test of Ceph's journal devices (4k, direct, O_SYNC, one job): " + (
            f"IOPS={rate:.0f}, BW={rate * forces.record_bytes / _MIB:.1f}MiB/s, clat avg={mean_us:.1f} usec"
        )
