"""Expectations that no run can meet, of what their phase does not have, or that none can judge. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kit.config.fio_job import FioJob
from kit.config.tables.expectation import Expectation
from kit.config.tables.phase_table import Phase
from kit.config.toml import nearest, placed_refusal
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.core.units import format_duration_ns
from kit.rules.operations import tiers_of


def problems(workload: Workload, jobs: Mapping[str, FioJob]) -> KeyProblems:
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


def check_limits(workload: Workload, source: WorkloadSource) -> None:
    """Raises ConfigError with file and line for limits that could never be judged."""
    problems = [
        ((*("expect", number), *key), text)
        for number, expectation in enumerate(workload.expect)
        for key, text in (*_stall(expectation, workload), *_ratio(expectation, workload))
    ]
    if problems:
        raise placed_refusal(source.placed(problems))


def _stall(expectation: Expectation, workload: Workload) -> KeyProblems:
    """A stall is known to within an interval: two intervals with I/Os may have almost two between them."""
    phase = next(phase for phase in workload.phase if phase.name == expectation.phase)
    limit_ms = expectation.stall_ms_max
    if limit_ms is not None and limit_ms * 1e6 < 2 * phase.interval:
        finer = f'write interval = "{limit_ms // 2:g}ms" in the phase, or ' if limit_ms >= 2 else "write "
        yield (
            ("stall_ms_max",),
            f"{limit_ms:g} ms is less than two intervals of the phase '{phase.name}' "
            f"({format_duration_ns(phase.interval)} each), and a stall is known to within an interval: "
            f"{finer}a limit of at least {2 * phase.interval / 1e6:g}",
        )


def _ratio(expectation: Expectation, workload: Workload) -> KeyProblems:
    """The other row must be one that the workload measures, and another one."""
    to = expectation.ratio_to
    if to is None:
        return
    names = [phase.name for phase in workload.phase]
    name, tier = to.phase or expectation.phase, to.tier or expectation.tier
    phase = next((phase for phase in workload.phase if phase.name == name), None)
    if phase is None:
        yield ("ratio_to", "phase"), f"no phase '{name}', {nearest(name, names, 'phases')}"
    elif (tier == "all") == (expectation.layer == "nfs-server"):
        yield (
            ("ratio_to", "tier"),
            'tier = "all" goes with layer = "client" or "device", any other tier with "nfs-server"',
        )
    elif tier != "all" and tier not in phase.tiers:
        yield (
            ("ratio_to", "tier"),
            f"the phase '{name}' does not have the tier {tier}, only {', '.join(phase.tiers)}",
        )
    elif (name, to.op or expectation.op, tier) == (expectation.phase, expectation.op, expectation.tier):
        yield ("ratio_to",), "this is the row itself: name another phase, op or tier"
