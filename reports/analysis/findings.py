"""Things to look at in a run: at most five sentences, each with the part of the heat map that it is about.

They describe and do not judge: the verdict is another matter. Of what happened at the same time they say that
it overlapped; a cause is named only where the run shows it. Latencies in microseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from kit.core.text import commas, some
from kit.core.units import format_factor, format_latency, format_latency_range, format_time_s
from kit.store.labels import EITHER_LOG, METADATA, NFS_METADATA, op_name, tier_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Range, Row, Summary
from kit.store.tables import SERVER
from reports.analysis import band_table, clients, import_source
from reports.analysis.band_labels import PLACELESS, Misplaced, misplaced
from reports.published.ranges import beside
from reports.statistics import band_detection
from reports.verdict.stalls import stalls

# Phase, layer and op.
Place = tuple[str, str, str]

MOST = 5
# The most important first.
KINDS = ("missing", "wait", "outlier", "stall", "overlap", "levels", "modes")
# Of one kind, so many come before those of less important kinds.
_OF_A_KIND = 2
# An outlier takes more than so many times the p99; the I/O after a stall, so many times the p50.
_FAR = 10
# What holds less of a tier's I/Os is not called a mode.
_LEAST_SHARE = 0.01
_MOST_MODES = 4
# Modes of reads from DRAM in the lab, as measured: place (us), part of the reads, and what they are
# (docs/decisions/0022-modes-in-the-lab.md). A mode is one of them if it is as near, and of as many reads.
DRAM_MODES = (
    (4.27, 0.08, "hits of the dbuf cache"),
    (5.7, 0.89, "hits of the ARC"),
    (8.27, 0.03, "those after which nfsd frees pages"),
)
_NEAR, _TIMES_AS_MANY = 0.1, 2.0
# An event that more of the phase overlaps is no coincidence with an I/O.
_MOST_OVERLAP = 0.2
# What takes more of a phase is not said to be from one time to another.
_A_PART = 0.25
# Events by what people call them. The first that overlaps is named.
_EVENTS = {
    "fault": "an injected fault",
    "suspend": "a suspend",
    "clock-step": "a step of the clock",
    "throttling": "CPU throttling",
    "drive-throttling": "throttling of a drive",
    "expected": "an expected event",
    "resilver": "a resilver",
    "evacuation": "the evacuation of a vdev",
    "expansion": "the expansion of a RAIDZ vdev",
    "scrub": "a scrub",
    "trim": "a trim",
    "txg": "a txg sync",
    "l2arc-feed": "an L2ARC feed",
    "gap": "a time that was not measured",
}
_LONGEST = 400
_UNSAFE = re.compile(r"[^\w .,:;()+%/-]")


@dataclass(frozen=True)
class PhaseFinding:
    """`text`: one sentence, without a character that HTML or Plotly could take for markup.

    `phase`, `layer`, `op`: names as in latency.parquet, not escaped. `from_s`, `to_s`: the part of the
    phase, in seconds since it began; all of it where times are not known. `low_us`, `high_us`: the range
    of latency. `tier`: that of the I/Os that it counts; empty for all. `ios`: how many of an outlier.
    """

    kind: str
    text: str
    phase: str
    layer: str
    op: str
    from_s: float
    to_s: float
    low_us: float
    high_us: float
    tier: str = ""
    ios: int = 0


def findings(latency: Latency, manifest: Manifest, summary: Summary) -> tuple[PhaseFinding, ...]:
    """What there is to look at, the most important first, at most MOST. Pure."""
    run = _Run(latency, manifest, summary)
    outliers = _outliers(run)
    overlaps = _overlaps(run)
    waits = [each for each in _stalls(run) if not any(_covers(other, each) for other in outliers)]
    made = [*_missing(run), *_apart(run), *outliers, *waits, *(each for _, each in overlaps)]
    made += _modes(run, overlaps)
    seen: Counter[str] = Counter()
    order: list[tuple[bool, int, int]] = []
    for number, each in enumerate(made):
        order.append((seen[each.kind] >= _OF_A_KIND, KINDS.index(each.kind), number))
        seen[each.kind] += 1
    return tuple(made[number] for _, _, number in sorted(order)[:MOST])


@dataclass(frozen=True)
class _Run:
    latency: Latency
    manifest: Manifest
    summary: Summary

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The server's rows, or the clients' where no server was traced."""
        return self.summary.main_rows

    @cached_property
    def phases(self) -> dict[str, Phase]:
        return {phase.name: phase for phase in self.manifest.phases}

    @cached_property
    def parts(self) -> dict[object, pl.DataFrame]:
        """The cells with I/Os by phase."""
        return _by_name(self.latency.cells)

    @cached_property
    def intervals(self) -> dict[object, pl.DataFrame]:
        """The intervals with I/Os by phase."""
        of_cells = self.latency.intervals is self.latency.cells
        return self.parts if of_cells else _by_name(self.latency.intervals)

    def cells(self, place: Place, tier: str) -> pl.DataFrame:
        phase, layer, op = place
        mine = (pl.col("layer") == layer) & (pl.col("op") == op) & (pl.col("tier") == tier)
        return self.parts[phase].filter(mine) if phase in self.parts else self.latency.cells.clear()

    def finding(
        self, kind: str, text: str, place: Place, cells: pl.DataFrame, range_us: Range, tier: str = ""
    ) -> PhaseFinding:
        """A finding of the time that `cells` take; of all of its phase if there are none, or no times."""
        phase = self.phases.get(place[0])
        span = (0.0, (phase.end_ns - phase.start_ns) / 1e9) if phase else (0.0, 0.0)
        if phase and import_source.timed(self.manifest) and not cells.is_empty():
            first_ns, last_ns = cells.select(pl.col("time_ns").min(), last=pl.col("time_ns").max()).row(0)
            # A cell has the time of its last interval.
            first_ns -= (first_ns - phase.start_ns) % self.latency.column_ns.get(phase.name, 1)
            ends = (first_ns - phase.start_ns, last_ns - phase.start_ns + phase.interval_ns)
            span = (max(ends[0] / 1e9, 0.0), max(ends[1] / 1e9, 0.0))
        return PhaseFinding(kind, _plain(text), *place, *span, *range_us, tier)

    def overlapping(self, phase: Phase, from_ns: int, to_ns: int) -> str:
        """What ran at some time from `from_ns` to `to_ns`, as the end of a sentence; "" if nothing did.

        Nor is anything said of what runs so often that most I/Os overlap it.
        """
        if not import_source.timed(self.manifest):
            return ""
        spans: dict[str, list[tuple[int, int]]] = {}
        for each in (*self.manifest.events, *phase.events):
            spans.setdefault(each.kind, []).append((each.time_ns, max(each.end_ns or 0, each.time_ns)))
        for kind, words in _EVENTS.items():
            mine = spans.get(kind, ())
            if any(begin <= to_ns and end >= from_ns for begin, end in mine):
                chance = _chance_of_overlap(mine, to_ns - from_ns, phase)
                if chance < _MOST_OVERLAP:
                    rate = f"by chance in {_share(chance)} of the phase"
                    return f", while there was {words} (at one time is no proof: {rate})"
        return ""


