"""The checks that a stored phase must have, and what their numbers can be. Pure.

A run stores the sums that its instruments made, each with a tolerance. Whether they close is not enough: a
sum may be missing, its tolerance may let everything pass, and it may be of other I/Os than the phase has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kit.store.checks.ids import UNKNOWN_ID
from kit.store.labels import LOGGED, METADATA, NFS_METADATA
from kit.store.manifest import Manifest
from kit.store.parts.resource_use import CpuSample, DeviceSample
from kit.store.phase import Check, Missing, Phase
from kit.store.tables import CLIENT, SERVER
from reports.verdict.stored_phase import Counted

# Of the instruments (kit.instruments), as docs/verdict.md has them.
_IOS, _READ_SHARE, _DBUF_SHARE, _ZIL_SHARE, _ASYNC_SHARE = 10, 0.02, 1 / 32, 0.005, 0.01
_STEP_US = 1_001_000
_SPLICE_BYTES = 16 * 4096
_MOST_CPUS = 1 << 16
_MOST_COMMITS = 4
_OTHER_CLOCK = 2
_TICKS_S = 100
# The clock of a guest that QEMU emulates ran 60 times as fast as that of its host, while it was idle.
_FASTEST = 100
_READS = ("ARC-HITS", "ARC-MISSES", "L2ARC-HITS")
_COMMITS = ("ZIL-COMMITS", "ZIL-SLOG-BLOCKS", "ZIL-POOL-BLOCKS")
# Sums of what must not be: nothing is expected.
_OP_WORDS = {"read": "read", "write": "writ"}
_ZERO = frozenset({
    "NFS-RETRANSMISSIONS", "L2ARC-ERRORS", "ZIL-INDIRECT", "ZIL-ERRORS", "ZIL-ASYNC-BYTES", "TRIM",
    "DIRECT-IO", "OTHER-POOL", "CPU-STEAL", "THERMAL", "CLOCK-STEP",
})  # fmt: skip
_COUNTERS = ("arc-zil-counters", "observed")
_INSTRUMENTS = {
    "DATASET-": ("observed",), "ARC-": _COUNTERS, "L2ARC-": _COUNTERS, "ZIL-": _COUNTERS,
    "NFS-": ("server-activity", "mount-statistics", "observed"), "TRIM": ("server-activity",),
    "DIRECT-IO": ("server-activity",), "OTHER-POOL": ("server-activity",), "CPU-STEAL": ("server-activity",),
    "DEVICE-BYTES": ("resource-use",), "ARRAY-BYTES": ("resource-use",), "THERMAL": ("host-health",),
    "CLOCK-STEP": ("host-health",), "DRIVE-THROTTLED": ("host-health",), "LINK-DEGRADED": ("host-health",),
    "SPECIAL-READS": ("resource-use",),
}  # fmt: skip
# Counters of the kernel are read a little later than the clock, are counted in jiffies of up to 10 ms, and
# may go back by some of them (idle time, proc(5)). The rest of the CPUs is interrupts, and a hypervisor.
_LATE, _EARLY, _JIFFIES_NS = 1.2, 0.3, 200_000_000
_CPU_TIMES = ("idle_ns", "user_ns", "system_ns", "softirq_ns")
_DEVICE_SUMS = tuple(name for name in DeviceSample.model_fields if name not in ("at_ns", "in_flight"))
# No device moves more: 100 GB/s.
_BYTES_PER_NS, _SECTOR_BYTES = 100, 512


def contradictions(manifest: Manifest, phase: Phase, ios: Counted) -> Iterator[str]:
    """Sentences without their phase."""
    for check in phase.checks:
        if check.tolerance > (most := _most(manifest, phase, check, ios)):
            yield f"{check.name} ({check.source}) has the tolerance {check.tolerance}, at most {most} can be"
    missing = _required(manifest, phase, ios) - _made(phase)
    for id_, count in missing.items():
        yield f"{count} of its checks {id_} {'is' if count == 1 else 'are'} missing"
    yield from _instruments(phase)
    yield from _devices(phase)
    yield from _of_its_ios(phase, ios, drives_load=manifest.kind.value.drives_load)
    yield from _out_of(phase, ios)
    yield from _of_callers(manifest, phase, ios)
    yield from _subjects(phase)
    yield from _machines(phase)
    yield from _drives(phase)
    yield from _samples(phase)


def _instruments(phase: Phase) -> Iterator[str]:
    for check in phase.checks:
        id_ = check.id
        by = next((names for prefix, names in _INSTRUMENTS.items() if id_.startswith(prefix)), ())
        if by and check.instrument not in by:
            yield f"{check.name} ({check.source}) is of the instrument {check.instrument}"
        if id_ in _ZERO and check.expected != 0:
            yield f"{check.name} ({check.source}) expects {check.expected}, it can expect 0 alone"
        if id_ != "CLOCK-STEP" and check.found < 0:
            yield f"{check.name} ({check.source}) found {check.found}, a counter cannot go back"


def _devices(phase: Phase) -> Iterator[str]:
    """Bytes of a device: of fio, of the kernel's counters and of its model, as the samples have them."""
    # Of a mix, or of forced writes, sizes are not known; of a phase in parts, samples are of one of them.
    if phase.parts or phase.forces or len(phase.block_bytes_by_op) > 1:
        return
    issued = {row.host: row.ios for row in phase.clients}
    for check in phase.checks:
        used = next((each for each in phase.devices if each.device == check.of), None)
        if check.id != "DEVICE-BYTES" or used is None or not used.samples:
            continue
        last, model, op = used.samples[-1], used.model, str(check.op)
        known = {last.read_bytes if op == "read" else last.written_bytes}
        known |= {model.read_bytes if op == "read" else model.written_bytes} if model else set()
        size = phase.block_bytes_by_op.get(op, 0 if phase.block_bytes_by_op else phase.block_bytes or 0)
        known.add(issued.get(used.device, 0) * size)
        if not {check.expected, check.found} <= known:
            yield f"{check.name} ({check.source}) has bytes that neither samples nor I/Os have"


