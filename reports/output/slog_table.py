"""The result of `hsp slog` as text, and as one row that anybody can share. Latencies in us."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.table import Row, TextTable
from kit.core.text import safe_text
from kit.core.units import format_binary_bytes, format_factor, three_digits
from kit.store.labels import EMULATED
from kit.store.parts.forces import Latencies
from kit.store.slog import DSYNC, FLUSH_IDLE, FLUSHED, JOURNAL, READ_CACHED, THREADS, SlogTest
from kit.store.stored import Json
from reports.statistics.quantiles import figures_us
from reports.verdict.slog_write_cache import CacheVerdict

_QUANTILES = ("p50_us", "p99_us", "p999_us")
_HEAD = (
    "size", "write\np50", "p99", "FLUSH\np50", "p99",
    "both\np50", "p99", "p99.9", "O_DSYNC\np50", "p99", "p99.9",
)  # fmt: skip
_THREADS_HEAD = ("threads", "forces/s", "p50", "p99", "p99.9")
_WITHHELD = "-"
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
    yield f"{_identity(test)}, {_state(test)}{lab}"
    yield f"kernel {test.kernel}, {test.utc[:10]}; write cache: {device.write_cache or 'not known'}" + (
        "" if test.flushes else "; the kernel sends no FLUSH"
    )
    yield ""
    yield "Latency in µs, one write at a time; O_DSYNC is the write with FUA, then FLUSH"
    yield from TextTable(_HEAD, list(_by_size(test)), range(len(_HEAD))).lines(width, "  ")
    yield from _idle(test)
    yield ""
    yield "4 KiB, write and FLUSH, by threads"
    rows = [
        (str(forces.threads), f"{forces.forces_per_s:.0f}", *_shown(forces.group).values())
        for forces in test.by_threads()
    ]
    yield from TextTable(_THREADS_HEAD, rows, range(len(_THREADS_HEAD))).lines(width, "  ")
    yield ""
    yield from _diskinfo(test)
    yield from _ceph(test)
    yield ""
    yield cache.sentence
    yield f"  {cache.why}."


def side_by_side(tests: Sequence[tuple[SlogTest, CacheVerdict]], width: int) -> Iterator[str]:
    """One line a device, then what is said of each; names of the host are inert in it."""
    rows: list[Row] = []
    for test, _ in tests:
        durable = {forces.record_bytes: _shown(forces.group) for forces in test.by_size(FLUSHED)}
        rates = {forces.threads: f"{forces.forces_per_s:.0f}" for forces in test.by_threads()}
        sizes = [value for size in _BESIDE for value in durable.get(size, _shown(None)).values()]
        rows.append((test.device.name, *sizes, *(rates.get(each, _WITHHELD) for each in (1, THREADS[-1]))))
    yield "Side by side: write and FLUSH, latency in µs; 4 KiB forces a second by 1 and by 16 threads"
    yield from map(safe_text, TextTable(_BESIDE_HEAD, rows, range(1, len(_BESIDE_HEAD))).lines(width, "  "))
    for test, cache in tests:
        yield safe_text(f"{_identity(test)}, {_state(test)}: {cache.sentence}")


def row(test: SlogTest, cache: CacheVerdict) -> Json:
    """One row of a table of models: nothing in it says whose the device is."""
    device = test.device
    rows: Json = {
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
        for name, value in _quantiles(forces.group).items():
            rows[f"write_flush_{forces.record_bytes}_{name}"] = value
    for forces in test.by_threads():
        rows[f"forces_per_s_4096_{forces.threads}"] = round(forces.forces_per_s, 1)
    return rows


def _identity(test: SlogTest) -> str:
    device = test.device
    name = f"{device.name}: {device.emulated} (emulated)" if device.emulated else device.model or device.name
    firmware = f", firmware {device.firmware}" if device.firmware else ""
    return f"{name}{firmware}, {format_binary_bytes(device.size_bytes)}"


def _state(test: SlogTest) -> str:
    state = test.state
    if state.kind == "aged":
        times = format_factor(state.filled_bytes / test.device.size_bytes, 2)
        filled = f"aged: {times} its capacity was written"
        return f"{filled} (in run {state.aged_in})" if state.aged_in else filled
    return f"fresh: purged with {state.purge}" if state.kind == "fresh" else "as it was found"


def _by_size(test: SlogTest) -> Iterator[Row]:
    durable = {forces.record_bytes: forces for forces in test.by_size(DSYNC)}
    for forces in test.by_size(FLUSHED):
        write, flush = _shown(forces.write), _shown(forces.force if test.flushes else None)
        both, dsync = _shown(forces.group), _shown(durable[forces.record_bytes].group)
        ends = [each[name] for each in (write, flush) for name in _QUANTILES[:2]]
        yield (format_binary_bytes(forces.record_bytes), *ends, *both.values(), *dsync.values())


def _idle(test: SlogTest) -> Iterator[str]:
    """What a command takes that brings nothing to the medium."""
    names = {FLUSH_IDLE: "FLUSH with nothing to write", READ_CACHED: "a sector read again and again"}
    for method, name in names.items():
        for forces in test.by_size(method):
            p50, p99, _ = _shown(forces.force or forces.group).values()
            yield f"  {name}: p50 {p50}, p99 {p99}"


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


def _quantiles(latencies: Latencies) -> dict[str, float | None]:
    """In us; None where the writes are too few."""
    figures = figures_us(latencies.edges, (latencies.min_ns, latencies.max_ns))
    return {name: figures[name] for name in _QUANTILES}


def _shown(latencies: Latencies | None) -> dict[str, str]:
    if latencies is None:
        return dict.fromkeys(_QUANTILES, _WITHHELD)
    values = _quantiles(latencies).items()
    return {name: _WITHHELD if us is None else three_digits(us) for name, us in values}