def _chance_of_overlap(spans: Sequence[tuple[int, int]], length_ns: int, phase: Phase) -> float:
    """The part of `phase` (of 1) in which what ends there, and took `length_ns`, overlaps one of `spans`."""
    covered, reached = 0, phase.start_ns
    for begin, end in sorted(spans):
        begin, end = max(begin, reached), min(end + length_ns, phase.end_ns)
        covered += max(end - begin, 0)
        reached = max(reached, end)
    return covered / max(phase.end_ns - phase.start_ns, 1)


def _by_name(frame: pl.DataFrame) -> dict[object, pl.DataFrame]:
    used = frame.filter(pl.col("count") > 0)
    names = used["phase"].unique()
    if len(names) == 1:
        return {names[0]: used}
    return {key[0]: part for key, part in used.partition_by("phase", as_dict=True).items()}


def _by_phase(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.phase, []).append(row)
    return found


def _missing(run: _Run) -> list[PhaseFinding]:
    """Tiers that the workload expects and that answered nothing, of phases that were traced."""
    made = []
    at_server = _by_phase(run.summary.rows_of(SERVER))
    for phase in run.manifest.phases:
        rows = [row for row in at_server.get(phase.name, []) if row.count]
        answering = {row.tier for row in rows}
        either = phase.op == "write" and set(EITHER_LOG) <= set(phase.expected_tiers)
        answering |= set(EITHER_LOG) if either and answering & set(EITHER_LOG) else set()
        for tier in dict.fromkeys(each for each in phase.expected_tiers if rows and each not in answering):
            op = _op_of(tier, phase) or rows[0].op
            text = f"No {op} was answered by the tier {tier_name(tier)}, which the workload expects."
            anywhere = (min(row.min_us for row in rows), max(row.max_us for row in rows))
            ranges_us = beside(run.summary.reference, run.manifest, phase).ranges_us
            range_us = ranges_us.get((op, tier), anywhere)
            of, empty = (phase.name, SERVER, op), run.latency.cells.clear()
            made.append(run.finding("missing", text, of, empty, range_us))
    return made


