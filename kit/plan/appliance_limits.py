"""What of a workload cannot be done, and what cannot be known, where nobody can log into the server. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kit.config.workload import Phase, Workload

# Always, whatever the workload asks for.
_NOT_SEEN = (
    "which tier answered an I/O: bands are found in the latencies alone, and compared with what is published",
    "latencies at the NFS server: those of the clients have the network and the client's own code in them",
    "pool, dataset, devices and settings of the server, and whether they changed during the run",
    "what else the server did meanwhile: other clients, scrubs, trims, syncs of its pool",
    "whether the export is synchronous: an asynchronous one says that a write is done before it is stable",
)


@dataclass(frozen=True)
class LeftOut:
    """Sentences for the report. `skipped`: by the name of a phase, why it was not measured."""

    not_seen: tuple[str, ...]
    not_done: tuple[str, ...]
    skipped: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {
            "not_seen": list(self.not_seen),
            "not_done": list(self.not_done),
            "skipped": [{"phase": name, "reason": reason} for name, reason in self.skipped.items()],
        }


def left_out(workload: Workload) -> LeftOut:
    """For a server that cannot be logged into."""
    return LeftOut(_NOT_SEEN, tuple(_not_done(workload)), dict(_skipped(workload.phase)))


def _not_done(workload: Workload) -> Iterator[str]:
    for name, found in (
        ("pool", workload.pool.properties),
        ("dataset", workload.dataset.properties),
        ("tunable", workload.tunables),
    ):
        if found:
            listed = ", ".join(f"{key}={value}" for key, value in found.items())
            kind = f"{name} properties" if name != "tunable" else "tunables"
            yield f"{kind} that the workload asks for were not set and are not verified: {listed}"
    if workload.precondition and workload.precondition.writes:
        yield "devices were not preconditioned: they were measured in whatever state they are"
    if workload.warmup:
        yield (
            "the warm-up load ran, but whether the L2ARC was warm after it is not known "
            f"(the workload asks for {workload.warmup.l2arc_min >> 20} MiB in it)"
        )
    on_tiers = sum(expectation.layer != "client" for expectation in workload.expect)
    if on_tiers:
        yield f"{on_tiers} expectations of the workload were not judged: they are about tiers"


def _skipped(phases: tuple[Phase, ...]) -> Iterator[tuple[str, str]]:
    removed = ""
    for phase in phases:
        if phase.remove:
            removed = phase.remove
            yield phase.name, f"it takes the {removed} device out of the pool, which only the server can do"
        elif removed:
            yield phase.name, f"it comes after a phase that takes the {removed} device out of the pool"
