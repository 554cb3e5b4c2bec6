"""Whether a device's own DRAM answers reads: small sets read again, against reads of the whole device.

Before the pool is made, of the devices whose reads are measured, by reads alone, of at most 20 s each:

1  random reads of 4 KiB of the whole device, one at a time
2  a set of 8 MiB in its middle: all of it in order, then random reads as before; then 16 MiB, and so on

The device answers a set from DRAM if 80 % of its reads take less than half of what the fastest 10 % of the
whole device take. Drawn alike, they do not by chance (hypergeometric: below 1e-20). Short seeks do not look
like it, as a platter has to turn; parts of an SSD that were never written do not, if they are more than 10 %.
It misses DRAM that answers reads of the whole device, and DRAM that is not faster than flash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kit.config.tables.precondition_table import Role
from kit.config.testbed_devices import DRAM_MULTIPLE, Device
from kit.core.clock import Clock
from kit.core.errors import KitError, MeasurementUnknown
from kit.core.units import format_iec, format_latency
from kit.hosts.base import Host, HostLost
from kit.hosts.held_device import HeldDevice
from kit.load import block_device, fio
from kit.load.block_device import FILL_BLOCK, DeviceLoad
from kit.setup.context import Context
from kit.sizes.workload_sizes import layout_of, planned_tiers, special_parts, tiers_asked
from kit.store.parts.machine import DramProbe

_Tier = Literal["disk", "special", "l2arc"]
_ROLES: dict[_Tier, Role] = {"disk": "data", "special": "special", "l2arc": "cache"}
_READS, _BLOCK_BYTES = 128, 4096
_LEAST_SET_BYTES = 8 << 20
# The part of the device that a set may be: the set is held against the other parts.
_MOST_SHARE = 4
_FASTER = 2
# In ns of the experiment: of one call of fio; no larger set begins after so long.
_LONGEST_NS, _ENOUGH_NS = 5 * 10**9, 10 * 10**9
_DEADLINE_S = 600.0


@dataclass(frozen=True)
class ProbeReads:
    """Latencies of a call of fio, and its duration, in ns. `ended`: with its last read, not by its limit."""

    p10_ns: int
    p50_ns: int
    p80_ns: int
    took_ns: int
    ended: bool


@dataclass(frozen=True)
class ProbedDevice:
    """A device on the server. `held`: None for an emulated one; `output`: a file there, for fio."""

    host: Host
    path: str
    held: HeldDevice | None
    size_bytes: int
    clock: Clock
    output: str

    def at_random(self, span_bytes: int, offset_bytes: int = 0) -> ProbeReads:
        span = span_bytes // _BLOCK_BYTES * _BLOCK_BYTES
        return self._read("randread", _BLOCK_BYTES, span, _READS * _BLOCK_BYTES, offset_bytes, 1)

    def in_order(self, span_bytes: int, offset_bytes: int) -> ProbeReads:
        return self._read("read", FILL_BLOCK, span_bytes, span_bytes, offset_bytes, block_device.FILL_DEPTH)

    def _read(self, pattern: str, block: int, span: int, total: int, offset: int, depth: int) -> ProbeReads:
        load = DeviceLoad(
            self.path, pattern, block, span, total, span // block, offset, depth, device=self.held
        )
        argv = load.argv(self.output, runtime_us=self.clock.to_host_ns(_LONGEST_NS) // 1000)
        self.host.run(argv, deadline_s=_DEADLINE_S)
        return parse(self.host.get(self.output).decode(errors="replace"), total, self.clock)


def parse(text: str, total_bytes: int, clock: Clock) -> ProbeReads:
    """From fio's JSON of one job that reads `total_bytes`. Raises MeasurementUnknown."""
    try:
        job = fio.parse_output(text)[0]["read"]
        percentiles = job["clat_ns"]["percentile"]
        p10, p50, p80 = (clock.from_host_ns(int(percentiles[f"{at}.000000"])) for at in (10, 50, 80))
        took_ns = clock.from_host_ns(int(job["runtime"]) * 10**6)
        return ProbeReads(p10, p50, p80, took_ns, int(job["io_bytes"]) >= total_bytes)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MeasurementUnknown(f"fio's JSON has no latencies of reads ({error!r})") from None


