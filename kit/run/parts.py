"""Parts of a phase that was counted as it ran: what stores one that did not end itself, and their sum.

Before the load the phase writes raw/PHASE-part.N.json (`Begun`). With it, what has arrived until then can be
stored when the phase could not do so: its controller was killed, or a host was lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import Field

from kit.config.fio_job import FioJob
from kit.config.tables.phase_table import Phase
from kit.core.bins import bin_edges
from kit.core.clock import Clock
from kit.core.errors import ConfigError, KitError, MeasurementUnknown
from kit.core.units import format_duration_s
from kit.hosts.clock_offset import Offset
from kit.instruments import client_windows, histograms
from kit.instruments.histograms import Cells, IntervalGrid
from kit.instruments.machine.clock_offsets import ClockOffsets
from kit.load.fio_windows import ClientWindows, read_counts
from kit.load.launch import PhaseLoad
from kit.load.phase_load import output_of
from kit.run.joined_parts import joined, lasting
from kit.setup.bench import Bench
from kit.store import json_file
from kit.store.phase import Event, Extreme, Missing, Part, problems_of
from kit.store.phase import Phase as StoredPhase
from kit.store.run_directory import RunDir
from kit.store.stored import Count, Many, Nanoseconds, Stored
from kit.store.tables import CLIENT, DEVICE, LATENCY_SCHEMA, SERVER
from kit.store.under_way import FileName
from kit.trace.output import Trace, parse_trace
from kit.trace.tier import Vdevs

# Readings at the end of what has arrived, whose I/Os the other side may not have sent.
_LAST_READINGS = 2
OF_JOB = ("op", "is_random", "block_bytes", "block_bytes_by_op", "outstanding")
_Client = tuple[str, ClientWindows, Offset]


class BegunClient(Stored):
    """A client: the file in raw/ that gets its counts, and its clock minus the reference's."""

    host: str
    file: FileName
    offset_ns: Nanoseconds
    error_ns: Nanoseconds


class BegunPart(Stored):
    """What a part is, known before its load. Times on the reference clock; `interval_ns` on the hosts'."""

    number: Annotated[int, Field(ge=1)]
    run_origin_ns: Nanoseconds
    interval_ns: Annotated[Nanoseconds, Field(gt=0)]
    clock: Literal["real", "virtual"]
    dilation: Annotated[int, Field(ge=1)]
    window_ms: Annotated[int, Field(ge=1)]
    clients: Many[BegunClient]
    server: str | None
    trace: FileName | None
    log_vdevs: Many[int]
    special_vdevs: Many[int] = ()
    op: str
    is_random: bool | None = None
    block_bytes: Count | None
    block_bytes_by_op: dict[str, Count] = Field(default_factory=dict)
    outstanding: Count | None
    expected_tiers: Many[str]


@dataclass(frozen=True)
class Partial:
    """A phase as far as it was measured. `left_ns`: of its duration, 0 if that is less than an interval."""

    entry: StoredPhase
    latency: pl.DataFrame
    left_ns: int


def begun_path(run_dir: RunDir, phase: str, number: int) -> Path:
    return run_dir.raw / f"{phase}-part.{number}.json"


def trace_name(phase: str, number: int) -> str:
    """The tracer's output of a part, in raw/."""
    return f"{phase}-trace.json" if number == 1 else f"{phase}-trace.{number}.json"


def stem(run_dir: RunDir, phase: str, number: int) -> Path:
    """Paths of other files of a part begin so."""
    return run_dir.raw / (phase if number == 1 else f"{phase}.{number}")


def next_number(run_dir: RunDir, phase: str) -> int:
    """The number of the part that would begin now, from 1."""
    number = 1
    # The tracer begins before there is a Begun.
    while any(
        os.path.lexists(path)
        for path in (begun_path(run_dir, phase, number), run_dir.raw / trace_name(phase, number))
    ):
        number += 1
    return number


def write_begun(bench: Bench, phase: Phase, job: FioJob, load: PhaseLoad, offsets: ClockOffsets) -> None:
    """What stores this part if the phase cannot do so itself. Raises HostError."""
    spec, storage, clock = load.spec, bench.storage, bench.site.clock
    before = {worker.name: offsets.before(worker.host.name) for worker in load.workers}
    traced = storage is not None and storage.tracing.kind == "full"
    vdevs = storage.vdevs if storage and traced else Vdevs()
    begun = BegunPart(
        number=spec.part,
        run_origin_ns=bench.run_origin_ns,
        interval_ns=clock.to_host_ns(phase.interval),
        clock=clock.kind,
        dilation=clock.dilation,
        window_ms=spec.window_ms,
        clients=tuple(
            BegunClient(
                host=name,
                file=output_of(spec, name).name,
                offset_ns=offset.ns,
                error_ns=offset.error_ns,
            )
            for name, offset in before.items()
        ),
        server=storage.server.name if storage else None,
        trace=trace_name(phase.name, spec.part) if traced else None,
        log_vdevs=tuple(vdevs.log or ()),
        special_vdevs=tuple(vdevs.special),
        expected_tiers=tuple(phase.tiers) if storage else (),
        **{name: getattr(job, name) for name in OF_JOB},
    )
    json_file.write_json(begun_path(bench.run_dir, phase.name, spec.part), begun.as_json())


