"""From counts per bin to a verdict and a table of ranges (summary.json, format 1).

Stored latencies are in nanoseconds, those of the summary in microseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store.format import SUMMARY_FORMAT
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Summary
from reports.analysis import appliance, band_table, clients, expectations, power_loss, references
from reports.statistics.quantiles import (
    COVERAGE,
    Bins,
    limits_ns,
    percentile_ns,
    percentiles_ns,
    shortest_range_ns,
)

__all__ = ["COVERAGE", "SERVER", "percentile_ns", "shortest_range_ns", "summarise"]

SERVER = "nfs-server"
IMPORTED = "Imported: nothing says which tier answered, nor that all I/Os are here."
_KEY = ("phase", "layer", "op", "tier")
_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
Json = dict[str, Any]

# A phase ends with the interval of its last I/O; this many more are no damage.
_LATE_INTERVALS = 10
_NOT_ENDED = (
    "The run has not ended: it still goes on, was killed, or could not store more. Phases may be missing, "
    "and settings were not compared at the end."
)


def summarise(
    latency: pl.DataFrame,
    manifest: Manifest,
    aged: pl.DataFrame | None = None,
    reference: references.Reference | None = None,
    with_bands: bool = True,
) -> Summary:
    """The summary of a run; latencies in microseconds.

    `aged`: the rows of ageing.parquet. `reference` takes the place of the one that the manifest names. Bands
    take most of the time; who needs none leaves them out, and finds an empty list.
    """
    reasons: list[str] = []
    if reference is None and manifest.reference:
        reference = _known_reference(manifest.reference, reasons)
    phases = manifest.phases
    rows = _rows(latency, phases, reference, reasons)
    by_nature = _judge_accounting(manifest, rows, reasons)
    reasons += _gaps(manifest, latency, aged)
    expect, unmet = expectations.judge(manifest, rows)
    promised, broken, kept = _power_losses(manifest, reasons)
    unmet = [*broken, *unmet]
    bands = band_table.describe(latency, [p.name for p in phases], reference) if with_bands else []
    of_clients = _clients(latency, phases, reasons)
    if len(reasons) > 1:
        by_nature = None
    # What cannot be complete by nature can still show that an expectation is not met.
    doubtful = bool(reasons) and not (by_nature and unmet)
    verdict = "unknown" if doubtful else "invalid" if unmet else "valid"
    if verdict == "valid":
        unmet = [" ".join(filter(None, [_all_well(phases, expect), kept]))]
    value = {
        "format": SUMMARY_FORMAT,
        "run": manifest.run,
        "workload": manifest.workload,
        "title": manifest.title,
        "verdict": verdict,
        "reasons": [*reasons, *unmet],
        "by_nature": by_nature,
        "notes": list(manifest.notes),
        # A check that raised an exception stood here while manifests were not checked when read.
        "tracebacks": [],
        "clock": manifest.clock.as_json() if manifest.clock else None,
        **({"precondition": manifest.precondition} if manifest.precondition else {}),
        "accounting": _accounting(phases),
        "versions": manifest.versions,
        "reference": references.told(reference),
        "rows": rows,
        "bands": bands,
        "clients": of_clients,
        "expect": expect,
        "power_loss": promised,
    }
    return Summary.from_json(value, "summary")


def _gaps(manifest: Manifest, latency: pl.DataFrame, aged: pl.DataFrame | None) -> Iterator[str]:
    """Parts of a run that are not as a run stores them. An import has none of them."""
    if manifest.import_:
        return
    if manifest.clock is None:
        yield "The manifest lacks the clock: it is not known what a second of this run is."
    if not (manifest.testbed.server and manifest.testbed.clients):
        yield "The manifest lacks the server or the clients of the testbed."
    if (manifest.precondition or {}).get("devices") and (aged is None or not aged.height):
        yield "Devices were preconditioned, and ageing.parquet, which shows it, is missing or empty."
    spans = latency.group_by("phase").agg(first=pl.col("time_ns").min(), last=pl.col("time_ns").max())
    seen = {phase: (first, last) for phase, first, last in spans.iter_rows()}
    for phase in manifest.phases:
        first, last = seen.get(phase.name, (phase.start_ns, phase.end_ns))
        end_ns = last + phase.interval_ns
        late_ns = phase.end_ns - end_ns
        if first < phase.start_ns or not 0 <= late_ns <= max(
            _LATE_INTERVALS * phase.interval_ns, end_ns - first
        ):
            yield (
                f"{phase.name}: the phase is from {phase.start_ns} to {phase.end_ns} ns, "
                f"its I/Os are from {first} to {end_ns} ns."
            )


def _judge_accounting(manifest: Manifest, rows: Sequence[Json], reasons: list[str]) -> str | None:
    """Add what does not close to `reasons`; returns the one sentence that all runs of its kind have."""
    phases = manifest.phases
    reasons += _strays(phases, rows)
    reasons += [*map(str, manifest.problems), *([] if manifest.ended else [_NOT_ENDED])]
    by_nature = None
    if manifest.import_:
        by_nature = IMPORTED
        reasons.insert(0, IMPORTED)
    else:
        # An import has no second count: there is no accounting to judge.
        trouble = appliance.trouble if manifest.appliance else _phase_trouble
        reasons += [reason for phase in phases for reason in trouble(phase, rows)]
    if not phases:
        reasons.append("The run has no phases.")
    if manifest.appliance:
        by_nature = appliance.UNSEEN
        reasons.insert(0, appliance.verdict_reason(phases, not reasons))
    return by_nature


def _known_reference(name: str, reasons: list[str]) -> references.Reference | None:
    try:
        return references.load(name)
    except ConfigError as error:
        reasons.append(f"The published ranges cannot be read: {error.message}.")
        return None


def _power_losses(manifest: Manifest, reasons: list[str]) -> tuple[Json | None, list[str], str]:
    try:
        return power_loss.judge(manifest.power_loss)
    except MeasurementUnknown as error:
        reasons.append(f"Power losses: {error.message}.")
        return None, [], ""


def _clients(latency: pl.DataFrame, phases: Sequence[Phase], reasons: list[str]) -> list[Json]:
    try:
        return clients.describe(latency, phases)
    except ValueError as error:
        reasons.append(f"The clients cannot be told apart: {error}.")
        return []


def _rows(
    latency: pl.DataFrame,
    phases: Sequence[Phase],
    reference: references.Reference | None,
    reasons: list[str],
) -> list[Json]:
    named = {phase.name: phase for phase in phases}
    used = latency.lazy().filter(pl.col("count") > 0)
    # In parts: an import has millions of rows, and few bins.
    binned = (
        used.group_by(*_KEY, "lo_ns", "hi_ns").agg(pl.col("count").sum()).sort(*_KEY, "lo_ns", "hi_ns")
    ).collect(engine="streaming")
    seen = used.select(*_KEY, "host").unique().collect(engine="streaming")
    hosts_of: dict[tuple[str, ...], set[str]] = {}
    for *labels, host in seen.iter_rows():
        hosts_of.setdefault(tuple(labels), set()).add(host)
    totals: dict[tuple[str, str], int] = {}
    groups: list[tuple[tuple[str, ...], list[tuple[int, int, int]]]] = []
    for key, grouped in itertools.groupby(binned.iter_rows(named=True), lambda r: tuple(r[k] for k in _KEY)):
        bins = [(r["lo_ns"], r["hi_ns"], r["count"]) for r in grouped]
        groups.append((key, bins))
        totals[key[0], key[1]] = totals.get((key[0], key[1]), 0) + sum(b[2] for b in bins)
    order = {name: index for index, name in enumerate(named)}
    groups.sort(key=lambda g: (order.get(g[0][0], len(order)), g[0][1] != SERVER, g[0][1], g[1][0][0]))
    rows = []
    for key, bins in groups:
        row = dict(zip(_KEY, key, strict=True))
        if any(b[0] < a[1] for a, b in itertools.pairwise(bins)):
            # Interpolation and the shortest range both take each I/O to be in one bin.
            reasons.append(f"{' '.join(key)}: the bins overlap.")
        try:
            limits = limits_ns(bins, _extremes(named.get(row["phase"]), row, hosts_of[key]))
        except ValueError as error:
            limits = (bins[0][0], bins[-1][1])
            reasons.append(f"The extremes of {' '.join(key)} are not those of the counts: {error}.")
        rows.append(_row(row, bins, limits, totals[key[0], key[1]], reference))
    return rows


def _extremes(phase: Phase | None, row: Json, hosts: set[str]) -> list[tuple[int, int]]:
    """The exact (min, max) in ns of `row` at each host; none unless each of its hosts has some."""
    key = (row["layer"], row["op"], row["tier"])
    mine = [e for e in phase.extremes if (e.layer, e.op, e.tier) == key] if phase else []
    return [(e.min_ns, e.max_ns) for e in mine] if hosts <= {e.host for e in mine} else []


def _row(
    row: Json, bins: Bins, limits: tuple[int, int], total: int, reference: references.Reference | None
) -> Json:
    count = sum(b[2] for b in bins)
    low, high = (v / 1e3 for v in shortest_range_ns(bins, limits))
    result: Json = {**row, "count": count, "share": count / total, "min_us": limits[0] / 1e3}
    values = percentiles_ns(bins, list(_PERCENTILES.values()), limits)
    for field, value in zip(_PERCENTILES, values, strict=True):
        result[field] = None if value is None else value / 1e3
    result["max_us"] = limits[1] / 1e3
    result["range_us"] = [low, high]
    result["published"] = None
    published = reference.ranges_us.get((row["op"], row["tier"])) if reference else None
    if reference and published and row["layer"] == SERVER:
        inside = published[0] <= low and high <= published[1]
        result["published"] = {"reference": reference.name, "range_us": list(published), "inside": inside}
    return result


def _strays(phases: Sequence[Phase], rows: Sequence[Json]) -> list[str]:
    """I/Os of phases that the manifest does not have: they are not accounted for."""
    names = {phase.name for phase in phases}
    strays: dict[str, int] = {}
    for row in rows:
        if row["phase"] not in names:
            strays[row["phase"]] = strays.get(row["phase"], 0) + row["count"]
    return [f"{n} I/Os are of phase {name}, which the manifest lacks." for name, n in strays.items()]


def _phase_trouble(phase: Phase, rows: Sequence[Json]) -> Iterator[str]:
    """Why this phase cannot be judged, as sentences."""
    name, client, server = phase.name, phase.client_ios, phase.server_ios
    yield from (f"{name}: {problem}" for problem in phase.problems)
    if server is None or phase.lost_events is None:
        yield f"{name}: the manifest lacks the server's I/Os or the lost trace events."
    elif client != server:
        yield f"{name}: the clients issued {client} I/Os, the server saw {server}."
    if phase.lost_events:
        yield f"{name}: {phase.lost_events} trace events were lost."
    binned, at_clients = (
        sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer)
        for layer in (SERVER, "client")
    )
    yield from _server_trouble(phase, binned, at_clients)
    # A run need not store what its clients saw, but must not store a part of it.
    if at_clients not in (0, client):
        yield f"{name}: latency.parquet holds {at_clients} I/Os of the clients, the manifest says {client}."
    yield from (f"{name}: {check}" for check in phase.checks if not check.ok)


def _server_trouble(phase: Phase, binned: int, at_clients: int) -> Iterator[str]:
    """Of the server's I/Os in latency.parquet; one that was not traced has none there, only a count."""
    name, untraced = phase.name, phase.shares is not None
    if not (phase.client_ios and phase.server_ios and (binned or untraced)):
        yield f"{name}: the phase has no I/O."
    elif untraced and binned:
        yield f"{name}: latency.parquet holds {binned} I/Os of a server that was not traced."
    elif untraced and not at_clients:
        yield f"{name}: latency.parquet has neither the server's I/Os nor the clients'."
    elif not untraced and binned != phase.server_ios:
        yield (
            f"{name}: latency.parquet holds {binned} I/Os of the server, the manifest says "
            f"{phase.server_ios}."
        )


def _all_well(phases: Sequence[Phase], expect: Sequence[Json]) -> str:
    checks = sum(len(phase.checks) for phase in phases)
    missing = sum(len(phase.unavailable) for phase in phases)
    ios = sum(phase.server_ios or 0 for phase in phases)
    open_ones = sum(e["ok"] is None for e in expect)
    words = (
        f"All {ios} I/Os are accounted for, {checks} checks and {len(expect) - open_ones} expectations hold."
    )
    if missing:
        words += f" {missing} check{'s' * (missing != 1)} cannot be made on these hosts."
    if open_ones:
        words += f" {open_ones} expectations on tiers could not be judged: the server was not traced."
    return words


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
