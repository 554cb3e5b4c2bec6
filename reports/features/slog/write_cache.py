"""What a device's forced writes say of its write cache: one of four sentences. Latencies in us.

FLUSH is the command by which a device writes its volatile cache to the medium. With capacitors for a power
loss the cache counts as stable, and FLUSH has nothing to do. Without them it waits until the medium has the
data. A slow FLUSH is not that: firmware, a bridge or a network may take as long. So a FLUSH with nothing to
write, and a read of what was just read, are measured and taken off: what is left grows with the
data. A device that says it has no volatile cache gets no FLUSH.

Timing is evidence, never a proof: a device that ignores FLUSH is as fast. Only a power loss shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kit.core.units import format_binary_bytes, format_latency
from kit.store.printed.slog import DSYNC, FLUSH_IDLE, FLUSHED, READ_CACHED, SlogTest
from reports.statistics.quantiles import percentile_ns

# No NAND flash is known that programs a page in less: XL-FLASH takes 75 us (ISSCC 2020), of which two bins
# of 3 % are left open.
MEDIUM_US = 70.0
# Larger writes may overflow a small cache, whose end then waits for the flash with or without FLUSH.
_SMALL_BYTES = 64 << 10
# Of the log of capacitors (Datacenter NVMe SSD Specification, SMART-19): what a proper shutdown takes.
_LEAST_CAPACITOR_PERCENT = 1

_PROTECTED = "Consistent with power-loss protection: writes do not wait for the medium."
_NOT_PROTECTED = "Not consistent with power-loss protection:"

Code = Literal["protected", "not-protected", "cache-off", "unknown"]


@dataclass(frozen=True)
class CacheVerdict:
    """`sentence` for people, `why` it was chosen."""

    code: Code
    sentence: str
    why: str


def judge(test: SlogTest) -> CacheVerdict:
    """The sentence that flags and latencies allow."""
    percent = test.device.capacitor_health
    if percent is not None and percent < _LEAST_CAPACITOR_PERCENT:
        text = f"{_NOT_PROTECTED} its capacitors are at {percent} %."
        why = f"its log says so; a shutdown takes {_LEAST_CAPACITOR_PERCENT} %"
        return CacheVerdict("not-protected", text, why)
    if test.device.write_cache == "write through":
        return _without_flush(test)
    if not test.flushes:
        return _unknown(f"the kernel does not say what write cache it has ({test.device.write_cache})")
    costs, idle = _medians(test, FLUSHED, "force"), _medians(test, FLUSH_IDLE, "force")
    if not costs:
        return _unknown("too few writes were flushed")
    # Each of them waits, whatever its size.
    size, least = min(costs.items(), key=lambda item: item[1])
    if not idle and least >= MEDIUM_US:
        return _unknown("a FLUSH with nothing to write was not measured, so the medium's part is not known")
    alone = f"{format_latency(max(idle.values()))} with nothing to write" if idle else "is faster than flash"
    if least - max(idle.values(), default=least) >= MEDIUM_US:
        return CacheVerdict(
            "not-protected",
            f"{_NOT_PROTECTED} FLUSH waits for what was written.",
            f"FLUSH takes {format_latency(least)} or longer at the median after writes up to "
            f"{format_binary_bytes(_SMALL_BYTES)} (least after {format_binary_bytes(size)}), and {alone}",
        )
    says = (
        f"it says that its cache is volatile, and FLUSH takes {format_latency(least)} after a write of "
        f"{format_binary_bytes(size)}, and {alone}"
    )
    if percent is not None:
        return CacheVerdict("protected", _PROTECTED, f"{says}; its log has capacitors, at {percent} %")
    return _unknown(
        f"{says}: the cache is protected in spite of that, or FLUSH is ignored. Only a power loss shows which"
    )


def _without_flush(test: SlogTest) -> CacheVerdict:
    costs, reads = _medians(test, DSYNC, "group"), _medians(test, READ_CACHED, "write")
    if not costs:
        return _unknown("too few writes were measured")
    size, least = min(costs.items(), key=lambda item: item[1])
    cost = f"{format_latency(least)} for a write of {format_binary_bytes(size)}"
    says = f"it says that it has no volatile cache, and takes {cost}"
    if least < MEDIUM_US:
        return CacheVerdict("protected", _PROTECTED, says)
    if not reads:
        return _unknown("a cached read was not measured, so the medium's part is not known")
    read_us = max(reads.values())
    says += f" at the median, and {format_latency(read_us)} for a read of what was just read"
    if least - read_us < MEDIUM_US:
        if read_us < MEDIUM_US:
            return CacheVerdict("protected", _PROTECTED, says)
        return _unknown(f"{says}: the way to it is slow, or the read came from the medium, too")
    text = "Its write cache is off, or it has none, or its firmware is slow: each write waits."
    return CacheVerdict("cache-off", text, says)


def _unknown(why: str) -> CacheVerdict:
    return CacheVerdict("unknown", "Whether its write cache is protected cannot be told.", why)


def _medians(test: SlogTest, method: str, name: str) -> dict[int, float]:
    """Median in us by size, where there are enough writes; of small ones, if there are such."""
    medians = {}
    for forces in test.by_size(method):
        latencies = getattr(forces, name)
        value = latencies and percentile_ns(latencies.edges, 0.5, (latencies.min_ns, latencies.max_ns))
        if value is not None:
            medians[forces.record_bytes] = value / 1e3
    return {size: us for size, us in medians.items() if size <= _SMALL_BYTES} or medians
