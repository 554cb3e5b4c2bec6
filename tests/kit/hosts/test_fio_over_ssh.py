"""kit.load.fio_server over real SSH connections: the sockets come to the first client through sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.hosts import ssh
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks
from kit.hosts.ssh import SshHost
from kit.hosts.ssh_connect import connect
from kit.load.fio_server import Forwarding, GroupLoad
from kit.load.phase_load import LoadSpec
from kit.store.run_directory import RunDir

from .conftest import Sshd

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio; the lab has it")

JOB = """\
[read]
ioengine=psync
directory=${HSP_DIRECTORY}
size=${HSP_SIZE}
rw=randread
bs=512
filename=working-set
norandommap
time_based
runtime=${HSP_RUNTIME}
rate_iops=500
"""


@pytest.fixture
def hosts(sshd: Sshd, tmp_path: Path) -> Iterator[list[Host]]:
    """Three connections: this machine as three clients."""
    config = sshd.config(tmp_path / "config", sshd.known_hosts(tmp_path / "known_hosts"))
    with ExitStack() as stack:
        yield [
            stack.enter_context(connect(parse_address("ssh://far"), name=f"far{n}", config_path=config))
            for n in range(3)
        ]


def load_of(hosts: list[Host], tmp_path: Path, seconds: float) -> GroupLoad:
    job, mount = tmp_path / "job.fio", tmp_path / "mount"
    job.write_text(JOB)
    mount.mkdir()
    mount.joinpath("working-set").write_bytes(bytes(1 << 20))
    duration_ns = int(seconds * 1e9)
    spec = LoadSpec("p", read_job(job), str(tmp_path / "w"), str(mount), 1 << 20, duration_ns, Clock())
    return GroupLoad(hosts, spec, Clocks(hosts[0]))


def run_dir(tmp_path: Path) -> RunDir:
    found = RunDir(tmp_path / "run")
    found.raw.mkdir(parents=True)
    return found


def wait(load: GroupLoad) -> None:
    end = time.monotonic() + 60
    while load.running():
        assert time.monotonic() < end
        time.sleep(0.05)


def fios_in(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd").startswith(str(directory)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_three_connections_one_load(hosts: list[Host], tmp_path: Path) -> None:
    load = load_of(hosts, tmp_path, 0.5)
    assert all(isinstance(host, Forwarding) for host in hosts)
    load.prepare()
    sockets = sorted(path.name for path in (tmp_path / "w" / "fio0-p").iterdir() if path.is_socket())
    assert sockets == ["c0", "c1", "c2"]
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert '"fio"' not in listening
    load.start()
    wait(load)
    load.finish(False)
    results = load.collect(run_dir(tmp_path))
    assert load.problems == []
    assert [sum(result.ios.values()) > 0 for result in results] == [True, True, True]
    assert not any((tmp_path / "w").iterdir())
    assert fios_in(tmp_path / "w") == []


@pytest.mark.parametrize("lost", [1, 0])
def test_a_connection_that_is_lost_in_the_middle(hosts: list[Host], tmp_path: Path, lost: int) -> None:
    load = load_of(hosts, tmp_path, 5)
    load.prepare()
    load.start()
    time.sleep(1.5)
    host = hosts[lost]
    assert isinstance(host, SshHost)
    # Not closed, but gone: nothing is taken down in order.
    ssh._loop().call_soon_threadsafe(host.connection.abort)
    wait(load)
    load.finish(False)
    results = load.collect(run_dir(tmp_path))
    # fio brings the logs home over the first client, and keeps none elsewhere.
    assert [result.host.name for result in results] == (["far0", "far2"] if lost else [])
    assert len(load.problems) == (1 if lost else 3)
    assert any(problem.startswith(f"fio failed on far{lost}: ") for problem in load.problems)
    end = time.monotonic() + 30
    while fios_in(tmp_path / "w"):
        assert time.monotonic() < end, "a fio outlived its connection"
        time.sleep(0.2)
