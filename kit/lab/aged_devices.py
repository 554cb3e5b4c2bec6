"""Cache of aged states of emulated SSDs: later runs start from them, as a real drive stays aged.

    ~/.cache/hsp/aged/<digest>/  state  proof.json

`state` is content and state of the model (server/commands.c, save); `proof.json` is the preconditioning
result of the run that aged it. The digest covers everything that determines the state: the model and its
parameters, the capacity, the role, the settings of the preconditioning with each fio command, the sources of
the models, and the dilation. A directory is complete or absent; its state is checked before each use.
"""

from __future__ import annotations

import hashlib
import json
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
from kit.emulation.devices_file import served_devices, state_limit_bytes
from kit.emulation.served import Served
from kit.hosts.base import HostLost
from kit.lab import cache_entry
from kit.lab.guest import Lab
from kit.precondition import checkpoint, stage_loads
from kit.precondition import device as precondition
from kit.precondition.checkpoint import INCOMPRESSIBLE
from kit.precondition.latency_curve import Point

FORMAT = 1
_TRANSFER_DEADLINE_S = 600.0
# Approximate memory of ARC, kernel and programs in the guest.
_GUEST_BYTES = 1 << 30
_LOCK_OWNER = "another run that keeps the same device"


class AgedStates:
    """Cached aged states of the devices of one lab."""

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
        # A device with a `keep` file has its own history, so it is not cached.
        self._specs = {
            device.name: (served_device.spec, device.size, device.role)
            for device, served_device in zip(devices, served_devices(devices), strict=True)
            if device.keep is None
        }

    def restore(self, target: precondition.Target, settings: Precondition) -> precondition.Outcome | None:
        """Load the cached state into the device; returns its proof, or None if there is no usable state.

        Raises HostError if the device refuses the state.
        """
        if self._age_again or target.name not in self._specs:
            return None
        path = self._path(target.name, settings)
        with locked(path.parent, path.name, _LOCK_OWNER, self._progress):
            entry = _read(path)
            if entry is None:
                return None
            proof, state = entry
        if not self._has_room(target.name):
            return None
        host, copy = self._served.host, self._served.state_path(target.name)
        with self._progress.step(f"{target.name}: loading the aged state of run {proof['run']}"):
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
        """Whether the guest's memory holds all devices, a second copy of this one's state, and ZFS."""
        _, size_bytes, _ = self._specs[name]
        needed = self._all_bytes + size_bytes + _GUEST_BYTES
        return needed <= self._lab.spec.memory_mib << 20

    def _outcome(self, target: precondition.Target, proof: dict[str, Any]) -> precondition.Outcome:
        host = self._served.host
        device = find_unused(host, target.path, target.size_bytes)
        share = checkpoint.compressed_share(host, device)
        problems = []
        if share < INCOMPRESSIBLE:
            problems.append(
                f"{target.name}: the aged state of run {proof['run']} compresses to {share:.0%}; "
                "it should be incompressible"
            )
        aged_in = {"run": proof["run"], "utc": proof["utc"], "compressed_share": round(share, 4)}
        # The name and the data sheet of the device in this testbed may differ.
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
        """Save the device that `run` has aged, unless preconditioning had problems or was stopped."""
        if target.name not in self._specs or outcome.problems or outcome.entry.get("stopped"):
            return
        if not self._has_room(target.name):
            self._progress.note(
                f"{target.name}: its state is not kept: the guest's memory is too small for it"
            )
            return
        # The run does not need the saved state, so a failure here must not end the run.
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
            _, size_bytes, _ = self._specs[target.name]
            limit_bytes = state_limit_bytes(size_bytes)
            state = host.get(copy, deadline_s=_TRANSFER_DEADLINE_S, limit_bytes=limit_bytes)
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
        path = self._path(target.name, settings)
        with locked(path.parent, path.name, _LOCK_OWNER, self._progress):
            _store(path, state, proof)

    def _path(self, name: str, settings: Precondition) -> Path:
        """Directory of the cached state."""
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


def _store(path: Path, state: bytes, proof: dict[str, Any]) -> None:
    """Write a cached state. The caller holds the lock. Raises OSError."""
    with cache_entry.replacing(path) as work:
        (work / "state").write_bytes(state)
        (work / "proof.json").write_text(json.dumps(proof) + "\n")


def current(path: Path) -> bool:
    """Whether the state at `path` was made with the present sources of the models; if not, it is unused."""
    proof = _read_proof(path)
    return proof is not None and proof["sources"] == compilation.models_digest()


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    proof = _read_proof(path)
    if proof is None:
        return None
    try:
        state = (path / "state").read_bytes()
    except OSError:
        return None
    recorded = proof["state"]
    if len(state) != recorded["bytes"] or hashlib.sha256(state).hexdigest() != recorded["sha256"]:
        return None
    return proof, state


def _read_proof(path: Path) -> dict[str, Any] | None:
    """Read proof.json; None if it is missing, damaged or of another format."""
    try:
        proof = json.loads((path / "proof.json").read_text())
        _points(proof)
        texts = (proof["run"], proof["utc"], proof["sources"], proof["state"]["sha256"])
        numbers = (proof["capacity_bytes"], proof["state"]["bytes"])
        valid = (
            proof["format"] == FORMAT
            and isinstance(proof["entry"], dict)
            and all(isinstance(text, str) for text in texts)
            and all(type(number) is int for number in numbers)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return proof if valid else None


def _points(proof: dict[str, Any]) -> list[Point]:
    return [
        Point(**{**point, "cells": tuple(tuple(cell) for cell in point["cells"])})
        for point in proof["points"]
    ]
