"""fio straight on a block device: filling it, writing at random places, and reading or writing one by one.

All text on these command lines is the kit's own. Data never compresses and never repeats: each call
has its own `seed`, and every block is made anew (refill_buffers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.core.errors import MeasurementUnknown
from kit.load import fio

FILL_BLOCK = 128 << 10
FILL_DEPTH = 32
_SECTOR = 512


@dataclass(frozen=True)
class Load:
    """One call of fio on `path`. `depth` 1 is one after another (psync); `sync`: each write is O_DSYNC.

    Covers the device from `offset_bytes` for `span_bytes`, and moves `io_bytes`.
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

    def argv(self, output: str, log: str = "", runtime_us: int = 0) -> list[str]:
        """The command; JSON goes to `output`, a line per I/O to `log`_lat.1.log if that is wanted.

        It ends by itself after `runtime_us` of the host's time, if that is not 0.
        """
        engine = ["--ioengine=psync"] if self.depth == 1 else ["--ioengine=libaio", f"--iodepth={self.depth}"]
        argv = [
            # A colon separates file names for fio.
            "fio", "--name=device", f"--filename={self.path.replace(':', chr(92) + ':')}",
            f"--rw={self.pattern}", f"--bs={self.block_bytes}", f"--offset={self.offset_bytes}",
            f"--size={self.span_bytes}", f"--io_size={self.io_bytes}", *engine, "--direct=1",
            "--norandommap=1", f"--randseed={self.seed}", "--refill_buffers=1", "--allow_mounted_write=0",
            "--output-format=json", f"--output={output}",
        ]  # fmt: skip
        if self.depth > 1:
            argv.append("--end_fsync=1")
        if self.sync:
            argv.append("--sync=dsync")
        if log:
            argv += [f"--write_lat_log={log}", "--log_avg_msec=0", "--per_job_logs=1", "--disable_slat=1"]
        if runtime_us:
            argv.append(f"--runtime={runtime_us}us")
        return argv


def fill(path: str, capacity_bytes: int, seed: int) -> list[Load]:
    """The whole device in order, 128 KiB a write; what is left at its end in single sectors."""
    whole = capacity_bytes // FILL_BLOCK * FILL_BLOCK
    loads = []
    if whole:
        loads.append(
            Load(path, "write", FILL_BLOCK, whole, whole, seed, depth=FILL_DEPTH),
        )
    rest = capacity_bytes - whole
    if rest:
        # The largest power of two that divides it: sectors may be of 512 or of 4096 bytes.
        block = rest & -rest
        loads.append(Load(path, "write", block, rest, rest, seed + 1, offset_bytes=whole))
    return loads


def random_writes(path: str, capacity_bytes: int, block_bytes: int, io_bytes: int, seed: int) -> Load:
    """`io_bytes` at random places of the whole device, many at a time: what a round writes."""
    span = capacity_bytes // block_bytes * block_bytes
    return Load(path, "randwrite", block_bytes, span, io_bytes, seed, depth=FILL_DEPTH)


def one_by_one(path: str, op: str, span_bytes: int, block_bytes: int, ios: int, seed: int) -> Load:
    """`ios` random reads, or sync writes, within the first `span_bytes`, each after the one before."""
    span = span_bytes // block_bytes * block_bytes
    return Load(path, f"rand{op}", block_bytes, span, ios * block_bytes, seed, sync=op == "write")


@dataclass(frozen=True)
class Moved:
    """What fio says it did: bytes written, and for how long (ns of the host's time)."""

    written_bytes: int
    host_ns: int


def parse_moved(text: str) -> Moved:
    """From fio's JSON. Raises MeasurementUnknown if it is none, or has an error in it."""
    output = fio.parse_output(text)
    try:
        parts: list[dict[str, Any]] = [job["write"] for job in output["jobs"]]
        written = sum(int(part["io_bytes"]) for part in parts)
        longest = max(int(part["runtime"]) for part in parts)
    except (KeyError, TypeError, ValueError) as error:
        raise MeasurementUnknown(f"fio's JSON does not say how much it wrote ({error!r})") from None
    return Moved(written, longest * 1_000_000)
