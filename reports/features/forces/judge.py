"""The forced writes of a run's phases as rows: how many a second, and how long each takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kit.core.units import commas, format_latency
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.forces import Latencies
from kit.store.summary import ForcesRow, Row
from reports.devices.slog import slog_tests
from reports.features.feature import Feature, Judged
from reports.features.forces.durability import durability, outcomes
from reports.statistics.quantiles import figures_us

_OWN = ("method", "record_bytes", "per_force", "direct", "append", "files", "threads", "group_commit",
        "forces", "records", "overwritten", "recovered", "damaged", "lost", "records_per_s", "forces_per_s",
        "bytes_per_s")  # fmt: skip

_WORTH = {
    "not-durable": "Not durable",
    "memory": "A baseline in memory, not durable",
    "unforced": "Not durable",
    "unknown": "Whether that is durable is not known",
}


def describe(manifest: Manifest) -> Iterator[ForcesRow]:
    """A row per phase with forced writes."""
    for phase in manifest.phases:
        if (forces := phase.forces) and forces.writes:
            durable = durability(manifest, phase)
            p50_us, p99_us = _quantiles_us(forces.group)
            yield ForcesRow(
                phase=phase.name, **{name: getattr(forces, name) for name in _OWN},
                mean_us=forces.group.mean_ns / 1e3, p50_us=p50_us, p99_us=p99_us,
                write_p50_us=_quantiles_us(forces.write)[0], force_p50_us=_quantiles_us(forces.force)[0],
                durable=durable.code, why=durable.why,
            )  # fmt: skip


def _quantiles_us(latencies: Latencies | None) -> tuple[float | None, float | None]:
    """p50 and p99; None where there are too few."""
    if latencies is None:
        return None, None
    found = figures_us(latencies.edges, (latencies.min_ns, latencies.max_ns))
    return found["p50_us"], found["p99_us"]


def sentences(rows: Iterable[ForcesRow]) -> Iterator[str]:
    """One for each phase: its rates, its latency, and whether that is worth anything."""
    for row in rows:
        rates = (
            f"{commas(row.records_per_s)} records/s, {commas(row.forces_per_s)} forces/s, "
            f"{row.bytes_per_s / 1e6:.3g} MB/s"
        )
        until = f"{row.per_force} records are safe" if row.per_force > 1 else "a record is safe"
        took = f"{format_latency(row.mean_us)} on average until {until}"
        if row.durable == "memory":
            took = f"{format_latency(row.mean_us)} on average for a force and its writes"
        if row.durable == "unforced":
            took = f"{format_latency(row.mean_us)} on average for a write"
        text = f"{row.phase}: {rates}; {took} ({row.method})."
        if row.durable != "durable":
            text += f" {_WORTH[row.durable]}: {row.why}."
        yield text


def _judged(manifest: Manifest, _: Latency, __: Sequence[Row]) -> Judged:
    rows = [*describe(manifest)]
    # With the tables of `hsp slog` a sentence is said of what may be lost alone.
    told = [row for row in rows if row.may_lose] if any(slog_tests(manifest)) else rows
    return Judged({"forces": rows}, [*outcomes(manifest.phases)], [*sentences(told)])


FEATURE = Feature(_judged)