def _apart(run: _Run) -> list[PhaseFinding]:
    """Of each phase what clients wait for and the server does not see."""
    return [
        run.finding("wait", text, place, run.latency.cells.clear(), range_us)
        for place, text, range_us in clients.apart(run.manifest, run.parts)
    ]


def _op_of(tier: str, phase: Phase) -> str:
    """The operation that a tier is expected of; of a phase that reads and writes, that of the tier."""
    if phase.op == "mixed":
        return "write" if tier in ("slog", "pool") else "read"
    return phase.op or ""


def _outliers(run: _Run) -> list[PhaseFinding]:
    """The worst first, by multiples of the p99. A client's only if no outlier of the server explains it."""
    made: list[tuple[float, PhaseFinding]] = []
    at_server = run.summary.rows_of(SERVER)
    for row in (*at_server, *(row for row in run.summary.rows if row.layer != SERVER)):
        others = [each for _, each in made if each.phase == row.phase and each.layer != row.layer]
        known = any(2 * each.high_us >= row.max_us for each in others)
        # A GETATTR that takes less than a CREATE beside it does is no news.
        beside = [each for each in at_server if row.op in NFS_METADATA and each.phase == row.phase]
        least_us = max([_FAR * (row.p99_us or 0), *(each.p50_us or 0 for each in beside)])
        if row.p99_us and row.max_us > least_us and not known:
            made.append((row.max_us / row.p99_us, _outlier(run, row, row.p99_us)))
    return [each for _, each in sorted(made, key=lambda item: -item[0])]


def _outlier(run: _Run, row: Row, p99_us: float) -> PhaseFinding:
    place, phase = (row.phase, row.layer, row.op), run.phases.get(row.phase)
    cells = run.cells(place, row.tier)
    far = cells.filter(pl.col("lo_ns") >= _FAR * p99_us * 1e3)
    count, low_us, during = max(int(far["count"].cast(pl.Float64).sum()), 1), row.max_us, ""
    if far.is_empty():
        # The bin of the longest begins below.
        far = cells.filter(pl.col("hi_ns") == pl.col("hi_ns").max())
    if not far.is_empty():
        time_ns, lo_ns, hi_ns = far.sort("hi_ns").select("time_ns", pl.col("lo_ns").min(), "hi_ns").row(-1)
        low_us = min(lo_ns / 1e3, row.max_us)
        if phase:
            during = run.overlapping(phase, time_ns - hi_ns, time_ns + phase.interval_ns)
    p99, longest = f"the p99 ({format_latency(p99_us)})", format_latency(row.max_us)
    if count > 1:
        longest = f"{format_latency_range(low_us, row.max_us)}, at least"
    factor = format_factor((low_us if count > 1 else row.max_us) / p99_us, 2)
    took = f"took {longest}{',' * (count == 1)} {factor} {p99}{during}"
    made = run.finding("outlier", "", place, far, (low_us, row.max_us), row.tier)
    if count > 1 and phase and made.to_s - made.from_s < _A_PART * (phase.end_ns - phase.start_ns) / 1e9:
        took += f", from {format_time_s(made.from_s)} to {format_time_s(made.to_s)}"
    text = f"{commas(count)} of {_ios(row.count, row.op, row.tier)} {took}."
    for entry in run.summary.bands:
        if row.tier == "all" and (entry.phase, entry.layer, entry.op) == place and entry.levels:
            text += f" {band_table.level_words(entry.levels, op_name(row.op))}."
    return replace(made, text=_plain(text), ios=count)