def about(phase: Phase, job: FioJob | BegunPart) -> dict[str, Any]:
    """Keys of a stored phase: what its table and its job say of it."""
    return {name: getattr(job, name) for name in OF_JOB} | {
        "name": phase.name,
        "title": phase.title,
        "target": None if phase.over_nfs else phase.target,
        "job": phase.job or None,
        "interval_ns": phase.interval,
    }


def part_of(
    entry: StoredPhase, number: int, end: Literal["itself", "stopped", "lost"], apart: int = 0
) -> Part:
    """The part that `entry` is, from the first I/O of a client to the last."""
    firsts = [row.first_ns for row in entry.clients if row.first_ns is not None]
    lasts = [row.last_ns for row in entry.clients if row.last_ns is not None]
    start_ns = min(firsts, default=entry.start_ns)
    end_ns = max(lasts, default=start_ns)
    return Part(
        number=number, start_ns=start_ns, end_ns=end_ns, client_ios=entry.client_ios,
        server_ios=entry.server_ios, end=end, apart_ios=apart,
    )  # fmt: skip


def restored(
    run_dir: RunDir, phase: Phase, stored: StoredPhase | None, latency: pl.DataFrame
) -> Partial | None:
    """What `run_dir` has of `phase`: the `stored` parts with their `latency`, and those that only raw/ has.

    None if it has no I/O of it. Raises ConfigError for damage.
    """
    entries = [stored.model_copy(update={"problems": lasting(stored)})] if stored and stored.parts else []
    frames = [latency] if entries else []
    known = max((part.number for entry in entries for part in entry.parts), default=0)
    for number in range(known + 1, next_number(run_dir, phase.name)):
        if made := salvaged(run_dir, phase, number):
            entries.append(made[0])
            frames.append(made[1])
    entries = [entry for entry in entries if entry.client_ios]
    if not entries:
        return None
    entry = entries[0]
    for more in entries[1:]:
        entry = joined(entry, more)
    measured_ns = sum(part.end_ns - part.start_ns for part in entry.parts)
    left_ns = phase.duration - measured_ns
    if left_ns < phase.interval:
        return Partial(entry, pl.concat(frames), 0)
    text = (
        f"{format_duration_s(measured_ns // phase.interval * phase.interval / 1e9)} of "
        f"{format_duration_s(phase.duration / 1e9)} were measured: `hsp run --resume` measures the rest"
    )
    problems = (*entry.problems, *problems_of("interrupted", [text]))
    return Partial(entry.model_copy(update={"problems": problems}), pl.concat(frames), left_ns)


def salvaged(run_dir: RunDir, phase: Phase, number: int) -> tuple[StoredPhase, pl.DataFrame] | None:
    """The part from what has arrived in raw/, and its rows; None without an I/O of a client.

    Raises ConfigError for damage.
    """
    path = begun_path(run_dir, phase.name, number)
    if not os.path.lexists(path):
        return None
    begun = BegunPart.from_json(json_file.read_json(path), path)
    try:
        clients = list(_clients(run_dir, begun))
    except (MeasurementUnknown, OSError) as error:
        raise ConfigError(str(error), "leave the run out, and begin a new one") from error
    if not clients:
        return None
    clock, trace = Clock(begun.clock, begun.dilation), _trace(run_dir, begun)
    printed_ns = [snapshot.at_ns for snapshot in histograms.regular(trace)]
    first_ns = min(windows.first_ns for _, windows, _ in clients)
    origin_ns = max(histograms.aligned(first_ns, printed_ns, begun.interval_ns), begun.run_origin_ns)
    grid = IntervalGrid(begun.run_origin_ns, origin_ns, begun.interval_ns, clock)
    problems = [text for _, windows, _ in clients for text in client_windows.problems(windows, phase.name)]
    try:
        vdevs = Vdevs(frozenset(begun.log_vdevs), frozenset(begun.special_vdevs))
        cells = histograms.server_cells(trace, grid, vdevs)
    except ValueError as error:
        problems.append(f"the tracer's counts cannot be used: {error}")
        cells = histograms.server_cells(Trace(), grid, Vdevs())
    layer = DEVICE if phase.on_devices else CLIENT
    frames = [pl.DataFrame(schema=LATENCY_SCHEMA)]
    frames += [
        histograms.frame(client_windows.cells(windows, grid), phase.name, layer, host)
        for host, windows, _ in clients
    ]
    extremes = [
        each.model_copy(update={"layer": layer})
        for host, windows, _ in clients
        for each in histograms.client_extremes(windows, clock, host)
    ]
    if begun.server is not None:
        frames.append(histograms.frame(cells, phase.name, SERVER, begun.server))
        extremes += _bin_extremes(cells, begun.server)
    rows = pl.concat(frames)
    entry = _entry(phase, begun, clients, cells, trace, grid, rows).model_copy(
        update={"extremes": tuple(extremes), "problems": problems_of("load", problems)}
    )
    apart = _apart(clients, cells, trace, grid)
    return entry.model_copy(update={"parts": (part_of(entry, number, "lost", apart),)}), rows


