"""report.html: one file that needs nothing else, drawn from manifest, latency and summary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import polars as pl

from kit.core.units import format_latency_range
from kit.store.labels import EMULATED, LAYER_NAMES, layer_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import CPU_BOUND, Row, Summary
from kit.store.tables import SERVER
from reports.analysis import import_source, resource_use
from reports.analysis.ageing import is_asked
from reports.analysis.analysed import Analysed
from reports.analysis.findings import PhaseFinding
from reports.analysis.headline import Headline, HeadlineRow
from reports.analysis.import_source import load_of, phase_frame
from reports.features.section import Section
from reports.features.sections import sections
from reports.figures import ageing, busy, event_marks, heat_map, hero, phase_maps
from reports.figures.figure import Figure, limit_line, limit_name
from reports.figures.hero import Panel
from reports.figures.phase_maps import DrawnPhase
from reports.figures.thumbnail import thumbnail
from reports.page import document
from reports.page.document import Figures, Placed, StripesPart
from reports.series.sync_methods import SyncCell, SyncRow, SyncTable
from reports.verdict.stalls import stalls

# A figure of these kinds is folded away: what it shows is in the maps, in another form.
_FOLDED = ("lines", "client")
# So many tiers in a line of the stamp.
_A_LINE = 3
# Pixels of what stands for a panel of the first screen without scripts.
_PICTURE = (300, 110)
# What is drawn of each phase.
_Subjects = Sequence[tuple[Phase, Sequence[DrawnPhase]]]


@document.damage_refused(
    "manifest, latency or summary of the run",
    "make the summary anew with `hsp show`; what a run itself left damaged cannot be drawn",
)
def render(latency: Latency, manifest: Manifest, result: Analysed) -> str:
    """The whole report as HTML. Raises ConfigError if a part of the run is damaged."""
    collected = Figures()
    summary, headline = result.summary, result.headline
    subjects = [(phase, list(_subjects(latency, phase, summary, manifest))) for phase in manifest.phases]
    means = _means(manifest, summary)
    timed = import_source.timed(manifest)
    first = None if means else _first_screen(subjects, manifest, result, collected)
    phases = [
        _phase(phase, of_phase, manifest, summary, collected) for phase, of_phase in subjects if means is None
    ]
    curves = ageing.figures(result.aged) if result.aged is not None else []
    drawn = [collected.add(figure, "ageing") for figure in curves]
    parts = list(_sections(manifest, summary, collected))
    arrays = StripesPart.of(result.stripes, collected) if result.stripes else None
    beyond = _beyond(subjects, summary, collected)
    of_features = [figures for _, figures in parts]
    lead = beyond or _lead(of_features, arrays, drawn if is_asked(result.aged) else ())
    return document.render(
        "page.html.j2",
        collected,
        stamp=_stamp(manifest, summary, headline),
        run=manifest.run or "",
        manifest=manifest,
        summary=summary,
        headline=headline,
        findings=[(each.text, _address(each, manifest) if timed else "") for each in result.findings],
        setup=result.setup,
        reference=summary.reference,
        hero=first,
        sync=means,
        phases=phases,
        lead=lead,
        ageing=[each for each in drawn if each is not lead],
        stripes=arrays,
        title=import_source.title(manifest),
        titles={phase.name: import_source.name(manifest, phase) for phase in manifest.phases},
        layers={**LAYER_NAMES, **({} if manifest.kind.value.serves_nfs else {SERVER: "file system"})},
        imported=manifest.import_,
        sentences=import_source.sentences(manifest.import_, latency.bins) if manifest.import_ else [],
        timed=timed,
        unseen=manifest.appliance,
        sections=parts,
        parts=[(each.anchor, each.title, True) for each, _ in parts],
        traced=bool(summary.rows_of(SERVER)),
        own_programs=not manifest.kind.value.serves_nfs,
        clock=_clock(manifest),
        cpu_bound=CPU_BOUND,
        bound_by_cpu=tuple(resource_use.sentences(summary.use)),
    )


@dataclass(frozen=True)
class PhasePart:
    """A phase on the page. `folded`: figures that are folded away; `missing`: tiers without an I/O."""

    phase: Phase
    title: str
    load: str
    figures: Sequence[Placed]
    folded: Sequence[Placed]
    missing: Set[str]


def _sections(
    manifest: Manifest, summary: Summary, collected: Figures
) -> Iterator[tuple[Section, list[Placed]]]:
    """That of each feature, with its figures on the page."""
    for each in sections(manifest, summary):
        yield each, [collected.add(figure, each.anchor) for figure in each.figures]


def _lead(
    of_features: Sequence[Sequence[Placed]], arrays: StripesPart | None, asked: Sequence[Placed]
) -> Placed | None:
    """The figure that answers what the run was made for."""
    answers = [*of_features, [arrays.figure] if arrays else (), asked]
    return next((figures[0] for figures in answers if figures), None)


def _beyond(subjects: _Subjects, summary: Summary, collected: Figures) -> Placed | None:
    """The map of the first tier whose limit does not hold, by itself: a band is narrow among all tiers."""
    for phase, of_phase in subjects:
        for op, tier, us, name in _limits(summary, phase):
            # Reads and writes of a phase may have maps of their own.
            mine = next((each for each in of_phase if op in each.ops), of_phase[0])
            drawn = next(phase_maps.drawings(mine.of_tier(tier), ()))[1]
            _add_limit(drawn, us, name)
            return collected.add(drawn, "limit")
    return None


def _first_screen(subjects: _Subjects, manifest: Manifest, result: Analysed, collected: Figures) -> Placed:
    """The maps of all phases beside the bars of the tiers, and a picture of each for who has no scripts."""
    summary, headline = result.summary, result.headline
    panels = list(_panels(subjects, manifest, summary))
    published = summary.reference.title if summary.reference else ""
    timed = import_source.timed(manifest)
    pictures = [(thumbnail(each.stored, _PICTURE), each.title) for each in panels[: hero.MOST_PANELS]]
    drawn = hero.hero(panels, headline.bars, _year(summary), published, timed, headline.unpublished)
    return collected.add(drawn, "hero", pictures)


def _panels(subjects: _Subjects, manifest: Manifest, summary: Summary) -> Iterator[Panel]:
    """Of the first screen: each phase's first layer; of an import, all."""
    for phase, of_phase in subjects:
        for each in of_phase:
            if manifest.import_ or each.layer == of_phase[0].layer:
                limits = [limit[2:] for limit in _limits(summary, phase)]
                stored, faults = heat_map.grid(each.frame, each.times), [*event_marks.faults_of(phase)]
                yield Panel(each.name, stored, limits, each.phase, faults)


