"""Going on with a run that was interrupted: what of it is kept, and whether it still is the same run."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from kit.config.tables.tree_table import MAKERS
from kit.core.errors import ConfigError
from kit.core.seed import RUN_ID, SEED_BITS
from kit.core.text import safe_text
from kit.plan.plan import Plan
from kit.precondition.selection import selected_devices
from kit.recovery.clean import is_made
from kit.recovery.journal import read_journal
from kit.rules.appliance_limits import measured_phases
from kit.run.parts import Partial, restored
from kit.setup.record import RunRecord
from kit.store import json_file, run_directory, tables
from kit.store.manifest import Manifest, read_manifest
from kit.store.phase import Phase
from kit.store.series import PREFIX

# What a phase belongs to: all of it must be as it was.
_PREFIXES = ("fio on ", "kernel of ", "fio of ")
_VERSIONS = ("kernel", "zfs", "bpftrace")


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run has measured. `phases` have ended; `latency` is theirs.

    `manifest` is None if it was killed before it had anything to store; `aged`: whether its
    preconditioning was complete; `seed`: None is the one of its id; `observer_effect`: it was asked for.
    """

    manifest: Manifest | None
    phases: tuple[Phase, ...]
    latency: pl.DataFrame
    aged: bool
    seed: int | None = None
    # The phase that goes on in its middle.
    partial: Partial | None = None
    observer_effect: bool = False
    # Rows of keys.parquet; None: it has none.
    keys: pl.DataFrame | None = None

    @property
    def left_ns(self) -> dict[str, int]:
        """What is left of a phase's duration, by its name."""
        return {self.partial.entry.name: self.partial.left_ns} if self.partial else {}

    def hand_on(self, record: RunRecord) -> None:
        """Into the manifest and the tables of the run that is resumed."""
        parts = (self.partial.entry,) if self.partial else ()
        record.fill(phases=(*self.phases, *parts))
        record.latency.append(self.latency)
        record.keys += [] if self.keys is None else [self.keys]
        if self.manifest is None:
            return
        record.fill(
            resumed=(*self.manifest.resumed, {"utc": record.manifest.started_utc}),
            started_utc=self.manifest.started_utc,
        )
        if self.aged and not record.manifest.testbed.emulated:
            record.fill(precondition=self.manifest.precondition)


def series_of(plan: object) -> dict[str, Any] | None:
    """What plan.json says of the series that the run is of."""
    series = plan.get("series") if isinstance(plan, dict) else None
    return series if isinstance(series, dict) and isinstance(series.get("id"), str) else None


def sources(run: Path) -> tuple[Path, Path, tuple[str, ...], str]:
    """What a run was planned from: files of workload and testbed, --set, device. Raises ConfigError."""
    stored = _json(run / "plan.json")
    if series := series_of(stored):
        whole = run.parent / series["id"]
        is_own = re.fullmatch(PREFIX + RUN_ID, series["id"]) and is_made(whole)
        raise ConfigError(
            f"{run} is a run of the series {safe_text(series['id'])[:100]}",
            f"resume the series: `hsp run --resume {whole}`" if is_own else "a series is resumed as a whole",
        )
    found = stored.get("sources")
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(one, str) for one in found):
        raise ConfigError(f"{run / 'plan.json'} does not say which files it is from", "begin a new run")
    sets = stored.get("sets", [])
    if not isinstance(sets, list) or not all(isinstance(each, str) for each in sets):
        raise ConfigError(f"{run / 'plan.json'}: sets is no list of texts", "begin a new run")
    if not isinstance(device := stored.get("device", ""), str):
        raise ConfigError(f"{run / 'plan.json'}: device is no text", "begin a new run")
    return Path(found[0]), Path(found[1]), tuple(sets), device


def _kept(plan: Plan, wanted: Sequence[str], done: Collection[str]) -> int:
    """How many phases are not measured again: all from the first that is missing on build on each other.

    What a cold phase made warm is lost with the pool: where a later phase reads it, it is measured again.
    """
    kept = next((n for n, name in enumerate(wanted) if name not in done), len(wanted))
    phases = {phase.name: phase for phase in plan.workload.phase}
    while 0 < kept < len(wanted) and phases[wanted[kept]].restart:
        # The phase before it is what it is held beside, and warms what it finds.
        kept -= 1
    left = [phases[name] for name in wanted[kept:]]
    of_tree = [phase.metadata for phase in left if phase.metadata]
    if of_tree and of_tree[0] not in MAKERS:
        # The tree is lost with the pool.
        kept = max(n for n, name in enumerate(wanted[:kept]) if phases[name].metadata in MAKERS)
        left = [phases[name] for name in wanted[kept:]]
    if plan.workload.warmup or not any("l2arc" in phase.tiers and not phase.cold for phase in left):
        return kept
    return next((n for n, name in enumerate(wanted[:kept]) if phases[name].cold), kept)


