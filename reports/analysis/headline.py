"""What a run says in one look: a sentence with the ratio that matters, and a line per tier.

The first screen of the report and the table in the terminal are made of this. Latencies in microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from kit.core.text import commas, counted, listed, some
from kit.core.units import format_factor, format_latency, format_latency_range
from kit.store.labels import BELOW, SYNCS, ios_words, op_name, tier_name
from kit.store.manifest import Manifest, Mount
from kit.store.parts.bands import BandRow
from kit.store.parts.client_figures import ClientFigures
from kit.store.summary import Row, Summary
from kit.store.tables import DEVICE, SERVER
from reports.analysis import ageing, import_source
from reports.analysis.answer import answer, is_told
from reports.analysis.band_table import level_words
from reports.analysis.findings import PhaseFinding
from reports.devices.stripes import Stripes
from reports.features.all import FEATURES
from reports.published.ranges import beside
from reports.published.share import share_inside
from reports.statistics.quantiles import percentile_text
from reports.verdict.expectations import PERCENTILES

# A tier that the workload does not expect is listed from this share of the phase's I/Os on.
_LEAST_SHARE = 0.001
_MOST_MODES = 4
_MOST_PHASES = 4
# Bytes of an I/O, and I/Os outstanding.
_Load = tuple[int, int]
_Above = Mapping[tuple[str, str | _Load | None], float]


@dataclass(frozen=True)
class HeadlineRow:
    """A row of the summary as people read it.

    `inside`: the part (0 to 1) of its I/Os inside the published range; None where nothing is published.
    `times_of`: the tier above it and how many times longer this one takes, by p50.
    """

    row: Row
    phase: str
    name: str
    inside: float | None
    times_of: tuple[str, float] | None

    @property
    def p50(self) -> str:
        """The median for people."""
        return percentile_text(self.row, "p50") or "n too small"


@dataclass(frozen=True)
class Headline:
    """`sentence`: the result; `measured`: what, on what; `evidence`: why the verdict is what it is.

    `emulated`: the devices were models. `bars`: the lines; of unknown tiers their bands. `unpublished`: why
    no published range stands beside some or all lines.
    """

    sentence: str
    measured: str
    evidence: tuple[str, ...]
    emulated: bool
    lines: tuple[HeadlineRow, ...]
    bars: tuple[HeadlineRow, ...] = ()
    unpublished: tuple[str, ...] = ()


def headline(
    latency: pl.DataFrame,
    manifest: Manifest,
    summary: Summary,
    stripes: Stripes | None = None,
    aged: pl.DataFrame | None = None,
    found: Sequence[PhaseFinding] = (),
) -> Headline:
    """The headline of a run. `stripes`: of its arrays; `aged`: rows of ageing.parquet; `found`: findings."""
    lines = _lines(latency, manifest, summary)
    emulated = manifest.import_ is None and bool(manifest.testbed.emulated)
    before = [*(text for each in FEATURES for text in each.measured(summary)), *ageing.measured(aged)]
    measured = " ".join([*before, _measured(manifest, summary)])
    bars = tuple(bar for line in lines for bar in _bars(line, summary))
    said = answer(manifest, summary, stripes, aged, found) or _sentence(lines, summary)
    unpublished = _unpublished(lines, manifest, summary)
    return Headline(said, measured, _evidence(summary), emulated, lines, bars, unpublished)


def sentence(manifest: Manifest, summary: Summary) -> str:
    """The sentence of the headline, for who does not need the shares inside published ranges."""
    return answer(manifest, summary) or _sentence(_lines(None, manifest, summary), summary)


def _lines(latency: pl.DataFrame | None, manifest: Manifest, summary: Summary) -> tuple[HeadlineRow, ...]:
    """The lines; without `latency` none has a share inside the published range."""
    rows = list(_shown(manifest, summary))
    # What a phase does not record is like no other.
    loads = {
        phase.name: (phase.block_bytes, phase.outstanding)
        for phase in manifest.phases
        if phase.block_bytes and phase.outstanding
    }
    above = _ssd_rows(rows, loads)
    # Thousands of phases: not all rows are looked at for each.
    parts = {} if latency is None else latency.partition_by("phase", as_dict=True)
    titles = {phase.name: import_source.name(manifest, phase) for phase in manifest.phases}

    def inside(row: Row) -> float | None:
        part = parts.get((row.phase,))
        return share_inside(part, row, row.published.range_us) if row.published and part is not None else None

    return tuple(
        HeadlineRow(
            row,
            titles.get(row.phase, row.phase),
            _name(row, manifest),
            inside(row),
            _times_of(row, above, loads),
        )
        for row in rows
    )


def _unpublished(lines: Sequence[HeadlineRow], manifest: Manifest, summary: Summary) -> tuple[str, ...]:
    """Why lines have no published range; with the phases where another phase has one, or another reason."""
    phases: dict[str, dict[str, None]] = {}
    of = {phase.name: phase for phase in manifest.phases}
    for line in lines:
        why = {line.row.not_published or ""}
        if line.row.tier == "all":
            # Its bands have none.
            shown = beside(summary.reference, manifest, of.get(line.row.phase))
            why = {text for (op, _), text in shown.why_not.items() if op == line.row.op}
        for text in filter(None, why):
            phases.setdefault(text, {})[line.phase] = None
    one = len(phases) == 1 and not any(line.row.published for line in lines)
    return tuple(why if one else f"{_some([*names], '; ')}: {why}" for why, names in phases.items())


def _some(phases: Sequence[str], separator: str) -> str:
    """The first of their titles, which may have commas."""
    more = [f"{len(phases) - _MOST_PHASES} more phases"] if len(phases) > _MOST_PHASES + 1 else []
    return separator.join([*phases[: _MOST_PHASES + (not more)], *more])


def _evidence(summary: Summary) -> tuple[str, ...]:
    """The reasons of the verdict; of a run that is measured completely what was matched and checked."""
    # The sentence tells the first.
    reasons = summary.shown_reasons[is_told(summary) :]
    if summary.by_nature or any(each.makes == "unknown" for each in summary.causes):
        return reasons
    is_valid, count = summary.verdict == "valid", summary.tally
    complete = "Complete" if is_valid else "The measurement is complete"
    words = f"{complete}: {matched(summary)}. {count.words.capitalize()}"
    words += f"; {count.unavailable} more are not available here." if count.unavailable else "."
    if count.unjudged:
        words += f" {count.unjudged} expectations were not judged: the server was not traced."
    return (words, *summary.known_notes) if is_valid else (*reasons, words)


def matched(summary: Summary) -> str:
    """How many I/Os of the clients were seen at the server, and how many there were besides."""
    over_nfs = [phase for phase in summary.accounting.phases if phase.server_ios is not None]
    at_server = sum(phase.server_ios or 0 for phase in over_nfs)
    of_clients = sum(phase.client_ios or 0 for phase in over_nfs)
    others = (summary.accounting.client_ios or 0) - of_clients
    parts = [f"{commas(at_server)} of {commas(of_clients)} I/Os matched"] if at_server and of_clients else []
    if at_server and not of_clients:
        of = "datasets" if any(row.program for row in summary.observed) else "the NFS server"
        parts = [f"{commas(at_server)} reads and writes (tracer = counters of {of})"]
    elif parts and at_server != of_clients:
        parts = [f"{commas(at_server)} I/Os at the server, {commas(of_clients)} of the clients"]
    if others:
        counters = "device counters" if not over_nfs and summary.rows_of(DEVICE) else "counters of the server"
        parts.append(f"{commas(others)} I/Os ({'load' if summary.forces else 'fio'} = {counters})")
    return "; ".join(parts)


def _shown(manifest: Manifest, summary: Summary) -> Iterator[Row]:
    """The server's rows, or the clients' where no server was traced; without what is almost never there."""
    expected = {phase.name: phase.expected_tiers for phase in manifest.phases}
    rows = summary.main_rows
    ios: Counter[tuple[str, str]] = Counter()
    for row in rows:
        ios[row.phase, row.layer] += row.count
    for row in rows:
        # A few COMMITs are all of their operation, and little of the phase.
        share = min(row.share, row.count / (ios[row.phase, row.layer] or 1))
        is_expected = row.tier in expected.get(row.phase, ()) and row.op not in SYNCS
        if share >= _LEAST_SHARE or row.published or is_expected:
            yield row


def _bars(line: HeadlineRow, summary: Summary) -> tuple[HeadlineRow, ...]:
    """The line, or its bands if its tier is not known and it has several. Bands have no percentiles."""
    row = line.row
    key = row.phase, row.layer, row.op
    # What follows each other in time is no set of bands.
    bands = next((e.bands for e in summary.bands if (e.phase, e.layer, e.op) == key and not e.levels), ())
    if row.tier != "all" or not 1 < len(bands) <= _MOST_MODES:
        return (line,)
    made = []
    clients = [each for each in summary.clients if (each.phase, each.op) == key[::2] and not each.merged]
    for number, band in enumerate(bands, 1):
        name = f"band {number} of {len(bands)}{_whose(band, clients)}"
        of_band = {
            "tier": name, "count": band.count, "share": band.share, "range_us": band.range_us,
            "p50_us": None, "p95_us": None, "p99_us": None, "p999_us": None,
            "min_us": band.from_us, "max_us": band.to_us, "published": None,
        }  # fmt: skip
        made.append(HeadlineRow(row.model_copy(update=of_band), line.phase, name, None, None))
    return tuple(made)


def _whose(band: BandRow, clients: Sequence[ClientFigures]) -> str:
    """The one client that makes the band; "" where several do."""
    spans = ((each.host, *each.range_us) for each in clients)
    inside = [host for host, low_us, high_us in spans if low_us < band.to_us and band.from_us < high_us]
    return f" ({inside[0]})" if len(inside) == 1 and len(clients) > 1 else ""


def _ssd_rows(rows: Sequence[Row], loads: Mapping[str, _Load]) -> _Above:
    """p50 (us) of each SSD tier by phase; and by load, of the first phase with it."""
    known: dict[tuple[str, str | _Load | None], float] = {}
    for row in rows:
        if row.p50_us and row.tier in BELOW and row.op == BELOW[row.tier][0]:
            known.setdefault((row.tier, row.phase), row.p50_us)
            if load := loads.get(row.phase):
                known.setdefault((row.tier, load), row.p50_us)
    return known


def _times_of(row: Row, above: _Above, loads: Mapping[str, _Load]) -> tuple[str, float] | None:
    for tier, below in BELOW.items():
        if (row.op, row.tier) == below and row.p50_us:
            # The same phase first; a log device has a phase of its own, which must have the same load.
            p50_us = above.get((tier, row.phase)) or above.get((tier, loads.get(row.phase)))
            return (tier, row.p50_us / p50_us) if p50_us else None
    return None


def _within(summary: Summary) -> str:
    """The limits of the workload on percentiles, all of which are met: another answer says which are not."""
    limits = [
        (each, limit)
        for each in summary.expect
        for limit in each.limits
        if limit.ok and limit.name in PERCENTILES and limit.found is not None
    ]
    if not limits:
        return ""
    (expectation, limit), *others = limits
    found, most = (format_latency(us) for us in (limit.found or 0.0, limit.limit))
    figure = f"{PERCENTILES[limit.name][2]} of {ios_words(expectation.op, expectation.tier)}"
    where = f" in phase {expectation.phase}" if len(summary.accounting.phases) > 1 else ""
    more = f"; {counted(len(others), 'more limit')} met" if others else ""
    return f"Within the limit: {figure}{where} is {found}, at most {most}{more}."


def _sentence(lines: Sequence[HeadlineRow], summary: Summary) -> str:
    if not lines:
        return "No I/O was measured."
    slow = [line for line in lines if line.times_of and line.row.p50_us]
    if not slow:
        return _within(summary) or _modes(summary) or _listed(lines)
    # By operation, size and depth: medians of unlike loads are no range.
    often = Counter(line.row.op for line in slow)
    parts = [_compared(line, f" ({line.phase})" if often[line.row.op] > 1 else "") for line in slow]
    more = f"; {len(parts) - _MOST_PHASES} more" if len(parts) > _MOST_PHASES else ""
    return f"Median latency of {'; of '.join(parts[:_MOST_PHASES])}{more}."


def _compared(line: HeadlineRow, phase: str) -> str:
    """An SSD's tier and the tier below it, by their medians."""
    tier, ratio = line.times_of or ("", 1.0)
    slow_us = line.row.p50_us or 0.0
    ops, fast, times = op_name(line.row.op), format_latency(slow_us / ratio), format_factor(ratio, 2)
    return f"{ops}{phase}: {tier_name(tier)} {fast}, {line.name} {format_latency(slow_us)}, {times} as long"


