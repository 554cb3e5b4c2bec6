"""The devices of a run, brought to the state that its workload asks for, one after another."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.config.precondition_table import Precondition
from kit.hosts.base import Host
from kit.precondition import latency_curve
from kit.precondition.device import Target, precondition
from kit.precondition.selection import is_fresh, selected_devices
from kit.setup.context import Context
from kit.store import tables

_STATE_FOLDER = "preconditioning"


def precondition_all(settings: Precondition, run: Context, server: Host) -> None:
    """Precondition each selected device; manifest and ageing.parquet have it as soon as it is done.

    What an interrupted run has done is beside the runs of this workload, and the next one goes on from there.
    """
    testbed, site, record = run.plan.testbed, run.site, run.record
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
            device.name, device.role, site.device_paths[device.name], device.size, device.endurance
        )
        with run.journal.step("precondition", device=device.name, path=target.path, method=settings.method):
            kept = site.aged.restore(target, settings) if site.aged else None
            outcome = kept or precondition(
                server,
                target,
                settings,
                site.clock,
                work_dir=f"{run.names.work_dir}/precondition-{device.name}",
                state_path=run.run_dir.path.parent / _STATE_FOLDER / f"{testbed.name}-{device.name}.json",
                progress=run.progress,
                guard=site.guard,
            )
            entries.append(outcome.entry)
            if kept:
                aged_in = kept.entry["aged_in"]
                taken.setdefault((aged_in["run"], aged_in.get("in_series", False)), []).append(device.name)
            elif site.aged:
                site.aged.keep(target, settings, outcome, run.run_id)
        record.add_problems("precondition", *outcome.problems)
        frames.append(latency_curve.frame(device.name, device.role, outcome.capacity_bytes, outcome.points))
        tables.write_ageing(run.run_dir, pl.concat(frames))
    record.add_notes(
        *(
            f"{' and '.join(names)}: preconditioned in run {aged_in} of this series; the runs since then "
            "have written to it, too."
            if in_series
            else f"{' and '.join(names)}: aged in run {aged_in}, whose state this run began with; "
            "--age-again ages anew."
            for (aged_in, in_series), names in taken.items()
        )
    )
