"""Cache of aged states of emulated SSDs: later runs start from them, as a real drive stays aged.

    ~/.cache/hsp/aged/<digest>/  state  proof.json

`state` is content and state of the model (server/commands.c, save); `proof.json` is the preconditioning
result of the run that aged it. The digest covers everything that determines the state: the model and its
parameters, its bus, the capacity, the role, the settings of the preconditioning with each fio command, the
sources of the models, and the dilation. A directory is complete or absent; its state is checked before
each use.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from kit.config.tables.precondition_table import Precondition
from kit.config.testbed_devices import NO_BUSES, Buses, Device
from kit.core.cache import content_digest, locked, replacing
from kit.core.errors import HostError
from kit.core.files import cache_dir
from kit.core.progress import Progress
from kit.core.units import utc_now
from kit.devices.block_device import find_unused
from kit.emulation import compilation
from kit.emulation.devices_file import served_devices
from kit.emulation.served import TRANSFER_DEADLINE_S, ServedDevices
from kit.hosts.base import HostLost
from kit.lab.guest import RunningLab
from kit.precondition import checkpoint, stage_loads
from kit.precondition import device as precondition
from kit.precondition.checkpoint import INCOMPRESSIBLE
from kit.precondition.latency_curve import CurvePoint

FORMAT: Final = 1
# Approximate memory of ARC, kernel and programs in the guest.
_GUEST_BYTES = 1 << 30
_LOCK_OWNER = "another run that keeps the same device"


class _State(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    bytes: int
    sha256: str


class Proof(BaseModel):
    """proof.json. `entry`, `capacity_bytes` and `points` are those of preconditioning's Outcome."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: Literal[1] = FORMAT
    run: str
    utc: str
    sources: str
    device: str
    entry: dict[str, Any]
    capacity_bytes: int
    points: tuple[CurvePoint, ...]
    state: _State


