"""What stored runs say of one candidate: its devices, its figures alone and at the NFS server, in us.

A candidate is the devices of role log and cache that a pool had, with the runs that measured it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from kit.store.manifest import Device
from kit.store.phase import Phase
from kit.store.series import CellRow
from kit.store.slog import SlogTest
from kit.store.summary import DeviceRow, PhaseUse, Range
from kit.store.tables import SERVER
from reports.analysis.ageing import curve
from reports.series.cells import StoredRun, rows_of, verdict_of_phase
from reports.series.ratios import interval_over_rounds
from reports.statistics.ratios import Figure, half_width, mean
from reports.statistics.worst_of import Floats

ROLES = ("log", "cache")
# Of a role: what it serves, and what serves where there is no such device.
SERVED = {"log": ("write", "slog"), "cache": ("read", "l2arc")}
WITHOUT = {"log": ("write", "pool"), "cache": ("read", "disk")}
Key = tuple[str, str]  # operation, tier
PERCENTILES = ("p50", "p99", "p999")


@dataclass(frozen=True)
class Run:
    """A run of the candidate. `phases`: those that count, by name in the run -> in the workload."""

    name: str
    stored: StoredRun
    aged: pl.DataFrame
    phases: dict[str, str]


@dataclass(frozen=True)
class Source:
    """A candidate. `power_losses`: runs that cut the power of such a log device; `slog`: of `hsp slog`."""

    name: str
    runs: tuple[Run, ...]
    power_losses: tuple[StoredRun, ...] = ()
    slog: tuple[SlogTest, ...] = ()

    def devices(self, role: str) -> list[Device]:
        """As the manifest has them, without repetition over runs."""
        return self.runs[0].stored.manifest.testbed.of_role(role) if self.runs else []

    @property
    def emulated(self) -> bool:
        made = any(bool(run.stored.manifest.testbed.emulated) for run in self.runs)
        return made or any(test.device.emulated is not None for test in self.slog)


@dataclass(frozen=True)
class Served:
    """Percentiles of an operation and tier at the NFS server. `doubt`: why they cannot be trusted."""

    phase: str
    count: int
    runs: int
    share: float
    mean_us: float | None
    figures: dict[str, Figure] = field(default_factory=dict)
    cpu_bound: bool = False
    doubt: str = ""

    def us(self, name: str) -> float | None:
        return self.figures[name].value if name in self.figures else None

    def range_us(self, name: str) -> Range | None:
        return self.figures[name].range if name in self.figures else None


@dataclass(frozen=True)
class Alone:
    """A device alone, after the last stage of its preconditioning. `mean_us`: from bins, known to 2 %."""

    device: str
    op: str
    stage: str
    ios: int
    block_bytes: int
    written: float
    mean_us: float
    us: dict[str, float | None]
    latencies_us: Floats


def model_of(device: Device) -> str:
    """What devices of a model have in common: model and firmware, or the parameters of an emulated one."""
    if model := (device.identity or {}).get("model"):
        return json.dumps([model, (device.settings or {}).get("firmware")], default=str)
    return json.dumps([device.model, device.parameters, device.latency_ns], sort_keys=True, default=str)


def hardware_of(stored: StoredRun, roles: Sequence[str] = ROLES) -> tuple[tuple[str, str], ...]:
    """What makes two runs runs of one candidate: the models and serial numbers of its devices."""
    return tuple(
        (role, json.dumps([model_of(each), (each.identity or {}).get("serial")]))
        for role in roles
        for each in stored.manifest.testbed.of_role(role)
    )


def phase_of(sources: Sequence[Source], key: Key) -> str | None:
    """The phase that most candidates have this operation and tier in; of several that with most I/Os."""
    having: Counter[str] = Counter()
    ios: Counter[str] = Counter()
    for source in sources:
        found: Counter[str] = Counter()
        for run in source.runs:
            for row in run.stored.summary.rows:
                if row.layer == SERVER and (row.op, row.tier) == key and row.phase in run.phases:
                    found[run.phases[row.phase]] += row.count
        having.update(found.keys())
        ios.update(found)
    return max(ios, key=lambda name: (having[name], ios[name]), default=None)


def served(source: Source, key: Key, phase: str | None) -> Served | None:
    """An operation and tier of a candidate at the NFS server; None where no run has it."""
    found: list[CellRow] = []
    p999: list[Figure] = []
    doubts: list[str] = []
    bound = False
    for run, in_run in _of_phase(source, phase):
        for row in rows_of(run.stored, in_run):
            if row.layer != SERVER or (row.op, row.tier) != key:
                continue
            found.append(row)
            verdict, reasons = verdict_of_phase(run.stored.manifest, run.stored.summary, in_run)
            if verdict == "unknown":
                doubts.append(f"{run.name} is unknown: {(reasons or ('no reason is stored',))[0]}")
            use = use_of(run, in_run)
            bound = bound or bool(use and use.is_cpu_bound)
        p999 += _p999(run.stored, in_run, key)
    if not found:
        return None
    figures = {
        name: _over_runs(
            [_figure(getattr(row, f"{name}_us"), getattr(row, f"{name}_range_us")) for row in found]
        )
        for name in ("p50", "p99")
    } | {"p999": _over_runs(p999)}
    means = [row.mean_us for row in found if row.mean_us is not None]
    return Served(
        phase=phase or "",
        count=sum(row.count for row in found),
        runs=len(found),
        share=sum(row.share for row in found) / len(found),
        mean_us=sum(means) / len(means) if means else None,
        figures={name: value for name, value in figures.items() if value},
        cpu_bound=bound,
        doubt=doubts[0] if doubts else "",
    )


def alone(source: Source, role: str, op: str) -> Alone | None:
    """The first device of a role alone, at the last point of its ageing curve; None without one."""
    names = {str(each.name) for each in source.devices(role)}
    for run in source.runs:
        frame = run.aged.filter(pl.col("device").is_in(sorted(names)) & (pl.col("op") == op))
        if not frame.height or frame["point"].max() == 0:
            continue  # of before any fill: not aged
        last = frame.filter(pl.col("point") == frame["point"].max())
        point = curve(last)[0]
        bins = last.filter((pl.col("device") == point.device) & (pl.col("count") > 0))
        middles_us = np.repeat(((bins["lo_ns"] + bins["hi_ns"]) / 2e3).to_numpy(), bins["count"].to_numpy())
        return Alone(
            device=point.device,
            op=op,
            stage=point.stage,
            ios=point.ios,
            block_bytes=point.block_bytes,
            written=point.written,
            mean_us=float(middles_us.mean()),
            us={name.replace(".", ""): us for name, us in point.us.items()},
            latencies_us=middles_us.astype(np.float64),
        )
    return None


def uses(source: Source, role: str, phase: str | None) -> Iterator[tuple[Phase, PhaseUse, DeviceRow]]:
    """What each device of a role did in a phase, a run at a time."""
    names = {str(each.name) for each in source.devices(role)}
    for run, in_run in _of_phase(source, phase):
        use = use_of(run, in_run)
        stored = next((each for each in run.stored.manifest.phases if each.name == in_run), None)
        for device in use.devices if use and stored else ():
            if device.device in names and stored and use:
                yield stored, use, device


def use_of(run: Run, in_run: str) -> PhaseUse | None:
    return next((each for each in run.stored.summary.use if each.phase == in_run), None)


def _of_phase(source: Source, phase: str | None) -> Iterator[tuple[Run, str]]:
    for run in source.runs:
        yield from ((run, in_run) for in_run, name in run.phases.items() if name == phase)


def _p999(stored: StoredRun, phase: str, key: Key) -> Iterator[Figure]:
    for row in stored.summary.rows:
        if row.phase == phase and row.layer == SERVER and (row.op, row.tier) == key:
            exact = row.interpolated.get("p999")
            figure = _figure(exact.us, None) if exact else _figure(row.p999_us, None)
            if figure:
                yield figure


def _figure(us: float | None, known: Range | None) -> Figure | None:
    return Figure.of(us, known) if us else None


def _over_runs(figures: Sequence[Figure | None]) -> Figure | None:
    """The mean of runs; None where one of them has none. Of three or more, what they differ in counts too."""
    known = [each for each in figures if each]
    if not known or len(known) < len(figures):
        return None
    over = mean(known)
    if len(known) > 2 and (between := interval_over_rounds(known)):
        return Figure(over.log, max(over.reach or 0.0, half_width(between)))
    return over