def _stalls(run: _Run) -> list[PhaseFinding]:
    """One of each phase where no I/O ended although the next took many times the p50; the longest first."""
    made = []
    by_phase = _by_phase(run.rows)
    for phase in run.manifest.phases if import_source.timed(run.manifest) else ():
        rows = by_phase.get(phase.name, [])
        usual_us = max((row.p50_us for row in rows if row.p50_us is not None), default=0.0)
        part = run.intervals.get(phase.name) if rows else None
        far = [s for s in stalls(part, phase) if s.high_us > _FAR * usual_us] if part is not None else []
        if not far:
            continue
        worst = max(far, key=lambda each: each.high_us)
        gaps_us = [(each.to_s - each.from_s) * 1e6 for each in far]
        begin_ns, end_ns = (phase.start_ns + round(at * 1e9) for at in (worst.from_s, worst.to_s))
        op = "I/O" if phase.op in (None, "mixed") else phase.op
        text = (
            f"No {op} ended for {format_latency(sum(gaps_us))}"
            f"{f' in {commas(len(far))} pieces' if len(far) > 1 else ''}: one waited up to "
            f"{format_latency(worst.high_us)} for its answer{run.overlapping(phase, begin_ns, end_ns)}."
        )
        place = (phase.name, rows[0].layer, rows[0].op)
        span = (far[0].from_s, far[-1].to_s + phase.interval_ns / 1e9)
        range_us = min(*gaps_us, worst.high_us), worst.high_us
        made.append(PhaseFinding("stall", _plain(text), *place, *span, *range_us))
    return sorted(made, key=lambda each: -each.high_us)


def _covers(outlier: PhaseFinding, stall: PhaseFinding) -> bool:
    return outlier.phase == stall.phase and outlier.high_us >= 0.9 * stall.high_us


def _overlaps(run: _Run) -> list[tuple[str, PhaseFinding]]:
    """Tiers with I/Os in another tier's band, most I/Os first, and what is said of them."""
    made = []
    # Of an observed server pools may have the same bands.
    for entry in () if run.summary.observed else run.summary.bands:
        place = (entry.phase, entry.layer, entry.op)
        try:
            listed = [(each, each.count / each.total) for each in misplaced(entry)]
        except (ArithmeticError, ValueError):
            continue  # a summary.json of somebody else's
        for each, share in listed:
            if overlap := _overlap(run, place, each, share):
                made.append((each.count, each.tier, overlap))
    return [(tier, each) for _, tier, each in sorted(made, key=lambda item: -item[0])]


def _overlap(run: _Run, place: Place, here: Misplaced, share: float) -> PhaseFinding | None:
    """None unless they took as long as the owner of the band: a band may end far above its I/Os."""
    middle = (pl.col("lo_ns") / 2 + pl.col("hi_ns") / 2) / 1e3
    cells = run.cells(place, here.tier).filter((middle >= here.from_us) & (middle < here.to_us))
    range_us = (here.from_us, here.to_us)
    if not cells.is_empty():
        range_us = (int(cells["lo_ns"].min()) / 1e3, int(cells["hi_ns"].max()) / 1e3)  # type: ignore[arg-type]
    owners = [r for r in run.summary.rows if (r.phase, r.layer, r.op, r.tier) == (*place, here.owner)]
    if not any(range_us[0] <= r.range_us[1] and r.range_us[0] <= range_us[1] for r in owners):
        return None
    text = (
        f"{commas(here.count)} of {_ios(here.total, place[2], here.tier)} ({_share(share)}) took "
        f"{format_latency_range(*range_us)}, like those of {tier_name(here.owner)}; {_cause(run, here)}."
    )
    return run.finding("overlap", text, place, cells, range_us, here.tier)


