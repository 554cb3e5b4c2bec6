"""Expectations on published ranges are refused where the phase is not what the ranges were measured with."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.toml import placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.workload_base import WorkloadSource
from kit.plan.plan import Plan
from kit.store.manifest import Manifest, Mount, Testbed
from kit.store.phase import Phase
from reports.published import ranges as published
from reports.published import references

_KEYS = ("inside_share_min", "inside")


def check(plan: Plan, source: WorkloadSource) -> None:
    """Raises ConfigError with file and line."""
    if problems := list(_problems(plan, source)):
        raise placed_refusal(source.placed(problems))


def _problems(plan: Plan, source: WorkloadSource) -> Iterator[tuple[KeyPath, str]]:
    workload = plan.workload
    reference = references.load(workload.reference) if workload.reference else None
    for number, expectation in enumerate(workload.expect):
        judged = [name for name in _KEYS if getattr(expectation, name) not in (None, False)]
        if not judged:
            continue
        key = ("expect", number, judged[0])
        shown = published.beside(reference, *_expected(plan, expectation.phase))
        row = (expectation.op, expectation.tier)
        if row in shown.why_not:
            yield key, f"{shown.why_not[row]} Remove the key, or measure with the same"
        elif row not in shown.ranges_us:
            text = f"'{workload.reference}' has no range for {row[0]}/{row[1]}"
            yield key, f"{text}: remove the key, or name another reference"


def _expected(plan: Plan, name: str) -> tuple[Manifest, Phase]:
    """What the run will record of the phase called `name`, as far as conditions are about it."""
    phase = next(phase for phase in plan.workload.phase if phase.name == name)
    job = plan.jobs[phase.load]
    manifest = Manifest(
        mount=Mount(options=f"vers={plan.workload.nfs.version}"),
        testbed=Testbed(clients=tuple(client.host for client in plan.testbed.client)),
    )
    return manifest, Phase(
        name=name, op=job.op, is_random=job.is_random, block_bytes=job.block_bytes,
        block_bytes_by_op=job.block_bytes_by_op, outstanding=job.outstanding, interval_ns=phase.interval,
        client_ios=0, server_ios=None, lost_events=None, start_ns=0, end_ns=0,
    )  # fmt: skip
