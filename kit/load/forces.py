"""Writes that are forced to stable storage, on a block device or a file of a host.

The program forces.c, and the commands of force_load.c, the program of a phase.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kit.config.tables.force_table import ForceJob
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, MeasurementUnknown
from kit.hosts.base import CommandFailed, Host
from kit.hosts.held_device import HeldDevice
from kit.store.parts.forces import Forces, Idle, Method

_SOURCE = Path(__file__).with_suffix(".c")
# The program removes itself and the directory when it starts.
_RUN = (
    'd=$(mktemp -d) || exit; cat >"$d/forces" && chmod 0700 "$d/forces" && "$d/forces" "$@"; '
    's=$?; rm -r -f -- "$d"; exit $s'
)

# The directory of a phase's files, in that of the working set: every user may make files there.
DIRECTORY = "force"
PHASE_PROGRAM = "force_load"
PHASE_SOURCE = Path(__file__).with_name("force_load.c")
# /run, where the program is put, may be mounted noexec. The second argument is a directory in which it waits
# for a common start (kit.load.common_start), or empty.
_RUN_COPY = (
    'd=$(mktemp -d) || exit; f=$d/force_load; cp -- "$1" "$f" && chmod 0700 "$f" && [ -x "$f" ] '
    '&& { [ -z "$2" ] || (cd -- "$2" && exec python3 -I start.py) || { rm -r -f -- "$d"; exit 1; }; } '
    '&& shift 2 && exec "$f" "$@"; rm -r -f -- "$d"; '
    'echo "is /tmp mounted noexec? set TMPDIR to a directory that is not" >&2; exit 126'
)


@dataclass(frozen=True)
class Test:
    """`ios` writes by each of `threads`, in the `span_bytes` from `first_bytes` on."""

    __test__ = False  # pytest: not a test class

    method: Method | Idle
    block_bytes: int
    ios: int
    span_bytes: int
    threads: int = 1
    order: Literal["random", "sequential"] = "random"
    first_bytes: int = 0

    @property
    def written_bytes(self) -> int:
        return 0 if self.method in get_args(Idle) else self.block_bytes * self.ios * self.threads

    def word(self) -> str:
        """Argument of the program."""
        numbers = self.block_bytes, self.ios, self.threads
        return ":".join(map(str, (self.method, *numbers, self.order, self.first_bytes, self.span_bytes)))


def _compiled(name: str, source: Path, purpose: str) -> Path:
    # It brings rich, which a plan does not need.
    from kit.hosts.compilation import compiled

    return compiled(name, source.parent, [source], ("-static", "-pthread", "-s"), (), purpose)


def program() -> Path:
    """The compiled program. Raises HostError."""
    return _compiled("hsp-forces", _SOURCE, "measurements of forces")


def run(
    host: Host,
    path: str,
    tests: Sequence[Test],
    clock: Clock,
    seed: int,
    deadline_s: float,
    device: HeldDevice | None = None,
) -> tuple[Forces, ...]:
    """Do the tests one after another; all of them write to `path`. Latencies are in experiment time.

    Raises HostError if the program fails or is killed, MeasurementUnknown for other output.
    """
    words = [test.word() for test in tests]
    argv = [
        "sh",
        "-c",
        _RUN,
        "sh",
        path,
        device.word if device else "-",
        str(clock.dilation),
        str(seed),
        *words,
    ]
    try:
        text = host.run(argv, stdin=program().read_bytes(), deadline_s=deadline_s).stdout
    except CommandFailed as error:
        raise _failed(host, path, error) from error
    return parse(text, tests)


def _failed(host: Host, path: str, error: CommandFailed) -> HostError:
    output = error.result.stderr.strip()
    hint = ""
    if "Exec format error" in output:
        hint = f"it was compiled here, for {os.uname().machine}: use a controller of the host's architecture"
    elif "Permission denied" in output and path not in output:
        hint = "is /tmp of the host mounted noexec? Set TMPDIR there to a directory that is not"
    return HostError(
        f"on {host.name}: the measurement of forces on {path} failed: "
        f"{output[-300:] or f'it ended with exit code {error.result.returncode}'}",
        hint,
    )


def parse(text: str, tests: Sequence[Test]) -> tuple[Forces, ...]:
    """The results, one line a test, with all of its writes. Raises MeasurementUnknown."""
    lines = text.splitlines()
    try:
        results = tuple(Forces.from_json(json.loads(line), "its output") for line in lines)
    except (ValueError, RecursionError, ConfigError) as error:
        raise MeasurementUnknown(f"the output of the measurement of forces is damaged: {error}") from None
    expected = [(test.method, test.block_bytes, test.threads, test.ios * test.threads) for test in tests]
    observed = [(each.method, each.block_bytes, each.threads, each.durable.ios) for each in results]
    if observed != expected:
        raise MeasurementUnknown(f"forces were asked for as {expected}, the output has {observed}")
    return results


# --- The program of a phase (kit.load.force_load) ---


def phase_program() -> Path:
    """The compiled program of a phase. Raises HostError."""
    return _compiled("hsp-force-load", PHASE_SOURCE, "forced writes")


def command(work_dir: str, words: Sequence[str], start: str = "") -> list[str]:
    """argv of the program that lies in `work_dir`. `start`: the directory of its common start with others."""
    return ["sh", "-c", _RUN_COPY, "sh", f"{work_dir}/{PHASE_PROGRAM}", start, *words]


def words_of(
    job: ForceJob,
    phase: str,
    place: str,
    size_bytes: int,
    seed: int,
    *,
    is_device: bool,
    device: HeldDevice | None = None,
) -> list[str]:
    """The program's arguments for what it writes. `place`, `device`: see Worker; `size_bytes`: of a device.

    A device that is not held, such as the run's own array, is whatever its node leads to at the start.
    """
    force = job.force
    flags = "a" * force.append + "b" * is_device + "d" * force.direct + "g" * force.group_commit
    numbers = force.record, force.per_force, force.files, force.threads
    size = min(force.file, size_bytes) if is_device else force.file
    path = place if is_device else f"{place}/{DIRECTORY}/{phase}"
    return [
        path,
        force.method,
        *map(str, numbers),
        str(size),
        flags or "-",
        str(seed),
        device.word if device else "-",
    ]
