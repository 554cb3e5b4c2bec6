"""What has been done to a device so far: kept in a file, so that an interrupted preconditioning goes on.

A stage is done with everything that belongs to it, or it is done again. The file is believed only if
device and settings are the same, the device's counter fits, and its content is what a fill left.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kit.config.precondition_table import Precondition
from kit.core.errors import HostError
from kit.devices.block_device import BlockDevice, read_written
from kit.hosts.base import Host
from kit.hosts.clock_offset import read_boot_id
from kit.precondition.latency_curve import Point
from kit.store.json_file import write_json

_FORMAT = 1
_SAMPLES = 16
_SAMPLE_BYTES = 4096
# Truly random bytes deflate to a little more than themselves. What fio writes is a multiplicative sequence
# per buffer, of which deflate finds the few low bits that repeat: 2 to 5 % on average.
INCOMPRESSIBLE = 0.9
_READ_SAMPLES = (
    'd=$1; shift; for at; do dd if="$d" bs=4096 skip="$at" count=1 iflag=direct status=none || exit 1; '
    "done | base64 -w0"
)
_SLACK_BYTES = 1 << 20


@dataclass
class State:
    """`written_bytes` since the purge and `spent_bytes` with the probe before it, by the device's counter.

    `counter_bytes` is that counter when the file was written, `boot_id` the kernel's run it belongs to.
    """

    identity: dict[str, Any]
    settings: dict[str, Any]
    boot_id: str
    counter_bytes: int = 0
    spent_bytes: int = 0
    written_bytes: int = 0
    spent_ns: int = 0
    purge: dict[str, Any] | None = None
    estimate: dict[str, Any] | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    resumed_at: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def has(self, stage: str) -> bool:
        return any(entry["stage"] == stage for entry in self.stages)

    @property
    def fills(self) -> int:
        """How many times the whole device was written."""
        return sum(entry["stage"].startswith("fill ") for entry in self.stages)

    def values(self, op: str, name: str) -> list[float]:
        """A tracked variable ("p99" in ns, "iops"), one value a round."""
        rounds = [p for p in self.points if p.op == op and p.stage.startswith("round ")]
        return [float(p.p99_ns or 0) if name == "p99" else p.iops for p in rounds]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"format": _FORMAT, **asdict(self)})


def settings_of(settings: Precondition) -> dict[str, Any]:
    """What must be the same to go on; a budget may be raised in between."""
    return settings.model_dump(mode="json", exclude={"budget", "roles"})


def read_state(path: Path) -> State | None:
    """The file's state; None if there is none or it is damaged: then the work begins anew."""
    try:
        value = json.loads(path.read_text("utf-8"))
        if value.pop("format") != _FORMAT:
            return None
        points = [
            Point(**{**point, "cells": tuple(tuple(cell) for cell in point["cells"])})
            for point in value.pop("points")
        ]
        state = State(**value, points=points)
        numbers = (state.counter_bytes, state.spent_bytes, state.written_bytes, state.spent_ns)
        sound = all(type(n) is int and n >= 0 for n in numbers) and all(_sound(p) for p in points)
        return state if sound and all("stage" in entry for entry in state.stages) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _sound(point: Point) -> bool:
    numbers = [n for cell in point.cells for n in cell]
    counts = sum(count for _, _, count in point.cells)
    return (
        all(type(n) is int and n >= 0 for n in numbers)
        and counts == point.ios
        and math.isfinite(point.iops)
        and point.iops > 0
    )


def resumable(host: Host, device: BlockDevice, state: State, settings: Precondition, stage_bytes: int) -> str:
    """Why the work cannot go on from `state`; empty if it can. `stage_bytes`: the most a stage writes."""
    if state.identity != device.identity():
        return "the device is another one"
    if state.settings != settings_of(settings):
        return "the settings are others"
    if not state.fills:
        return "nothing was filled yet"
    if read_boot_id(host) == state.boot_id:
        since = read_written(host, device).kernel_bytes - state.counter_bytes
        if not 0 <= since <= stage_bytes + _SLACK_BYTES:
            return f"{since} bytes were written since, which was not this work"
    share = compressed_share(host, device)
    if share < INCOMPRESSIBLE:
        return f"what is on the device deflates to {share:.0%}: it is not what a fill left"
    return ""


def compressed_share(host: Host, device: BlockDevice) -> float:
    """To which part of themselves sampled blocks of the device deflate: 1 for data that does not compress.

    On average, each by itself and in groups, so that repetition shows as well. Raises HostError.
    """
    blocks = device.size_bytes // _SAMPLE_BYTES
    places = sorted({blocks * n // _SAMPLES for n in range(_SAMPLES)} | {max(blocks - 1, 0)})
    argv = ["sh", "-c", _READ_SAMPLES, "sh", device.path, *map(str, places)]
    content = base64.b64decode(host.run(argv).stdout)
    if len(content) != len(places) * _SAMPLE_BYTES:
        raise HostError(
            f"on {host.name}: {device.path} could not be read at {len(places)} places",
            "look for errors of the device in the kernel log (dmesg) there",
        )
    samples = [content[at : at + _SAMPLE_BYTES] for at in range(0, len(content), _SAMPLE_BYTES)]
    # Neighbours in one window of deflate: 7 of 4 KiB are less than its 32 KiB.
    groups = [b"".join(samples[at : at + 7]) for at in range(0, len(samples), 7)]
    return min(_deflated(samples), _deflated(groups))


def _deflated(parts: list[bytes]) -> float:
    return min(sum(len(zlib.compress(part, 9)) for part in parts) / sum(map(len, parts)), 1.0)
