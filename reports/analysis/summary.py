"""From counts per bin to a table of ranges, with the verdict (summary.json, format 1).

Stored latencies are in nanoseconds, those of the summary in microseconds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import polars as pl

from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store.checks.known import Known
from kit.store.format import SUMMARY_FORMAT
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Reason, Reference, Summary
from kit.store.tables import SERVER
from reports.analysis import band_table, clients, disclosure, forces, observer_effect, resource_use, split
from reports.devices import prices, stripes, together
from reports.published import ranges as published
from reports.published import references
from reports.published.ranges import Beside
from reports.statistics.quantiles import Bins, figures_us, interpolated_us, limits_ns
from reports.verdict import expectations, impact, power_loss, recovery, soak, verdict
from reports.verdict import forces as forces_verdict
from reports.verdict.known import of_run, with_states

# What a workload declares beside [[expect]], by key of summary.json. Each module has `describe` (rows of a
# run), `unmet` (reasons of what does not hold) and `sentences` (of what was observed).
_DECLARED = {"soak": soak, "impact": impact}
_KEY = ("phase", "layer", "op", "tier")
Json = dict[str, Any]


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
    reasons: list[Reason] = []
    if reference is None and manifest.reference:
        reference = _known_reference(manifest.reference, reasons)
    phases, bins = manifest.phases, latency.bins
    named = {phase.name: phase for phase in phases}
    names = dict.fromkeys((*named, *bins["phase"].unique().sort()))
    shown = {name: published.beside(reference, manifest, named.get(name)) for name in names}
    rows = _rows(bins, phases, reference, shown, reasons)
    by_nature = verdict.judge_accounting(manifest, latency, aged, rows, reasons)
    expect, unmet = expectations.judge(manifest, rows, latency)
    promised = _power_losses(manifest, reasons)
    faults = recovery.judge(manifest, latency, reasons)
    declared = {name: each.describe(manifest, latency) for name, each in _DECLARED.items()}
    unmet = [*promised.broken, *faults.unmet, *forces_verdict.unmet(phases), *_unkept(declared), *unmet]
    of_clients = _clients(bins, phases, reasons)
    by_nature = by_nature if len(reasons) == 1 else None
    well = verdict.all_well(phases, expect, promised.kept)
    judged = "invalid" if faults.decisive else verdict.of(reasons, unmet, by_nature)
    causes, entries = [*reasons, *unmet], of_run((*manifest.known, *known), manifest)
    value = {
        **_identity(manifest),
        **verdict.entry(judged, causes, well, entries),
        "by_nature": by_nature,
        "notes": _notes(manifest, bins, declared),
        "tracebacks": [],
        "clock": manifest.clock.as_json() if manifest.clock else None,
        **({"precondition": manifest.precondition} if manifest.precondition else {}),
        "accounting": _accounting(phases),
        "versions": manifest.versions,
        "reference": reference.as_json() if reference else None,
        "rows": rows,
        "bands": _bands(bins, list(named), reference, shown) if with_bands else [],
        "clients": of_clients,
        "expect": expect,
        "power_loss": promised.told,
        "observer_effect": observer_effect.describe(manifest.observer_effect),
        "use": resource_use.describe(manifest),
        **forces.entry(manifest),
        **({"disclosure": told} if (told := disclosure.describe(manifest)) else {}),
        **{name: found for name, found in declared.items() if found},
        **({"split": parts} if (parts := split.describe(manifest, rows)) else {}),
        **faults.entry(),
    }
    # With its conditions, which are not stored.
    summary = Summary.from_json(value, "summary").model_copy(update={"reference": reference})
    return with_states(summary, entries)


def _bands(
    bins: pl.DataFrame, phases: Sequence[str], reference: Reference | None, shown: Mapping[str, Beside]
) -> list[Json]:
    ranges = {name: each.ranges_us for name, each in shown.items()}
    return band_table.describe(bins, phases, reference, ranges)


def _identity(manifest: Manifest) -> Json:
    """Which run it is."""
    return {
        "format": SUMMARY_FORMAT,
        "run": manifest.run,
        "workload": manifest.workload,
        "title": manifest.title,
        **({"length": manifest.length} if manifest.length else {}),
    }


def _unkept(declared: Mapping[str, list[Json]]) -> list[Reason]:
    return [reason for name, rows in declared.items() for reason in _DECLARED[name].unmet(rows)]


def _notes(manifest: Manifest, latency: pl.DataFrame, declared: Mapping[str, list[Json]]) -> list[str]:
    """The run's own, and what its devices, forced writes and declared limits say."""
    phases = manifest.phases
    return [
        *manifest.notes,
        *together.sentences(latency, phases, manifest.testbed),
        *stripes.sentences(latency, phases),
        *forces.sentences(forces.describe(manifest)),
        *prices.sentences([manifest]),
        *(text for name, found in declared.items() for text in _DECLARED[name].sentences(found)),
    ]


def _known_reference(name: str, reasons: list[Reason]) -> Reference | None:
    try:
        return references.load(name)
    except ConfigError as error:
        text = f"The published ranges cannot be read: {error.message}."
        reasons.append(Reason(id="REFERENCE-UNREADABLE", text=text))
        return None


def _power_losses(manifest: Manifest, reasons: list[Reason]) -> power_loss.Judged:
    try:
        judged = power_loss.judge(manifest.power_loss)
    except MeasurementUnknown as error:
        reasons.append(Reason(id="POWER-LOSS-UNKNOWN", text=f"Power losses: {error.message}."))
        return power_loss.Judged()
    reasons += judged.open
    return judged