def _cause(run: _Run, here: Misplaced) -> str:
    models = [(each.parameters or {}).get("disk") for each in run.manifest.testbed.of_role("data")]
    buffered = any(isinstance(model, dict) and model.get("track_buffer") for model in models)
    if here.tier == "disk" and not here.beyond and buffered:
        return "the disks have a track buffer, whose hits the run does not record"
    return "the run does not record why"


def _modes(run: _Run, overlaps: Sequence[tuple[str, PhaseFinding]]) -> list[PhaseFinding]:
    """Tiers whose I/Os have several modes, but for those that an overlap speaks of; the least pure first."""
    made = []
    for row in run.rows:
        place = (row.phase, row.layer, row.op)
        cells = run.cells(place, row.tier)
        # A GETATTR of a file is other work than that of a directory.
        if row.tier in ("all", *PLACELESS) or row.op in METADATA or cells.is_empty():
            continue
        # Sums of 64-bit integers would wrap around.
        sums = cells.group_by("lo_ns", "hi_ns").agg(pl.col("count").cast(pl.Float64).sum()).sort("lo_ns")
        try:
            found = band_detection.find(sums.rows(), import_source.tick_ns(run.manifest))
        except ValueError:
            continue  # the bins overlap, or span more than a clock can tell
        here = (row.tier, row.phase, row.op)
        told = [each for tier, each in overlaps if (tier, each.phase, each.op) == here]
        modes = [
            (band.modes_ns[0] / 1e3, band.share)
            for band in found.bands
            if band.share >= _LEAST_SHARE
            and not any(each.low_us <= band.modes_ns[0] / 1e3 <= each.high_us for each in told)
        ]
        if len(modes) < 2:
            continue
        ios = f"{op_name(row.op)} of {tier_name(row.tier)}"
        listed = some([f"{format_latency(at)} ({_share(share)})" for at, share in modes], _MOST_MODES)
        kind, text = "modes", f"The {ios} have {len(modes)} modes: {listed}{_paths(run, row, modes)}."
        phase = run.phases.get(row.phase)
        if phase and import_source.timed(run.manifest):
            if levels := band_table.in_time(cells, found.borders_ns, phase.start_ns):
                words = band_table.level_words(levels, ios)
                kind, text = "levels", f"{words}: a change in time, not two kinds of I/Os."
        found_here = run.finding(kind, text, place, cells, (row.min_us, row.max_us), row.tier)
        made.append((max(share for _, share in modes), found_here))
    return [each for _, each in sorted(made, key=lambda item: item[0])]


def _paths(run: _Run, row: Row, modes: Sequence[tuple[float, float]]) -> str:
    """Why DRAM has modes (us, share), where each lies as measured: on a clock that counts instructions."""
    virtual = run.manifest.clock is not None and run.manifest.clock.kind == "virtual"
    measured = run.manifest.workload == "top-speeds" and (row.op, row.tier) == ("read", "dram")
    if not (virtual and run.manifest.testbed.emulated and measured):
        return ""
    causes = [
        next((words for where, part, words in DRAM_MODES if is_like(mode, where, part)), "") for mode in modes
    ]
    if "" in causes or len({*causes}) < len(causes):
        return ""
    *first, last = causes
    return f"; in the lab they are {', '.join(first)}, and {last} (docs/decisions/0022)"


def is_like(mode: tuple[float, float], where_us: float, part: float) -> bool:
    at_us, share = mode
    return abs(at_us / where_us - 1) <= _NEAR and 1 / _TIMES_AS_MANY <= share / part <= _TIMES_AS_MANY


def _ios(count: int, op: str, tier: str) -> str:
    """Such as "4,125 writes of disk"; clients do not know the tier."""
    return f"{commas(count)} {op_name(op)}" + (f" of {tier_name(tier)}" if tier != "all" else "")


def _share(part: float) -> str:
    """Such as "89 %", "1.8 %"."""
    if part < 1e-6:
        return "less than 0.0001 %"
    return f"{part * 100:.0f} %" if part >= 0.0995 else f"{part * 100:.2g} %"


def _plain(text: str) -> str:
    return _UNSAFE.sub("", text)[:_LONGEST]
