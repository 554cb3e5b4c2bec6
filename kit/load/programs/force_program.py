"""The programs beside fio, and how they are called on a host: force_load.c, compiled here; trees of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.config.tables.force_table import ForceTable
from kit.config.tables.tree_table import MetadataJob
from kit.hosts.base import Host
from kit.hosts.held_device import HeldDevice

# The directory of a phase's files, in that of the working set: every user may make files there.
DIRECTORY = "force"
PROGRAM = "force_load"
SOURCE = Path(__file__).with_name("force_load.c")
# As people find it.
NAME = "kit/load/programs/force_load.c"
# That of the trees, in that of the working set; and their program.
TREES = "metadata"
TREE_FILE = "tree.json"
TREE_PROGRAM = Path(__file__).parents[2] / "remote" / "load" / "metadata_load.py"
# A copy that removes itself and its directory when it starts: /run, where the program is put, may be mounted
# noexec. The second argument is a directory in which it waits for a common start (kit.load.common_start), or
# empty.
_RUN_COPY = (
    "d=$(mktemp -d) || exit; trap 'rm -r -f -- \"$d\"' EXIT; f=$d/force_load; "
    'cat -- "$1" >"$f" && chmod 0700 "$f" && [ -x "$f" ] '
    '&& { [ -z "$2" ] || (cd -- "$2" && exec python3 -I start.py) || exit 1; } && shift 2 && exec "$f" "$@"; '
    'echo "is /tmp mounted noexec? set TMPDIR to a directory that is not" >&2; exit 126'
)


def program() -> Path:
    """The compiled program. Raises HostError."""
    # It brings rich, which a plan does not need.
    from kit.hosts.compilation import compiled

    flags = ("-static", "-pthread", "-s")
    return compiled("hsp-force-load", SOURCE.parent, [SOURCE], flags, ("-lm",), "forced writes")


def run_words(
    spec: Sequence[str], force: ForceTable, size_bytes: int, window_ns: int, duration_ns: int
) -> list[str]:
    """Of a load, on a device of that size. `spec`: of `words_of`; both times on the host's clock."""
    groups = force.groups_on(size_bytes) or 0
    return ["run", *spec, str(window_ns), str(duration_ns), str(groups // force.threads)]


def put_program(host: Host, work_dir: str) -> None:
    """Once for a run; every user may run it. Raises HostError."""
    path = f"{work_dir}/{PROGRAM}"
    if host.run(["test", "-e", path], check=False).returncode:
        host.put(program().read_bytes(), f"{path}.new")
        host.run(["chmod", "0711", work_dir])
        host.run(["install", "-m", "0755", f"{path}.new", path])
        host.run(["rm", "-f", "--", f"{path}.new"])


def command(work_dir: str, words: Sequence[str], start: str = "") -> list[str]:
    """argv of the program that lies in `work_dir`. `start`: the directory of its common start with others."""
    return ["sh", "-c", _RUN_COPY, "sh", f"{work_dir}/{PROGRAM}", start, *words]


def words_of(
    force: ForceTable,
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
    flags = {
        "a": force.append, "b": is_device, "c": force.check, "d": force.direct, "g": force.group_commit,
        "r": force.random,
    }  # fmt: skip
    numbers = force.record, force.per_force, force.files, force.threads
    return [
        place if is_device else f"{place}/{DIRECTORY}/{phase}",
        force.method,
        *map(str, numbers),
        str(size_bytes if force.random else min(force.file, size_bytes) if is_device else force.file),
        "".join(letter for letter, is_set in flags.items() if is_set) or "-",
        str(seed),
        device.word if device else "-",
    ]


def tree_command(
    job: MetadataJob, directory: str, place: str, number: int, times_ns: tuple[int, int]
) -> list[str]:
    """argv of the program of files and directories, which lies in `directory` beside its TREE_FILE.

    `number`: of the client; `times_ns`: a window, and the most.
    """
    suffix = "r" * job.renames or "-"
    root = f"{place}/{TREES}/{number}"
    return [
        "python3", "-I", f"{directory}/{TREE_PROGRAM.name}", job.action, root, f"{directory}/{TREE_FILE}",
        str(int(job.tree.fsync)), suffix, *map(str, times_ns),
    ]  # fmt: skip