def _clients(latency: pl.DataFrame, phases: Sequence[Phase], reasons: list[Reason]) -> list[Json]:
    try:
        return clients.describe(latency, phases)
    except ValueError as error:
        reasons.append(Reason(id="CLIENTS-ALIKE", text=f"The clients cannot be told apart: {error}."))
        return []


def _rows(
    latency: pl.DataFrame,
    phases: Sequence[Phase],
    reference: Reference | None,
    shown: Mapping[str, Beside],
    reasons: list[Reason],
) -> list[Json]:
    named = {phase.name: phase for phase in phases}
    used = latency.lazy().filter(pl.col("count") > 0)
    # In parts: an import has millions of rows, and few bins.
    binned = (
        used.group_by(*_KEY, "lo_ns", "hi_ns").agg(pl.col("count").sum()).sort(*_KEY, "lo_ns", "hi_ns")
    ).collect(engine="streaming")
    seen = used.group_by(*_KEY, "host").agg(pl.col("count").sum()).collect(engine="streaming")
    ios_of: dict[tuple[str, ...], dict[str, int]] = {}
    for *labels, host, ios in seen.iter_rows():
        ios_of.setdefault(tuple(labels), {})[host] = ios
    totals: dict[tuple[str, ...], int] = {}
    groups: list[tuple[tuple[str, ...], list[tuple[int, int, int]]]] = []
    for key, grouped in itertools.groupby(binned.iter_rows(named=True), lambda r: tuple(r[k] for k in _KEY)):
        bins = [(r["lo_ns"], r["hi_ns"], r["count"]) for r in grouped]
        groups.append((key, bins))
        totals[key[:3]] = totals.get(key[:3], 0) + sum(b[2] for b in bins)
    order = {name: index for index, name in enumerate(named)}
    groups.sort(key=lambda g: (order.get(g[0][0], len(order)), g[0][1] != SERVER, g[0][1], g[1][0][0]))
    rows = []
    for key, bins in groups:
        row = dict(zip(_KEY, key, strict=True))
        if any(b[0] < a[1] for a, b in itertools.pairwise(bins)):
            # Interpolation and the shortest range both take each I/O to be in one bin.
            reasons.append(Reason(id="BINS-OVERLAP", text=f"{' '.join(key)}: the bins overlap."))
        try:
            limits = limits_ns(bins, _extremes(named.get(row["phase"]), row, ios_of[key].keys()))
        except ValueError as error:
            limits = (bins[0][0], bins[-1][1])
            text = f"The extremes of {' '.join(key)} are not those of the counts: {error}."
            reasons.append(Reason(id="EXTREMES", text=text))
        try:
            mean_us = _mean_us(named.get(row["phase"]), row, ios_of[key], bins)
        except ValueError as error:
            mean_us = None
            text = f"The sums of {' '.join(key)} are not those of the counts: {error}."
            reasons.append(Reason(id="SUMS", text=text))
        rows.append(
            {**_row(row, bins, limits, totals[key[:3]], reference, shown[key[0]]), "mean_us": mean_us,
             "interpolated": interpolated_us(bins, limits)}
        )  # fmt: skip
    return rows


def _mean_us(phase: Phase | None, row: Json, ios_of: Mapping[str, int], bins: Bins) -> float | None:
    """The mean of `row` from the exact sums; None unless each of its hosts has one. `ios_of`: by host.

    Raises ValueError if a sum is not one of the I/Os in the bins.
    """
    key = (row["layer"], row["op"], row["tier"])
    mine = [s for s in phase.sums if (s.layer, s.op, s.tier) == key] if phase else []
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


def _extremes(phase: Phase | None, row: Json, hosts: Set[str]) -> list[tuple[int, int]]:
    """The exact (min, max) in ns of `row` at each host; none unless each of its hosts has some."""
    key = (row["layer"], row["op"], row["tier"])
    mine = [e for e in phase.extremes if (e.layer, e.op, e.tier) == key] if phase else []
    return [(e.min_ns, e.max_ns) for e in mine] if hosts <= {e.host for e in mine} else []


def _row(
    row: Json, bins: Bins, limits: tuple[int, int], total: int, reference: Reference | None, shown: Beside
) -> Json:
    count = sum(b[2] for b in bins)
    result: Json = {
        **row,
        "count": count,
        "share": count / total,
        "published": None,
        **figures_us(bins, limits),
    }
    low, high = result["range_us"]
    if reference and row["layer"] == SERVER:
        key = (row["op"], row["tier"])
        if span := shown.ranges_us.get(key):
            inside = span[0] <= low and high <= span[1]
            result["published"] = {"reference": reference.name, "range_us": list(span), "inside": inside}
        elif sentence := shown.why_not.get(key):
            result["not_published"] = sentence
    return result


def _sum(values: Sequence[int | None]) -> int | None:
    """None where no phase has a count."""
    counted = [value for value in values if value is not None]
    return sum(counted) if counted or not values else None


def _accounting(phases: Sequence[Phase]) -> Json:
    return {
        "client_ios": _sum([phase.client_ios for phase in phases]),
        "server_ios": _sum([phase.server_ios for phase in phases]),
        "lost_events": _sum([phase.lost_events for phase in phases]),
        "phases": [
            {
                "phase": phase.name,
                "client_ios": phase.client_ios,
                "server_ios": phase.server_ios,
                "lost_events": phase.lost_events,
                "checks": [check.as_json() for check in phase.checks],
                "unavailable": [missing.as_json() for missing in phase.unavailable],
                "shares": phase.shares.as_json() if phase.shares else None,
            }
            for phase in phases
        ],
    }
