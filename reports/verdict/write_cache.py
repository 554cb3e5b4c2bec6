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

from kit.store.slog_test import DSYNC, FLUSHED, SlogTest, edges
from reports.statistics.quantiles import percentile_ns

# The shortest time in which NAND flash programs a page.
PROGRAM_US = 200.0
# Larger writes may overflow a small cache, whose end then waits for the flash with or without FLUSH.
_SMALL_BYTES = 64 << 10

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
    small = {size: us for size, us in costs.items() if size <= _SMALL_BYTES} or costs
    most = max(small.values())
    slow = [size for size, us in small.items() if us >= PROGRAM_US]
    if slow:
        return WriteCache(
            "not-protected",
            "Not consistent with power-loss protection: FLUSH waits for the medium.",
            f"FLUSH takes {_shown(small[slow[0]])} at the median after a write of {_size(slow[0])}; flash "
            f"takes {PROGRAM_US:.0f} us or longer to program a page",
        )
    says = f"it says that its cache is volatile, and answers FLUSH in {_shown(most)} or less"
    if (percent := test.device.capacitor_health) is not None:
        return WriteCache("protected", _PROTECTED, f"{says}; its log has capacitors, at {percent} %")
    return _unknown(
        f"{says}: the cache is protected in spite of that, or FLUSH is ignored. Only a power loss shows which"
    )


def _without_flush(test: SlogTest) -> WriteCache:
    durable = _medians(test, DSYNC, "durable")
    small = {size: us for size, us in durable.items() if size <= _SMALL_BYTES} or durable
    if not small:
        return _unknown("too few writes were measured")
    size, least = min(small.items(), key=lambda item: item[1])
    says = (
        f"it says that it has no volatile cache, and takes {_shown(least)} for a write of {_size(size)} at "
    )
    says += "the median"
    if least < PROGRAM_US:
        return WriteCache(
            "protected",
            _PROTECTED,
            f"{says}; flash takes {PROGRAM_US:.0f} us or longer to program a page",
        )
    return WriteCache(
        "cache-off",
        "Its write cache is off, or it has none: each write waits for the medium.",
        says,
    )


def _unknown(why: str) -> WriteCache:
    return WriteCache("unknown", "Whether its write cache is protected cannot be told.", why)


def _medians(test: SlogTest, method: str, name: str) -> dict[int, float]:
    """Median in us by size, where there are enough writes."""
    medians = {}
    for forces in test.by_size(method):
        latencies = getattr(forces, name)
        value = latencies and percentile_ns(edges(latencies), 0.5, (latencies.min_ns, latencies.max_ns))
        if value is not None:
            medians[forces.block_bytes] = value / 1e3
    return medians


def _shown(us: float) -> str:
    return f"{us:.3g} us" if us < 1000 else f"{us / 1e3:.3g} ms"


def _size(size_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes < 1024 else f"{size_bytes >> 10} KiB"