def read_earlier(run_dir: run_directory.RunDir, plan: Plan) -> Earlier:
    """What `run_dir` has. Raises ConfigError if it is damaged, its plan is another, or it has ended."""
    stored = _json(run_dir.path / "plan.json")
    if stored.get("digest") != plan.digest:
        raise _another_plan(run_dir, plan, stored)
    manifest = read_manifest(run_dir) if os.path.lexists(run_dir.path / "manifest.json") else None
    wanted = [phase.name for phase in measured_phases(plan.workload, plan.testbed)]
    phases = tuple(phase for phase in (manifest.phases if manifest else ()) if not phase.problems)
    done = [phase.name for phase in phases]
    kept = _kept(plan, wanted, done)
    empty = pl.DataFrame(schema=tables.LATENCY_SCHEMA)
    latency = tables.read_latency(run_dir) if os.path.lexists(run_dir.path / "latency.parquet") else empty
    partial = _partial(run_dir, plan, wanted[kept], manifest, latency) if kept < len(wanted) else None
    names = set(wanted[:kept])
    rows = [latency.filter(pl.col("phase").is_in(sorted(names)))]
    if partial:
        rows.append(partial.latency)
        if not partial.left_ns:
            names.add(partial.entry.name)
            phases, kept, partial = (*phases, partial.entry), kept + 1, None
    if kept == len(wanted) and read_journal(run_dir.journal).finished:
        raise ConfigError(
            f"{run_dir.path} is complete: nothing is left to resume",
            "`hsp show` draws it again; begin a new run for new numbers",
        )
    return Earlier(
        manifest,
        tuple(phase for phase in phases if phase.name in names),
        pl.concat(rows),
        manifest is not None and _is_aged(manifest, plan),
        manifest.seed if manifest else _seed(stored),
        partial,
        stored.get("observer_effect") is True,
        _keys(run_dir, names),
    )


def _keys(run_dir: run_directory.RunDir, phases: set[str]) -> pl.DataFrame | None:
    if not os.path.lexists(run_dir.path / "keys.parquet"):
        return None
    return tables.read_keys(run_dir).filter(pl.col("phase").is_in(sorted(phases)))


def _another_plan(run_dir: run_directory.RunDir, plan: Plan, stored: dict[str, Any]) -> ConfigError:
    changed = [
        key
        for key, value in plan.as_json().items()
        if key not in ("digest", "sources") and stored.get(key) != value
    ]
    return ConfigError(
        f"{run_dir.path} cannot be resumed: its {' and '.join(changed) or 'plan'} changed since",
        "what was measured before and after would not belong together; begin a new run",
    )


def _partial(
    run_dir: run_directory.RunDir, plan: Plan, name: str, manifest: Manifest | None, latency: pl.DataFrame
) -> Partial | None:
    """What there is of the phase that comes next, if it may be continued."""
    phase = next(each for each in plan.workload.phase if each.name == name)
    if not phase.resumable:
        return None
    before = manifest.phase_named(name) if manifest else None
    return restored(run_dir, phase, before, latency.filter(pl.col("phase") == name))


def _seed(stored: dict[str, Any]) -> int | None:
    """What the run's random numbers come from; None if nothing says so: then it is the one of its id."""
    seed = stored.get("seed")
    return seed if type(seed) is int and 0 <= seed < 1 << SEED_BITS else None


def _is_aged(manifest: Manifest, plan: Plan) -> bool:
    """Whether every device that was to be preconditioned was, to the end."""
    settings = plan.workload.precondition
    if settings is None or manifest.precondition is None:
        return False
    selected = [device.name for device in selected_devices(settings, plan.testbed)]
    entries = manifest.precondition.get("devices") or []
    return [entry.get("device") for entry in entries if isinstance(entry, dict)] == selected


def check_same_hosts(before: dict[str, str], now: dict[str, str]) -> None:
    """Versions of what measures and what is measured. Raises ConfigError naming what differs."""
    keys = [key for key in before if key in _VERSIONS or key.startswith(_PREFIXES)]
    changed = [
        f"{key} was {before[key]} and is {now.get(key)}" for key in keys if now.get(key) != before[key]
    ]
    if changed:
        raise ConfigError(
            f"the hosts changed since the run was interrupted: {'; '.join(changed)}",
            "what was measured before and after would not belong together; begin a new run",
        )


def _json(path: Path) -> dict[str, Any]:
    value = json_file.read_json(path)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is no object", "is this the directory of a run?")
    return value
