"""The tracer (kit.trace) as an instrument: latency at the NFS server by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from kit.core.errors import KitError, MeasurementUnknown
from kit.hosts.base import HostLost
from kit.instruments import block_keys, histograms, request_split
from kit.instruments.base import Instrument, InstrumentLatency, InstrumentReport, MeasuredPhase
from kit.instruments.histograms import IntervalGrid
from kit.store.parts.split import PhaseSplit
from kit.store.phase import Event
from kit.trace.nfsd_tracer import Tracer
from kit.trace.output import Trace, parse_trace
from kit.trace.tier import Vdevs, places_of_read


@dataclass(eq=False)
class TierTracer(Instrument):
    """One phase of a running tracer. `vdevs`: of the pool.

    `streamed`: the output comes into `raw` while the phase runs.

    `split_of`: the phase that it repeats with the probes of split.bt. `sampled`: the dataset, and that one in
    so many of its blocks is sampled.

    `trace`: after `end`. `ios`: by (op, tier), known after `latency`; None if the counts cannot be used.
    """

    code = "tier-tracer"

    tracer: Tracer
    server_name: str
    interval_ns: int
    vdevs: Vdevs
    raw: Path
    _: KW_ONLY
    streamed: bool = False
    split_of: str = ""
    sampled: tuple[str, int] | None = None
    ios: dict[tuple[str, str], int] | None = field(default=None, init=False)
    trace: Trace = field(default_factory=Trace, init=False)

    def __post_init__(self) -> None:
        self._problems: list[str] = []

    def begin(self) -> None:
        try:
            self.tracer.begin(self.interval_ns, self.raw if self.streamed else None)
        except HostLost:
            raise
        except KitError as error:
            raise MeasurementUnknown(f"{error.message}: nothing of this phase was measured") from error

    def running(self) -> bool:
        return self.tracer.running()

    def end(self) -> None:
        if self.streamed:
            self._problems = self.tracer.follow_end(self.raw)
            text = self.raw.read_text(errors="replace")
        else:
            text, self._problems = self.tracer.end()
            self.raw.write_text(text)
        self.trace = parse_trace(text)

    @property
    def arriving(self) -> tuple[str, Vdevs] | None:
        """The file in raw/ that gets the output while the phase runs, and the vdevs; None: at its end."""
        return (self.raw.name, self.vdevs) if self.streamed else None

    @property
    def log_blocks(self) -> dict[str, int]:
        """Log blocks that requests wrote, by `slog` and `pool`. A request may write several, or none."""
        blocks = {"slog": 0, "pool": 0}
        for vdev, count in self.trace.log_blocks.items():
            blocks["slog" if vdev in (self.vdevs.log or ()) else "pool"] += count
        return blocks

    def reads_from(self, place: str) -> tuple[int, int]:
        """Reads whose data were there, and reads whose metadata were, of those that are counted."""
        of_data = of_metadata = 0
        for (op, seen, vdev), counts in self.trace.counts.items() if self.ios else ():
            if op == "read":
                data, metadata = places_of_read(seen, vdev, self.vdevs)
                ios = sum(counts.values())
                of_data += ios * (data == place)
                of_metadata += ios * (metadata == place)
        return of_data, of_metadata

    @property
    def printed_ns(self) -> Sequence[int]:  # type: ignore[override]
        return [snapshot.at_ns for snapshot in histograms.regular(self.trace)]

    def latency(self, phase: str, grid: IntervalGrid) -> InstrumentLatency:
        try:
            cells = histograms.server_cells(self.trace, grid, self.vdevs)
        except ValueError as error:
            return InstrumentLatency(problems=[f"the tracer's counts cannot be used: {error}"])
        self.ios = histograms.totals(cells)
        rows = histograms.frame(cells, phase, "nfs-server", self.server_name)
        of_server = self.trace, self.vdevs, self.server_name
        made = InstrumentLatency(
            [rows], histograms.server_extremes(*of_server), histograms.server_sums(*of_server)
        )
        self._add_keys(made, phase, grid)
        return made

    def _add_keys(self, made: InstrumentLatency, phase: str, grid: IntervalGrid) -> None:
        if self.sampled is None:
            return
        dataset, one_in = self.sampled
        origin_ns, clock = grid.phase_origin_ns, grid.clock
        try:
            keys, made.notes = block_keys.rows(
                self.trace, one_in, phase, lambda _: (dataset, self.vdevs), origin_ns, clock
            )
        except ValueError as error:
            made.problems.append(f"the tracer's sample of blocks cannot be used: {error}")
        else:
            made.keys.append(keys)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        return InstrumentReport(
            events=[
                Event(
                    time_ns=measured.experiment_ns(at_ns), end_ns=None, kind="l2arc-feed", text="L2ARC feed"
                )
                for at_ns in self.trace.feeds_ns
            ],
            problems=[*self._problems, *self.trace.problems],
            entry={
                "server_ios": sum(count for (op, _), count in (self.ios or {}).items() if op != "commit"),
                "lost_events": self.trace.lost_events,
                **self._metadata_reads(),
                **self._split(),
            },
        )

    def _metadata_reads(self) -> dict[str, dict[str, int]]:
        reads = {place: self.reads_from(place)[1] for place in ("l2arc", "special", "disk")}
        found = {place: ios for place, ios in reads.items() if ios}
        return {"metadata_reads": found} if found else {}

    def _split(self) -> dict[str, PhaseSplit]:
        if not self.split_of:
            return {}
        rows = request_split.rows_of(self.trace, self.vdevs)
        why = "" if rows or not self.ios else "the tracer printed no parts"
        return {"split": PhaseSplit(of=self.split_of, why=why, rows=tuple(rows))}