def _made(phase: Phase) -> Counter[str]:
    made: list[Check | Missing] = [*phase.checks, *phase.unavailable]
    return Counter(each.id for each in made)


def _ops(phase: Phase) -> list[str]:
    by_op = {"mixed": ["read", "write"], None: []}.get(phase.op, [str(phase.op)])
    return list(phase.block_bytes_by_op) or by_op


def _required(manifest: Manifest, phase: Phase, ios: Counted) -> Counter[str]:
    """How many of each id the configuration implies; what a host cannot make is `unavailable`."""
    need: Counter[str] = Counter()
    # Those with their own checks: of one that was lost there is a line that says so.
    parts = sum(part.end != "lost" for part in phase.parts) if phase.parts else 1
    for machine in phase.machines:
        need += Counter({"CLOCK-STEP": 1, "THERMAL": 1}) if machine.host else Counter()
    known = manifest.kind.value
    if not known.drives_load:
        return need + _of_an_observation(manifest)
    # Clients without a mount of the kernel's count no calls.
    if phase.on_devices or not known.sees_server or not manifest.testbed.server:
        return need
    need += Counter(dict.fromkeys(("TRIM", "DIRECT-IO", "CPU-STEAL"), parts))
    if phase.metadata:
        # For each operation that was traced, and for each that the load needs.
        traced = sum(bool(ios.of(SERVER, op=op)) for op in NFS_METADATA)
        return need + Counter({"NFS-OPERATIONS": traced + len(phase.metadata.expected)})
    return need + _of_nfs(phase, ios, parts)


def _of_nfs(phase: Phase, ios: Counted, parts: int) -> Counter[str]:
    """Of a phase that reads and writes a file of the pool."""
    need: Counter[str] = Counter()
    if phase.target is not None:
        return need
    need["NFS-CALLS"] = parts * (len(_ops(phase)) if phase.forces is None else 1)
    if phase.forces is None and phase.replayed is None and not _asynchronous(phase):
        need["NFS-BYTES"] = need["NFS-CALLS"]
    if not ios.of(SERVER):
        need["TIERS-TRACED"] = need["SERVER-LATENCY"] = 1
    if ios.of(SERVER, op="read"):
        need += Counter({**dict.fromkeys(_READS, 1), "L2ARC-ERRORS": 3})
        need["SPECIAL-READS"] = int(phase.special is not None and phase.replayed is None)
    if ios.of(SERVER, op="write") or ios.of(SERVER, op="commit"):
        need += Counter({**dict.fromkeys(_COMMITS, 1), "ZIL-ERRORS": 2})
        slog = any(each.id == "ZIL-SLOG-BLOCKS" and each.expected for each in phase.checks)
        need += Counter({"ZIL-INDIRECT": int(slog)})
    return need


def _of_an_observation(manifest: Manifest) -> Counter[str]:
    if manifest.kind.value.serves_nfs:
        calls = {"NFS-CALLS": 3, "NFS-OPERATIONS": 2}
    else:
        calls = {"DATASET-CALLS": 2 * len(manifest.served)}
    return Counter({**calls, "ARC-MISSES": 1, "L2ARC-HITS": 1, "ZIL-COMMITS": 1})


