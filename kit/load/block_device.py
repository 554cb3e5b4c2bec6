"""fio directly on a block device: one call (Load), fills, random writes.

Data does not compress and does not repeat: each call has its own `seed`, and each block new content
(refill_buffers).
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.errors import MeasurementUnknown
from kit.hosts.held_device import HeldDevice, command_on, place_on
from kit.load import fio

FILL_BLOCK = 128 << 10
FILL_DEPTH = 32


@dataclass(frozen=True)
class DeviceLoad:
    """One call of fio on `path`, or on `device`. `depth`: 1 uses psync; `sync`: each write is O_DSYNC.

    I/Os are in `span_bytes` from `offset_bytes`, in total `io_bytes`.
    """

    path: str
    pattern: str
    block_bytes: int
    span_bytes: int
    io_bytes: int
    seed: int
    offset_bytes: int = 0
    depth: int = 1
    sync: bool = False
    device: HeldDevice | None = None

    def argv(self, output: str, log: str = "", runtime_us: int = 0) -> list[str]:
        """The command. JSON goes to `output`; with `log`, a line per I/O goes to `log`_lat.1.log.

        fio ends after `runtime_us` of the host's time, if that is not 0.
        """
        engine = ["--ioengine=psync"] if self.depth == 1 else ["--ioengine=libaio", f"--iodepth={self.depth}"]
        argv = [
            "fio", "--name=device", f"--filename={fio.escaped(place_on(self.device, self.path))}",
            f"--rw={self.pattern}", f"--bs={self.block_bytes}", f"--offset={self.offset_bytes}",
            f"--size={self.span_bytes}", f"--io_size={self.io_bytes}", *engine, "--direct=1",
            "--thread=1", "--norandommap=1", f"--randseed={self.seed}", "--refill_buffers=1",
            "--allow_mounted_write=0", "--output-format=json", f"--output={output}",
        ]  # fmt: skip
        if self.depth > 1:
            argv.append("--end_fsync=1")
        if self.sync:
            argv.append("--sync=dsync")
        if log:
            argv += [f"--write_lat_log={log}", "--log_avg_msec=0", "--per_job_logs=1", "--disable_slat=1"]
        if runtime_us:
            argv.append(f"--runtime={runtime_us}us")
        return command_on(self.device, argv)


def fill(path: str, capacity_bytes: int, seed: int) -> list[DeviceLoad]:
    """Write the whole device sequentially, 128 KiB a write; the rest at its end in smaller writes."""
    whole = capacity_bytes // FILL_BLOCK * FILL_BLOCK
    loads = [DeviceLoad(path, "write", FILL_BLOCK, whole, whole, seed, depth=FILL_DEPTH)] if whole else []
    if rest := capacity_bytes - whole:
        # The largest power of two that divides the rest: sectors have 512 or 4096 bytes.
        block = rest & -rest
        loads.append(DeviceLoad(path, "write", block, rest, rest, seed + 1, offset_bytes=whole))
    return loads


def random_writes(path: str, capacity_bytes: int, block_bytes: int, io_bytes: int, seed: int) -> DeviceLoad:
    """`io_bytes` at random offsets of the whole device, with a deep queue: the writes of a round."""
    span = capacity_bytes // block_bytes * block_bytes
    return DeviceLoad(path, "randwrite", block_bytes, span, io_bytes, seed, depth=FILL_DEPTH)


@dataclass(frozen=True)
class Moved:
    """fio's own result: bytes written, and the duration in ns of the host's time."""

    written_bytes: int
    host_ns: int


def parse_moved(text: str) -> Moved:
    """From fio's JSON. Raises MeasurementUnknown for other text and for an error of fio."""
    jobs = fio.parse_output(text)
    try:
        parts = [job["write"] for job in jobs]
        written = sum(int(part["io_bytes"]) for part in parts)
        longest = max(int(part["runtime"]) for part in parts)
    except (KeyError, TypeError, ValueError) as error:
        raise MeasurementUnknown(f"fio's JSON has no count of written bytes ({error!r})") from None
    return Moved(written, longest * 1_000_000)