def _modes(summary: Summary) -> str:
    """The bands of a run whose tiers are not known."""
    for entry in summary.bands:
        if entry.levels:
            return f"{level_words(entry.levels, op_name(entry.op))}."
        if entry.kernel is None and 1 < len(entry.bands) <= _MOST_MODES:
            named = [f"{100 * b.share:.0f} % take {format_latency_range(*b.range_us)}" for b in entry.bands]
            have = f"{op_name(entry.op).capitalize()} have {len(named)} bands of latency"
            return f"{have}: {listed(named)} (95 % of each band)."
    return ""


def _name(row: Row, manifest: Manifest) -> str:
    """What answered: a tier, or of a phase on devices these."""
    phase = manifest.phase_named(row.phase)
    if phase is None or not phase.on_devices:
        return tier_name(row.tier)
    names = [each.host for each in phase.clients]
    return " and ".join(names) if len(names) < 3 else f"{len(names)} devices"


def _of_devices(lines: Sequence[HeadlineRow]) -> str:
    """By operation; with titles where one load of several is not told by the devices' names."""
    said = []
    for op in dict.fromkeys(line.row.op for line in lines):
        of_op = [line for line in lines if line.row.op == op]
        distinct = len({line.name for line in of_op}) == len(of_op)
        listed = [f"{line.name if distinct else line.phase} {line.p50}" for line in of_op]
        said.append(f"{op_name(op)}: {some(listed, _MOST_PHASES)}")
    return f"Median latency of {'; of '.join(said)}."


