"""From counts per bin to a verdict and a table of ranges (summary.json, format 1).

Stored latencies are in nanoseconds, those of the summary in microseconds.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from kit.store.run_directory import FORMAT
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

_NOT_ENDED = (
    "The run has not ended: it still goes on, was killed, or could not store more. Phases may be missing, "
    "and settings were not compared at the end."
)


def summarise(
    latency: pl.DataFrame,
    manifest: Json,
    reference: references.Reference | None = None,
    with_bands: bool = True,
) -> Json:
    """The summary of a run, as it is stored in summary.json; latencies in microseconds.

    `reference` takes the place of the one that the manifest names. Bands take most of the time; who needs
    none leaves them out, and finds an empty list.
    """
    reasons = _Doubts()
    if reference is None:
        reference = _guarded("reference", reasons, partial(_reference, manifest), None)
    rows = _rows(latency, manifest, reference, reasons)
    reasons += _guarded("phases of latency.parquet", reasons, partial(_strays, manifest, rows), [])
    reasons += _guarded("problems of the run", reasons, partial(_run_problems, manifest), [])
    phases = _list(manifest.get("phases"))
    imported = bool(manifest.get("import"))
    by_nature = None
    if imported:
        by_nature = IMPORTED
        reasons.insert(0, IMPORTED)
    unseen = appliance.section(manifest) is not None
    judge_phase = _client_problems if unseen else _phase_problems
    # Nobody counted what was imported a second time: there is no accounting to judge.
    for index, phase in enumerate([] if imported else phases):
        label = f"phase {_get(phase, 'name', index)}"
        reasons += _guarded(label, reasons, partial(judge_phase, phase, rows), [])
    if not phases:
        reasons.append("The run has no phases.")
    if unseen:
        told = partial(appliance.verdict_reason, phases, not reasons)
        by_nature = appliance.UNSEEN
        reasons.insert(0, _guarded("appliance", reasons, told, appliance.UNSEEN))
    judge = partial(expectations.judge, manifest, rows, SERVER)
    expect, unmet = _guarded("expectations", reasons, judge, ([], []))
    promised, broken, kept = _guarded(
        "power losses", reasons, partial(power_loss.judge, manifest), (None, [], "")
    )
    unmet = [*broken, *unmet]
    names = [str(_get(p, "name", "")) for p in phases]
    separate = partial(band_table.describe, latency, names, reference)
    bands = _guarded("bands", reasons, separate, []) if with_bands else []
    of_clients = _guarded("clients", reasons, partial(clients.describe, latency, manifest), [])
    if len(reasons) > 1:
        by_nature = None
    # What cannot be complete by nature can still show that an expectation is not met.
    doubtful = bool(reasons) and not (by_nature and unmet)
    verdict = "unknown" if doubtful else "invalid" if unmet else "valid"
    if verdict == "valid":
        unmet = [" ".join(filter(None, [_all_well(phases, expect), kept]))]
    return {
        "format": FORMAT,
        "run": manifest.get("run"),
        "workload": manifest.get("workload"),
        "title": manifest.get("title"),
        "verdict": verdict,
        "reasons": [*reasons, *unmet],
        "by_nature": by_nature,
        "notes": [str(note) for note in _list(manifest.get("notes"))],
        "tracebacks": reasons.tracebacks,
        "clock": manifest.get("clock"),
        **({"precondition": manifest["precondition"]} if manifest.get("precondition") else {}),
        "accounting": _accounting(phases),
        "versions": manifest.get("versions"),
        "reference": references.told(reference),
        "rows": rows,
        "bands": bands,
        "clients": of_clients,
        "expect": expect,
        "power_loss": promised,
    }


class _Doubts(list[str]):
    """Reasons why nothing can be said; `tracebacks` of the checks that failed themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.tracebacks: list[str] = []


def _guarded(name: str, reasons: _Doubts, check: Callable[[], Any], default: Any) -> Any:
    """What `check` returns; an exception in it becomes a reason that has its name."""
    try:
        return check()
    except Exception as error:
        reasons.tracebacks.append(traceback.format_exc())
        reasons.append(f'The check "{name}" failed: {type(error).__name__}: {error}.')
        return default


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get(value: Any, key: str, default: Any) -> Any:
    return value.get(key, default) if isinstance(value, dict) else default


def _reference(manifest: Json) -> references.Reference | None:
    name = manifest.get("reference")
    return references.load(str(name)) if name else None


def _rows(
    latency: pl.DataFrame, manifest: Json, reference: references.Reference | None, reasons: _Doubts
) -> list[Json]:
    phases = {str(_get(p, "name", "")): p for p in _list(manifest.get("phases"))}
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
    order = {name: index for index, name in enumerate(phases)}
    groups.sort(key=lambda g: (order.get(g[0][0], len(order)), g[0][1] != SERVER, g[0][1], g[1][0][0]))
    rows = []
    for key, bins in groups:
        row = dict(zip(_KEY, key, strict=True))
        phase = phases.get(row["phase"])
        if any(b[0] < a[1] for a, b in itertools.pairwise(bins)):
            # Interpolation and the shortest range both take each I/O to be in one bin.
            reasons.append(f"{' '.join(key)}: the bins overlap.")
        extremes = _guarded("extremes", reasons, partial(_extremes, phase, row, hosts_of[key]), [])
        outer = (bins[0][0], bins[-1][1])
        name = f"extremes of {' '.join(key)}"
        limits = _guarded(name, reasons, partial(limits_ns, bins, extremes), outer)
        rows.append(_row(row, bins, limits, totals[key[0], key[1]], reference))
    return rows


