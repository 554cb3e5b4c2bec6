"""From counts per bin to a table of ranges, with the verdict (summary.json).

Stored latencies are in nanoseconds, those of the summary in microseconds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from kit.store.checks.known_failures import Known
from kit.store.checks.outcome import Outcome
from kit.store.format import FORMAT
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.client_figures import ClientFigures
from kit.store.phase import Phase
from kit.store.summary import Accounting, PhaseAccounting, Published, Reference, Row, Summary
from kit.store.tables import SERVER
from reports.analysis import band_table, clients, disclosure, resource_use
from reports.devices import prices, stripes, together
from reports.features.all import FEATURES
from reports.published import ranges as published
from reports.published import references
from reports.published.ranges import Beside
from reports.statistics.quantiles import Bins, interpolated_figures_us, limits_ns
from reports.verdict import appliance, expectations, verdict
from reports.verdict.known_failures import excused, of_run, states_of
from reports.verdict.outcomes import completed, nature_of, verdict_of

_KEY = ("phase", "layer", "op", "tier")
Key = tuple[str, str, str, str]


def summarise(
    latency: Latency,
    manifest: Manifest,
    aged: pl.DataFrame | None = None,
    reference: Reference | None = None,
    with_bands: bool = True,
    known: Sequence[Known] = (),
) -> Summary:
    """The summary of a run; latencies in microseconds.

    `aged`: the rows of ageing.parquet. `reference` takes the place of the one that the manifest names. Bands
    take most of the time; who needs none leaves them out, and finds an empty list. `known`: known failures
    beside those of the workload.
    """
    found: list[Outcome] = []
    if reference is None and manifest.reference:
        reference = _known_reference(manifest.reference, found)
    phases, bins = manifest.phases, latency.bins
    named = {phase.name: phase for phase in phases}
    names = dict.fromkeys((*named, *bins["phase"].unique().sort()))
    shown = {name: published.beside(reference, manifest, named.get(name)) for name in names}
    rows = _rows(bins, named, reference, shown, found)
    found += verdict.accounting(manifest, latency, aged, rows, found)
    of_clients = _clients(bins, phases, found)
    asked, notes, kept = _asked_for(manifest, latency, rows, found)
    expect, limits = expectations.judge(manifest, rows, latency)
    entries = of_run((*manifest.known, *known), manifest)
    outcomes = excused(completed([*found, *limits], asked), entries)
    judged, nature = verdict_of(outcomes), nature_of(outcomes)
    causes = [str(each) for each in outcomes if each.decides]
    return Summary.made(
        "manifest.json",
        format=FORMAT,
        run=manifest.run,
        workload=manifest.workload,
        title=manifest.title,
        **({"length": manifest.length} if manifest.length else {}),
        verdict=judged,
        reasons=(verdict.all_well(phases, outcomes, kept),) if judged == "valid" else tuple(causes),
        outcomes=tuple(outcomes),
        **({"known": states_of(entries, outcomes, [*named])} if entries else {}),
        by_nature=verdict.NATURES[nature.id] if nature else None,
        notes=tuple(_notes(manifest, latency.intervals, notes)),
        tracebacks=(),
        clock=manifest.clock,
        **({"precondition": manifest.precondition} if manifest.precondition else {}),
        accounting=_accounting(phases),
        versions=manifest.versions,
        reference=reference,
        rows=tuple(rows),
        bands=tuple(band_table.describe(latency, manifest, reference, shown)) if with_bands else (),
        clients=tuple(of_clients),
        expect=tuple(expect),
        use=tuple(resource_use.describe(manifest)),
        **({"disclosure": told} if (told := disclosure.describe(manifest)) else {}),
        **{"power_loss": None, "observer_effect": (), **asked},
    )


def _asked_for(
    manifest: Manifest, latency: Latency, rows: Sequence[Row], found: list[Outcome]
) -> tuple[dict[str, Any], list[str], str]:
    """What a workload asks for beside `[[expect]]`: by key of summary.json, its notes, and what was kept.

    Its outcomes are added to `found`.
    """
    judged = [feature.judge(manifest, latency, rows) for feature in FEATURES]
    found += itertools.chain.from_iterable(each.outcomes for each in judged)
    parts = {key: value for each in judged for key, value in each.parts.items() if value}
    made = {key: tuple(value) if isinstance(value, list) else value for key, value in parts.items()}
    notes = [*itertools.chain.from_iterable(each.notes for each in judged)]
    return made, notes, " ".join(each.kept for each in judged if each.kept)


def _notes(manifest: Manifest, intervals: pl.DataFrame, of_features: Sequence[str]) -> list[str]:
    """The run's own; and where something was measured, what hosts, devices and limits say of it."""
    phases = manifest.phases
    is_measured = any(phase.client_ios or phase.server_ios for phase in phases)
    return [
        *manifest.notes,
        *(f"{text}." for text in (manifest.import_.warnings if manifest.import_ else ())),
        *(each.sentence for each in manifest.findings if is_measured and each.state in ("warn", "fail")),
        *verdict.not_known(phases),
        *appliance.notes(manifest),
        *together.sentences(intervals, phases, manifest.testbed),
        *stripes.sentences(intervals, phases),
        *of_features,
        *prices.sentences([prices.of_run(manifest)]),
    ]


