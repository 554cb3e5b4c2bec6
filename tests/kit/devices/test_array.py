"""kit.devices.array: the run's own md array, and no other."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import array
from kit.devices.array import ArraySpec
from tests.fakes import Answer, Command, ScriptedHost

RUN = "20260101T000000Z-abcdef"
UUID = array.uuid_of(RUN, "stripe")
A, B = "/dev/disk/by-id/ata-A", "/dev/disk/by-id/ata-B"
KERNEL = {A: "sda", B: "sdb"}
OTHERS = "md-of-others", "f" * 32


@dataclass
class MdHost(ScriptedHost):
    """Two disks; `arrays`: which array each is in (name, UUID), of a superblock; `running`: and as md127."""

    arrays: dict[str, tuple[str, str]] = field(default_factory=dict)
    running: bool = False

    def __post_init__(self) -> None:
        super().__init__(name="host")
        self.node = ""

    def answer(self, command: Command) -> Answer:
        match command.argv:
            case ("lsblk", "--nodeps", *_, path):
                return f"serial-{path[-1]}\n"
            case ("readlink", "-f", path):
                return f"/dev/{KERNEL.get(path, 'md127')}\n"
            case ("find", place, *_):
                of = next(path for path, name in KERNEL.items() if f"/{name}/" in place)
                return "md127\n" if self.running and of in self.arrays else ""
            case ("mdadm", "--examine", _, path):
                return export(self.arrays.get(path))
            case ("mdadm", "--detail", _, _):
                return export(next(iter(self.arrays.values()), None) if self.running else None)
            case ("mdadm", "--stop", _):
                self.running = False
            case ("mdadm", "--zero-superblock", path):
                assert not self.running
                del self.arrays[path]
            case ("rm", "-f", "--", node):
                self.node = node
        return ""


def export(identity: tuple[str, str] | None) -> Answer:
    if identity is None:
        return 1, "", "no md superblock"
    name, uuid = identity
    parts = ":".join(uuid[at : at + 8] for at in range(0, 32, 8))
    return f"MD_LEVEL=raid0\nMD_NAME=any:{name}\nMD_UUID={parts}\n"


def remove(host: MdHost) -> None:
    array.remove(host, "hsp-abcdef", UUID, [A, B], ["serial-A", "serial-B"])


def test_the_runs_own_array_is_stopped_and_its_superblocks_go() -> None:
    own = "hsp-abcdef", UUID
    host = MdHost({A: own, B: own}, running=True)
    remove(host)
    assert (host.arrays, host.running, host.node) == ({}, False, "/dev/hsp-abcdef")
    remove(host)  # again, and where it was never made


@pytest.mark.parametrize("other", [OTHERS, ("hsp-abcdef", "f" * 32), ("tank", UUID)])
def test_the_array_of_others_stays(other: tuple[str, str]) -> None:
    host = MdHost({A: other, B: other}, running=True)
    with pytest.raises(SafetyRefusal, match=r"ata-A on host is in use by /dev/md127, the array"):
        remove(host)
    assert host.running and host.arrays == {A: other, B: other}


def test_a_superblock_of_others_stays() -> None:
    host = MdHost({A: ("hsp-abcdef", UUID), B: OTHERS})
    remove(host)
    assert host.arrays == {B: OTHERS}


def test_an_exchanged_disk_is_not_touched() -> None:
    host = MdHost({A: ("hsp-abcdef", UUID)}, running=True)
    with pytest.raises(SafetyRefusal, match="has the serial 'serial-A', the run used 'another'"):
        array.remove(host, "hsp-abcdef", UUID, [A], ["another"])
    assert host.running


def test_each_phase_and_run_has_its_own_uuid() -> None:
    uuids = {array.uuid_of(run, phase) for run in (RUN, RUN[:-1] + "0") for phase in ("a", "b")}
    assert len(uuids) == 4 and all(len(uuid) == 32 for uuid in uuids)


@pytest.mark.parametrize(
    ("level", "members", "has", "has_not"),
    [
        ("raid0", (A,), {"--force", "--chunk=512K"}, {"--assume-clean"}),
        ("raid0", (A, B), {"--chunk=512K"}, {"--force"}),
        ("raid1", (A, B), {"--assume-clean", "--bitmap=none"}, {"--chunk=512K"}),
        ("raid5", (A, B, B), {"--assume-clean", "--chunk=512K"}, {"--force"}),
    ],
)
def test_what_mdadm_is_asked_for(
    level: str, members: tuple[str, ...], has: set[str], has_not: set[str]
) -> None:
    words = {*array.create_commands(ArraySpec("hsp-abcdef", UUID, level, 512 << 10, members))[0].argv}
    assert has <= words and not has_not & words and {f"--uuid={UUID}", "--run"} <= words


def test_what_is_missing_is_named_before_anything_is_made() -> None:
    no_mdadm = ScriptedHost({"mdadm": (127, "", "")}, name="host")
    with pytest.raises(HostError, match="mdadm does not run on host") as caught:
        array.check_tools(no_mdadm, ["raid0"])
    assert "install the package mdadm" in caught.value.hint
    no_module = ScriptedHost({"mdadm": (0, "", "mdadm - v4.4"), "modprobe": 1}, name="host")
    with pytest.raises(HostError, match="has no raid456: it cannot make an array of level raid5"):
        array.check_tools(no_module, ["raid5"])
    whole = ScriptedHost({"mdadm": (0, "", "mdadm - v4.4 - 2024-11-07\n"), "modprobe": 0}, name="host")
    assert array.check_tools(whole, ["raid0", "raid1"]) == "v4.4 - 2024-11-07"


def test_a_member_that_md_has_put_out_is_named() -> None:
    spec = ArraySpec("hsp-abcdef", UUID, "raid1", 0, (A, B))
    answers: dict[str, Answer] = {
        "readlink -f /dev/md/hsp-abcdef": "/dev/md127\n",
        f"readlink -f {A}": "/dev/sda\n",
        f"readlink -f {B}": "/dev/sdb\n",
        "cat /sys/block/md127/md/degraded": "1\n",
        "cat /sys/block/md127/md/dev-sda/state": "in_sync\n",
        "cat /sys/block/md127/md/dev-sdb/state": "faulty\n",
    }
    assert array.degraded(ScriptedHost(answers, name="host"), spec) == B
    whole = ScriptedHost({**answers, "cat /sys/block/md127/md/degraded": "0\n"}, name="host")
    assert array.degraded(whole, spec) == ""