class AgedStates:
    """Cached aged states of the devices of one lab."""

    def __init__(
        self,
        lab: RunningLab,
        served: ServedDevices,
        devices: Sequence[Device],
        dilation: int,
        progress: Progress,
        age_again: bool = False,
        buses: Buses = NO_BUSES,
    ) -> None:
        self._lab, self._served, self._dilation, self._progress = lab, served, dilation, progress
        self._age_again, self._all_bytes = age_again, sum(device.size for device in devices)
        # Aged by a run of this lab: others of a series begin with it.
        self._kept: set[str] = set()
        # A device with a `keep` file has its own history, so it is not cached.
        self._specs = {
            device.name: (served_device.spec, device.size, device.role, served_device.bus)
            for device, served_device in zip(devices, served_devices(devices, buses), strict=True)
            if device.keep is None
        }

    def restore(
        self, target: precondition.Target, settings: Precondition
    ) -> precondition.Preconditioned | None:
        """Load the cached state into the device; returns its proof, or None if there is no usable state.

        Raises HostError if the device refuses the state.
        """
        anew = self._age_again and target.name not in self._kept
        if anew or target.name not in self._specs:
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
        with self._progress.step(f"{target.name}: loading the aged state of run {proof.run}"):
            try:
                self._lab.hand_over(host, state, copy, TRANSFER_DEADLINE_S)
            except HostLost:
                raise
            except HostError as error:
                self._progress.note(f"{target.name} is aged again: {error.message}")
                return None
            self._served.tell(target.name, "load", copy)
            host.run(["rm", "-f", copy])
            host.run(["blockdev", "--flushbufs", target.path])
        return self._outcome(target, settings, proof)

    def _has_room(self, name: str) -> bool:
        """Whether the guest's memory holds all devices, a second copy of this one's state, and ZFS."""
        size_bytes = self._specs[name][1]
        needed = self._all_bytes + size_bytes + _GUEST_BYTES
        return needed <= self._lab.spec.memory_mib << 20

    def _outcome(
        self, target: precondition.Target, settings: Precondition, proof: Proof
    ) -> precondition.Preconditioned:
        host = self._served.host
        device = find_unused(host, target.path, target.size_bytes)
        share = checkpoint.compressed_share(host, device, settings.active_bytes(device.size_bytes))
        problems = []
        if share < INCOMPRESSIBLE:
            problems.append(
                f"{target.name}: the aged state of run {proof.run} compresses to {share:.0%}; "
                "it should be incompressible"
            )
        aged_in = {"run": proof.run, "utc": proof.utc, "compressed_share": round(share, 4)}
        # The name and the data sheet of the device in this testbed may differ.
        endurance, spent = target.endurance_bytes, proof.entry.get("spent_bytes")
        own = {
            "device": target.name,
            "path": target.path,
            "endurance_share": spent / endurance if endurance and spent else None,
        }
        entry = {**proof.entry, **own, "aged_in": aged_in, "problems": problems}
        return precondition.Preconditioned(entry, proof.capacity_bytes, list(proof.points), problems)

    def keep(
        self,
        target: precondition.Target,
        settings: Precondition,
        outcome: precondition.Preconditioned,
        run: str,
    ) -> None:
        """Save the device that `run` has aged, unless preconditioning had problems or was stopped."""
        if target.name not in self._specs or outcome.problems or outcome.entry.get("stopped"):
            return
        self._kept.add(target.name)
        if not self._has_room(target.name):
            self._progress.note(
                f"{target.name}: its state is not kept: the guest's memory is too small for it"
            )
            return
        path = self._path(target.name, settings)
        # The run does not need the saved state, so a failure here must not end the run.
        try:
            with (
                self._progress.step(f"{target.name}: keeping its state for later runs"),
                locked(path.parent, path.name, _LOCK_OWNER, self._progress),
            ):
                state = self._served.saved_state(target.name, self._specs[target.name][1])
                _store(path, state, _proof(target.name, outcome, run, state))
        except HostLost:
            raise
        except HostError as error:
            self._progress.note(f"{target.name}: its state is not kept: {error.message}")

    def _path(self, name: str, settings: Precondition) -> Path:
        """Directory of the cached state."""
        spec, size, role, bus = self._specs[name]
        stages = list(stage_loads.stages(settings))
        loads = [
            load for stage in stages for load in stage_loads.stage_loads(stage, "DEVICE", size, settings)
        ]
        commands = [load.argv("OUTPUT") for load in loads]
        stored = checkpoint.settings_of(settings)
        parts = [FORMAT, spec, size, role, stored, commands, compilation.models_digest(), self._dilation]
        if bus:  # over it the device ages at another pace, and its curve in the proof is another
            parts += [bus.bytes_per_s, bus.command_ns]
        return cache_dir() / "aged" / content_digest(json.dumps(parts))


def _proof(name: str, outcome: precondition.Preconditioned, run: str, state: bytes) -> Proof:
    return Proof(
        run=run,
        utc=utc_now(),
        sources=compilation.models_digest(),
        device=name,
        entry=outcome.entry,
        capacity_bytes=outcome.capacity_bytes,
        points=tuple(outcome.points),
        state=_State(bytes=len(state), sha256=hashlib.sha256(state).hexdigest()),
    )


def _store(path: Path, state: bytes, proof: Proof) -> None:
    """Write a cached state. The caller holds the lock. Raises OSError."""
    with replacing(path) as work:
        (work / "state").write_bytes(state)
        (work / "proof.json").write_text(json.dumps(proof.model_dump()) + "\n")


def current(path: Path) -> bool:
    """Whether the state at `path` was made with the present sources of the models; if not, it is unused."""
    proof = _read_proof(path)
    return proof is not None and proof.sources == compilation.models_digest()


def _read(path: Path) -> tuple[Proof, bytes] | None:
    proof = _read_proof(path)
    if proof is None:
        return None
    try:
        state = (path / "state").read_bytes()
    except OSError:
        return None
    # A state of another length has another digest.
    return (proof, state) if hashlib.sha256(state).hexdigest() == proof.state.sha256 else None


def _read_proof(path: Path) -> Proof | None:
    """Read proof.json; None if it is missing, damaged or of another format."""
    try:
        return Proof.model_validate_json((path / "proof.json").read_bytes())
    except (OSError, ValueError):
        return None
