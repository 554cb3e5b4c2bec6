"""Limits of expectations that could never be judged are refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.tables.expectation import Expectation
from kit.config.toml import nearest, placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.core.units import format_duration_ns


def check(workload: Workload, source: WorkloadSource) -> None:
    """Raises ConfigError with file and line."""
    problems = [
        ((*("expect", number), *key), text)
        for number, expectation in enumerate(workload.expect)
        for key, text in (*_stall(expectation, workload), *_ratio(expectation, workload))
    ]
    if problems:
        raise placed_refusal(source.placed(problems))


def _stall(expectation: Expectation, workload: Workload) -> Iterator[tuple[KeyPath, str]]:
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


def _ratio(expectation: Expectation, workload: Workload) -> Iterator[tuple[KeyPath, str]]:
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
