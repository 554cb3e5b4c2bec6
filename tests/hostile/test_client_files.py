"""The working set replaced by a link, a FIFO or a directory: fio is not started, nor does it write there."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import Host, Process
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load import ordinary_user
from kit.load.launch import PhaseLoad
from kit.load.phase_load import LoadSpec, Worker
from kit.nfs import export_directory
from kit.store.run_directory import RunDir
from tests.kit.hosts.conftest import sshd as sshd
from tests.kit.load.test_launch import connections as connections

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="a disk is root's, and so must be the load"),
]
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio; the lab has it")
RUN = "20261121T061754Z-ba55f9"
SIZE = 1 << 20
JOB = """\
[write]
ioengine=psync
rw=write
bs=4k
directory=${HSP_DIRECTORY}
filename=working-set
size=${HSP_SIZE}
time_based
runtime=${HSP_RUNTIME}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where an ordinary user may pass; pytest's own directories are root's alone."""
    opened = [
        above for above in tmp_path.parents if above.stat().st_uid == 0 and not above.stat().st_mode & 1
    ]
    modes = {above: stat.S_IMODE(above.stat().st_mode) for above in (*opened, tmp_path)}
    for above, mode in modes.items():
        above.chmod(mode | 0o011)
    yield tmp_path
    for above, mode in modes.items():
        above.chmod(mode)


@pytest.fixture
def run_dir(place: Path) -> RunDir:
    run = RunDir(place / "run")
    run.raw.mkdir(parents=True)
    return run


def make(place: Path) -> bool:
    return export_directory.make(LocalHost(), export_directory.make_command(f"{place}/hsp-{RUN}"))


def fill(place: Path) -> None:
    command = export_directory.fill_command(f"{place}/hsp-{RUN}", "working-set", SIZE, 4096)
    export_directory.fill(LocalHost(), os.fspath(place), command, SIZE)


@pytest.fixture
def spec(place: Path) -> LoadSpec:
    mount = place / "export"
    mount.mkdir(mode=0o755)
    assert make(mount)
    job = place / "job.fio"
    job.write_text(JOB)
    directory = mount / f"hsp-{RUN}"
    directory.joinpath("working-set").write_bytes(bytes(SIZE))
    directory.joinpath("working-set").chmod(0o666)
    return LoadSpec(
        "p", read_job(job), os.fspath(place / "work"), 300_000_000, Clock(),
        ordinary=True, mounted=True,
    )  # fmt: skip


def wait(load: PhaseLoad) -> None:
    end = time.monotonic() + 60
    while load.running():
        assert time.monotonic() < end
        time.sleep(0.05)


class Client(LocalHost):
    """`meanwhile` happens after the last look at the file, when fio is about to start."""

    meanwhile: Callable[[], object] | None = None

    def start(self, argv: Sequence[str], *more: Any, **named: Any) -> Any:
        starts_fio = ("--output-format=json+", "count_ios.py")
        if self.meanwhile and any(word in argv for word in starts_fio):
            self.meanwhile()
        process: Process = super().start(argv, *more, **named)
        return process


def directory_of(spec: LoadSpec) -> str:
    return os.fspath(Path(spec.work_dir).with_name("export") / f"hsp-{RUN}")


def workers(hosts: Sequence[Host], spec: LoadSpec) -> list[Worker]:
    return [Worker(host, host.name, directory_of(spec), SIZE) for host in hosts]


def load_of(kind: str, spec: LoadSpec) -> tuple[PhaseLoad, Client]:
    hosts = [Client(f"client{number}") for number in range(2 if "several" in kind else 1)]
    if "counted" in kind:
        spec = replace(spec, histograms_ns=100_000_000, raw=Path(spec.work_dir).parent / "run" / "raw")
    return PhaseLoad(workers(hosts, spec), spec, Clocks(hosts[0])), hosts[0]


def a_link(file: Path, disk: Path) -> None:
    file.unlink()
    file.symlink_to(disk)


def a_fifo(file: Path, disk: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o666)


def a_directory(file: Path, disk: Path) -> None:
    file.unlink()
    file.mkdir()


def a_device(file: Path, disk: Path) -> None:
    file.unlink()
    os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def nothing(file: Path, disk: Path) -> None:
    file.unlink()


def a_link_for_its_directory(file: Path, disk: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))
    file.parent.symlink_to(file.parent.with_name("elsewhere"))


def a_directory_for_everybody(file: Path, disk: Path) -> None:
    file.parent.chmod(0o777)


REPLACED = (
    a_link,
    a_fifo,
    a_directory,
    a_device,
    nothing,
    a_link_for_its_directory,
    a_directory_for_everybody,
)
KINDS = (
    "one client",
    *(pytest.param(k, marks=needs_fio) for k in ("several", "counted", "several, counted")),
)


@pytest.fixture
def disk(place: Path) -> Path:
    """As a disk of the client: root's."""
    file = place / "disk"
    file.write_bytes(b"x" * SIZE)
    file.chmod(0o660)
    return file


