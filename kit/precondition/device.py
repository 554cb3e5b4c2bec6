"""Preconditioning of one device: purge, fills, rounds until SNIA steady state.

Stages are "purge", "fill N" and "round N". After each stage, reads and sync writes are measured on the bare
device, one at a time: the latency curve. The device's own counters prove the written bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.config.tables.precondition_table import WHOLE, Precondition
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.core.progress import Progress
from kit.core.units import format_iec, format_size_bytes
from kit.devices.block_device import BlockDevice, find_unused, has_smart, read_written
from kit.devices.check import Guard
from kit.hosts.base import Host
from kit.hosts.clock_offset import read_boot_id
from kit.precondition import budget, checkpoint, latency_curve, steady_state
from kit.precondition.checkpoint import State
from kit.precondition.purge import plan_purge
from kit.precondition.stage import Stop, Target, Work, do_stage, of_how_many, probe
from kit.precondition.stage_loads import Stage, stages

__all__ = ["Preconditioned", "Target", "precondition"]


@dataclass
class Preconditioned:
    """Result. `entry` goes into the manifest; `problems` make the verdict unknown."""

    entry: dict[str, Any]
    capacity_bytes: int
    points: list[latency_curve.CurvePoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def precondition(
    host: Host,
    target: Target,
    settings: Precondition,
    clock: Clock,
    *,
    work_dir: str,
    state_path: Path,
    progress: Progress,
    guard: Guard | None = None,
) -> Preconditioned:
    """Precondition one device (`settings.method` is not "none"); resume from `state_path` if possible.

    The file exists until preconditioning is complete. Raises SafetyRefusal before anything is written if the
    device is in use or the budget is too small; HostError; MeasurementUnknown if preconditioning stopped
    before the first fill was complete.
    """
    device = find_unused(host, target.path, target.size_bytes, guard.claimer if guard else None)
    if "read_block" not in settings.model_fields_set:
        size_bytes = max(settings.read_block, device.sector_bytes)
        settings = settings.model_copy(update={"read_block": size_bytes})
    _check_sectors(target, device, settings)
    budget.refuse_beyond_bytes(target.name, settings, device.size_bytes, target.endurance_bytes)
    host.run(["mkdir", "-p", work_dir])
    plan_purge(host, device, settings.purge)
    state = _resumed_or_new(host, device, settings, state_path, progress, target)
    work = Work(
        host, target, device, settings, clock, work_dir, state, state_path, progress, has_smart(host, device),
        guard,
    )  # fmt: skip
    stopped = ""
    try:
        if state.estimate is None:
            if guard:
                work.check_unchanged()
            probe(work)
        for stage in stages(settings):
            if _is_attained(work):
                break
            if not state.has(stage):
                do_stage(work, stage)
                _report_stage(work, stage, state.stages[-1])
    except Stop as stop:
        stopped = str(stop)
        state.problems.append(f"{target.name}: preconditioning stopped: {stopped}")
    if state.fills(settings) < min(settings.passes, 1):
        raise MeasurementUnknown(
            f"{target.name} was not filled once before its preconditioning stopped: {stopped}",
            "raise the budget; the completed stages are kept, and the next run resumes after them",
        )
    outcome = _outcome(work, stopped)
    state_path.unlink(missing_ok=True)
    return outcome


def _check_sectors(target: Target, device: BlockDevice, settings: Precondition) -> None:
    for name, size in (("block", settings.block), ("read_block", settings.read_block)):
        if size % device.sector_bytes:
            raise ConfigError(
                f"precondition.{name} is {size} bytes; {target.name} has sectors of {device.sector_bytes}",
                f'write {name} = "{format_size_bytes(device.sector_bytes)}" or a multiple of it',
            )


def _resumed_or_new(
    host: Host, device: BlockDevice, settings: Precondition, path: Path, progress: Progress, target: Target
) -> State:
    state = checkpoint.read_state(path)
    boot_id = read_boot_id(host)
    counter = read_written(host, device).kernel_bytes
    if state is not None:
        load_bytes = max(device.size_bytes, settings.round_bytes(device.size_bytes))
        stage_bytes = load_bytes + settings.ios * settings.block
        reason = checkpoint.resumable(host, device, state, settings, stage_bytes)
        if not reason:
            if state.boot_id == boot_id:
                # Include the writes of the interrupted stage.
                state.written_bytes += counter - state.counter_bytes
                state.spent_bytes += counter - state.counter_bytes
            state.boot_id, state.counter_bytes = boot_id, counter
            state.resumed_at.append(state.stages[-1]["stage"])
            progress.note(f"{target.name}: resuming after {state.stages[-1]['stage']}")
            return state
        progress.note(f"{target.name}: starting again, because {reason}")
    return State(device.identity(), checkpoint.settings_of(settings), boot_id, counter)


def _is_attained(work: Work) -> bool:
    return bool(work.settings.rounds) and steady_state.all_steady(_tracked(work))


def _tracked(work: Work) -> dict[str, list[float]]:
    op, settings = work.target.tracked_op, work.settings
    return {f"{op} {name}": work.state.values(op, name, settings) for name in settings.tracked}


def _report_stage(work: Work, stage: Stage, entry: dict[str, Any]) -> None:
    """Print a line about a completed stage."""
    rate = entry["proven_bytes"] / max(entry["load_seconds"], 1e-3) / 1e6
    verdict = f"; {steady_state.describe(_tracked(work))}" if stage.kind == "round" else ""
    capacities = work.state.written_bytes / work.device.size_bytes
    of_part = f" of {format_size_bytes(work.active_bytes)}" if work.settings.filled != WHOLE else ""
    work.progress.note(
        f"{work.name}: {stage}{of_how_many(work, stage)}{of_part}: {format_iec(work.state.written_bytes)} "
        f"written since the purge ({capacities:.2f} x capacity), at {rate:.3g} MB/s{verdict}"
    )


def _outcome(work: Work, stopped: str) -> Preconditioned:
    state, tracked = work.state, _tracked(work)
    attained = _is_attained(work) if work.settings.rounds else None
    if attained is False and not stopped:
        rounds = len(next(iter(tracked.values()), []))
        state.problems.append(
            f"{work.name}: steady state was not reached in {rounds} rounds "
            f"(SNIA SSS PTS, over the last {steady_state.WINDOW}): {steady_state.describe(tracked)}"
        )
    endurance = work.target.endurance_bytes
    is_part = work.active_bytes < work.device.size_bytes
    entry = {
        "device": work.name,
        "role": work.target.role,
        "method": work.settings.method,
        "identity": work.device.as_json(),
        "purge": state.purge,
        "estimate": state.estimate,
        "stages": state.stages,
        "intended_bytes": sum(stage["intended_bytes"] for stage in state.stages),
        "proven_bytes": sum(stage["proven_bytes"] for stage in state.stages),
        "written_bytes": state.written_bytes,
        "spent_bytes": state.spent_bytes,
        # What lies behind was never written since the purge.
        **({"filled_bytes": work.active_bytes} if is_part else {}),
        "endurance_share": state.spent_bytes / endurance if endurance else None,
        "tracked": tracked,
        "criteria": _criteria(tracked),
        "attained": attained,
        "stopped": stopped or None,
        "resumed_after": state.resumed_at,
        "problems": state.problems,
    }
    return Preconditioned(entry, work.device.size_bytes, state.points, state.problems)


def _criteria(tracked: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Both criteria after each round from the first complete window on."""
    rounds = max((len(values) for values in tracked.values()), default=0)
    criteria = []
    for number in range(steady_state.WINDOW, rounds + 1):
        judged = {name: steady_state.judge(values[:number]) for name, values in tracked.items()}
        criteria.append({"round": number, **{n: s.as_json() for n, s in judged.items() if s is not None}})
    return criteria
