"""Whether an appliance keeps what it acknowledges, judged by its client alone: a machine that is killed.

The test is who set the appliance up; hsp never logs in there.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.config.address import parse_address
from kit.core.errors import EXIT_HOST
from kit.hosts.base import Host
from kit.hosts.connect import open_host
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from tests.lab import powered
from tests.lab.rig import agreed_commands
from tests.lab.test_power_server import DISKS, SERVER, World
from tests.lab.workloads import HEAD, JOB

PROTECTS = ("kit/run/power/appliance_cut.py", "kit/remote/nfs3_writes.py")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3000, func_only=True)]

_PATH = "/tank/x"
_MORE = """\
[[phase]]
name = "write-slog"
title = "write-slog"
job = "write.fio"
tiers = ["slog"]
duration = "1s"
interval = "500ms"
[power_loss]
moments = 1
within = "1s"
idle = "0s"
"""
_POOL = (
    "by=/dev/disk/by-id; zpool create -o ashift=9 tank mirror $by/virtio-DATA0 $by/virtio-DATA1 "
    f"log $by/nvme-QEMU_NVMe_Ctrl_LOG0 && zfs create -o recordsize=4k tank/x && chown 65534:65534 {_PATH}"
)


@pytest.fixture(scope="module")
def world(image: Image) -> Iterator[World]:
    # A short path: sockets are in it (unix(7)).
    with tempfile.TemporaryDirectory(prefix="hsp-") as folder:
        made = World(Path(folder), image, services=powered.APPLIANCE)
        disks = made.start()
        try:
            made.await_machines()
            with server(made) as host:
                host.run(["sh", "-c", _POOL])
            yield made
        finally:
            for name in made.ports:
                powered.off(made.folder / name)
            disks.kill()
            disks.wait()


def server(world: World) -> Host:
    address = parse_address(f"ssh://root@127.0.0.1:{world.ports['server']}")
    return open_host(address, os.fspath(world.ssh_config()))


def set_up(world: World, export: str, sync: str = "standard", lies: tuple[str, ...] = ()) -> None:
    """What an appliance's owner has chosen; it is there after the next boot as well."""
    options = f"rw,{export},no_subtree_check,fsid=7"
    with server(world) as host:
        host.run(["zfs", "set", f"sync={sync}", "tank/x"])
        host.put(f"{_PATH} *({options})\n".encode(), "/etc/exports")
        host.run(["exportfs", "-ra"])
        host.run(["sync"])
        host.run(["zpool", "sync", "tank"])
    for name in DISKS:
        file = world.folder / f"{name}.lies"
        file.touch() if name in lies else file.unlink(missing_ok=True)


def call(world: World, folder: Path, version: str = "3") -> subprocess.CompletedProcess[str]:
    """`hsp run` with one power loss."""
    job = JOB + "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\n"
    folder.joinpath("write.fio").write_text(job)
    text = HEAD.format(name="small", more="", properties="").replace(
        "[nfs]\n", f"[nfs]\nversion = {version}\n"
    )
    workload, testbed = folder / "small.toml", folder / "nas.toml"
    workload.write_text(f"{text}{_MORE}")
    config = world.ssh_config()
    testbed.write_text(
        f'name = "nas"\nssh_config = "{config}"\n[server]\nhost = "none"\nexport = "{SERVER}:{_PATH}"\n'
        f'[[client]]\nhost = "ssh://root@127.0.0.1:{world.ports["client"]}"\n'
        f'[power]\nscope = "server"\noff = {world.command("off")}\non = {world.command("on")}\n'
        'back_within = "5min"\n'
    )
    where = ("--testbed", os.fspath(testbed), "--results", os.fspath(folder), "--cut-other-pools")
    agreed = agreed_commands(workload, testbed)
    return world.hsp("run", os.fspath(workload), *where, *agreed, "--json")


def run(world: World, folder: Path) -> tuple[dict[str, Any], Path]:
    """Summary and directory of a run with a power loss."""
    done = call(world, folder)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), (folder / "small" / "latest").resolve()


def test_an_export_that_keeps_its_word(world: World, tmp_path: Path) -> None:
    set_up(world, "sync")
    summary, path = run(world, tmp_path)
    told = summary["power_loss"]
    # Unknown by the nature of an appliance, and by nothing else.
    assert summary["verdict"] == "unknown" and summary["by_nature"], summary["reasons"]
    assert (told["scope"], told["moments"], told["proven"], told["lost"]) == ("appliance", 1, 1, 0)
    assert told["control"]["kind"] == "unstable" and told["control"]["lost"] > 0, told
    assert told["verified_again"] == 1 and told["bound"]["of"] == 1
    assert read_journal(path / "journal.jsonl").finished
    with server(world) as host:
        assert host.run(["ls", "-A", _PATH]).stdout == ""


@pytest.mark.parametrize(("export", "sync", "lies"), [
    ("async", "standard", ()), ("sync", "disabled", ()), ("sync", "standard", ("log0",)),
], ids=["async", "sync-disabled", "disk"])  # fmt: skip
def test_one_that_lies_is_found(
    world: World, tmp_path: Path, export: str, sync: str, lies: tuple[str, ...]
) -> None:
    set_up(world, export, sync, lies)
    summary, path = run(world, tmp_path)
    told = summary["power_loss"]
    assert summary["verdict"] == "invalid" and told["lost"] > 0, summary["reasons"]
    assert any("The export lies: " in reason for reason in summary["reasons"])
    assert told["control"]["lost"] > 0 and read_journal(path / "journal.jsonl").finished


def test_without_nfsv3_nothing_is_cut(world: World, tmp_path: Path) -> None:
    set_up(world, "sync")
    before = (world.folder / "log0.cuts").read_text()
    with server(world) as host:
        host.run(["rpc.nfsd", "0"])
        host.run(["rpc.nfsd", "--no-nfs-version", "3", "4"])
    done = call(world, tmp_path, version="4.2")
    assert done.returncode == EXIT_HOST and "cannot be asked over NFSv3" in done.stderr, done.stderr
    assert (world.folder / "log0.cuts").read_text() == before
