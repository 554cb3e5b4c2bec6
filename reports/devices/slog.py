"""The phases of forced writes of a run as the test of each bare device as a log device (`hsp slog`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kit.store.format import FORMAT
from kit.store.manifest import Device, Manifest
from kit.store.parts.forces import WITHOUT_WRITES, Forces
from kit.store.printed.slog import DSYNC, FLUSHED, SlogDevice, SlogState, SlogTest

_STATE = "manifest.json: precondition"


def slog_tests(manifest: Manifest) -> Iterator[SlogTest]:
    """Of each device that had forced writes, and commands that write nothing: the sentence needs both."""
    for device in manifest.testbed.devices:
        forces = [*_forces(manifest, str(device.name))]
        methods = {each.method for each in forces}
        if methods & {FLUSHED, DSYNC} and methods & {*WITHOUT_WRITES}:
            yield _test(manifest, device, forces)


def _forces(manifest: Manifest, name: str) -> Iterator[Forces]:
    """Of the phases on this device alone."""
    for phase in manifest.phases:
        if phase.forces and phase.on_devices and not phase.array and [*phase.spans] == [name]:
            yield phase.forces


def _test(manifest: Manifest, device: Device, forces: list[Forces]) -> SlogTest:
    versions, clock = manifest.versions or {}, manifest.clock
    return SlogTest.made(
        "manifest.json",
        format=FORMAT,
        run=manifest.run or "",
        kit=versions.get("hsp", ""),
        utc=manifest.started_utc or "",
        kernel=versions.get("kernel", ""),
        host=manifest.testbed.server or "",
        dilation=clock.dilation if clock else 1,
        seed=manifest.seed or 0,
        device=described(device),
        state=state_of(manifest.precondition or {}, str(device.name)),
        forces=tuple(forces),
    )


def described(device: Device) -> SlogDevice:
    """As far as it is stored. Raises ConfigError."""
    identity, settings = device.identity or {}, device.settings or {}
    keys = ("firmware", "sector_bytes", "rotational", "write_cache", "fua", "driver", "scheduler")
    return SlogDevice.made(
        "manifest.json: testbed.devices",
        name=device.name or "",
        model=identity.get("model") or "",
        serial=identity.get("serial") or "",
        transport=identity.get("transport") or "",
        size_bytes=device.size_bytes or 0,
        emulated=device.model if device.parameters else None,
        capacitor_health=device.capacitor_health,
        **{key: settings.get(key) for key in keys},
    )


def state_of(precondition: Mapping[str, Any], name: str) -> SlogState:
    """What the run did to the device of that name before its phases. Raises ConfigError."""
    listed = precondition.get("devices")
    entries = [*map(_table, listed if isinstance(listed, list) else ())]
    entry = next((each for each in entries if each.get("device") == name), None)
    if entry is None:
        return SlogState.made(_STATE, kind="as-found")
    if entry.get("method") == "purge":
        return SlogState.made(_STATE, kind="fresh", purge=_table(entry.get("purge")).get("method"))
    aged_in, filled = _table(entry.get("aged_in")).get("run"), entry.get("proven_bytes", 0)
    return SlogState.made(_STATE, kind="aged", filled_bytes=filled, aged_in=aged_in)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
