"""A server that is restarted before a phase: what it must be when it is back, and what is watched of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.power_table import Restart
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import HostLost
from kit.hosts.connect import LoginRefused
from kit.hosts.identity import HostIdentity
from kit.hosts.known_hosts import HostKeyRefused
from kit.instruments.l2arc_rebuild import PROGRAM
from kit.nfs import unlisted_exports
from kit.run.power import cut, restart
from kit.run.power.cut import Booting, NotCut
from kit.setup.bench import Bench
from kit.setup.context import Context
from tests.fakes import Answer, Command, ScriptedHost

MACHINE = "0123456789abcdef0123456789abcdef"
BOOTS = [f"{n}0000000-0000-0000-0000-000000000000" for n in (1, 2)]
BEFORE = HostIdentity(MACHINE, BOOTS[0])


class Server(ScriptedHost):
    """`boots`: at each look; the last one stays."""

    def __init__(self, *boots: str) -> None:
        super().__init__({"env LC_ALL=C.UTF-8": (0, "", "")})
        self.boots, self.machine = list(boots), MACHINE

    def answer(self, command: Command) -> Answer:
        if command.argv[0] == "cat":
            boot = self.boots.pop(0) if len(self.boots) > 1 else self.boots[0]
            return f"{boot}\n{self.machine}\n"
        return super().answer(command)


def context(server: Server, *refusals: Exception, command: tuple[str, ...] = ("reboot",)) -> Context:
    """`refusals`: of logins, one after the other."""
    left, guarded = list(refusals), list[str]()

    def reopen(within_s: float) -> None:
        if left:
            raise left.pop(0)

    guard = SimpleNamespace(
        take_again=lambda *, locks: guarded.append(f"again {locks}"),
        release=lambda: guarded.append("release"),
    )
    site = SimpleNamespace(server=server, reopen=reopen, device_paths={}, guard=guard, guarded=guarded)
    table = Restart.model_validate({"command": command, "back_within": "1s"})
    made = SimpleNamespace(
        site=site, plan=SimpleNamespace(testbed=SimpleNamespace(restart=table)), run_id="r", token="t"
    )
    return cast(Context, made)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "_POLL_S", 0.01)
    monkeypatch.setattr(cut.work_directory, "create", lambda *_: None)
    monkeypatch.setattr(cut.server_setup, "partition_again", lambda *_: None)


def reboot(run: Context) -> list[str]:
    restart._reboot(run, cast(Bench, None), BEFORE)
    return cast(Any, run.site).guarded


def test_a_server_that_still_shuts_down_is_waited_for() -> None:
    """It answers in its old boot, then refuses all but root, then nothing answers."""
    run = context(Server(BOOTS[0], BOOTS[1]), LoginRefused("nologin"), HostLost("no route"))
    assert reboot(run) == ["again True", "release"]


def test_a_command_that_breaks_its_own_connection_has_restarted_the_server() -> None:
    server = Server(BOOTS[1])
    server.answers["env LC_ALL=C.UTF-8"] = HostLost("the connection broke")
    assert reboot(context(server)) == ["again True", "release"]


@pytest.mark.parametrize(
    ("server", "refusals", "kind", "words"),
    [
        (Server(BOOTS[0]), (), NotCut, "still runs since the same boot as before `reboot`"),
        (Server(BOOTS[1]), (HostLost("gone"),) * 500, HostLost, "is not back 1 s after `reboot`: gone"),
        (Server(BOOTS[1]), (HostKeyRefused("another key"),), HostKeyRefused, "another key"),
        (Server(BOOTS[1]), (LoginRefused("no"),) * 500, LoginRefused, "no"),
    ],
)
def test_a_server_that_is_not_back_is_not_touched(
    server: Server, refusals: tuple[Exception, ...], kind: type[Exception], words: str
) -> None:
    run = context(server, *refusals)
    with pytest.raises(kind, match=words):
        reboot(run)
    assert cast(Any, run.site).guarded == []


def test_another_machine_at_its_address_is_not_touched() -> None:
    run = context(Server(BOOTS[1]))
    cast(Any, run.site.server).machine = "f" * 32
    with pytest.raises(SafetyRefusal, match="another machine than before"):
        reboot(run)
    assert cast(Any, run.site).guarded == []


def test_a_command_that_fails_has_restarted_nothing() -> None:
    server = Server(BOOTS[1])
    server.answers["env LC_ALL=C.UTF-8"] = (1, "", "Access denied\n")
    with pytest.raises(HostError, match="`reboot` ended with 1: Access denied") as raised:
        reboot(context(server))
    assert "[restart]" in raised.value.hint


def test_power_is_not_waited_for_in_the_old_boot() -> None:
    run = context(Server(BOOTS[0], BOOTS[1]))
    with pytest.raises(NotCut, match="same boot"):
        Booting(run, BEFORE, "`on`", "[power]").wait(1)


def test_an_update_that_waited_for_the_restart_ends_the_run() -> None:
    server = ScriptedHost({"uname -r": "6.12.2\n", "zfs version": "zfs-2.3.2-2\nzfs-kmod-2.3.2-2\n"})
    server.files["/sys/module/zfs/version"] = b"2.3.2-2\n"
    found = restart.openzfs_version.read(server).text
    was = {"kernel": "6.12.1", "zfs": found}
    run = SimpleNamespace(record=SimpleNamespace(manifest=SimpleNamespace(versions=was)))
    with pytest.raises(HostError, match=r"kernel was 6\.12\.1 and is 6\.12\.2") as raised:
        restart._refuse_other_versions(cast(Context, run), server)
    assert "zfs was" not in raised.value.message
    was["kernel"] = "6.12.2"
    restart._refuse_other_versions(cast(Context, run), server)


def test_a_cache_device_that_did_not_come_back_is_seen() -> None:
    """With `zpool list -v` as OpenZFS prints it: a device that is not there has its GUID for a name."""
    head = "hsp-62eb60\t1\t1\t1\t-\t-\t0\t28\t1.00\tONLINE\t-\n"
    data = "\t/dev/disk/by-id/a\t402653184\t-\t-\t-\t-\t-\t-\t-\tONLINE\ncache\t-\t-\t-\t-\t-\t-\t-\t-\t-\n"
    there = "\t/dev/disk/by-id/b-part1\t1875\t10\t990\t-\t-\t0\t1\t-\t{}\n"
    gone = "\t12345678901234567890\t-\t-\t-\t-\t-\t-\t-\t-\tUNAVAIL\n"
    found = [
        restart._online(ScriptedHost({"zpool list": head + data + each}), "hsp-62eb60")
        for each in (there.format("ONLINE"), there.format("UNAVAIL"), gone)
    ]
    disk = "/dev/disk/by-id/a"
    assert found == [{disk, "/dev/disk/by-id/b-part1"}, {disk}, {disk}]


def test_other_exports_need_an_agreement() -> None:
    printed = "/tank 10.0.0.9(rw,sync)\n/own 10.0.0.2(rw)\n\0/tank 10.0.0.9(rw)\n"
    server = ScriptedHost({"sh -c": printed})
    with pytest.raises(SafetyRefusal, match="other exports: /tank; nothing was restarted"):
        unlisted_exports.refuse_restart(server, "/own", agreed=False)
    assert unlisted_exports.refuse_restart(server, "/own", agreed=True) == [
        "a phase restarts server, which has other exports: /tank"
    ]
    alone = ScriptedHost({"sh -c": "/own 10.0.0.2(rw)\n\0"})
    assert unlisted_exports.refuse_restart(alone, "/own", agreed=False) == []


def test_nfs4_is_waited_for_until_its_grace_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "_POLL_S", 0.01)
    server = ScriptedHost({"cat": ["N\n", "N\n", "Y\n"]})
    restart._await_grace(server)
    assert len(server.calls) == 3
    # A kernel without the file.
    restart._await_grace(ScriptedHost({"cat": (1, "", "No such file")}))


def kstat(folder: Path, success: int, size: int) -> None:
    rows = [f"l2_rebuild_success 4 {success}", f"l2_rebuild_size 4 {size}", "l2_rebuild_dh_errors 4 0"]
    made = folder / "new"
    made.write_text("\n".join(["13 1 0x01 1 2 3 4", "name type data", "size 4 9", *rows, ""]))
    made.rename(folder / "arcstats")


@pytest.mark.parametrize("ends", [True, False])
def test_the_watch_ends_with_the_rebuild_or_when_told(tmp_path: Path, ends: bool) -> None:
    kstat(tmp_path, 3, 7)
    program = PROGRAM.read_text().replace("/proc/spl/kstat/zfs/arcstats", str(tmp_path / "arcstats"))
    argv = [sys.executable, "-I", "-c", program, "2"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = json.loads(process.stdout.readline())
        kstat(tmp_path, 4, 1007)
        if ends:
            kstat(tmp_path, 5, 2007)
        else:
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
        (last,) = map(json.loads, process.stdout)
    assert process.returncode == 0 and last["at_ns"] > first["at_ns"]
    change = {name: value - first["arc"][name] for name, value in last["arc"].items()}
    assert (change["l2_rebuild_success"], change["l2_rebuild_size"]) == ((2, 2000) if ends else (1, 1000))