def _address(finding: PhaseFinding, manifest: Manifest) -> str:
    """What selects the times, latencies and tier of a finding, as selection.js reads it; empty for none."""
    whole_s = [(each.end_ns - each.start_ns) / 1e9 for each in manifest.phases if each.name == finding.phase]
    is_part = finding.from_s < finding.to_s < finding.from_s + max(whole_s, default=0.0)
    times = f":{finding.from_s:.3f}-{finding.to_s:.3f}" if is_part else ""
    band = f"@{finding.low_us:.3f}-{finding.high_us:.3f}" if finding.high_us > finding.low_us else ""
    where = {"tier": finding.tier, "layer": finding.layer, "op": finding.op}
    options = urlencode({name: value for name, value in where.items() if value}, quote_via=quote)
    return f"{quote(finding.phase)}{times}{band}?{options}&zoom" if times or band else ""


def _subjects(latency: Latency, phase: Phase, summary: Summary, manifest: Manifest) -> Iterator[DrawnPhase]:
    """What is drawn of a phase: the traced server first, then each other layer and op with a row."""
    name = import_source.name(manifest, phase)
    waits = [(each.from_s, each.to_s) for each in stalls(latency.intervals, phase)]
    times = heat_map.TimeSpan.of(phase, latency.column_ns.get(phase.name))
    cells = latency.cells
    for layer in _layers(cells.filter(pl.col("phase") == phase.name)):
        frame = phase_frame(cells, phase.name, layer)
        ops = frame.filter(pl.col("count") > 0)["op"].unique().sort().to_list()
        # Reads and writes of one phase have tiers of their own, and may share one.
        together = layer == SERVER and manifest.import_ is None and phase.op != "mixed"
        for op in [None] if together else ops or frame["op"].unique().sort().to_list()[:1]:
            mine = frame if op is None else phase_maps.alone(frame, "op", str(op))
            words = layer_name(layer)
            if op and (len(ops) > 1 or manifest.import_):
                words += f", {op}"
            yield DrawnPhase(
                name if together else f"{name}: {words}", layer, op or " + ".join(ops), mine, phase.name,
                times, _rows_by_tier(summary, layer, phase, op), _year(summary), waits,
                (*phase.events, *manifest.events), import_source.clock_ns(manifest),
            )  # fmt: skip


def _layers(cells: pl.DataFrame) -> list[str]:
    """Those that have cells, the traced server first; it alone where there are none."""
    present = cells["layer"].unique().to_list()
    order = dict.fromkeys((SERVER, *LAYER_NAMES, *sorted(present)))
    return [layer for layer in order if layer in present] or [SERVER]


def _rows_by_tier(summary: Summary, layer: str, phase: Phase, op: str | None) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for row in summary.rows_of(layer):
        if row.phase == phase.name and op in (None, row.op):
            # A COMMIT has a tier of the writes.
            rows[row.tier] = max(rows.get(row.tier, row), row, key=lambda each: each.count)
    return rows


def _phase(
    phase: Phase, subjects: Sequence[DrawnPhase], manifest: Manifest, summary: Summary, collected: Figures
) -> PhasePart:
    limits = list(_limits(summary, phase))
    drawn = [
        figure
        for each in subjects
        for figure in _figures(phase, each, each.layer == subjects[0].layer, manifest, collected, limits)
    ]
    title = import_source.name(manifest, phase)
    if strip := busy.strip(phase, title):
        drawn.append(collected.add(strip, "busy"))
    expected = set(phase.expected_tiers or phase.tiers)
    seen = {row.tier for row in summary.rows if row.phase == phase.name}
    # Without a traced server nothing is known of tiers.
    traced = any(row.phase == phase.name for row in summary.rows_of(SERVER)) and not manifest.import_
    return PhasePart(
        phase, title, load_of(phase, manifest),
        [figure for figure in drawn if figure.kind not in _FOLDED],
        [figure for figure in drawn if figure.kind in _FOLDED],
        expected - seen if traced else set(),
    )  # fmt: skip


