"""Warm-up load and the gate that says whether the L2ARC is warm.

Sources for what the counters mean: OpenZFS module/zfs/arc.c (l2arc_feed_thread); that
`arc_warm` cannot be used: it is only ever set by memory pressure.
"""

from __future__ import annotations

import itertools

from kit.config.fio_job import FioJob
from kit.config.workload import WARM_UP, Warmup, Workload
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.core.progress import Progress
from kit.core.units import format_size_bytes
from kit.instruments import arc_zil_counters
from kit.load import fio, ordinary_user
from kit.run.phase import drive, load_on
from kit.setup.bench import Bench, Storage
from kit.setup.long_step import StepPace
from kit.sizes.tier_sizes import Tiers
from kit.sizes.workload_sizes import tiers_asked
from kit.store.parts.machine import Warmup as StoredWarmup

_TROUBLE = ("l2_abort_lowmem", "l2_io_error", "l2_cksum_bad")
_ARC_PARTS = ("size", "data_size", "metadata_size", "hdr_size", "l2_hdr_size", "dbuf_size", "l2_asize")
# At once, and how long that may take at most.
_PART_BYTES, _READ_DEADLINE_S = 512 << 20, 3600.0


def _is_logged(warmup: Warmup, workload: Workload) -> bool:
    """Whether fio logs every I/O, as in a phase. The log stays in its memory, and is not used later."""
    is_short = warmup.duration <= fio.LONGEST_EVERY_IO_NS
    return is_short and all(phase.log != "histograms" for phase in workload.phase)


def warm_up(
    bench: Bench, workload: Workload, job: FioJob, progress: Progress | None = None
) -> StoredWarmup | None:
    """Read the begin of the working set, drive the load untraced, then watch windows.

    The load is the first client's: what it warms is at the server, for every client. Returns when the gate
    opens or its deadline is over; None without a gate: on an appliance, and where no phase asks for the
    L2ARC. Raises MeasurementUnknown if the load fails.
    """
    warmup, file = workload.warmup, workload.file_set.file
    assert warmup, "the workload has one"
    storage, worker = bench.storage, bench.workers(over_nfs=workload.over_nfs)[0]
    client = worker.host
    if warmup.read_first and storage:
        read_first(storage, file, warmup.read_first, progress)
    elif warmup.read_first:
        # Past the client's own cache: it is the server that is to read.
        argv = fio.read_through_command(f"{bench.mount}/{file}", warmup.read_first, direct=True)
        ordinary_user.check_working_set(client, bench.mount, file, as_root=not bench.ordinary)
        client.run(ordinary_user.ordinary(argv) if bench.ordinary else argv, deadline_s=_READ_DEADLINE_S)
    load = load_on(bench, [worker], WARM_UP, job, warmup.duration, logged=_is_logged(warmup, workload))
    load.prepare()
    if drive(bench, load, warmup.duration).by == "user":
        raise KeyboardInterrupt
    if load.problems:
        raise MeasurementUnknown(f"the warm-up load failed: {'; '.join(load.problems)}")
    gated = "l2arc" in tiers_asked(workload)
    return _watch(bench.site.clock, storage, warmup) if storage and gated else None


def read_first(storage: Storage, file: str, size_bytes: int, progress: Progress | None) -> None:
    """Read the begin of the working set on the server, a part at a time. Raises HostError."""
    pace = StepPace(progress, size_bytes) if progress else None
    for skip in range(0, size_bytes, _PART_BYTES):
        part = min(_PART_BYTES, size_bytes - skip)
        argv = fio.read_through_command(f"{storage.path}/{file}", part, skip=skip)
        storage.server.run(argv, deadline_s=_READ_DEADLINE_S)
        if pace:
            pace.show(skip + part)


def _watch(clock: Clock, storage: Storage, warmup: Warmup) -> StoredWarmup:
    """Read arcstats once a window until the gate opens or its deadline is over."""
    window_s = clock.to_host_ns(warmup.window) / 1e9

    def arcstats() -> dict[str, int]:
        return arc_zil_counters.read(storage.server, storage.pool.name, storage.objset, storage.zfs).arc

    readings = [arcstats()]
    while True:
        storage.server.run(["sleep", f"{window_s:.3f}"], deadline_s=60 + window_s)
        readings.append(arcstats())
        gate = judge(readings[-warmup.windows - 1 :], warmup)
        if len(readings) > warmup.windows and not gate.problems:
            return gate
        if (len(readings) - 1) * warmup.window >= warmup.deadline:
            return gate


def advice(gate: StoredWarmup, warmup: Warmup, held: Tiers | None) -> str:
    """What to change in the workload, with what the model expects in each tier (`held`)."""
    remedies = []
    if any(gate.trouble.values()):
        remedies.append("see dmesg of the server: its memory is short, or a cache device fails")
    if gate.l2arc_bytes < warmup.l2arc_min:
        remedies.append(
            'make warmup.l2arc_min smaller or write "auto", or let the warm-up read more '
            "(read_first, duration)"
        )
    if max(gate.fed_bytes, default=0) > warmup.feed_max:
        remedies.append("give the feed more time (warmup.deadline), or make warmup.feed_max larger")
    if held:
        remedies.append(f"the plan expects of the working set: {held.words}")
    return "; ".join([*remedies, "--despite-warm-up measures all the same, and the verdict is unknown"])


def judge(seen: list[dict[str, int]], warmup: Warmup) -> StoredWarmup:
    """The gate's verdict on successive readings of arcstats: what is short, and by how much. Pure."""
    first, last, problems = seen[0], seen[-1], list[str]()
    fed = [after["l2_write_bytes"] - before["l2_write_bytes"] for before, after in itertools.pairwise(seen)]
    trouble = {name: last[name] - first[name] for name in _TROUBLE}
    if last["l2_size"] < warmup.l2arc_min:
        problems.append(
            f"the L2ARC is not warm: it holds {format_size_bytes(last['l2_size'])}, "
            f"asked for {format_size_bytes(warmup.l2arc_min)}"
        )
    if fed and max(fed) > warmup.feed_max:
        problems.append(
            f"the L2ARC is still filling: {format_size_bytes(max(fed))} in a window, "
            f"at most {format_size_bytes(warmup.feed_max)} would be quiet"
        )
    for name, moved in trouble.items():
        if moved:
            problems.append(f"the L2ARC is in trouble: arcstats {name} rose by {moved}")
    return StoredWarmup.made(
        "warm-up",
        l2arc_bytes=last["l2_size"],
        fed_bytes=tuple(fed),
        trouble=trouble,
        problems=tuple(problems),
        # kit.sizes.tier_sizes has a model of these parts of the ARC.
        arc={name: last[name] for name in _ARC_PARTS if name in last},
    )
