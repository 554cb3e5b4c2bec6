"""The counts of a run as OpenMetrics text 1.0, for Prometheus and what reads its format. Pure.

Histograms are classic ones, with `le`: Prometheus' native histograms have bins of equal ratios (8 to 256 an
octave, geometric), and those of this kit are linear within an octave. To fit them would move I/Os.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from kit.core.bins import BINS_PER_OCTAVE, IntArray, bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import format_duration_ns
from kit.store.manifest import Manifest
from kit.store.summary import Summary

_LABELS = ("phase", "layer", "host", "op", "tier")
_METRIC = "hsp_latency_seconds"
# Of a phase, unless the user asks for others: an hour in steps of 15 s has 240.
MOST_STEPS = 720
# Lines of one histogram: 5 GB of text.
_MOST_CELLS = 25_000_000


@dataclass(frozen=True)
class RunTimes:
    """Where a run lies in time. `start_ns`: Unix time of its zero; `phases`: start and interval of each, ns.

    `every_ns`: length of a step, 0: the interval of each phase, or more of them where a phase would have over
    `MOST_STEPS` steps.
    """

    start_ns: int
    phases: Mapping[str, tuple[int, int]]
    every_ns: int = 0

    def step_ns(self, phase: str, last_ns: int) -> int:
        """Length of a step of `phase`, whose last interval begins at `last_ns`. Raises ConfigError."""
        begin_ns, interval_ns = self.phases[phase]
        if self.every_ns and self.every_ns % interval_ns:
            raise ConfigError(
                f"--every {format_duration_ns(self.every_ns)}: phase {phase} has intervals of "
                f"{format_duration_ns(interval_ns)}",
                "give a multiple of it: an interval is not divided",
            )
        intervals = (last_ns - begin_ns) // interval_ns + 1
        return self.every_ns or interval_ns * max(1, -(-intervals // MOST_STEPS))


def coarser(frame: pl.DataFrame, per_octave: int) -> pl.DataFrame:
    """`frame` with so many bins an octave, a divisor of 32, and all bins between the first and the last.

    No I/O is divided: each bin lies in one of the new ones. Bins of other programs go where their end is.
    """
    group = BINS_PER_OCTAVE // per_octave
    new = bin_index(frame["hi_ns"].to_numpy() - 1) // group
    edges = pl.Series(bin_edges(new * group + group - 1)[1])
    frame = frame.with_columns(lo_ns=edges, hi_ns=edges)
    if not frame.height:
        return frame
    between = bin_edges(np.arange(new.min(), new.max() + 1) * group + group - 1)[1]
    empty = frame.unique(_LABELS, keep="first", maintain_order=True).with_columns(count=pl.lit(0, pl.Int64))
    each = pl.DataFrame({"lo_ns": between, "hi_ns": between})
    return pl.concat([frame, empty.drop("lo_ns", "hi_ns").join(each, how="cross").select(frame.columns)])


def times_of(manifest: Manifest, every_ns: int = 0) -> RunTimes:
    """Raises ConfigError for a manifest that lacks a time."""
    try:
        start = datetime.strptime(manifest.started_utc or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ConfigError(
            "the manifest has no time at which the run started (started_utc)",
            "use --totals: one histogram a phase, without times",
        ) from None
    phases = {safe_text(phase.name): (phase.start_ns, max(phase.interval_ns, 1)) for phase in manifest.phases}
    return RunTimes(int(start.timestamp()) * 10**9, phases, every_ns)


def openmetrics(frame: pl.DataFrame, summary: Summary | None, times: RunTimes | None) -> Iterator[str]:
    """Text of the OpenMetrics 1.0 specification: cumulative histograms by phase, layer, host, op and tier.

    With `times`, each histogram has a point at the start of its phase, where all is 0, and one at the end of
    each step; without, a single point without a time. `le` is the upper edge of a bin in seconds; those of a
    phase have the same edges, both ends of each bin with I/Os, so that they can be summed. There is no _sum,
    and therefore no _count: bins do not know the sum of what is in them. `frame` has the columns of
    latency.parquet, and no two names that are the same once they are safe. Raises ConfigError.
    """
    yield from _info(frame, summary, times)
    yield f"# TYPE {_METRIC} histogram\n# UNIT {_METRIC} seconds\n"
    yield f"# HELP {_METRIC} Latency of I/Os since the start of the phase.\n"
    run = {"run": summary.run} if summary is not None and summary.run else {}
    for (phase,), rows in frame.sort(*_LABELS).group_by("phase", maintain_order=True):
        name = str(phase)
        # Both ends of a bin: a quantile is interpolated from the edge below.
        edges = pl.concat([rows["lo_ns"].filter(rows["lo_ns"] > 0), rows["hi_ns"]]).unique().sort().to_numpy()
        stamps, begin_ns, step_ns = _steps(rows, name, len(edges), times)
        for key, mine in rows.group_by(*_LABELS, maintain_order=True):
            labels = dict(zip(_LABELS, map(str, key), strict=True))
            limits = [*map(_seconds, edges.tolist()), "+Inf"]
            begins = [f"{_METRIC}_bucket{_labelled({**run, **labels, 'le': le})} " for le in limits]
            counts = np.zeros((len(stamps), len(edges)), dtype=np.int64)
            when = mine["time_ns"].to_numpy()
            at = (when - begin_ns) // step_ns + 1 if step_ns else np.zeros_like(when)
            bins = np.searchsorted(edges, mine["hi_ns"].to_numpy())
            np.add.at(counts, (at, bins), mine["count"].to_numpy())
            yield from _points(begins, stamps, counts.cumsum(axis=0).cumsum(axis=1))
    yield "# EOF\n"


def _info(frame: pl.DataFrame, summary: Summary | None, times: RunTimes | None) -> Iterator[str]:
    values = {name: getattr(summary, name, None) for name in ("run", "workload", "verdict")}
    run = {name: value for name, value in values.items() if value}
    if not run:
        return
    yield "# TYPE hsp_run_info gauge\n# HELP hsp_run_info The run that the histograms are of.\n"
    stamps = [""]
    if times is not None:
        last_ns = int(frame["time_ns"].max() or 0)  # type: ignore[arg-type]
        stamps = [_stamp(times.start_ns), _stamp(times.start_ns + max(last_ns, 0) + 10**9)]
    for stamp in stamps:
        yield f"hsp_run_info{_labelled(run)} 1{stamp}\n"


def _steps(
    rows: pl.DataFrame, phase: str, edges: int, times: RunTimes | None
) -> tuple[Sequence[str], int, int]:
    """The stamp of each point, when the first step begins (ns of the run), and the length of one; 0: none."""
    if times is None:
        return [""], 0, 0
    if phase not in times.phases:
        raise ConfigError(f"the manifest has no phase {phase}", "use --totals, without times")
    first_ns, last_ns = (int(rows["time_ns"].min() or 0), int(rows["time_ns"].max() or 0))  # type: ignore[arg-type]
    begin_ns = min(times.phases[phase][0], first_ns)
    step_ns = times.step_ns(phase, last_ns)
    steps = (last_ns - begin_ns) // step_ns + 1
    if steps * edges > _MOST_CELLS:
        raise ConfigError(
            f"phase {phase} would have {steps} steps of {edges} bins each",
            f"give a longer --every, or leave it out: a phase then has at most {MOST_STEPS} steps",
        )
    at = [times.start_ns + begin_ns + number * step_ns for number in range(steps + 1)]
    return [_stamp(each) for each in at], begin_ns, step_ns


def _points(begins: Sequence[str], stamps: Sequence[str], counts: IntArray) -> Iterator[str]:
    """One point after another, each a line a bucket; the last bucket, of all, repeats the count before it."""
    for stamp, row in zip(stamps, counts.tolist(), strict=True):
        values = [*row, row[-1] if row else 0]
        yield "".join(f"{begin}{value}{stamp}\n" for begin, value in zip(begins, values, strict=True))


def _stamp(unix_ns: int) -> str:
    """The end of a line: milliseconds are as exact as Prometheus is."""
    return f" {unix_ns // 10**6 / 1000:.3f}"


def _seconds(value_ns: int) -> str:
    """Nanoseconds as seconds, exact; with a point, as the specification writes floats."""
    whole, rest = divmod(value_ns, 10**9)
    return f"{whole}.{f'{rest:09d}'.rstrip('0') or '0'}"


def _labelled(labels: Mapping[str, str]) -> str:
    pairs = []
    for name, value in labels.items():
        escaped = safe_text(value).replace("\\", "\\\\").replace('"', '\\"')
        pairs.append(f'{name}="{escaped}"')
    return "{" + ",".join(pairs) + "}"