def _known_reference(name: str, found: list[Outcome]) -> Reference | None:
    try:
        return references.load(name)
    except ConfigError as error:
        text = f"The published ranges cannot be read: {error.message}."
        found.append(Outcome.failed("REFERENCE-UNREADABLE", text))
        return None


def _clients(latency: pl.DataFrame, phases: Sequence[Phase], found: list[Outcome]) -> list[ClientFigures]:
    try:
        return clients.describe(latency, phases)
    except ValueError as error:
        found.append(Outcome.failed("CLIENTS-ALIKE", f"The clients cannot be told apart: {error}."))
        return []


def _rows(
    latency: pl.DataFrame,
    named: Mapping[str, Phase],
    reference: Reference | None,
    shown: Mapping[str, Beside],
    found: list[Outcome],
) -> list[Row]:
    used = latency.lazy().filter(pl.col("count") > 0)
    # In parts: an import has millions of rows, and few bins.
    binned = (
        used.group_by(*_KEY, "lo_ns", "hi_ns").agg(pl.col("count").sum()).sort(*_KEY, "lo_ns", "hi_ns")
    ).collect(engine="streaming")
    seen = used.group_by(*_KEY, "host").agg(pl.col("count").sum()).collect(engine="streaming")
    ios_of: dict[Key, dict[str, int]] = {}
    for phase, layer, op, tier, host, ios in seen.iter_rows():
        ios_of.setdefault((phase, layer, op, tier), {})[host] = ios
    totals = Counter[tuple[str, ...]]()
    groups: list[tuple[Key, list[tuple[int, int, int]]]] = []
    for key, grouped in itertools.groupby(binned.iter_rows(), lambda r: (r[0], r[1], r[2], r[3])):
        bins = [(lo, hi, count) for *_, lo, hi, count in grouped]
        groups.append((key, bins))
        totals[key[:3]] += sum(b[2] for b in bins)
    order = {name: index for index, name in enumerate(named)}
    groups.sort(key=lambda g: (order.get(g[0][0], len(order)), g[0][1] != SERVER, g[0][1], g[1][0][0]))
    rows = []
    for key, bins in groups:
        entry = named.get(key[0])
        if any(b[0] < a[1] for a, b in itertools.pairwise(bins)):
            # Interpolation and the shortest range both take each I/O to be in one bin.
            found.append(Outcome.failed("BINS-OVERLAP", f"{' '.join(key)}: the bins overlap."))
        try:
            limits = limits_ns(bins, _extremes(entry, key, ios_of[key].keys()))
        except ValueError as error:
            limits = (bins[0][0], bins[-1][1])
            text = f"The extremes of {' '.join(key)} are not those of the counts: {error}."
            found.append(Outcome.failed("EXTREMES", text))
        try:
            mean_us = _mean_us(entry, key, ios_of[key], bins)
        except ValueError as error:
            mean_us = None
            text = f"The sums of {' '.join(key)} are not those of the counts: {error}."
            found.append(Outcome.failed("SUMS", text))
        made = _row(key, bins, limits, totals[key[:3]], reference, shown[key[0]])
        rows.append(made.model_copy(update={"mean_us": mean_us}))
    return rows


