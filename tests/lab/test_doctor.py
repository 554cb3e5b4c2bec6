"""`hsp host check` over real SSH, on a host that is well and one that is not there; it changes nothing."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from kit.doctor.checks import CLIENT, EVERY_HOST, SERVER
from tests.lab.rig import Rig
from tests.process import hsp

PROTECTS = ("kit/doctor", "kit/lab", "kit/hosts")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

_NFS_PORT = 2049


def doctor(testbed: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, what is on stdout, and stderr."""
    done = hsp("host", "check", "--testbed", os.fspath(testbed), "--json", *options, deadline_s=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def state(rig: Rig) -> list[str]:
    """Mounts, and modules by name: what looking might have changed."""
    mounts = rig.host.run(["cat", "/proc/mounts"]).stdout.splitlines()
    modules = rig.host.run(["cut", "-d ", "-f1", "/proc/modules"]).stdout.splitlines()
    return sorted(mounts) + sorted(modules)


def test_a_host_over_ssh_and_one_that_is_not_there(rig: Rig, tmp_path: Path) -> None:
    config = rig.ssh_config()
    with socket.create_server(("127.0.0.1", 0)) as held:
        nobody = f"ssh://root@127.0.0.1:{held.getsockname()[1]}"
    testbed = tmp_path / "testbed.toml"
    text = rig.testbed_toml({"data": ("vd0",)}, clients=(rig.address, nobody))
    testbed.write_text(f'ssh_config = "{config}"\n{text}')
    before = state(rig)

    code, said, _ = doctor(testbed, "--workload", "top-speeds")

    assert code == 5 and said["ready"] is False
    found = {(one["host"], one["check"]): one for one in said["findings"]}
    assert len(found) == len(said["findings"])
    lost = found[nobody, "reachable"]
    assert lost["state"] == "fail" and nobody in lost["found"] and lost["remedy"]
    assert [check for host, check in found if host == nobody] == ["reachable"]

    # The other one is server and client, and was looked at whole.
    told = {check for host, check in found if host == rig.address}
    assert told == {check.name for check in (*EVERY_HOST, *SERVER, *CLIENT)}
    wrong = {check for (host, check), one in found.items() if host == rig.address and one["state"] == "fail"}
    assert wrong == set(), [found[rig.address, check] for check in wrong]
    for check in ("privilege", "zfs-userland", "pyzfs", "probes", "nfs-port", "fio", "nfsd-threads"):
        assert found[rig.address, check]["state"] == "ok", found[rig.address, check]
    assert f"port {_NFS_PORT}" in found[rig.address, "nfs-port"]["found"]
    assert state(rig) == before