@pytest.mark.parametrize("ordinary", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("swap", REPLACED, ids=lambda one: one.__name__)
def test_what_is_not_the_runs_file_is_refused_before_the_start(
    spec: LoadSpec, run_dir: RunDir, disk: Path, kind: str, ordinary: bool, swap: Callable[[Path, Path], None]
) -> None:
    load, client = load_of(kind, replace(spec, ordinary=ordinary))
    load.prepare()
    swap(Path(directory_of(spec), "working-set"), disk)
    client.meanwhile = lambda: pytest.fail("fio was started")
    with pytest.raises(HostError, match=r"fio was not started|cannot be looked at") as caught:
        load.start()
    assert caught.value.hint and directory_of(spec) in caught.value.message
    assert disk.read_bytes() == b"x" * SIZE


@needs_fio
@pytest.mark.parametrize("kind", KINDS)
def test_a_link_put_there_after_the_look_is_not_written_through(
    spec: LoadSpec, disk: Path, kind: str, run_dir: RunDir
) -> None:
    load, client = load_of(kind, spec)
    load.prepare()
    client.meanwhile = lambda: a_link(Path(directory_of(spec), "working-set"), disk)
    load.start()
    wait(load)
    load.finish(False)
    load.collect(run_dir)
    assert load.failed and load.problems
    assert disk.read_bytes() == b"x" * SIZE


def is_fio(process: Path, spec: LoadSpec) -> bool:
    """Whether it is one of this test: others may run beside it."""
    try:
        is_program = os.path.basename(os.readlink(process / "exe")) == "fio"
        places = (process / "cmdline").read_text() + os.readlink(process / "cwd")
        return is_program and spec.work_dir in places
    except OSError:
        return False


@needs_fio
@pytest.mark.parametrize("kind", KINDS)
def test_an_ordinary_user_measures(spec: LoadSpec, kind: str, run_dir: RunDir) -> None:
    load, _ = load_of(kind, spec)
    load.prepare()
    load.start()
    users: set[int] = set()
    while load.running() and not users:
        users = {process.stat().st_uid for process in Path("/proc").glob("[0-9]*") if is_fio(process, spec)}
    wait(load)
    load.finish(False)
    results = load.collect(run_dir)
    assert load.problems == [] and all(sum(result.ios.values()) > 0 for result in results)
    assert users == {int(ordinary_user.UID)}


@needs_fio
def test_over_ssh_no_fio_is_root(spec: LoadSpec, connections: list[Host], run_dir: RunDir) -> None:
    load = PhaseLoad(workers(connections, spec), spec, Clocks(connections[0]))
    load.prepare()
    load.start()
    users = {process.stat().st_uid for process in Path("/proc").glob("[0-9]*") if is_fio(process, spec)}
    wait(load)
    load.finish(False)
    results = load.collect(run_dir)
    assert load.problems == [] and all(sum(result.ios.values()) > 0 for result in results)
    assert users == {int(ordinary_user.UID)}
    assert not any(Path(spec.work_dir).iterdir())


@needs_fio
def test_a_link_for_an_output_of_fio_is_not_read_as_root(spec: LoadSpec, disk: Path, run_dir: RunDir) -> None:
    load, _ = load_of("one client", spec)
    load.prepare()
    load.start()
    wait(load)
    load.finish(False)
    (output,) = Path(spec.work_dir).glob("*/fio.json")
    a_link(output, disk)
    assert load.collect(run_dir) == [] and "not a file of fio, and not read" in load.problems[0]
    assert not any(file.read_bytes().startswith(b"x") for file in run_dir.raw.iterdir())


# --- The run's directory in an export of an appliance ---


def test_the_directory_is_not_for_everybody_without_the_sticky_bit(place: Path) -> None:
    place.chmod(0o755)
    assert make(place)
    assert stat.S_IMODE((place / f"hsp-{RUN}").stat().st_mode) == 0o1777


def test_where_an_ordinary_user_cannot_write_the_directory_is_private(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    assert not make(closed)
    assert stat.S_IMODE((closed / f"hsp-{RUN}").stat().st_mode) == 0o700


@needs_fio
def test_the_fill_makes_a_file_that_every_ordinary_user_may_write(place: Path) -> None:
    place.chmod(0o755)
    make(place)
    fill(place)
    status = (place / f"hsp-{RUN}" / "working-set").stat()
    assert (status.st_size, status.st_uid, stat.S_IMODE(status.st_mode)) == (
        SIZE, int(ordinary_user.UID), 0o666,
    )  # fmt: skip


@needs_fio
def test_the_fill_does_not_follow_a_link(place: Path, disk: Path) -> None:
    place.chmod(0o755)
    disk.chmod(0o666)  # even one that the ordinary user might open
    make(place)
    (place / f"hsp-{RUN}" / "working-set").symlink_to(disk)
    with pytest.raises(HostError, match="filling the working set failed"):
        fill(place)
    assert disk.read_bytes() == b"x" * SIZE


def test_a_link_in_the_directorys_place_is_not_followed_when_it_is_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_directory.nfs_mount, "is_mounted", lambda *_: True)
    other = place / "other"
    other.mkdir()
    other.joinpath("working-set").write_text("precious")
    (place / f"hsp-{RUN}").symlink_to(other)
    with pytest.raises(SafetyRefusal, match="nothing was removed"):
        export_directory.remove(
            LocalHost(), os.fspath(place), f"hsp-{RUN}", "working-set", "nas:/x", "3", ["hard"]
        )
    assert other.joinpath("working-set").read_text() == "precious"