def probe(target: ProbedDevice) -> DramProbe:
    """Read the device. Raises HostError, MeasurementUnknown."""
    whole = target.at_random(target.size_bytes)
    if not whole.ended:
        raise MeasurementUnknown(f"{_READS} reads of {target.path} did not end in {_LONGEST_NS / 1e9:g} s")
    middle = target.size_bytes // 2 // FILL_BLOCK * FILL_BLOCK
    size, answered, spent_ns, last = _LEAST_SET_BYTES, 0, whole.took_ns, whole
    beyond = None
    while size <= target.size_bytes // _MOST_SHARE and spent_ns < _ENOUGH_NS:
        filled = target.in_order(size, middle)
        again = target.at_random(size, middle) if filled.ended else filled
        if not again.ended:
            break
        if again.p80_ns * _FASTER >= whole.p10_ns:
            beyond, last = size, last if answered else again
            break
        answered, last = size, again
        spent_ns += filled.took_ns + again.took_ns
        size *= 2
    return DramProbe(
        answered_bytes=answered, beyond_bytes=beyond, again_p50_ns=last.p50_ns, whole_p50_ns=whole.p50_ns
    )


def probe_all(run: Context, server: Host) -> None:
    """Probe the devices that tiers of reads need and whose DRAM is not declared; then judge the sizes."""
    measured = [*_measured(run)]
    found: dict[str, DramProbe] = {}
    for _, device in measured:
        if device.has_unknown_dram:
            path, guard = run.site.device_paths[device.name], run.site.guard
            held, output = guard.held(path) if guard else None, f"{run.names.work_dir}/dram.json"
            with run.progress.step(f"{device.name}: looking for DRAM of its own"):
                try:
                    target = ProbedDevice(server, path, held, device.size, run.site.clock, output)
                    found[device.name] = probe(target)
                except HostLost:
                    raise
                except KitError as error:
                    run.record.add_notes(f"{device.name}: DRAM of its own is not known: {error.message}.")
    run.record.fill_devices({name: {"dram_probe": each} for name, each in found.items()})
    for tier, device in measured:
        run.record.add_problems("device-dram", *_too_small(run, tier, device, found.get(device.name)))


def _measured(run: Context) -> Iterator[tuple[_Tier, Device]]:
    """Tier and device, of the tiers of reads that are asked for."""
    asked = tiers_asked(run.plan.workload)
    return (
        (tier, device)
        for tier, role in _ROLES.items()
        if tier in asked
        for device in run.plan.testbed.devices(role)
    )


def _too_small(run: Context, tier: _Tier, device: Device, found: DramProbe | None) -> Iterator[str]:
    """Why DRAM of the device, which was found or is declared, may answer reads of the tier."""
    workload, testbed = run.plan.workload, run.plan.testbed
    dram = found.answered_bytes if found else device.dram or 0
    held = planned_tiers(workload, testbed)
    of_tier = held.of(tier) if held else workload.file_set.size
    layout = layout_of(workload, testbed)
    vdevs = {"special": len(special_parts(workload, testbed)), "l2arc": len(testbed.devices("cache"))}
    on_device = layout.device_bytes(of_tier) if tier == "disk" else of_tier // vdevs[tier]
    if on_device >= DRAM_MULTIPLE * dram:
        return
    known = "by the testbed"
    if found:
        p50s = [format_latency(ns / 1e3) for ns in (found.again_p50_ns, found.whole_p50_ns)]
        known = "or more: what was read before took {} instead of {}".format(*p50s)
    yield (
        f"{device.name} answers reads from DRAM of its own ({format_iec(dram)} {known}). Of the tier {tier} "
        f"it has {format_iec(on_device)}, less than {DRAM_MULTIPLE} times as much: DRAM may answer up to "
        f"{min(1.0, dram / max(on_device, 1)):.0%} of the reads that count as {tier}"
    )