_FROM = ("dram", "l2arc", "special", "disk", "indirect")


def _asynchronous(phase: Phase) -> bool:
    return bool(_made(phase)["ZIL-ASYNC-BYTES"])


def _most(manifest: Manifest, phase: Phase, check: Check, ios: Counted) -> int:
    """The largest tolerance that an instrument gives."""
    id_ = check.id
    reads = ios.of(SERVER, op="read")
    written = ios.of(SERVER, op="write") + ios.of(SERVER, op="commit") or phase.client_ios
    if phase.metadata:
        # A CREATE calls zil_commit several times.
        written = _MOST_COMMITS * ios.of(SERVER)
    indirect = ios.of(SERVER, op="read", tiers=("indirect",)) + phase.metadata_reads.get("special", 0)
    of_reads = _IOS + int(reads * _READ_SHARE) + indirect
    # Counters are read by a server's clock, which may be another than that of the run's wall_s.
    dilation = manifest.clock.dilation if manifest.clock else 1
    took_s = sum(each.end_ns - each.start_ns for each in manifest.phases) * dilation / 1e9
    longest_s = (manifest.wall_s or 0.0) + _OTHER_CLOCK * took_s
    cpus = sum(each.cpus for each in phase.cpu) or _MOST_CPUS
    # Calls that clients sent again may be more, and a page cache writes whole pages, two more at each end.
    pages_bytes = 4 * 4096 * _calls(phase)
    loose = phase.schedule is not None or phase.forces is not None
    sums = {
        "SPECIAL-READS": _IOS + int(2 * reads * _READ_SHARE),
        "ARC-MISSES": of_reads, "L2ARC-HITS": of_reads + _failed(phase) + indirect,
        "ARC-HITS": of_reads + _IOS + int(max(reads, ios.of(SERVER, op="write")) * _DBUF_SHARE),
        **dict.fromkeys(_COMMITS, _IOS + int(max(written, _calls(phase)) * _ZIL_SHARE)),
        "ZIL-ASYNC-BYTES": int((check.out_of or 0) * _ASYNC_SHARE),
        "CPU-STEAL": int(_ticks(longest_s * _TICKS_S * cpus, check) * 0.01) + 1,
        "THERMAL": int(longest_s * 1000 * 0.01) + 1,
        "CLOCK-STEP": _STEP_US, "OTHER-POOL": _IOS,
        "NFS-CALLS": phase.client_ios if loose else 0,
        "NFS-BYTES": abs(check.expected) + pages_bytes if loose or _asynchronous(phase) else 0,
    }  # fmt: skip
    if id_ == UNKNOWN_ID:
        # Of a run of another version.
        return _IOS + abs(check.expected) // 20
    return sums.get(id_, 0)


def _ticks(by_our_clock: float, check: Check) -> float:
    """Of the CPUs of a server: by its own clock, where it is stored."""
    return by_our_clock if check.out_of is None else min(check.out_of, _FASTEST * by_our_clock)


def _calls(phase: Phase) -> int:
    """Writes that the storage gets at most, where they are known."""
    return phase.client_ios * ((phase.forces.writes_per_group if phase.forces else None) or 1)


def _failed(phase: Phase) -> int:
    return max((check.found for check in phase.checks if check.id == "L2ARC-ERRORS"), default=0)


def _of_its_ios(phase: Phase, ios: Counted, *, drives_load: bool) -> Iterator[str]:
    """Whether the sums are of the I/Os that the phase has."""
    is_other = phase.forces or phase.schedule or phase.metadata
    if is_other or phase.target is not None:
        return
    for id_, name in (("NFS-CALLS", "calls"), ("NFS-BYTES", "bytes")):
        yield from _nfs(phase, ios, id_, name)
    if not ios.of(SERVER) or phase.parts:
        return
    expected = {check.id: check.expected for check in phase.checks}
    for id_, count in _by_tier(phase, ios, drives_load=drives_load).items():
        if expected.get(id_, count) != count:
            yield f"the check {id_} is of {expected[id_]} I/Os, latency.parquet has {count}"