def _mean_us(phase: Phase | None, key: Key, ios_of: Mapping[str, int], bins: Bins) -> float | None:
    """The mean of a row from the exact sums; None unless each of its hosts has one. `ios_of`: by host.

    Raises ValueError if a sum is not one of the I/Os in the bins.
    """
    mine = [s for s in phase.sums if (s.layer, s.op, s.tier) == key[1:]] if phase else []
    if not ios_of.keys() <= {s.host for s in mine}:
        return None
    summed = Counter[str]()
    for each in mine:
        summed[each.host] += each.ios
    if summed != ios_of:
        raise ValueError(f"they are of {summed.total()} I/Os, the counts of {sum(ios_of.values())}")
    sum_ns = sum(s.sum_ns for s in mine)
    low, high = (sum(b[edge] * b[2] for b in bins) for edge in (0, 1))
    if not low <= sum_ns <= high:
        raise ValueError(f"{sum_ns} ns are not in the {low} to {high} ns of the bins")
    return sum_ns / summed.total() / 1e3


def _extremes(phase: Phase | None, key: Key, hosts: Set[str]) -> list[tuple[int, int]]:
    """The exact (min, max) in ns of a row at each host; none unless each of its hosts has some."""
    mine = [e for e in phase.extremes if (e.layer, e.op, e.tier) == key[1:]] if phase else []
    return [(e.min_ns, e.max_ns) for e in mine] if hosts <= {e.host for e in mine} else []


def _row(
    key: Key, bins: Bins, limits: tuple[int, int], total: int, reference: Reference | None, shown: Beside
) -> Row:
    phase, layer, op, tier = key
    count = sum(b[2] for b in bins)
    figures, exact = interpolated_figures_us(bins, limits)
    row = Row(
        phase=phase, layer=layer, op=op, tier=tier, count=count, share=count / total, published=None,
        interpolated=exact, **figures,
    )  # fmt: skip
    if reference and layer == SERVER:
        low, high = row.range_us
        if span := shown.ranges_us.get((op, tier)):
            inside = span[0] <= low and high <= span[1]
            beside = Published(reference=reference.name, range_us=span, inside=inside)
            return row.model_copy(update={"published": beside})
        if sentence := shown.why_not.get((op, tier)):
            return row.model_copy(update={"not_published": sentence})
    return row


def _sum(values: Sequence[int | None]) -> int | None:
    """None where no phase has a count."""
    counted = [value for value in values if value is not None]
    return sum(counted) if counted or not values else None


def _accounting(phases: Sequence[Phase]) -> Accounting:
    return Accounting.made(
        "manifest.json: accounting",
        client_ios=_sum([phase.client_ios for phase in phases]),
        server_ios=_sum([phase.server_ios for phase in phases]),
        lost_events=_sum([phase.lost_events for phase in phases]),
        phases=tuple(
            PhaseAccounting(
                phase=phase.name, client_ios=phase.client_ios, server_ios=phase.server_ios,
                lost_events=phase.lost_events, checks=phase.checks, unavailable=phase.unavailable,
                shares=phase.shares,
            )
            for phase in phases
        ),
    )  # fmt: skip
