"""Emulated SSDs that have been aged, kept so that later runs begin with them: a real drive stays aged, too.

    ~/.cache/hsp/aged/<digest>/  state  proof.json

`state` is what the device's model and its flash hold (server/commands.c, save); `proof.json` is what the run
that aged it has shown of that. The digest is of all that decides the state: the model and its parameters,
the capacity, the role, the settings of the preconditioning with each fio command, the sources of the
models, and the dilation. A directory is there whole or not at all, and its state is checked before each use.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kit.config.precondition_table import Precondition
from kit.config.testbed import Device
from kit.core.cache import cache_dir, locked
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.devices.block_device import find_unused
from kit.emulation import compilation
from kit.emulation.devices_file import served_devices
from kit.emulation.served import Served
from kit.hosts.base import HostLost
from kit.lab.guest import Lab
from kit.precondition import checkpoint, stage_loads
from kit.precondition import device as precondition
from kit.precondition.checkpoint import INCOMPRESSIBLE
from kit.precondition.latency_curve import Point

FORMAT = 1
_TRANSFER_DEADLINE_S = 600.0
# ARC, kernel and programs of the guest, about.
_REST_BYTES = 1 << 30
_OTHER = "another run that keeps the same device"


class AgedStates:
    """Those of one lab's devices."""

    def __init__(
        self,
        lab: Lab,
        served: Served,
        devices: Sequence[Device],
        dilation: int,
        progress: Progress,
        age_again: bool = False,
    ) -> None:
        self._lab, self._served, self._dilation, self._progress = lab, served, dilation, progress
        self._age_again, self._all_bytes = age_again, sum(device.size for device in devices)
        # What a testbed keeps in a file of its own has a history of its own.
        self._specs = {
            device.name: (served_device.spec, device.size, device.role)
            for device, served_device in zip(devices, served_devices(devices), strict=True)
            if device.keep is None
        }

    def restore(self, target: precondition.Target, settings: Precondition) -> precondition.Outcome | None:
        """Give the device the state that was kept, and return its proof; None if there is none.

        Raises HostError if the device does not take it.
        """
        if self._age_again or target.name not in self._specs:
            return None
        place = self._place(target.name, settings)
        with locked(place.parent, place.name, _OTHER, self._progress):
            found = _read(place)
            if found is None:
                return None
            proof, state = found
        if not self._has_room(target.name):
            return None
        host, copy = self._served.host, self._served.state_path(target.name)
        with self._progress.step(f"{target.name}: taking the state that run {proof['run']} aged it to"):
            try:
                self._lab.hand_over(host, state, copy, _TRANSFER_DEADLINE_S)
            except HostLost:
                raise
            except HostError as error:
                self._progress.note(f"{target.name} is aged again: {error.message}")
                return None
            self._served.tell(target.name, "load", copy)
            host.run(["rm", "-f", copy])
            host.run(["blockdev", "--flushbufs", target.path])
        return self._outcome(target, proof)

    def _has_room(self, name: str) -> bool:
        """Whether the guest's memory holds the devices, the state of this one once more, and ZFS."""
        sizes = {device: size for device, (_, size, _) in self._specs.items()}
        needed = self._all_bytes + sizes[name] + _REST_BYTES
        return needed <= self._lab.spec.memory_mib << 20

    def _outcome(self, target: precondition.Target, proof: dict[str, Any]) -> precondition.Outcome:
        host = self._served.host
        device = find_unused(host, target.path, target.size_bytes)
        share = checkpoint.compressed_share(host, device)
        problems = []
        if share < INCOMPRESSIBLE:
            problems.append(
                f"{target.name}: the state that run {proof['run']} left deflates to {share:.0%}, "
                "it should not compress"
            )
        aged_in = {"run": proof["run"], "utc": proof["utc"], "compressed_share": round(share, 4)}
        # The device of this testbed, which may have another name and another data sheet.
        endurance, spent = target.endurance_bytes, proof["entry"].get("spent_bytes")
        own = {
            "device": target.name,
            "path": target.path,
            "endurance_share": spent / endurance if endurance and spent else None,
        }
        entry = {**proof["entry"], **own, "aged_in": aged_in, "problems": problems}
        return precondition.Outcome(entry, proof["capacity_bytes"], _points(proof), problems)

    def keep(
        self,
        target: precondition.Target,
        settings: Precondition,
        outcome: precondition.Outcome,
        run: str,
    ) -> None:
        """Keep what `run` has aged. Nothing is kept of a device whose proof has a hole."""
        if target.name not in self._specs or outcome.problems or outcome.entry.get("stopped"):
            return
        if not self._has_room(target.name):
            self._progress.note(
                f"{target.name}: its state is not kept: the guest's memory is too small for it"
            )
            return
        # The run needs nothing of it, so nothing of it ends the run.
        try:
            with self._progress.step(f"{target.name}: keeping its state for later runs"):
                self._keep(target, settings, outcome, run)
        except HostLost:
            raise
        except HostError as error:
            self._progress.note(f"{target.name}: its state is not kept: {error.message}")

    def _keep(
        self, target: precondition.Target, settings: Precondition, outcome: precondition.Outcome, run: str
    ) -> None:
        host, copy = self._served.host, self._served.state_path(target.name)
        try:
            self._served.tell(target.name, "save", copy)
            state = host.get(copy, deadline_s=_TRANSFER_DEADLINE_S)
        finally:
            host.run(["rm", "-f", copy])
        proof = {
            "format": FORMAT,
            "run": run,
            "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "sources": compilation.models_digest(),
            "device": target.name,
            "entry": outcome.entry,
            "capacity_bytes": outcome.capacity_bytes,
            "points": [asdict(point) for point in outcome.points],
            "state": {"bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()},
        }
        place = self._place(target.name, settings)
        with locked(place.parent, place.name, _OTHER, self._progress):
            _store(place, state, proof)

    def _place(self, name: str, settings: Precondition) -> Path:
        spec, size, role = self._specs[name]
        stages = list(stage_loads.stages(settings))
        loads = [
            load for stage in stages for load in stage_loads.stage_loads(stage, "DEVICE", size, settings)
        ]
        parts = [
            FORMAT,
            spec,
            size,
            role,
            checkpoint.settings_of(settings),
            [load.argv("OUTPUT") for load in loads],
            compilation.models_digest(),
            self._dilation,
        ]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        return cache_dir() / "aged" / digest


def _store(place: Path, state: bytes, proof: dict[str, Any]) -> None:
    """There whole or not at all. Raises OSError."""
    # Whoever else stored here is dead: the lock is ours.
    for stale in place.parent.glob(f".build-{place.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = place.with_name(f".build-{place.name}-{os.getpid()}")
    work.mkdir(mode=0o700)
    try:
        (work / "state").write_bytes(state)
        (work / "proof.json").write_text(json.dumps(proof) + "\n")
        shutil.rmtree(place, ignore_errors=True)
        work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def current(place: Path) -> bool:
    """Whether the state at `place` is one of these models: of other sources it is never used again."""
    found = _read_proof(place)
    return found is not None and found["sources"] == compilation.models_digest()


def _read(place: Path) -> tuple[dict[str, Any], bytes] | None:
    proof = _read_proof(place)
    if proof is None:
        return None
    try:
        state = (place / "state").read_bytes()
    except OSError:
        return None
    recorded = proof["state"]
    if len(state) != recorded["bytes"] or hashlib.sha256(state).hexdigest() != recorded["sha256"]:
        return None
    return proof, state


def _read_proof(place: Path) -> dict[str, Any] | None:
    """What is beside a state; None if it is missing, damaged or of another format."""
    try:
        proof = json.loads((place / "proof.json").read_text())
        _points(proof)
        words = (proof["run"], proof["utc"], proof["sources"], proof["state"]["sha256"])
        numbers = (proof["capacity_bytes"], proof["state"]["bytes"])
        sound = (
            proof["format"] == FORMAT
            and isinstance(proof["entry"], dict)
            and all(isinstance(word, str) for word in words)
            and all(type(number) is int for number in numbers)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return proof if sound else None


def _points(proof: dict[str, Any]) -> list[Point]:
    return [
        Point(**{**point, "cells": tuple(tuple(cell) for cell in point["cells"])})
        for point in proof["points"]
    ]