def _by_tier(phase: Phase, ios: Counted, *, drives_load: bool) -> dict[str, int]:
    """What the counters of the kernel must be of, by the tiers of the tracer."""
    reads = {tier: ios.of(SERVER, op="read", tiers=(tier,)) for tier in _FROM}
    written = [(tier, n) for (layer, _, op, tier), n in ios.ios.items() if layer == SERVER and op != "read"]
    exact = {
        "L2ARC-HITS": reads["l2arc"] + _failed(phase),
        "ARC-MISSES": sum(reads.values()) - reads["dram"],
        "ZIL-COMMITS": sum(n for tier, n in written if tier != "dram"),
    }
    if not drives_load:
        # Asynchronous writes have the tier of a block that they had to read.
        exact["ZIL-COMMITS"] = sum(n for tier, n in written if tier in LOGGED)
    elif not written and (phase.block_bytes or 0) <= _SPLICE_BYTES:
        # With writes, and reads in pieces, ARC hits are not requests.
        exact["ARC-HITS"] = reads["dram"]
    return exact


def _nfs(phase: Phase, ios: Counted, id_: str, name: str) -> Iterator[str]:
    """Over all clients and parts; a part that was lost has no check."""
    checks = [check for check in phase.checks if check.id == id_]
    if not checks or any(each.id in (id_, "PART-COUNTERS") for each in phase.unavailable):
        return
    issued = ios.layers() - {SERVER}
    for op in ("read", "write"):
        mine = [check for check in checks if check.op == op]
        if not mine:
            continue
        held = sum(ios.of(layer, op=op) for layer in issued)
        if not issued:
            held = phase.client_ios if len(_ops(phase)) == 1 else sum(check.expected for check in mine)
        size = phase.block_bytes_by_op.get(op, phase.block_bytes) if name == "bytes" else 1
        if size is not None and (total := sum(check.expected for check in mine)) != held * size:
            yield f"its checks {id_} are of {total} {name} of {op}s, the clients had {held * size}"


def _of_callers(manifest: Manifest, phase: Phase, ios: Counted) -> Iterator[str]:
    """Whether each I/O of an observed server is of a client or process; calls: and of a dataset's counter."""
    if manifest.observed is None:
        return
    of_callers: Counter[tuple[str, str, str, str]] = Counter()
    for each in manifest.observed.callers:
        of_callers[SERVER, each.file_system, each.op, each.tier] += each.ios
    if of_callers != Counter({key: count for key, count in ios.ios.items() if key[0] == SERVER}):
        who = "processes" if manifest.observed.local else "clients"
        yield f"the {who} have {of_callers.total()} I/Os, latency.parquet has {ios.of(SERVER)}"
    if not manifest.observed.local:
        return
    without = {(each.name, each.op) for each in phase.unavailable if each.id == "DATASET-CALLS"}
    for op, counter in (("read", "reads"), ("write", "writes")):
        names = {name for name in manifest.served if (f"{counter} of {name}", op) not in without}
        total = sum(each.expected for each in phase.checks if (each.id, each.op) == ("DATASET-CALLS", op))
        if total != (held := sum(ios.of(SERVER, op=op, host=name) for name in names)):
            yield f"its checks DATASET-CALLS are of {total} {counter}, latency.parquet has {held}"


def _out_of(phase: Phase, ios: Counted) -> Iterator[str]:
    """What a share is of: its tolerance grows with it, so that it is at most what the clients wrote."""
    size = phase.block_bytes_by_op.get("write", phase.block_bytes)
    most = (ios.of(CLIENT, op="write") or phase.client_ios) * (size or 0)
    for check in (*phase.checks, *phase.unavailable):
        if check.id != "CPU-STEAL" and size is not None and check.out_of is not None and check.out_of > most:
            yield f"{check.title} is of {check.out_of} bytes, the clients wrote {most}"


def _subjects(phase: Phase) -> Iterator[str]:
    """Whether checks are of hosts and devices that the phase has, where it has any, and of their own op."""
    hosts, devices = {each.host for each in phase.machines}, {each.device for each in phase.devices}
    drives = {each.device for each in phase.drives}
    of_id = {"CLOCK-STEP": hosts, "THERMAL": hosts, "DEVICE-BYTES": devices}
    of_id |= dict.fromkeys(("DRIVE-THROTTLED", "LINK-DEGRADED"), drives)
    for check in (*phase.checks, *phase.unavailable):
        known = of_id.get(check.id)
        if check.of and known and check.of not in known:
            yield f"{check.title} is of {check.of}, which the phase does not have"
        named = {op for op, word in _OP_WORDS.items() if word in check.name.lower()}
        if check.op and named and check.op not in named and not (phase.metadata and check.op in METADATA):
            yield f"{check.title} is of the op {check.op}"


