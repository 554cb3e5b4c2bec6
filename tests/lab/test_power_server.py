"""The power of a whole server, cut in mid-write: a machine that is killed and boots again with its disks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from tests.lab import powered
from tests.lab.conftest import ROOT
from tests.lab.rig import agreed_commands
from tests.lab.workloads import HEAD, JOB

PROTECTS = ("kit/recovery/power_undos.py",)
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3000, func_only=True)]

_MIB = 1 << 20
DISKS = {"data0": 256 * _MIB, "data1": 256 * _MIB, "log0": 128 * _MIB}
SERVER, _CLIENT = "10.99.0.1", "10.99.0.2"
_BOOT_S = 400.0
_MORE = """\
[tunables]
zfs_txg_timeout = "5s"
[pool]
data = "mirror"
properties = { ashift = 9, autotrim = "off" }
[[phase]]
name = "write-slog"
title = "write-slog"
job = "write.fio"
tiers = ["slog"]
duration = "3s"
interval = "500ms"
[power_loss]
moments = 3
within = "2s"
idle = "0s"
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class World:
    """Two machines and the disks of the first one."""

    folder: Path
    image: Image
    lies: tuple[str, ...] = ()
    disks: dict[str, int] = field(default_factory=lambda: dict(DISKS))
    # Tables of its testbed beside the others.
    more: str = ""
    services: str = powered.SERVER
    ports: dict[str, int] = field(default_factory=lambda: {"server": free_port(), "client": free_port()})

    def start(self) -> subprocess.Popen[bytes]:
        """The disks' server. The machines boot."""
        named = [f"{name}={size}" for name, size in self.disks.items()]
        lies = [word for name in self.lies for word in ("--lies", name)]
        argv = [sys.executable, "-m", "tests.lab.volatile_disks", os.fspath(self.folder), *named, *lies]
        with (self.folder / "disks.log").open("wb") as log:
            disks = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log)
        devices = []
        for name in self.disks:
            drive = f"driver=nbd,server.type=unix,server.path={self.folder / 'disks.sock'},export={name}"
            devices += ["-blockdev", f"{drive},node-name={name},cache.direct=off"]
            kind = "nvme" if name == "log0" else "virtio-blk-pci"
            devices += ["-device", f"{kind},drive={name},serial={name.upper()}"]
        server, client = self.folder / "server", self.folder / "client"
        powered.make(self.image, server, SERVER, self.ports["server"], client, devices, self.services)
        powered.make(self.image, client, _CLIENT, self.ports["client"], server)
        for machine in (server, client):
            subprocess.run([sys.executable, "-m", "tests.lab.powered", "on", machine], cwd=ROOT, check=True)
        return disks

    def command(self, word: str, *more: str) -> str:
        """A command of [power], as TOML has it."""
        words = [f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.lab.powered", word]
        return json.dumps(["env", *words, os.fspath(self.folder / "server"), *more])

    def ssh_config(self) -> Path:
        lines = ["Host 127.0.0.1", "    IdentitiesOnly yes", "    IdentityAgent none"]
        lines += [f"    IdentityFile {self.folder / name / 'key'}" for name in self.ports]
        known = " ".join(str(self.folder / name / "known") for name in self.ports)
        lines += [f"    UserKnownHostsFile {known}", "    GlobalKnownHostsFile /dev/null"]
        path = self.folder / "ssh_config"
        path.write_text("\n".join([*lines, "    StrictHostKeyChecking yes", ""]))
        return path

    def testbed(self) -> Path:
        self.ssh_config()
        off, on, count = self.command("off"), self.command("on"), self.command("count", "{serial}")
        text = 'name = "two"\nssh_config = "ssh_config"\n'
        for kind, address in (("[server]", SERVER), ("[[client]]", _CLIENT)):
            port = self.ports[kind.strip("[]")]
            text += f'{kind}\nhost = "ssh://root@127.0.0.1:{port}"\naddress = "{address}"\n'
        text += f'[power]\nscope = "server"\noff = {off}\non = {on}\ncount = {count}\nback_within = "5min"\n'
        for name, size in self.disks.items():
            link = "nvme-QEMU_NVMe_Ctrl_LOG0" if name == "log0" else f"virtio-{name.upper()}"
            text += f'[[device]]\nname = "{name}"\nrole = "{name[:-1]}"\npath = "/dev/disk/by-id/{link}"\n'
            text += f'serial = "{name.upper()}"\nsize = "{size // _MIB}MiB"\n'
        path = self.folder / "two.toml"
        path.write_text(text + self.more)
        return path

    def hsp(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "kit.cli", *words]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    def await_machines(self) -> None:
        """Until both have booted."""
        end = time.monotonic() + _BOOT_S
        for name in self.ports:
            console, said = self.folder / name / "console.log", ""
            while "hsp-guest: ready" not in said:
                assert time.monotonic() < end, said[-2000:]
                time.sleep(0.5)
                said = console.read_text(errors="replace") if console.exists() else ""


@contextmanager
def running(image: Image, **keys: Any) -> Iterator[World]:
    # A short path: sockets are in it (unix(7)).
    with tempfile.TemporaryDirectory(prefix="hsp-") as folder:
        made = World(Path(folder), image, **keys)
        disks = made.start()
        try:
            made.await_machines()
            yield made
        finally:
            for name in made.ports:
                powered.off(made.folder / name)
            disks.kill()
            disks.wait()


@pytest.fixture
def world(image: Image, request: pytest.FixtureRequest) -> Iterator[World]:
    with running(image, lies=request.param) as made:
        yield made


def run(world: World, folder: Path) -> tuple[dict[str, Any], Path]:
    """Summary and directory of a run with three power losses."""
    job = JOB + "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\n"
    folder.joinpath("write.fio").write_text(job)
    text = HEAD.format(name="small", more="", properties="").replace("[nfs]\n", "[nfs]\nversion = 3\n")
    workload = folder / "small.toml"
    workload.write_text(text + _MORE)
    testbed = world.testbed()
    where = ("--testbed", os.fspath(testbed), "--results", os.fspath(folder))
    agreed = [word for name in DISKS for word in ("--erase-serial", name.upper())]
    agreed += agreed_commands(workload, testbed)
    done = world.hsp("run", os.fspath(workload), *where, *agreed, "--json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout), (folder / "small" / "latest").resolve()


@pytest.mark.parametrize("world", [()], indirect=True)
def test_what_was_acknowledged_is_there_after_each_power_loss(world: World, tmp_path: Path) -> None:
    summary, path = run(world, tmp_path)
    told = summary["power_loss"]
    assert summary["verdict"] == "valid", summary["reasons"]
    assert (told["scope"], told["moments"], told["proven"], told["lost"]) == ("server", 3, 3, 0)
    assert told["control"]["lost"] > 0 and told["verified_again"] == 3
    record = read_journal(path / "journal.jsonl")
    assert record.finished and not record.pending
    # The control, three, and a clean power cycle.
    assert [(world.folder / f"{name}.cuts").read_text() for name in DISKS] == ["5"] * 3


@pytest.mark.parametrize("world", [("log0",)], indirect=True)
def test_a_log_device_that_lies_is_found(world: World, tmp_path: Path) -> None:
    summary, path = run(world, tmp_path)
    told = summary["power_loss"]
    assert summary["verdict"] == "invalid" and told["lost"] > 0 and told["proven"] == 3, summary["reasons"]
    assert read_journal(path / "journal.jsonl").finished
