"""Who has a device open, and the kit's own claim of it. With loop devices, which need root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kit.core.errors import SafetyRefusal
from kit.devices import locks
from kit.devices.check import Guard, check, judge
from kit.devices.inventory import Inventory
from kit.devices.locks import ExclusiveClaim, Locks
from kit.devices.probe import probe
from kit.devices.refusal_reasons import Code, DeviceSpec
from kit.hosts.local import LocalHost
from kit.remote import probe_devices
from tests.kit.devices.facts import codes

pytestmark = pytest.mark.slow

HOST = LocalHost("server")
HOLDS = 'import os, sys, time; os.open(sys.argv[1], os.O_RDWR); print("open", flush=True); time.sleep(600)'

# Without a descriptor of it: as a mapping, and as a file that is registered with an io_uring.
MAPPED = """
import ctypes, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
place, size = ctypes.c_void_p, ctypes.c_size_t
mmap = ctypes.CDLL(None).mmap
mmap.argtypes = [place, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
mmap(None, 4096, 3, 1, file, 0)
os.close(file); print("open", flush=True); time.sleep(600)
"""
RING = """
import ctypes, os, sys, time
call = ctypes.CDLL(None, use_errno=True).syscall
ring = call(425, 4, ctypes.create_string_buffer(120))
file = ctypes.c_int(os.open(sys.argv[1], os.O_RDWR))
if ring < 0 or call(427, ring, 2, ctypes.byref(file), 1):
    print("no io_uring", flush=True); sys.exit()
os.close(file.value); print("open", flush=True); time.sleep(600)
"""


def losetup(*words: str) -> str:
    return subprocess.run(["losetup", *words], capture_output=True, text=True, check=True, timeout=30).stdout


@contextlib.contextmanager
def loop_device(backing: str) -> Iterator[str]:
    try:
        device = losetup("--find", "--show", backing).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop devices here: {error}")
    try:
        yield device
    finally:
        losetup("--detach", device)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(80 << 20)
    with loop_device(os.fspath(image)) as device:
        yield device


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "DIRECTORY", os.fspath(tmp_path / "hsp" / "locks"))


@contextlib.contextmanager
def held(path: str, how: str = HOLDS) -> Iterator[int]:
    """Another process has it open, without O_EXCL."""
    argv = [sys.executable, "-c", how, path]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            if (said := process.stdout.readline()) == "no io_uring\n":
                pytest.skip("this kernel has no io_uring for us")
            assert said == "open\n"
            yield process.pid
        finally:
            process.kill()


def spec(disk: str) -> DeviceSpec:
    return DeviceSpec(disk, trusted=True)


def look(disk: str, claimer: int | None = None) -> Inventory:
    return probe(HOST, [disk], content=False, claimer=claimer)


def texts(disk: str) -> str:
    (checked,) = judge(look(disk), [spec(disk)])
    return " ".join(reason.text for reason in checked.reasons if reason.code is Code.OPEN)


def test_a_process_that_has_the_disk_open_is_named(disk: str, tmp_path: Path) -> None:
    assert texts(disk) == ""
    with held(disk) as pid:
        assert f"process {pid} (python" in texts(disk) and f"has {disk} open" in texts(disk)
    # By a device node of another name, as containers have them, deleted since.
    node = tmp_path / "node"
    os.mknod(node, 0o600 | 0o060000, os.stat(disk).st_rdev)
    try:
        with held(os.fspath(node)) as pid:
            node.unlink()
            assert f"process {pid} (python" in texts(disk)
    except AssertionError as error:
        if "open" in str(error):
            pytest.skip("device nodes cannot be opened here (nodev)")
        raise


@pytest.mark.parametrize("how", [MAPPED, RING], ids=["mapped", "io_uring"])
def test_a_disk_in_use_without_a_descriptor_is_in_use(disk: str, how: str) -> None:
    with held(disk, how) as pid:
        assert f"process {pid} (python" in texts(disk) and f"has {disk} open" in texts(disk)


def test_a_loop_device_over_the_disk_is_a_use(disk: str) -> None:
    """The kernel has it open then, no process."""
    with loop_device(disk) as second:
        assert f"the kernel ({second.removeprefix('/dev/')}) has {disk} open" in texts(disk)


def test_a_target_of_the_kernel_over_the_disk_is_a_use(
    disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As configfs shows it; the module itself may not be here."""
    namespace = tmp_path / "subsystems" / "nqn.2026-01.x" / "namespaces" / "1"
    namespace.mkdir(parents=True)
    (namespace / "device_path").write_text(f"{disk}\n")
    pattern = f"{tmp_path}/subsystems/*/namespaces/*/device_path"
    monkeypatch.setattr(probe_devices, "NVME_TARGETS", pattern)
    name = disk.removeprefix("/dev/")
    devices = {name: probe_devices.block_device(name)}
    users, _, _ = probe_devices.open_devices([name], devices, "")
    assert users == [[name, "", "target nqn.2026-01.x"]]


@pytest.mark.parametrize(
    "argv", [["mkfs.ext4", "-q"], ["wipefs", "--all"], ["mount"], ["blkdiscard"]], ids=lambda argv: argv[0]
)
def test_nobody_can_take_a_claimed_disk(disk: str, argv: Sequence[str], tmp_path: Path) -> None:
    target = [os.fspath(tmp_path)] if argv[0] == "mount" else []
    name = disk.removeprefix("/dev/")
    with ExclusiveClaim(HOST, [name], "run-a") as claim:
        done = subprocess.run([*argv, disk, *target], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0, done
        # The claim of this run is no use by another; to all others it is.
        own = codes(look(disk, claim.pid), spec(disk))
        assert not own & {Code.BUSY, Code.OPEN}
        assert codes(look(disk), spec(disk)) >= {Code.BUSY, Code.OPEN}
        with pytest.raises(SafetyRefusal, match=f"{disk} on server .* opened exclusively"):
            ExclusiveClaim(HOST, [name], "run-b")
    ExclusiveClaim(HOST, [name], "run-b").close()


def test_before_each_write_disk_locks_and_claim_are_checked(disk: str, tmp_path: Path) -> None:
    checked = check(HOST, [spec(disk)], content=False)
    assert checked[0].node is not None
    with Locks(HOST, [checked[0].node], "run-a") as held_locks:
        guard = Guard(HOST, checked, held_locks, "run-a")
        guard.claim()
        guard.before_writing([disk], content=False)
        with (
            held(disk) as pid,
            pytest.raises(SafetyRefusal, match=rf"process {pid} \(py.*has {disk} open"),
        ):
            guard.before_writing([disk], content=False)
        # A purge opens the disk exclusively itself; the claim is back afterwards.
        with guard.lent(disk):
            subprocess.run(["blkdiscard", disk], check=True, timeout=60)
        assert subprocess.run(["blkdiscard", disk], capture_output=True, timeout=60).returncode != 0
        # Somebody has ended the process that held it, and taken the disk.
        assert guard.claimer is not None and guard._claim is not None
        os.kill(guard.claimer, 9)
        guard._claim._process.wait(30)
        with pytest.raises(SafetyRefusal, match="claims of the devices on server were lost"):
            guard.before_writing([disk], content=False)
        guard.release()
        guard.release()
        guard.before_writing([disk], content=False)
        held_locks.close()
        with pytest.raises(SafetyRefusal, match="locks on server were lost"):
            guard.before_writing([disk], content=False)