def _machines(phase: Phase) -> Iterator[str]:
    for machine in phase.machines if not phase.parts else ():
        step, heat = (_of_host(phase, id_, machine.host) for id_ in ("CLOCK-STEP", "THERMAL"))
        step_ns = machine.clock_step_ns
        if step and step_ns is not None and abs(step_ns) // 1000 != abs(step.found):
            yield f"clock_step_ns of {machine.host} is {step_ns}, its check found {step.found} us"
        if heat and machine.throttled_ms is not None and machine.throttled_ms != heat.found:
            yield f"throttled_ms of {machine.host} is {machine.throttled_ms}, its check found {heat.found}"
        lacks = any((each.id, each.of) == ("THERMAL", machine.host) for each in phase.unavailable)
        if lacks and (machine.throttled is not None or machine.throttled_ms is not None):
            yield f"{machine.host} cannot say whether it throttles, and throttled is {machine.throttled}"
    for machine in phase.machines:
        if machine.slept_ns:
            yield f"{machine.host} slept for {machine.slept_ns} ns, and nothing was said"
        if machine.throttled_ms and not machine.throttled:
            yield f"{machine.host} throttled for {machine.throttled_ms} ms in no event"


def _drives(phase: Phase) -> Iterator[str]:
    """What drives reported is what their checks are of."""
    for drive in phase.drives:
        of = {id_: sum(not each.ok for each in phase.checks if (each.id, each.of) == (id_, drive.device))
              for id_ in ("DRIVE-THROTTLED", "LINK-DEGRADED")}  # fmt: skip
        if (drive.transitions or drive.throttled_ms) and not of["DRIVE-THROTTLED"]:
            yield f"{drive.device} throttled, and no check says it"
        if (drive.crc_errors or drive.pcie_uncorrected) and not of["LINK-DEGRADED"]:
            yield f"the link of {drive.device} had errors, and no check says it"


def _of_host(phase: Phase, id_: str, host: str) -> Check | None:
    """The first: of throttling, that of the time."""
    return next((check for check in phase.checks if (check.id, check.of) == (id_, host)), None)


def _samples(phase: Phase) -> Iterator[str]:
    for cpu in phase.cpu:
        spare = _JIFFIES_NS * cpu.cpus
        yield from _falling(cpu.host, cpu.samples, ("at_ns", "busiest_ns"), 0)
        yield from _falling(cpu.host, cpu.samples, _CPU_TIMES, spare)
        for one, other in zip(cpu.samples[:1], cpu.samples[-1:], strict=True):
            span_ns = (other.at_ns - one.at_ns) * cpu.cpus
            if (other.busiest_ns or 0) > (other.at_ns - one.at_ns) * _LATE:
                yield f"the busiest CPU of {cpu.host} was busy for {other.busiest_ns} ns, longer than it was"
            used = sum(getattr(other, name) - getattr(one, name) for name in _CPU_TIMES)
            if not span_ns * _EARLY - spare <= used <= span_ns * _LATE + spare:
                yield f"the times of {cpu.cpus} CPUs of {cpu.host} are {used} ns together, of {span_ns}"
    for device in phase.devices:
        yield from _falling(device.device, device.samples, ("at_ns", *_DEVICE_SUMS), 0)
        for first, last in zip(device.samples[:1], device.samples[-1:], strict=True):
            most = (last.at_ns - first.at_ns) * _LATE + _JIFFIES_NS
            # Linux 5.0 to 6.0 counts an I/O that was on its way before from its begin on, when it ends.
            if last.busy_ns - first.busy_ns > most and not first.in_flight:
                yield f"{device.device} was busy for {last.busy_ns - first.busy_ns} ns, in {most:.0f} at most"
            # The kernel counts a flush without data as a write (block/blk-mq.c, blk_account_io_done).
            for ios, least, moved in (
                (last.reads, last.reads, last.read_bytes), (last.writes, 0, last.written_bytes),
            ):  # fmt: skip
                if moved % _SECTOR_BYTES or moved > most * _BYTES_PER_NS or moved < least * _SECTOR_BYTES:
                    yield f"{device.device} moved {moved} bytes in {ios} I/Os"


def _falling(
    name: str, samples: Sequence[CpuSample | DeviceSample], keys: Sequence[str], spare: int
) -> Iterator[str]:
    """Counters that go back by more than `spare`; a device may count none of some."""
    for key in keys:
        values = [value for each in samples if (value := getattr(each, key)) is not None]
        if any(one - other > spare for one, other in pairwise(values)):
            yield f"{key} of {name} goes back"