def _means(manifest: Manifest, summary: Summary) -> SyncTable | None:
    """The table of an import that has means alone; None of others."""
    rows = tuple(
        SyncRow("", title, (SyncCell(mean_us, None, None, 1e6 / mean_us, 0.0),))
        for title, mean_us in import_source.means(manifest, summary)
    )
    return SyncTable("", ("",), rows) if rows else None


def _limits(summary: Summary, phase: Phase) -> Iterator[tuple[str, str, float, str]]:
    """Limits of latency that do not hold, or are open: op, tier, us and name."""
    for each in summary.expect:
        for limit in each.limits if each.phase == phase.name else ():
            if limit.name.endswith("_us_max") and not limit.ok:
                yield each.op, each.tier, limit.limit, limit.name.removesuffix("_us_max")


def _figures(
    phase: Phase,
    subject: DrawnPhase,
    main: bool,
    manifest: Manifest,
    collected: Figures,
    limits: Sequence[tuple[str, str, float, str]],
) -> Iterator[Placed]:
    has_one_interval = phase.end_ns - phase.start_ns <= phase.interval_ns
    if manifest.import_ and len(subject.frame["time_ns"].unique()) <= 1 and has_one_interval:
        yield collected.add(phase_maps.histogram(subject), "map")
        return
    tiers = dict.fromkeys([*phase.expected_tiers, *subject.rows]) if subject.layer == SERVER else {}
    second = not main and not manifest.import_
    for kind, figure in phase_maps.drawings(subject, [t for t in tiers if _worth(phase, subject, t)]):
        for op, tier, us, name in limits if main else ():
            if op in subject.ops and figure.about.get("tier", tier) == tier:
                _add_limit(figure, us, name)
        if not (second and kind == "lines"):
            yield collected.add(figure, "client" if second else kind)


def _add_limit(drawn: Figure, us: float, name: str) -> None:
    """A line and its name in a figure of latency, whose axis then reaches down to it."""
    axis = drawn.layout["yaxis"]
    if is_log := axis["type"] == "log":
        axis["range"] = [min(axis["range"][0], math.log10(us / 1.5e6)), axis["range"][1]]
    drawn.layout.setdefault("shapes", []).append(limit_line(us))
    drawn.layout.setdefault("annotations", []).append(limit_name(us, name, log=is_log))


def _worth(phase: Phase, subject: DrawnPhase, tier: str) -> bool:
    """A tier has a map of its own if the workload expects it, or one I/O in a thousand is of it."""
    row = subject.rows.get(tier)
    return row is not None and (row.share >= 0.001 or tier in phase.expected_tiers)


def _year(summary: Summary) -> str:
    """What figures call the publication: its year if its title ends with one."""
    title = summary.reference.title if summary.reference else ""
    return title[-4:] if title[-4:].isdigit() else title


_WHERE: dict[bool | None, str] = {True: EMULATED, False: "Real hardware"}


def _stamp(manifest: Manifest, summary: Summary, headline: Headline) -> list[str]:
    """What a figure needs to stand alone, in lines: run, verdict, tiers, publication, version."""
    where = "" if manifest.import_ else _WHERE.get(manifest.testbed.emulated, "")
    shown = summary.reference and any(line.row.published for line in headline.lines)
    published = f". Published: {summary.reference.source}" if summary.reference and shown else ""
    version = (summary.versions or {}).get("hsp", "")
    begun = f", {manifest.started_utc[:16].replace('T', ' ')} UTC" if manifest.started_utc else ""
    lines = [
        f"{import_source.title(manifest) or manifest.workload}, run {manifest.run}{begun}; "
        f"{'imported' if summary.state == 'imported' else f'verdict: {summary.state}'}",
        "; ".join(filter(None, (where, f"hsp {version}{published}"))),
    ]
    tiers = [f"{each.name} p50 {each.p50}{_range(each)}" for each in headline.lines[: 2 * _A_LINE]]
    lines += ["; ".join(tiers[at : at + _A_LINE]) for at in range(0, len(tiers), _A_LINE)]
    return [line for line in lines if line.strip("; ")]


def _range(line: HeadlineRow) -> str:
    published = line.row.published
    return f" (published {format_latency_range(*published.range_us)})" if published else ""


def _clock(manifest: Manifest) -> str:
    """A sentence about the clock that the numbers come from; empty for an ordinary one."""
    clock = manifest.clock
    if clock is None or clock.kind != "virtual":
        return ""
    slowed = f" slowed {clock.dilation} times, already corrected" if clock.dilation != 1 else ""
    return f"Times are on a virtual clock{slowed}."
