"""What a device's forced writes say of its write cache: one of four sentences. Latencies in us.

FLUSH is the command by which a device writes its volatile cache to the medium. With capacitors for a power
loss the cache counts as stable, and FLUSH has nothing to do. Without them it waits until the flash is
programmed, which takes 200 us (SLC) or longer (Agrawal et al., Design Tradeoffs for SSD Performance, 2008,
table 1), or until the platter has turned. A device that says it has no volatile cache gets no FLUSH.

Timing is evidence, never a proof: a device that ignores FLUSH is as fast. Only a power loss shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kit.core.units import format_latency, format_size_bytes
from kit.store.slog import DSYNC, FLUSHED, SlogTest, edges
from reports.statistics.quantiles import percentile_ns

# The shortest time in which NAND flash programs a page.
PROGRAM_US = 200.0
# Larger writes may overflow a small cache, whose end then waits for the flash with or without FLUSH.
_SMALL_BYTES = 64 << 10

_FLASH = f"flash takes {format_latency(PROGRAM_US)} or longer to program a page"
_PLATTER = "a platter has to turn to the place that is written"
_PROTECTED = "Consistent with power-loss protection: writes do not wait for the medium."

Code = Literal["protected", "not-protected", "cache-off", "unknown"]


@dataclass(frozen=True)
class WriteCache:
    """`sentence` for people, `why` it was chosen."""

    code: Code
    sentence: str
    why: str


def judge(test: SlogTest) -> WriteCache:
    """The sentence that flags and latencies allow."""
    if test.device.write_cache == "write through":
        return _without_flush(test)
    if not test.flushes:
        return _unknown(f"the kernel does not say what write cache it has ({test.device.write_cache})")
    costs = _medians(test, FLUSHED, "force")
    if not costs:
        return _unknown("too few writes were flushed")
    slow = next((size for size, us in costs.items() if us >= PROGRAM_US), None)
    if slow is not None:
        return WriteCache(
            "not-protected",
            "Not consistent with power-loss protection: FLUSH waits for the medium.",
            f"FLUSH takes {format_latency(costs[slow])} at the median after a write of "
            f"{format_size_bytes(slow)}; {_medium(test)}",
        )
    most = format_latency(max(costs.values()))
    says = f"it says that its cache is volatile, and answers FLUSH in {most} or less"
    if (percent := test.device.capacitor_health) is not None:
        return WriteCache("protected", _PROTECTED, f"{says}; its log has capacitors, at {percent} %")
    return _unknown(
        f"{says}: the cache is protected in spite of that, or FLUSH is ignored. Only a power loss shows which"
    )


def _without_flush(test: SlogTest) -> WriteCache:
    costs = _medians(test, DSYNC, "durable")
    if not costs:
        return _unknown("too few writes were measured")
    size, least = min(costs.items(), key=lambda item: item[1])
    cost = f"{format_latency(least)} for a write of {format_size_bytes(size)}"
    says = f"it says that it has no volatile cache, and takes {cost} at the median"
    if least < PROGRAM_US:
        return WriteCache("protected", _PROTECTED, f"{says}; {_medium(test)}")
    return WriteCache(
        "cache-off", "Its write cache is off, or it has none: each write waits for the medium.", says
    )


def _medium(test: SlogTest) -> str:
    return _PLATTER if test.device.rotational else _FLASH


def _unknown(why: str) -> WriteCache:
    return WriteCache("unknown", "Whether its write cache is protected cannot be told.", why)


def _medians(test: SlogTest, method: str, name: str) -> dict[int, float]:
    """Median in us by size, where there are enough writes; of small ones, if there are such."""
    medians = {}
    for forces in test.by_size(method):
        latencies = getattr(forces, name)
        value = latencies and percentile_ns(edges(latencies), 0.5, (latencies.min_ns, latencies.max_ns))
        if value is not None:
            medians[forces.block_bytes] = value / 1e3
    return {size: us for size, us in medians.items() if size <= _SMALL_BYTES} or medians
