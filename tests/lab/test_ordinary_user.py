"""A run by ordinary users: sudo with the lists of docs/hosts.md, clients behind a ProxyJump.

Server and clients are one guest; each client has networks and mounts of its own, and another user. On the
same guest root tries one disk: as a log device, and by power losses.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import EXIT_SAFETY
from kit.devices.check import check
from kit.devices.listing import list_devices
from kit.devices.refusal_reasons import DeviceSpec
from kit.lab.clients import start_machine
from kit.recovery.journal import read_journal
from kit.store.printed.slog import SlogTest
from tests.lab.conftest import ROOT
from tests.lab.diskstates import States
from tests.lab.hoststate import differences, state_of
from tests.lab.observed import has_begun, start
from tests.lab.pools import dataset, mounted
from tests.lab.rig import Bed, Rig, agreed_commands, call
from tests.lab.test_faults import wait_for
from tests.lab.workloads import write_device_phases, write_small
from tests.sudo_lines import documented

PROTECTS = ("kit/hosts", "kit/load/ordinary_user.py", "kit/remote")
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
    text, replaced = re.subn(r"(?m)^hsp ", f"{USERS[role]} ", documented(role))
    assert replaced == 1
    # One file for each user: aliases of the same name are one too many.
    return text.replace("HSP_", f"HSP_{role.upper()}_")


_WARM_UP = """
[warmup]
job = "read.fio"
read_first = "1MiB"
duration = "100ms"
l2arc_min = "0B"
feed_max = "1MiB"
"""


@dataclass(frozen=True)
class UsersBed:
    folder: Path
    path: Path
    agreed: tuple[str, ...]

    def hsp(self, *words: str) -> subprocess.CompletedProcess[str]:
        return call(words)


@pytest.fixture(scope="module")
def bed(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersBed]:
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
    yield UsersBed(folder, path, agreed)
    for process, _, _ in machines:
        process.stop(30.0, "TERM")


def test_the_doctor_finds_nothing_that_would_stop_them(bed: UsersBed) -> None:
    done = bed.hsp("host", "check", "--testbed", os.fspath(bed.path), "--json")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    wrong = [one for one in said["findings"] if one["state"] == "fail"]
    assert wrong == [] and done.returncode == 0
    assert len({one["host"] for one in said["findings"]}) == 1 + CLIENTS


def facts_of(disk: dict[str, Any]) -> dict[str, Any]:
    """Without the texts of reasons, which can name processes."""
    return json.loads(json.dumps(disk | {"reasons": [reason["code"] for reason in disk["reasons"]]}))


def test_devices_are_seen_as_root_sees_them(bed: UsersBed, rig: Rig) -> None:
    done = bed.hsp("host", "disks", "--testbed", os.fspath(bed.path), "--json")
    assert done.returncode == 0, done.stderr
    ours = {one["serial"]: one for one in json.loads(done.stdout)["devices"]}
    assert ours["HSPVD0"]["available"] is True and ours["HSPVD0"]["size_bytes"] == 128 << 20
    of_root = {one.node.serial: one.as_json() for one in list_devices(rig.host)}
    assert {serial: facts_of(one) for serial, one in ours.items()} == {
        serial: facts_of(one) for serial, one in of_root.items()
    }


def test_their_run_closes_and_leaves_nothing(bed: UsersBed, rig: Rig) -> None:
    before = state_of(rig.host)
    # The guest's second until the common start is a moment here, a tenth of the phase the limit of skew.
    workload = write_small(bed.folder, ("reads", "read", "2s"), ("writes", "write", "2s"))
    # The server reads the working set, in a directory of root.
    workload.write_text(workload.read_text() + _WARM_UP)
    words = [os.fspath(workload), "--testbed", os.fspath(bed.path)]
    done = bed.hsp("run", *words, *bed.agreed, "--json", "--results", os.fspath(bed.folder))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "valid", done.stderr
    run = bed.folder / "small" / "latest"
    for phase in json.loads((run / "manifest.json").read_text())["phases"]:
        assert len(phase["clients"]) == CLIENTS
        assert phase["client_ios"] == phase["server_ios"] > 0 and phase["problems"] == []
    assert differences(before, state_of(rig.host)) == []
    ran = [json.loads(line) for line in (run / "raw" / "commands.jsonl").read_text().splitlines()]
    assert any(line.get("argv", [""])[0] == "dd" for line in ran)
    assert {line["host"] for line in ran if line.get("argv", [""])[0] == "mount"} == {
        name for name in {line["host"] for line in ran} if name.startswith("10.97.")
    }


def test_their_observation_closes_and_leaves_nothing(bed: UsersBed, rig: Rig, tmp_path: Path) -> None:
    """Of a pool, an export and a load that the kit did not make."""
    words = ["observe", "--testbed", os.fspath(bed.path), "--for", "1h", "--results", os.fspath(tmp_path)]
    with (
        dataset(rig.host, "users", latency="10us", file="bs=64k count=1") as (_, path),
        mounted(rig.host, path, 9, "/mnt/users") as client,
    ):
        before = state_of(rig.host)
        process = start(words)
        try:
            wait_for(
                lambda: has_begun(tmp_path, "observe") or process.poll() is not None, 300, "the observation"
            )
            client.host.run(["dd", "if=/mnt/users/file", "of=/dev/null", "bs=4k", "count=16", "iflag=direct"])
        finally:
            process.send_signal(signal.SIGINT)
        code = process.wait(300)
        left = [text for text in differences(before, state_of(rig.host)) if not text.startswith("nfsd's")]
    summary = json.loads((tmp_path / "observe" / "latest" / "summary.json").read_text())
    assert (code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    assert sum(row["ios"] for row in summary["observed"] if row["op"] == "read") == (64 << 10) // 4096
    assert left == []


def test_without_the_lists_a_program_is_named_and_nothing_is_done(bed: UsersBed, rig: Rig) -> None:
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


# --- By root again, of one disk ---


def test_a_log_device_is_tried_alone_after_its_serial_was_typed(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"log": ("vd3",), "data": ("vd0",)})
    words = ("slog", "vd3", "--testbed", os.fspath(bed.path), "--writes", "100", *bed.results)
    before = state_of(rig.host)
    refused = bed.hsp(*words)
    assert refused.returncode == EXIT_SAFETY and "--erase-serial" in refused.stderr
    # The serial of another device of the testbed is not an agreement.
    assert bed.hsp(*words, "--erase-serial", rig.disks["vd0"].serial).returncode == EXIT_SAFETY
    assert not (tmp_path / "slog").exists()

    done = bed.hsp(*words, "--erase-serial", rig.disks["vd3"].serial, "--json", "--state", "fresh")
    assert done.returncode == 0, done.stderr
    test = SlogTest.from_json(json.loads(done.stdout), "stdout")
    assert (test.state.kind, test.state.purge) == ("fresh", "blkdiscard")
    assert (test.device.serial, test.device.emulated) == (rig.disks["vd3"].serial, None)
    assert differences(before, state_of(rig.host)) == []

    spec = DeviceSpec(rig.by_id["vd3"], rig.disks["vd3"].serial, rig.disks["vd3"].size_bytes)
    assert [one.reasons for one in check(rig.host, [spec])] == [()]
    # In use: refused, and the pool is as it was.
    rig.host.run(["zpool", "create", "-f", "-R", "/run/slog-pool", "slogpool", rig.by_id["vd3"]])
    try:
        taken = bed.hsp(*words, "--erase-serial", rig.disks["vd3"].serial)
        assert taken.returncode == EXIT_SAFETY and "slogpool" in taken.stderr
        rig.host.run(["zpool", "scrub", "-w", "slogpool"])
        assert "errors: No known data errors" in rig.host.run(["zpool", "status", "slogpool"]).stdout
    finally:
        rig.host.run(["zpool", "destroy", "slogpool"])
        rig.host.run(["zpool", "labelclear", "-f", f"{rig.by_id['vd3']}-part1"], check=False)
        rig.host.run(["wipefs", "-a", rig.by_id["vd3"]])


def test_the_power_of_a_disk_is_cut_by_commands_of_the_users_own(rig: Rig, tmp_path: Path) -> None:
    """The disk goes in mid-write and comes back; what it has acknowledged is there, and the control's is not.

    QEMU has its content in memory of this machine, so that it keeps all, as a protected one does.
    """
    bed = Bed(rig, tmp_path, {"log": ("sd0",), "data": ("vd0",)})
    disk = rig.disks["sd0"]
    words = [sys.executable, "-m", "tests.lab.cut_disk", "{}", str(rig.lab.state), "sd0", disk.serial]
    off, on, count = (
        json.dumps(
            ["env", f"PYTHONPATH={ROOT}", *[each.format(word) for each in words], str(disk.size_bytes)]
        )
        for word in ("off", "on", "count")
    )
    power = f'[power]\nscope = "device"\noff = {off}\non = {on}\ncount = {count}\n'
    bed.path.write_text(f"{bed.path.read_text()}\n{power}")
    write_device_phases(tmp_path)
    workload = tmp_path / "devices.toml"
    text = workload.read_text().replace('each = "together"\n', "")
    losses = '[power_loss]\nmoments = 2\nwithin = "200ms"\nidle = "0s"\n'
    workload.write_text(f"{text}\n{losses}")
    shown = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--commands")
    assert "controller: env" in shown.stdout and "cut_disk on" in shown.stdout, shown.stdout
    before, other = state_of(rig.host), States(rig).digests("vd0")
    agreed = ("--erase-serial", disk.serial)
    words = ["run", os.fspath(workload), "--testbed", os.fspath(bed.path), *agreed]
    done = bed.hsp(*words, *bed.results, "--json")
    assert done.returncode == EXIT_SAFETY and "the commands of the testbed were not agreed to" in done.stderr
    done = bed.hsp(*words, *agreed_commands(workload, bed.path), *bed.results, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["power_loss"]
    assert (told["scope"], told["moments"], told["proven"], told["lost"]) == ("device", 2, 2, 0)
    assert told["control"]["lost"] > 0 and told["verified_again"] == 2
    assert (rig.lab.state / "sd0.cuts").read_text() == "4", "the control, two, and a clean power cycle"
    run = (tmp_path / "devices" / "latest").resolve()
    record = read_journal(run / "journal.jsonl")
    assert record.finished and not record.pending
    assert differences(before, state_of(rig.host)) == []
    assert States(rig).digests("vd0") == other, "no phase goes to it"