def _extremes(phase: Json | None, row: Json, hosts: set[str]) -> list[Json]:
    """The exact extremes of `row`; none unless each of its hosts has some."""
    stored = _list(_get(phase, "extremes", []))
    mine = [e for e in stored if all(e[k] == row[k] for k in ("layer", "op", "tier"))]
    return mine if hosts <= {e["host"] for e in mine} else []


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


def _run_problems(manifest: Json) -> list[str]:
    problems = [str(p) for p in manifest.get("problems") or []]
    return [*problems, *([_NOT_ENDED] if manifest.get("ended") is False else [])]


def _strays(manifest: Json, rows: Sequence[Json]) -> list[str]:
    """I/Os of phases that the manifest does not have: nobody accounts for them."""
    names = {_get(p, "name", None) for p in _list(manifest.get("phases"))}
    strays: dict[str, int] = {}
    for row in rows:
        if row["phase"] not in names:
            strays[row["phase"]] = strays.get(row["phase"], 0) + row["count"]
    return [f"{n} I/Os are of phase {name}, which the manifest lacks." for name, n in strays.items()]


def _phase_problems(phase: Json, rows: Sequence[Json]) -> list[str]:
    """Why this phase cannot be judged, as sentences."""
    return list(_phase_trouble(phase, rows))


def _client_problems(phase: Json, rows: Sequence[Json]) -> list[str]:
    """The same of a phase whose server could not be looked into."""
    return list(appliance.trouble(phase, rows))


def _phase_trouble(phase: Json, rows: Sequence[Json]) -> Iterator[str]:
    name = phase["name"]
    yield from (f"{name}: {p}" for p in phase.get("problems") or [])
    client, server, lost = (int(phase[k]) for k in ("client_ios", "server_ios", "lost_events"))
    if client != server:
        yield f"{name}: the clients issued {client} I/Os, the server saw {server}."
    if lost:
        yield f"{name}: {lost} trace events were lost."
    binned, at_clients = (
        sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == layer)
        for layer in (SERVER, "client")
    )
    yield from _server_trouble(phase, binned, at_clients)
    # A run need not store what its clients saw, but must not store a part of it.
    if at_clients not in (0, client):
        yield f"{name}: latency.parquet holds {at_clients} I/Os of the clients, the manifest says {client}."
    for check in phase.get("checks") or []:
        if check["ok"] is not True:
            yield (
                f"{name}: {check['name']} ({check['source']}): expected {check['expected']}, "
                f"found {check['found']}, tolerance {check['tolerance']}."
            )


def _server_trouble(phase: Json, binned: int, at_clients: int) -> Iterator[str]:
    """Of the server's I/Os in latency.parquet; one that nobody traced has none there, only a count."""
    name, untraced = phase["name"], bool(phase.get("shares"))
    client, server = int(phase["client_ios"]), int(phase["server_ios"])
    if not (client and server and (binned or untraced)):
        yield f"{name}: the phase has no I/O."
    elif untraced and binned:
        yield f"{name}: latency.parquet holds {binned} I/Os of a server that was not traced."
    elif untraced and not at_clients:
        yield f"{name}: latency.parquet has neither the server's I/Os nor the clients'."
    elif not untraced and binned != server:
        yield f"{name}: latency.parquet holds {binned} I/Os of the server, the manifest says {server}."


def _all_well(phases: Sequence[Json], expect: Sequence[Json]) -> str:
    checks = sum(len(p.get("checks") or []) for p in phases)
    missing = sum(len(_list(p.get("unavailable"))) for p in phases)
    ios = sum(p["server_ios"] for p in phases)
    open_ones = sum(e["ok"] is None for e in expect)
    words = (
        f"All {ios} I/Os are accounted for, {checks} checks and {len(expect) - open_ones} expectations hold."
    )
    if missing:
        words += f" {missing} check{'s' * (missing != 1)} cannot be made on these hosts."
    if open_ones:
        words += f" {open_ones} expectations on tiers could not be judged: the server was not traced."
    return words


def _shares(phase: Any) -> Json | None:
    """What the server's counters say of tiers; None for a phase that was traced or is damaged."""
    found = _get(phase, "shares", None)
    return found if isinstance(_get(found, "counts", None), dict) else None


def _sum(values: Sequence[Any]) -> int | None:
    """None where nobody could count in any phase."""
    if values and all(value is None for value in values):
        return None
    return sum(value for value in values if isinstance(value, int))


def _accounting(phases: Sequence[Any]) -> Json:
    fields = ("client_ios", "server_ios", "lost_events")
    listed = [
        {
            "phase": _get(p, "name", None),
            **{f: _get(p, f, 0) for f in fields},
            "checks": _get(p, "checks", []),
            "unavailable": [c for c in _list(_get(p, "unavailable", [])) if isinstance(c, dict)],
            "shares": _shares(p),
        }
        for p in phases
    ]
    sums = {f: _sum([p[f] for p in listed]) for f in fields}
    return {**sums, "phases": listed}