def _listed(lines: Sequence[HeadlineRow]) -> str:
    known = [line for line in lines if line.row.p50_us is not None]
    if known and all(line.row.layer == DEVICE for line in known):
        return _of_devices(known)
    often = Counter((line.row.op, line.name) for line in known)
    listed = []
    for line in known:
        phase = f" ({line.phase})" if often[line.row.op, line.name] > 1 else ""
        word = "from" if line.row.op == "read" else "to"
        source = "" if line.row.tier == "all" else f" {word} {line.name}"
        listed.append(f"{op_name(line.row.op)}{source}{phase} {line.p50}")
    return f"Median latency: {some(listed, _MOST_MODES)}." if listed else "Too few I/Os for a median."


def _measured(manifest: Manifest, summary: Summary) -> str:
    """What was measured on what, in one line."""
    if manifest.import_:
        return f"Imported {manifest.import_.source.files}; latency: {manifest.import_.source.latency}."
    parts = list(dict.fromkeys(str(phase.title or phase.name) for phase in manifest.phases))
    layers = {row.layer for row in summary.main_rows}
    if len(layers) > 1:
        at = "the layer that stands beside each phase"
    else:
        server = "the NFS server" if manifest.kind.value.serves_nfs else "the file system"
        at = {SERVER: server, DEVICE: "the devices"}.get("".join(layers), "the clients")
    # Loads on devices pass no mount.
    protocol = "" if layers == {DEVICE} else _protocol(manifest.mount)
    what = _some(parts, " · ") or "Nothing"
    return f"{what}. {protocol}{(manifest.load or '').capitalize()}. Latency at {at}."


def _protocol(mount: Mount | None) -> str:
    """Such as "NFSv3. "; empty if there was no mount."""
    options = dict(each.partition("=")[::2] for each in ((mount and mount.options) or "").split(","))
    return f"NFSv{options['vers']}. " if "vers" in options else ""
