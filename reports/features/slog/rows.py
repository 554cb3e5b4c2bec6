"""The rows of a device's forced writes, for a table of text and for a page. Latencies in us, as text."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.table import Row
from kit.core.units import format_binary_bytes, format_factor, three_digits
from kit.store.parts.forces import Latencies
from kit.store.printed.slog import DSYNC, FLUSH_IDLE, FLUSHED, READ_CACHED, SlogTest
from reports.statistics.quantiles import figures_us

QUANTILES = ("p50_us", "p99_us", "p999_us")
HEAD = (
    "size", "write\np50", "p99", "FLUSH\np50", "p99",
    "both\np50", "p99", "p99.9", "O_DSYNC\np50", "p99", "p99.9",
)  # fmt: skip
THREADS_HEAD = ("threads", "forces/s", "p50", "p99", "p99.9")
WITHHELD = "-"


def identity(test: SlogTest) -> str:
    """Name, firmware and size of the device."""
    device = test.device
    name = f"{device.name}: {device.emulated} (emulated)" if device.emulated else device.model or device.name
    firmware = f", firmware {device.firmware}" if device.firmware else ""
    return f"{name}{firmware}, {format_binary_bytes(device.size_bytes)}"


def state(test: SlogTest) -> str:
    """What was done to the device before."""
    before = test.state
    if before.kind == "aged":
        # A damaged manifest may have no size.
        times = format_factor(before.filled_bytes / max(test.device.size_bytes, 1), 2)
        filled = f"aged: {times} its capacity was written"
        return f"{filled} (in run {before.aged_in})" if before.aged_in else filled
    return f"fresh: purged with {before.purge}" if before.kind == "fresh" else "as it was found"


def by_size(test: SlogTest) -> Iterator[Row]:
    """Of one thread."""
    durable = {forces.record_bytes: forces for forces in test.by_size(DSYNC)}
    for forces in test.by_size(FLUSHED):
        write, flush = shown(forces.write), shown(forces.force if test.flushes else None)
        both, dsync = (
            shown(each.group if each else None) for each in (forces, durable.get(forces.record_bytes))
        )
        ends = [each[name] for each in (write, flush) for name in QUANTILES[:2]]
        yield (format_binary_bytes(forces.record_bytes), *ends, *both.values(), *dsync.values())


def by_threads(test: SlogTest) -> Iterator[Row]:
    """Of 4 KiB with FLUSH."""
    for forces in test.by_threads():
        yield (str(forces.threads), f"{forces.forces_per_s:.0f}", *shown(forces.group).values())


def idle(test: SlogTest) -> Iterator[str]:
    """What a command takes that brings nothing to the medium."""
    names = {FLUSH_IDLE: "FLUSH with nothing to write", READ_CACHED: "4 KiB read again and again"}
    for method, name in names.items():
        for forces in test.by_size(method):
            p50, p99, _ = shown(forces.force or forces.group).values()
            yield f"{name}: p50 {p50}, p99 {p99}"


def quantiles(latencies: Latencies) -> dict[str, float | None]:
    """In us; None where the writes are too few."""
    figures = figures_us(latencies.edges, (latencies.min_ns, latencies.max_ns))
    return {name: figures[name] for name in QUANTILES}


def shown(latencies: Latencies | None) -> dict[str, str]:
    """The same as text."""
    if latencies is None:
        return dict.fromkeys(QUANTILES, WITHHELD)
    values = quantiles(latencies).items()
    return {name: WITHHELD if us is None else three_digits(us) for name, us in values}
