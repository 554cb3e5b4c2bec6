"""Run directories that somebody else made: files that are no files, not the caller's, or writable by others.

Every command that reads a run directory refuses each, at once, and changes nothing through it.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.core.files import AppendLog
from kit.core.own_file import check_own_directory, open_own, read_own
from kit.store.json_file import write_json
from tests.conftest import Called
from tests.reports import synthetic

# A read that waits for a FIFO would never end.
pytestmark = pytest.mark.timeout(60)
_NOBODY = 65534
_SPARSE_BYTES = 2 << 30


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    path.rename(path.parent.parent / "victim")
    path.symlink_to(path.parent.parent / "victim")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "made")


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def a_socket(path: Path) -> None:
    path.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    # The path of a socket has 108 bytes at most (unix(7)).
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def another_users(path: Path) -> None:
    os.chown(path, _NOBODY, _NOBODY)


def for_everybody(path: Path) -> None:
    path.chmod(0o666)


def for_another_group(path: Path) -> None:
    os.chown(path, -1, _NOBODY)
    path.chmod(0o664)


def huge(path: Path) -> None:
    os.truncate(path, _SPARSE_BYTES)


KINDS = [
    fifo,
    link,
    dangling,
    device,
    a_socket,
    directory,
    another_users,
    for_everybody,
    for_another_group,
    huge,
]
NEEDS_ROOT = {another_users, for_another_group}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template")
    frame = synthetic.realistic(intervals=3, per_interval=9)
    synthetic.write(path, synthetic.manifest(frame, 3), frame)
    plan = {"hosts": {"server": "lab", "client0": "lab"}, "ssh_config": None, "sources": ["a", "b"]}
    write_json(path / "plan.json", plan)
    (path / "journal.jsonl").write_text('{"run": "20260101T000000Z-abcdef", "plan": "x"}\n')
    return path


@pytest.fixture
def run(template: Path, tmp_path: Path) -> Path:
    path = tmp_path / "results" / "w" / "20260101T000000Z-abcdef"
    path.mkdir(parents=True)
    for file in template.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path


def spoilt(kind: Callable[[Path], None], path: Path) -> None:
    if kind in NEEDS_ROOT and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    kind(path)


def words_of(command: str, run: Path) -> list[str]:
    return {
        "report": ["show", str(run)],
        "compare": ["compare", str(run), "--", str(run.parent / "other")],
        "check": ["show", str(run), "--checks"],
        "export": ["show", str(run), "--format", "csv"],
        "clean": ["clean", str(run), "--agree", run.name],
        "resume": ["run", "--resume", str(run), "--agree", run.name],
    }[command]


# One command of each kind of file meets every kind of spoiling, each other one the least visible.
EVERY = [("check", "manifest.json"), ("report", "latency.parquet"), ("clean", "journal.jsonl")]
READ = [
    ("report", "manifest.json"), ("compare", "plan.json"), ("check", "latency.parquet"),
    ("export", "latency.parquet"), ("clean", "plan.json"), ("resume", "plan.json"),
    ("resume", "journal.jsonl"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "file", "kind"),
    [(*each, kind) for each in EVERY for kind in KINDS] + [(*each, for_everybody) for each in READ],
)
def test_a_file_that_is_not_an_own_file_is_refused(
    run: Path, hsp_here: Called, command: str, file: str, kind: Callable[[Path], None]
) -> None:
    spoilt(kind, run / file)
    victim = run.parent / "victim"
    before = victim.read_bytes() if victim.exists() else b""
    if command == "resume" and file == "journal.jsonl":
        # The plan names files that are there; then the journal is the first thing that is opened.
        root = Path(__file__).parents[2]
        sources = [root / "workloads" / "top-speeds.toml", root / "kit" / "lab" / "testbed.toml"]
        plan = {"hosts": {"server": "lab"}, "ssh_config": None, "sources": [os.fspath(s) for s in sources]}
        write_json(run / "plan.json", plan)
    done = hsp_here(*words_of(command, run))
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert file in done.stderr and "what to do" in done.stderr
    assert not (run / "report.html").exists() and not (run.parent / "made").exists()
    assert (victim.read_bytes() if victim.exists() else b"") == before


@pytest.mark.parametrize(
    ("command", "kind"),
    [("check", kind) for kind in (another_users, for_another_group)]
    + [(each, for_everybody) for each in ("report", "compare", "check", "export", "clean", "resume")],
)
def test_a_directory_that_others_can_change_is_refused(
    run: Path, hsp_here: Called, command: str, kind: Callable[[Path], None]
) -> None:
    spoilt(kind, run)
    run.chmod(run.stat().st_mode | 0o111)
    done = hsp_here(*words_of(command, run))
    assert done.returncode == 2, done.stderr
    assert str(run) in done.stderr and "cp -r" in done.stderr


@pytest.mark.parametrize("command", ["report", "compare", "check", "export", "clean", "resume"])
def test_a_link_to_a_run_is_none(run: Path, hsp_here: Called, command: str) -> None:
    (run.parent / "link").symlink_to(run.name)
    done = hsp_here(*words_of(command, run.parent / "link"))
    assert done.returncode == 2 and "is a link" in done.stderr


def test_a_bare_clean_passes_them_over(run: Path, hsp_here: Called) -> None:
    """A FIFO hung `hsp clean` and each `hsp run`; what a link points to was cut off."""
    (run / "journal.jsonl").unlink()
    os.mkfifo(run / "journal.jsonl")
    victim, other = run.parents[1] / "victim", run.parent / "20260101T000001Z-abcdef"
    victim.write_text("without an end of line")
    other.mkdir()
    (other / "journal.jsonl").symlink_to(victim)
    done = hsp_here("clean", "--results", str(run.parents[1]))
    assert done.returncode == 2
    assert f"{run}/journal.jsonl" in done.stderr and f"{other}/journal.jsonl" in done.stderr
    assert victim.read_text() == "without an end of line"


def test_nothing_is_added_to_what_has_another_name(tmp_path: Path) -> None:
    """A hard link to /etc/shadow is a regular file of root's."""
    victim = tmp_path / "victim"
    victim.write_text("x")
    run = tmp_path / "run"
    run.mkdir()
    os.link(victim, run / "journal.jsonl")
    with pytest.raises(ConfigError, match="2 names"):
        AppendLog(run / "journal.jsonl")
    assert victim.read_text() == "x" and read_own(victim, 1) == b"x"


def test_the_group_of_a_user_alone_may_write(tmp_path: Path) -> None:
    """Debian's and Ubuntu's umask for users is 002."""
    path = tmp_path / "own"
    path.write_text("x")
    path.chmod(0o664)
    tmp_path.chmod(stat.S_IMODE(tmp_path.stat().st_mode) | 0o020)
    assert read_own(path, 10) == b"x"
    check_own_directory(tmp_path)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    path.chmod(0o666)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ConfigError, match="everybody"):
            open_own(path)
        with pytest.raises(FileNotFoundError):
            open_own(tmp_path / "none")
    assert len(os.listdir("/proc/self/fd")) == before
