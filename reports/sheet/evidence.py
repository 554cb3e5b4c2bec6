"""What stored runs say of one candidate: its devices, its figures alone and at the NFS server, in us.

A candidate is the devices of role log and cache that a pool had, with the runs that measured it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.store.manifest import Device
from kit.store.phase import Phase
from kit.store.printed.sizing import SizeResult
from kit.store.printed.slog import SlogTest
from kit.store.series import CellRow
from kit.store.summary import DeviceRow, PhaseUse, Range
from kit.store.tables import CLIENT, SERVER
from reports.analysis.ageing import AgeingPoint, curve
from reports.series.cells import StoredRun, rows_of, verdict_of_phase
from reports.statistics.quantiles import Floats
from reports.statistics.ratios import Realisation, mean, paired

ROLES = ("log", "cache")
# Of a role: what it serves, and what serves where there is no such device.
SERVED = {"log": ("write", "slog"), "cache": ("read", "l2arc")}
WITHOUT = {"log": ("write", "pool"), "cache": ("read", "disk")}
OPS = {role: op for role, (op, _) in SERVED.items()}
Key = tuple[str, str]  # operation, tier
PERCENTILES = ("p50", "p99", "p999")
# Of fewer runs it is not known what another would give.
ENOUGH_RUNS = 3


@dataclass(frozen=True)
class Run:
    """A run of the candidate. `phases`: those that count, by name in the run -> in the workload."""

    name: str
    stored: StoredRun
    aged: pl.DataFrame
    phases: dict[str, str]


@dataclass(frozen=True)
class EvidenceSource:
    """A candidate. `power_losses`: runs that cut the power of such a log device; `slog`: of `hsp slog`.

    `sizing`: of `hsp size`, the same for all candidates.
    """

    name: str
    runs: tuple[Run, ...]
    power_losses: tuple[StoredRun, ...] = ()
    slog: tuple[SlogTest, ...] = ()
    sizing: SizeResult | None = None

    def devices(self, role: str) -> list[Device]:
        """As the manifest has them, without repetition over runs."""
        return self.runs[0].stored.manifest.testbed.of_role(role) if self.runs else []

    @property
    def emulated(self) -> bool:
        made = any(bool(run.stored.manifest.testbed.emulated) for run in self.runs)
        return made or any(test.device.emulated is not None for test in self.slog)


@dataclass(frozen=True)
class ServedLatency:
    """Percentiles of an operation and tier at the NFS server, of each of its runs.

    `doubt`: why they cannot be trusted; `fresh`: a drive that ages was not aged; `length`: of a short run.
    """

    phase: str
    count: int
    runs: int
    shares: tuple[float, ...]
    mean_us: float | None
    of_runs: dict[str, tuple[Realisation, ...]]
    cpu_bound: bool = False
    doubt: str = ""
    fresh: bool = False
    length: str = ""

    @property
    def share(self) -> float:
        return sum(self.shares) / len(self.shares)

    def us(self, name: str) -> float | None:
        return mean(self.of_runs[name]).value if name in self.of_runs else None

    def range_us(self, name: str) -> Range | None:
        """Of fewer than ENOUGH_RUNS: within them, by the number of their I/Os."""
        if name not in self.of_runs:
            return None
        found = self.of_runs[name]
        return (paired(found) if self.runs >= ENOUGH_RUNS else mean(found)).range


@dataclass(frozen=True)
class Alone:
    """A device alone, at the last `point` of its ageing curve. `latencies_us`: of each I/O, as of its bin."""

    point: AgeingPoint
    latencies_us: Floats

    @property
    def mean_us(self) -> float:
        """Known to 2 %, as the bins are."""
        return float(self.latencies_us.mean())


def model_of(device: Device) -> str:
    """What devices of a model have in common: model and firmware, or the parameters of an emulated one."""
    if model := (device.identity or {}).get("model"):
        return json.dumps([model, (device.settings or {}).get("firmware")], default=str)
    return json.dumps([device.model, device.parameters, device.latency_ns], sort_keys=True, default=str)


def hardware_of(stored: StoredRun) -> tuple[tuple[str, str], ...]:
    """What makes two runs runs of one candidate: the models and serial numbers of its devices."""
    return tuple(
        (role, json.dumps([model_of(each), (each.identity or {}).get("serial")]))
        for role in ROLES
        for each in stored.manifest.testbed.of_role(role)
    )


def phase_of(sources: Sequence[EvidenceSource], key: Key) -> str | None:
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


def served(source: EvidenceSource, key: Key, phase: str | None) -> ServedLatency | None:
    """An operation and tier of a candidate at the NFS server; None where no run has it."""
    found = [*_having(source, key, phase)]
    if not found:
        return None
    by_run: dict[str, list[CellRow]] = {}
    for run, _, rows in found:
        by_run.setdefault(run.name, []).extend(rows)
    every = [row for *_, rows in found for row in rows]
    means = [row.mean_us for row in every if row.mean_us is not None]
    uses = filter(None, (use_of(run, in_run) for run, in_run, _ in found))
    manifests = [run.stored.manifest for run, *_ in found]
    return ServedLatency(
        phase=phase or "",
        count=sum(row.count for row in every),
        runs=len(by_run),
        shares=tuple(sum(row.share for row in rows) / len(rows) for rows in by_run.values()),
        mean_us=sum(means) / len(means) if means else None,
        of_runs=_of_runs(found, key),
        cpu_bound=any(use.is_cpu_bound for use in uses),
        doubt=next(filter(None, (_doubt(run, in_run) for run, in_run, _ in found)), ""),
        fresh=any((each.precondition or {}).get("fresh") for each in manifests),
        length=", ".join(sorted({each.length for each in manifests if each.length})),
    )


def _having(source: EvidenceSource, key: Key, phase: str | None) -> Iterator[tuple[Run, str, list[CellRow]]]:
    """Runs that have an operation and tier at the NFS server: their phase, and what it has of both."""
    for run, in_run in _of_phase(source, phase):
        every = rows_of(run.stored, in_run)
        if rows := [row for row in every if row.layer == SERVER and (row.op, row.tier) == key]:
            yield run, in_run, rows


def _doubt(run: Run, in_run: str) -> str:
    """Why the figures of a phase of a run cannot be trusted; "" if they can."""
    verdict, reasons = verdict_of_phase(run.stored.manifest, run.stored.summary, in_run)
    # Too little for a limit of the workload is no doubt of what was measured.
    if verdict != "unknown" or (reasons and all(each.of_amount for each in reasons)):
        return ""
    return f"{run.name} is unknown: {(reasons or ('no reason is stored',))[0]}"


def _of_runs(found: Sequence[tuple[Run, str, list[CellRow]]], key: Key) -> dict[str, tuple[Realisation, ...]]:
    """Of each percentile that all runs have, one of each run: a phase twice is one realisation."""
    by_run: dict[str, dict[str, list[Realisation | None]]] = {}
    for run, in_run, rows in found:
        figures = by_run.setdefault(run.name, {name: [] for name in (*PERCENTILES, "mean")})
        figures["p50"] += [_figure(row.p50_us, row.p50_range_us) for row in rows]
        figures["p99"] += [_figure(row.p99_us, row.p99_range_us) for row in rows]
        figures["p999"] += _p999(run.stored, in_run, key)
        figures["mean"] += [_figure(row.mean_us, None) for row in rows]
    made = {}
    for name in (*PERCENTILES, "mean"):
        of_all = [figures[name] for figures in by_run.values()]
        if all(each and all(each) for each in of_all):
            made[name] = tuple(mean([figure for figure in each if figure]) for each in of_all)
    return made


def alone(source: EvidenceSource, role: str, op: str) -> Alone | None:
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
        return Alone(point, middles_us)
    return None


def uses(
    source: EvidenceSource, role: str, phase: str | None
) -> Iterator[tuple[Phase, int | None, list[DeviceRow]]]:
    """What the devices of a role did in a phase, and what clients wrote in it, a run at a time."""
    names = {str(each.name) for each in source.devices(role)}
    for run, in_run in _of_phase(source, phase):
        use = use_of(run, in_run)
        stored = run.stored.manifest.phase_named(in_run)
        rows = [each for each in use.devices if each.device in names] if use and stored else []
        if stored and rows:
            yield stored, _written_bytes(run, stored), rows


def _written_bytes(run: Run, phase: Phase) -> int | None:
    """Bytes of WRITEs alone, by nfsd's count, else by clients' I/Os; None where neither is known."""
    of_writes = [each for each in phase.checks if (each.id, each.op) == ("NFS-BYTES", "write")]
    if counted := sum(each.found for each in of_writes if each.closes):
        return counted
    rows = [row for row in run.stored.summary.rows if (row.phase, row.layer) == (phase.name, CLIENT)]
    ios = sum(row.count for row in rows if row.op == "write")
    block = phase.block_bytes or phase.block_bytes_by_op.get("write")
    return ios * block if ios and block else None


def use_of(run: Run, in_run: str) -> PhaseUse | None:
    return next((each for each in run.stored.summary.use if each.phase == in_run), None)


def _of_phase(source: EvidenceSource, phase: str | None) -> Iterator[tuple[Run, str]]:
    for run in source.runs:
        yield from ((run, in_run) for in_run, name in run.phases.items() if name == phase)


def _p999(stored: StoredRun, phase: str, key: Key) -> Iterator[Realisation]:
    for row in stored.summary.rows:
        if row.phase == phase and row.layer == SERVER and (row.op, row.tier) == key:
            exact = row.interpolated.get("p999")
            if figure := _figure(exact.us if exact else row.p999_us, None):
                yield figure


def _figure(us: float | None, known: Range | None) -> Realisation | None:
    return Realisation.of(us, known) if us else None