def _entry(
    phase: Phase,
    begun: BegunPart,
    clients: Sequence[_Client],
    cells: Cells,
    trace: Trace,
    grid: IntervalGrid,
    rows: pl.DataFrame,
) -> StoredPhase:
    to_experiment, origin_ns = grid.clock.from_host_ns, begun.run_origin_ns
    start_ns = to_experiment(grid.phase_origin_ns - origin_ns)
    return StoredPhase(
        **about(phase, begun),
        expected_tiers=begun.expected_tiers,
        client_ios=sum(windows.ios for _, windows, _ in clients),
        server_ios=_requests(cells) if begun.trace else None,
        lost_events=trace.lost_events if begun.trace else None,
        unavailable=(
            Missing(
                id="PART-COUNTERS",
                name=f"counters of part {begun.number}",
                source="instruments",
                why="the run was lost in the middle",
            ),
        ),
        events=tuple(
            Event(time_ns=to_experiment(at_ns - origin_ns), kind="l2arc-feed", text="L2ARC feed")
            for at_ns in trace.feeds_ns
        ),
        clients=tuple(histograms.client_rows(clients, grid)),
        start_ns=start_ns,
        end_ns=max(int(rows["time_ns"].max() or 0) + phase.interval, start_ns),  # type: ignore[arg-type]
        client_log=client_windows.client_log([(host, windows) for host, windows, _ in clients], grid),
    )


def _clients(run_dir: RunDir, begun: BegunPart) -> Iterable[_Client]:
    for client in begun.clients:
        path = run_dir.raw / client.file
        if not os.path.lexists(path):
            continue
        windows = read_counts(path, begun.window_ms, alone=begun.outstanding == 1)
        if windows.ios:
            offset = Offset(client.offset_ns, client.error_ns)
            yield client.host, windows.earlier(client.offset_ns), offset


def _trace(run_dir: RunDir, begun: BegunPart) -> Trace:
    """The whole lines of the tracer's output; the last reading may lack its counts."""
    path = run_dir.raw / begun.trace if begun.trace else None
    if path is None or not os.path.lexists(path):
        return Trace()
    text = path.read_text(errors="replace")
    trace = parse_trace(text[: text.rfind("\n") + 1])
    # A reading that was printed after the last counts has none.
    while trace.snapshots and not trace.snapshots[-1].counts:
        trace.snapshots.pop()
    return trace


def _requests(cells: Cells) -> int:
    return sum(count for (op, _), count in histograms.totals(cells).items() if op != "commit")


def _bin_extremes(cells: Cells, server: str) -> list[Extreme]:
    """The ends of the bins: the tracer tells the exact ones at its end alone."""
    ends = cells.group_by("op", "tier").agg(low=pl.col("bin").min(), high=pl.col("bin").max())
    ends = ends.sort("op", "tier")
    lows, highs = bin_edges(ends["low"].to_numpy())[0], bin_edges(ends["high"].to_numpy())[1]
    return [
        Extreme(layer=SERVER, host=server, op=op, tier=tier, min_ns=int(low), max_ns=int(high) - 1)
        for op, tier, low, high in zip(ends["op"], ends["tier"], lows, highs, strict=True)
    ]


def _apart(clients: Sequence[_Client], cells: Cells, trace: Trace, grid: IntervalGrid) -> int:
    """How many I/Os one side may have sent, and the other not: those of the last readings, and after them."""
    ends = [windows.last_ns for _, windows, _ in clients]
    ends += [trace.snapshots[-1].at_ns] if trace.snapshots else []
    since_ns = min(ends) - _LAST_READINGS * grid.interval_ns
    at_clients = sum(int(w.count[w.end_ns > since_ns].sum()) for _, w, _ in clients)
    since = grid.start_of(since_ns)
    at_server = int(cells.filter(pl.col("time_ns") >= since)["count"].sum())
    return max(at_clients, at_server)


def rescued(run_dir: RunDir, phase: Phase, before: StoredPhase | None) -> Partial | None:
    """What has arrived of a phase that an error ends; None if that cannot be read."""
    try:
        return restored(run_dir, phase, before, pl.DataFrame(schema=LATENCY_SCHEMA))
    except (KitError, OSError):
        return None
