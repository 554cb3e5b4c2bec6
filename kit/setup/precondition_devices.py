"""The devices of a run, brought to the state that its workload asks for, one after another."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.config.tables.precondition_table import Precondition
from kit.hosts.base import Host
from kit.precondition import latency_curve
from kit.precondition.device import Preconditioned, Target, precondition
from kit.precondition.selection import is_fresh, selected_devices
from kit.setup.context import Context
from kit.store import tables

_STATE_FOLDER = "preconditioning"


def _preconditioned(
    run: Context, server: Host, target: Target, settings: Precondition
) -> tuple[Preconditioned, bool]:
    """Precondition one device; True if an emulated one got the state that an earlier run aged it to."""
    site, folder = run.site, run.run_dir.path.parent / _STATE_FOLDER
    if site.aged and (kept := site.aged.restore(target, settings)):
        return kept, True
    outcome = precondition(
        server,
        target,
        settings,
        site.clock,
        work_dir=f"{run.names.work_dir}/precondition-{target.name}",
        state_path=folder / f"{run.plan.testbed.name}-{target.name}.json",
        progress=run.progress,
        guard=site.guard,
    )
    if site.aged:
        site.aged.keep(target, settings, outcome, run.run_id)
    return outcome, False


def precondition_all(settings: Precondition, run: Context, server: Host) -> None:
    """Precondition each selected device; manifest and ageing.parquet have it as soon as it is done.

    What an interrupted run has done is beside the runs of this workload, and the next one goes on from there.
    """
    testbed, record = run.plan.testbed, run.record
    entries: list[dict[str, Any]] = []
    record.fill(
        precondition={
            "method": settings.method,
            "fresh": is_fresh(settings, testbed),
            "settings": settings.model_dump(mode="json"),
            # Grows with each device.
            "devices": entries,
        }
    )
    frames: list[pl.DataFrame] = []
    taken: dict[tuple[str, bool], list[str]] = {}
    for device in selected_devices(settings, testbed):
        target = Target(
            device.name, device.role, run.site.device_paths[device.name], device.size, device.endurance
        )
        with run.journal.step("precondition", device=device.name, path=target.path, method=settings.method):
            outcome, was_kept = _preconditioned(run, server, target, settings)
            entries.append(outcome.entry)
            if was_kept:
                aged_in = outcome.entry["aged_in"]
                taken.setdefault((aged_in["run"], aged_in.get("in_series", False)), []).append(device.name)
        record.add_problems("precondition", *outcome.problems)
        frames.append(latency_curve.frame(device.name, device.role, outcome.capacity_bytes, outcome.points))
        tables.write_ageing(run.run_dir, pl.concat(frames))
    record.add_notes(
        *(
            f"{' and '.join(names)}: preconditioned in run {aged_in} of this series; the runs since then "
            "have written to it, too."
            if in_series
            else f"{' and '.join(names)}: aged in run {aged_in} (used again; --age-again repeats it)."
            for (aged_in, in_series), names in taken.items()
        )
    )
