"""Limits of a run on an appliance without login: what cannot be done or known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.workload import Workload

# For every workload. Stored in the manifest.
_NOT_SEEN = (
    "which tier answered an I/O: bands come from the latencies alone, and are compared with published ranges",
    "latencies at the NFS server: those of the clients include the network and the client's own code",
    "pool, dataset, devices and settings of the server, and whether they changed during the run",
    "other activity of the server: other clients, scrubs, trims, syncs of its pool",
    "whether the export is synchronous: an asynchronous one completes a write before it is stable",
)
# With power losses: what was seen is a part of the result.
_NOT_SEEN_OF_POWER = (
    *_NOT_SEEN[:-1],
    "which part of the server lost a write, or would: export, pool, device or its cache",
)


@dataclass(frozen=True)
class LeftOut:
    """Texts for the report. `skipped`: the reason for each phase that is not measured, by name."""

    not_seen: tuple[str, ...]
    not_done: tuple[str, ...]
    skipped: Mapping[str, str]


def left_out(workload: Workload) -> LeftOut:
    """The limits of a workload on a server without login."""
    not_seen = _NOT_SEEN_OF_POWER if workload.power_loss else _NOT_SEEN
    return LeftOut(not_seen, tuple(_not_done(workload)), dict(_skipped(workload.phase)))


def measured_phases(workload: Workload, testbed: Testbed) -> list[Phase]:
    """Those of the workload that are possible there."""
    skipped = dict(_skipped(workload.phase)) if testbed.is_appliance else {}
    return [phase for phase in workload.phase if phase.name not in skipped]


def _not_done(workload: Workload) -> Iterator[str]:
    for kind, settings in (
        ("pool properties", workload.pool.properties),
        ("dataset properties", workload.dataset.properties),
        ("tunables", workload.tunables),
        ("host settings", {**workload.host.wanted, **workload.setting}),
    ):
        if settings:
            listed = ", ".join(f"{key}={value}" for key, value in settings.items())
            yield f"{kind} of the workload were not set and are not verified: {listed}"
    if workload.pool.age:
        yield "the pool was not filled and fragmented: how old it is is unknown"
    if workload.precondition and workload.precondition.writes:
        yield "devices were not preconditioned: their state is unknown"
    if workload.warmup:
        yield (
            "the warm-up load ran, but it is unknown whether the L2ARC was warm after it "
            f"(the workload requires {workload.warmup.l2arc_min >> 20} MiB in it)"
        )
    on_tiers = sum(expectation.layer != "client" for expectation in workload.expect)
    if on_tiers:
        yield f"{on_tiers} expectations of the workload were not judged: they are about tiers"


def _skipped(phases: tuple[Phase, ...]) -> Iterator[tuple[str, str]]:
    removed = ""
    for phase in phases:
        if phase.remove:
            removed = phase.remove
            yield phase.name, f"it removes the {removed} device from the pool, which needs a login there"
        elif phase.restart:
            yield phase.name, "the server is restarted before it, which needs a login there"
        elif phase.cold:
            yield phase.name, "it begins with empty caches, and who empties them needs a login there"
        elif not phase.over_nfs:
            yield phase.name, f'its load runs on the server (target = "{phase.target}")'
        elif removed:
            yield phase.name, f"it follows a phase that removes the {removed} device from the pool"
