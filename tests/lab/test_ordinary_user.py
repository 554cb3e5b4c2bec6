"""A run by ordinary users: sudo with the lists of docs/hosts.md, clients behind a ProxyJump.

Server and clients are one guest; each client has networks and mounts of its own, and another user.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.lab.clients import start_machine
from tests.lab.conftest import ROOT
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Rig, call
from tests.lab.workloads import write_small

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

USERS = {"server": "hsp", "client": "hspload"}
CLIENTS = 2
# The second client's way to the address that the first one has for the server.
_ROUTE = 'ip -n "client$1" route add default via "$2" 2>/dev/null || true'
_USER = """\
set -e
useradd --create-home --shell /bin/sh --password '*' "$1"
cat >"/etc/sudoers.d/$1"
chmod 0440 "/etc/sudoers.d/$1"
visudo -c -f "/etc/sudoers.d/$1"
"""


def sudoers(role: str) -> str:
    """The list that the documentation has for a server or a client, for the user of this test."""
    found = re.search(rf"```sudoers-{role}\n(.*?)```", (ROOT / "docs" / "hosts.md").read_text(), re.DOTALL)
    assert found
    text, replaced = re.subn(r"(?m)^hsp ", f"{USERS[role]} ", found[1])
    assert replaced == 1
    # One file for each user: aliases of the same name are one too many.
    return text.replace("HSP_", f"HSP_{role.upper()}_")


@dataclass(frozen=True)
class Bed:
    folder: Path
    path: Path
    agreed: tuple[str, ...]

    def hsp(self, *words: str) -> subprocess.CompletedProcess[str]:
        return call(words)


@pytest.fixture(scope="module")
def bed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder = tmp_path_factory.mktemp("ordinary")
    for role, user in USERS.items():
        rig.host.run(["sh", "-c", _USER, "sh", user], stdin=sudoers(role).encode(), deadline_s=120)
    # sshd reads it as the user who logs in.
    rig.host.run(["chmod", "0644", "/etc/ssh/hsp_authorized_keys"])
    machines = [start_machine(rig.host, number) for number in range(CLIENTS)]
    for number, (_, server, _) in enumerate(machines):
        rig.host.run(["sh", "-c", _ROUTE, "sh", str(number), server])
    config = rig.ssh_config(folder / "ssh_config")
    known = next(line.split()[1] for line in config.read_text().splitlines() if "UserKnownHosts" in line)
    key = (rig.lab.state / "host.pub").read_text().split()[:2]
    clients = folder / "known_clients"
    clients.write_text("".join(f"{address} {' '.join(key)}\n" for _, _, address in machines))
    block = config.read_text().replace("Host 127.0.0.1", "Host 10.97.*").replace(known, str(clients))
    jump = f"    ProxyJump {USERS['server']}@127.0.0.1:{rig.relay.port}\n"
    config.write_text(config.read_text() + block + jump)
    addresses = [f"ssh://{USERS['client']}@{address}" for _, _, address in machines]
    devices = {"data": ("vd0",), "log": ("vd1",)}
    text = rig.testbed_toml(devices, addresses).replace("ssh://root@127", f"ssh://{USERS['server']}@127")
    text = text.replace("\n[[client]]", f'address = "{machines[0][1]}"\n\n[[client]]', 1)
    path = folder / "rig.toml"
    path.write_text(f'ssh_config = "{config.name}"\n{text}')
    agreed = tuple(w for d in ("vd0", "vd1") for w in ("--erase-serial", rig.disks[d].serial))
    yield Bed(folder, path, agreed)
    for process, _, _ in machines:
        process.stop(30.0, "TERM")


def test_the_doctor_finds_nothing_that_would_stop_them(bed: Bed) -> None:
    done = bed.hsp("doctor", "--testbed", os.fspath(bed.path), "--json")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    wrong = [one for one in said["findings"] if one["state"] == "fail"]
    assert wrong == [] and done.returncode == 0
    assert len({one["host"] for one in said["findings"]}) == 1 + CLIENTS


def test_devices_are_seen_as_root_sees_them(bed: Bed) -> None:
    done = bed.hsp("devices", "--testbed", os.fspath(bed.path), "--json")
    assert done.returncode == 0, done.stderr
    ours = {one["serial"]: one for one in json.loads(done.stdout)["devices"]}
    assert ours["HSPVD0"]["available"] is True and ours["HSPVD0"]["size_bytes"] == 128 << 20


def test_their_runs_close_compare_and_leave_nothing(bed: Bed, rig: Rig) -> None:
    before = state_of(rig.host)
    workload = write_small(bed.folder, ("writes", "write", "200ms"))
    words = [os.fspath(workload), "--testbed", os.fspath(bed.path), "--versus", os.fspath(bed.path)]
    done = bed.hsp("run", *words, *bed.agreed, "--json", "--results", os.fspath(bed.folder))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {run["verdict"] for runs in said["runs"].values() for run in runs} == {"valid"}, done.stderr
    # Two runs of one testbed are alike.
    assert said["comparison"]["across"] == {}
    run = bed.folder / "small" / "latest"
    for phase in json.loads((run / "manifest.json").read_text())["phases"]:
        assert len(phase["clients"]) == CLIENTS
        assert phase["client_ios"] == phase["server_ios"] > 0 and phase["problems"] == []
    assert differences(before, state_of(rig.host)) == []
    ran = [json.loads(line) for line in (run / "raw" / "commands.jsonl").read_text().splitlines()]
    assert {line["host"] for line in ran if line.get("argv", [""])[0] == "mount"} == {
        name for name in {line["host"] for line in ran} if name.startswith("10.97.")
    }


def test_without_the_lists_a_program_is_named_and_nothing_is_done(bed: Bed, rig: Rig) -> None:
    before = state_of(rig.host)
    user = USERS["client"]
    kept = rig.host.get(f"/etc/sudoers.d/{user}")
    rig.host.run(["rm", f"/etc/sudoers.d/{user}"])
    try:
        workload = write_small(bed.folder, ("writes", "write", "200ms"))
        words = [os.fspath(workload), "--testbed", os.fspath(bed.path), *bed.agreed]
        done = bed.hsp("run", *words, "--results", os.fspath(bed.folder))
    finally:
        rig.host.put(kept, f"/etc/sudoers.d/{user}")
        rig.host.run(["chmod", "0440", f"/etc/sudoers.d/{user}"])
    assert done.returncode == 5, done.stderr
    assert "sudo" in done.stderr and "10.97." in done.stderr
    assert differences(before, state_of(rig.host)) == []
