"""A link in /dev that moves: what writes to a device goes on with the one that was checked, or stops."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.config.tables.force_table import ForceTable
from kit.core.errors import HostError, SafetyRefusal
from kit.devices.array import ArraySpec, create, create_commands
from kit.hosts.held_device import PLACE, HeldDevice
from kit.hosts.local import LocalHost
from kit.load.block_device import DeviceLoad
from kit.load.programs import force_program
from kit.remote import power_loss_records
from kit.run.power.records import RecordLayout
from tests.fakes import ScriptedHost
from tests.loops import Loop, loop_device

pytestmark = pytest.mark.slow

MIB = 1 << 20
RECORDS = Path(power_loss_records.__file__)


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Loop]:
    with loop_device(tmp_path) as loop:
        yield loop


@pytest.fixture
def photos(tmp_path: Path) -> Iterator[Loop]:
    """Somebody else's device."""
    with loop_device(tmp_path) as loop:
        with open(loop.node, "wb") as file:
            file.write(b"photo " * 100_000)
        yield loop


def held(loop: Loop) -> HeldDevice:
    number, sequence = (
        Path(f"/sys/class/block/{loop.kernel_name}/{name}").read_text().strip() for name in ("dev", "diskseq")
    )
    return HeldDevice(str(loop.link), number, sequence)


def move(mine: Loop, other: Loop) -> None:
    """As udev does it."""
    new = mine.link.with_name(f"{mine.link.name}.new")
    new.symlink_to(other.node)
    new.replace(mine.link)


def moved_while(work: Callable[[], object], mine: Loop, other: Loop) -> None:
    """Move the link as soon as something was written to the device, and let `work` end."""
    failed: list[BaseException] = []

    def worker() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    before = mine.content()
    thread = threading.Thread(target=worker)
    thread.start()
    while mine.image.read_bytes() == before and thread.is_alive():
        time.sleep(0.02)
    assert thread.is_alive(), failed
    move(mine, other)
    thread.join(100)
    assert not thread.is_alive() and failed == []


def forces(loop: Loop, folder: Path, method: str, *, random: bool = False) -> None:
    """A load of forced writes on the device, for 1.5 s."""
    keys = {"record": "4KiB", "file": "16MiB", "method": method, "random": random, "check": not random}
    table = ForceTable.model_validate(keys)
    shutil.copy(force_program.program(), folder / force_program.PROGRAM)
    words = force_program.words_of(
        table, "log", str(loop.link), 16 * MIB, 7, is_device=True, device=held(loop)
    )
    run = force_program.run_words(words, table, 16 * MIB, 100_000_000, 1_500_000_000)
    LocalHost().run(force_program.command(str(folder), run))


@pytest.mark.parametrize(
    ("method", "random"),
    [("fdatasync", False), ("fsync_close", False), ("close_fsync", False), ("open_datasync", True)],
)
def test_forced_writes_stay_on_their_device(
    mine: Loop, photos: Loop, tmp_path: Path, method: str, random: bool
) -> None:
    before = photos.content()
    moved_while(lambda: forces(mine, tmp_path, method, random=random), mine, photos)
    assert photos.content() == before


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_fio_stays_on_its_device(mine: Loop, photos: Loop, tmp_path: Path) -> None:
    load = DeviceLoad(str(mine.link), "randwrite", 4096, 32 * MIB, 32 * MIB, 1, device=held(mine))
    output = tmp_path / "fio.json"
    before = photos.content()
    argv = [*load.argv(str(output)), "--time_based=1", "--runtime=3s"]
    moved_while(lambda: LocalHost().run(argv), mine, photos)
    assert photos.content() == before and f'"filename" : "{PLACE}"' in output.read_text()


WRITERS: dict[str, Callable[[Loop, Path], object]] = {
    "forces": lambda loop, folder: forces(loop, folder, "none"),
    "a command": lambda loop, _: LocalHost().run(held(loop).command(["dd", "if=/dev/zero", f"of={PLACE}"])),
    "blkdiscard": lambda loop, _: LocalHost().run(held(loop).command(["blkdiscard", PLACE])),
    "records of a power loss": lambda loop, folder: LocalHost().run(
        [
            sys.executable, "-I", str(RECORDS), "write",
            RecordLayout(str(loop.link), 1, 1, (4096,)).text(device=held(loop).word), str(folder / "log"),
        ]
    ),
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_that_has_moved_before_stops_the_writer(
    mine: Loop, photos: Loop, tmp_path: Path, writer: str
) -> None:
    before = photos.content()
    work = WRITERS[writer]
    device = held(mine)
    move(mine, photos)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(HostError, match=r"another device now|No such device"),
    ):
        patch.setitem(globals(), "held", lambda _: device)
        work(mine, tmp_path)
    assert photos.content() == before


def test_another_disk_with_the_same_number_is_another_device(mine: Loop) -> None:
    device = held(mine)
    later = HeldDevice(device.path, device.number, str(int(device.sequence) + 1))
    device.check(LocalHost())
    with pytest.raises(SafetyRefusal, match="leads to another device now"):
        later.check(LocalHost())
    # A kernel without sequence numbers.
    HeldDevice(device.path, device.number).check(LocalHost())


def test_members_of_an_array_are_looked_at_before_and_after_mdadm() -> None:
    member = HeldDevice("/dev/disk/by-id/a", "8:0", "3")
    spec = ArraySpec("hsp-abcdef", "0" * 32, "raid0", 65536, (member.path,))
    looks = ["", (4, "", "it leads to another device now")]
    host = ScriptedHost({"python3 -I -S -c": looks})
    with pytest.raises(SafetyRefusal, match="another device"):
        create(host, spec, create_commands(spec), [member])
    assert [argv[0] for argv in host.calls] == ["true", "mdadm", "true"]


def test_the_descriptor_is_the_only_one_that_is_handed_on(mine: Loop) -> None:
    script = "ls -l /proc/self/fd; [ -b /proc/self/fd/9 ]"
    listed = LocalHost().run(held(mine).command(["sh", "-c", script])).stdout
    assert listed.count(mine.node) == 1 and f"9 -> {mine.node}" in listed
