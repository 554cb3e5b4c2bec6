"""Expectations that no run can meet: of an operation or a tier that their phase does not have. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kit.config.fio_job import FioJob
from kit.config.tables.expectation import Expectation
from kit.config.tables.phase_table import Phase
from kit.config.toml import nearest
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload
from kit.rules.operations import tiers_of


def problems(workload: Workload, jobs: Mapping[str, FioJob]) -> Iterator[tuple[KeyPath, str]]:
    """Key and text. `jobs` by Phase.load."""
    phases = {phase.name: phase for phase in workload.phase}
    shares: dict[tuple[str, str], float] = {}
    for number, each in enumerate(workload.expect):
        phase = phases[each.phase]
        if phase.metadata:
            text = f"phase '{phase.name}' has metadata, and expectations are of reads and writes"
            yield ("expect", number, "phase"), f"{text}: name another phase, or remove the expectation"
            continue
        if text := _op_problem(each, phase, jobs[phase.load]):
            yield ("expect", number, "op"), text
        if text := _tier_problem(each, phase, jobs[phase.load]):
            yield ("expect", number, "tier"), text
        if each.share_min and each.tier != "all":
            key = (each.phase, each.op)
            shares[key] = shares.get(key, 0) + each.share_min
            if shares[key] > 1 + 1e-9:
                yield (
                    ("expect", number, "share_min"),
                    f"the shares asked for in phase '{each.phase}' add up to {shares[key]:g}: make them "
                    "smaller, 1 together",
                )


def _op_problem(expectation: Expectation, phase: Phase, job: FioJob) -> str:
    done = sorted(job.operations)
    # A COMMIT follows writes that are not synchronous.
    if expectation.op in done or (expectation.op == "commit" and "write" in done):
        return ""
    return (
        f"{expectation.op}: the job {phase.load_text} of phase '{phase.name}' does no such I/O, so this can "
        f'never be met: write op = "{done[0]}", or name another phase'
    )


def _tier_problem(expectation: Expectation, phase: Phase, job: FioJob) -> str:
    tier, op = expectation.tier, expectation.op
    if phase.on_devices != (expectation.layer == "device"):
        return f'layer = "device" is for phases on devices, and phase "{phase.name}" goes to a file'
    if not (phase.over_nfs or phase.on_devices) and expectation.layer != "client":
        return f'phase \'{phase.name}\' does not go over NFS: write layer = "client" and tier = "all"'
    if expectation.layer != "nfs-server":
        return ""
    if tier not in phase.tiers:
        return (
            f"phase '{phase.name}' does not have tier {tier}, "
            f"{nearest(tier, list(phase.tiers), 'it has')}; add it to the phase's tiers, or remove the "
            "expectation"
        )
    other = "read" if op == "write" else "write"
    if op in job.operations and tier not in tiers_of(op, job):
        return (
            f"{tier}: the {op}s of phase '{phase.name}' cannot have this tier, its {other}s do: write "
            f'op = "{other}", or one of {", ".join(tiers_of(op, job))}'
        )
    return ""
