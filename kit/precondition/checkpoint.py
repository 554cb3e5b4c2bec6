"""Checkpoint of an interrupted preconditioning: a file with the completed stages of a device.

An incomplete stage is repeated. The file is used only if device and settings are the same, the device's
write counter is plausible, and its content is incompressible, as after a fill.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter

from kit.config.tables.precondition_table import Precondition
from kit.core.errors import ConfigError, HostError
from kit.core.own_file import own_directory, read_own
from kit.devices.block_device import BlockDevice, read_written
from kit.hosts.base import Host
from kit.hosts.clock_offset import read_boot_id
from kit.precondition import stage_loads
from kit.precondition.latency_curve import CurvePoint
from kit.precondition.stage_loads import Stage
from kit.store.json_file import write_json
from kit.store.stored import Count

_MAX_BYTES = 64 << 20
_SAMPLES = 16
_SAMPLE_BYTES = 4096
# Random bytes do not compress. fio writes a multiplicative sequence per buffer, whose repeating low bits
# deflate can compress: by 2 to 5 % on average.
INCOMPRESSIBLE = 0.9
_READ_SAMPLES = (
    'd=$1; shift; for at; do dd if="$d" bs=4096 skip="$at" count=1 iflag=direct status=none || exit 1; '
    "done | base64 -w0"
)
_SLACK_BYTES = 1 << 20


@dataclass
class State:
    """State of a preconditioning.

    `written_bytes`: since the purge; `spent_bytes`: including the probe before it; both from the device's
    counter. `counter_bytes`: that counter when the file was written, in the boot `boot_id`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal[1] = field(default=1, kw_only=True)
    identity: dict[str, Any]
    settings: dict[str, Any]
    boot_id: str
    counter_bytes: Count = 0
    spent_bytes: Count = 0
    written_bytes: Count = 0
    spent_ns: Count = 0
    purge: dict[str, Any] | None = None
    estimate: dict[str, Any] | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    points: list[CurvePoint] = field(default_factory=list)
    resumed_at: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def has(self, stage: Stage) -> bool:
        """Whether the stage is completed."""
        return any(entry["stage"] == str(stage) for entry in self.stages)

    def fills(self, settings: Precondition) -> int:
        """Number of completed fills of the whole device."""
        return sum(map(self.has, stage_loads.fills(settings)))

    def values(self, op: str, name: str, settings: Precondition) -> list[float]:
        """A tracked variable ("p99" in ns, "iops"), one value per round."""
        rounds = set(map(str, stage_loads.rounds(settings)))
        points = [point for point in self.points if point.op == op and point.stage in rounds]
        return [float(point.p99_ns or 0) if name == "p99" else point.iops for point in points]

    def save(self, path: Path) -> None:
        """Write the file."""
        own_directory(path.parent)
        write_json(path, asdict(self))


_STATE = TypeAdapter(State)


def settings_of(settings: Precondition) -> dict[str, Any]:
    """Settings that must be equal to resume; the budget may change."""
    return settings.model_dump(mode="json", exclude={"budget", "roles"})


def read_state(path: Path) -> State | None:
    """Read the file; None if it is missing or damaged: then preconditioning starts again."""
    try:
        state = _STATE.validate_json(read_own(path, _MAX_BYTES), strict=True)
    except (OSError, ValueError, ConfigError):
        return None
    is_counted = all(sum(count for _, _, count in point.cells) == point.ios for point in state.points)
    return state if is_counted and all("stage" in entry for entry in state.stages) else None


def resumable(host: Host, device: BlockDevice, state: State, settings: Precondition, stage_bytes: int) -> str:
    """Why preconditioning cannot resume from `state`; "" if it can. `stage_bytes`: most bytes of a stage."""
    if state.identity != device.identity():
        return "it is a different device"
    if state.settings != settings_of(settings):
        return "the settings have changed"
    if not state.fills(settings):
        return "no fill was completed"
    if read_boot_id(host) == state.boot_id:
        since = read_written(host, device).kernel_bytes - state.counter_bytes
        if not 0 <= since <= stage_bytes + _SLACK_BYTES:
            return f"{since} bytes were written since, not by this preconditioning"
    share = compressed_share(host, device, settings.active_bytes(device.size_bytes))
    if share < INCOMPRESSIBLE:
        return f"its content compresses to {share:.0%}, so it is not that of a fill"
    return ""


def compressed_share(host: Host, device: BlockDevice, active_bytes: int) -> float:
    """Compressed size of sampled blocks relative to their size; 1 for incompressible data.

    `active_bytes`: the part of the device, from its beginning, that was written.

    The lower average of single samples and of groups of them, which show repetition. Raises HostError.
    """
    blocks = active_bytes // _SAMPLE_BYTES
    offsets = sorted({blocks * n // _SAMPLES for n in range(_SAMPLES)} | {max(blocks - 1, 0)})
    argv = ["sh", "-c", _READ_SAMPLES, "sh", device.path, *map(str, offsets)]
    content = base64.b64decode(host.run(argv).stdout)
    if len(content) != len(offsets) * _SAMPLE_BYTES:
        raise HostError(
            f"on {host.name}: {device.path} could not be read at {len(offsets)} offsets",
            "look for errors of the device in the kernel log (dmesg) there",
        )
    samples = [content[at : at + _SAMPLE_BYTES] for at in range(0, len(content), _SAMPLE_BYTES)]
    # Seven samples of 4 KiB are within deflate's window of 32 KiB.
    groups = [b"".join(samples[at : at + 7]) for at in range(0, len(samples), 7)]
    return min(_compressed(samples), _compressed(groups))


def _compressed(parts: list[bytes]) -> float:
    return min(sum(len(zlib.compress(part, 9)) for part in parts) / sum(map(len, parts)), 1.0)
