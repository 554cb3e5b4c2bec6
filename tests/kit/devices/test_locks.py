"""kit.devices.locks: real flock(2), held by a real process."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import locks
from kit.devices.inventory import Node
from kit.devices.locks import Locks, lock_names
from kit.devices.probe import parse
from kit.hosts.local import LocalHost
from kit.remote import lock_devices
from tests.kit.devices.facts import DISKS, recorded, spec_of

INVENTORY = parse("server", json.dumps(recorded()))
ONE, TWO = INVENTORY.nodes["vdc"], INVENTORY.nodes["vdd"]
HOST = LocalHost("server")
DEADLINE_S = 30.0


def device_locks(device: Node, *others: Node, run: str = "run-b") -> Locks:
    """Of the devices alone, not of the whole host."""
    return Locks(HOST, [device, *others], run, whole_host=False)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(locks, "DIRECTORY", str(tmp_path / "hsp" / "locks"))
    return tmp_path / "hsp" / "locks"


def test_the_owner_of_a_held_lock_is_named(directory: Path) -> None:
    with device_locks(ONE, TWO, run="run-a"):
        owner = json.loads((directory / lock_names(ONE)[0]).read_text())
        assert (owner["run"], owner["pid"]) == ("run-a", os.getpid())
        with pytest.raises(SafetyRefusal) as caught, device_locks(TWO):
            pytest.fail("both have it")
        assert caught.value.exit_code == 4
        assert (
            "/dev/vdd on server is not touched: it is locked by run run-a (process " in caught.value.message
        )
        assert f"process {os.getpid()} of " in caught.value.message and " UTC)" in caught.value.message
        assert directory.stat().st_mode & 0o077 == 0
    with Locks(HOST, [TWO], "run-b"):
        pass


def test_a_host_is_locked_by_one_run(directory: Path) -> None:
    with (
        Locks(HOST, [ONE], "run-a"),
        pytest.raises(SafetyRefusal, match="the host on server is not touched: it is locked by run run-a"),
        Locks(HOST, [TWO], "run-b"),
    ):
        pytest.fail("two runs on one host")


@pytest.mark.parametrize("change", [{"device_number": "9:9"}, {"serial": "other"}])
def test_each_of_the_two_lock_files_protects_a_device(change: dict[str, str]) -> None:
    """A disk that was plugged in again, and another disk under the same number."""
    with (
        device_locks(ONE, run="run-a"),
        pytest.raises(SafetyRefusal),
        device_locks(dataclasses.replace(ONE, **change)),
    ):
        pytest.fail("the same disk twice")


def test_no_lock_is_taken_if_one_is_held() -> None:
    with device_locks(TWO, run="run-a"):
        with pytest.raises(SafetyRefusal):
            device_locks(ONE, TWO)
        with device_locks(ONE, run="run-c"):
            pass


HOLD = """
import json, sys, time
from kit.devices import locks
from kit.hosts.local import LocalHost
from tests.kit.devices.test_locks import ONE
locks.DIRECTORY = sys.argv[1]
held = locks.Locks(LocalHost("server"), [ONE], "run-dead")
print("held", flush=True)
time.sleep(600)
"""


def test_a_killed_kit_holds_no_lock(directory: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(SafetyRefusal, match="run run-dead"):
            Locks(HOST, [ONE], "run-b")
        other.kill()
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            with Locks(HOST, [ONE], "run-b") as held:
                held.check()
                break
        except SafetyRefusal:
            assert time.monotonic() < end, "the lock outlives its owner"
            time.sleep(0.05)


def test_the_last_holder_leaves_no_file_and_none_takes_those_of_another(directory: Path) -> None:
    with device_locks(ONE, run="run-a"):
        with device_locks(TWO):
            pass
        assert {path.name for path in directory.iterdir()} > {*lock_names(ONE)}
        with pytest.raises(SafetyRefusal), device_locks(TWO, ONE):
            pytest.fail("one is held")
        # What the refused one had taken is gone, and what it had not is still locked.
        assert not (directory / lock_names(TWO)[0]).exists()
        with pytest.raises(SafetyRefusal), device_locks(ONE):
            pytest.fail("it is held")
    assert not directory.exists() and directory.parent.exists()


def test_a_file_that_its_holder_removes_meanwhile_is_no_lock(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the open and the lock of another process."""
    flock, removed = fcntl.flock, list[int]()

    def after_the_holder_ended(file: int, how: int) -> None:
        if not removed:
            (directory / "x.lock").unlink()
            directory.rmdir()
            removed.append(file)
        flock(file, how)

    monkeypatch.setattr(lock_devices.fcntl, "flock", after_the_holder_ended)
    file = lock_devices.locked(os.fspath(directory), "x.lock")
    assert removed and os.fstat(file).st_ino == (directory / "x.lock").stat().st_ino
    os.close(file)


def test_lost_locks_are_detected() -> None:
    with Locks(HOST, [ONE], "run-a") as held:
        held.check()
        held.close()
        with pytest.raises(SafetyRefusal, match="were lost"):
            held.check()


def test_a_lock_directory_writable_by_others_is_refused(directory: Path) -> None:
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    with pytest.raises(HostError, match="not a directory of this user alone"):
        Locks(HOST, [ONE], "run-a")


def test_a_symbolic_link_as_lock_file_is_not_followed(directory: Path, tmp_path: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (directory / "host.lock").symlink_to(victim)
    with pytest.raises(HostError, match="cannot be locked"):
        Locks(HOST, [ONE], "run-a")
    assert victim.read_text() == "precious"


def test_hostile_contents_of_a_lock_file(directory: Path) -> None:
    """Another program may have written anything there."""
    with device_locks(ONE, run="run-a"):
        for words in ("", "[]", '{"run": "\x1b[31m"}', '{"since_unix_s": "x"}', "\0" * 9000):
            (directory / lock_names(ONE)[0]).write_text(words)
            with pytest.raises(SafetyRefusal, match="an unknown owner") as caught:
                device_locks(ONE)
            assert caught.value.message.isprintable()
        named = {"run": "\x1b[31m", "user": "\u202e", "machine": "m", "pid": 1, "since_unix_s": 0.0}
        (directory / lock_names(ONE)[0]).write_text(json.dumps(named))
        with pytest.raises(SafetyRefusal, match=r"run \?\[31m \(process 1 of \? on m, since 1970"):
            device_locks(ONE)


def test_locks_are_of_the_disk_and_of_its_number() -> None:
    nodes = [INVENTORY.find(spec_of(disk).path) for disk in DISKS]
    names = [set(lock_names(node)) for node in nodes if node]
    assert all(len(own) == 2 for own in names)
    assert len(set().union(*names)) == 2 * len(DISKS)  # namespaces of one controller are not one disk
    nameless = INVENTORY.nodes["nullb0"]
    assert lock_names(nameless) == (f"device-{nameless.device_number.replace(':', '-')}.lock",)
