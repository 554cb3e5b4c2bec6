"""The forced writes of a run's phases as rows: how many a second, and how long each takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kit.core.units import format_latency
from kit.store.manifest import Manifest
from kit.store.parts.forces import Latencies, PhaseForces
from kit.store.slog import edges
from kit.store.stored import Json
from reports.statistics.quantiles import figures_us
from reports.verdict.forces import durability

_OWN = ("method", "record_bytes", "per_force", "direct", "append", "files", "threads", "group_commit",
        "forces", "records", "overwritten", "recovered", "damaged")  # fmt: skip

_WORTH = {
    "not-durable": "Not durable",
    "memory": "A baseline in memory, not durable",
    "unforced": "Not durable",
    "unknown": "Whether that is durable is not known",
}


def describe(manifest: Manifest) -> Iterator[Json]:
    """An object per phase with forced writes, as kit.store.summary.ForcesRow."""
    for phase in manifest.phases:
        if phase.forces:
            durable = durability(manifest, phase)
            yield {"phase": phase.name, **_figures(phase.forces), "durable": durable.code, "why": durable.why}


def _figures(forces: PhaseForces) -> Json:
    group = forces.group
    quantiles = {name: _quantiles(each) for name, each in (("write", forces.write), ("force", forces.force))}
    return {
        **{name: getattr(forces, name) for name in _OWN},
        "lost": forces.lost,
        "records_per_s": forces.records_per_s,
        "forces_per_s": forces.forces_per_s,
        "bytes_per_s": forces.bytes_per_s,
        "mean_us": group.mean_ns / 1e3,
        **_quantiles(group),
        "write_p50_us": quantiles["write"]["p50_us"],
        "force_p50_us": quantiles["force"]["p50_us"],
    }


def _quantiles(latencies: Latencies | None) -> Json:
    """None where there are too few."""
    names = ("p50_us", "p99_us")
    if latencies is None:
        return dict.fromkeys(names)
    found = figures_us(edges(latencies), (latencies.min_ns, latencies.max_ns))
    return {name: found[name] for name in names}


def entry(manifest: Manifest) -> Json:
    """The key of summary.json; none without forced writes."""
    rows = list(describe(manifest))
    return {"forces": rows} if rows else {}


def sentences(rows: Iterable[Json]) -> Iterator[str]:
    """One for each phase: its rates, its latency, and whether that is worth anything."""
    for row in rows:
        rates = (
            f"{row['records_per_s']:,.0f} records/s, {row['forces_per_s']:,.0f} forces/s, "
            f"{row['bytes_per_s'] / 1e6:.3g} MB/s"
        )
        until = f"{row['per_force']} records are safe" if row["per_force"] > 1 else "a record is safe"
        took = f"{format_latency(row['mean_us'])} on average until {until}"
        if row["durable"] == "memory":
            took = f"{format_latency(row['mean_us'])} on average for a force and its writes"
        if row["durable"] == "unforced":
            took = f"{format_latency(row['mean_us'])} on average for a write"
        text = f"{row['phase']}: {rates}; {took} ({row['method']})."
        if row["durable"] != "durable":
            text += f" {_WORTH[row['durable']]}: {row['why']}."
        yield text
