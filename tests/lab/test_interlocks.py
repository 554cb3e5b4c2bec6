"""The interlocks, D1 to D14, with real disks in the states described. Refused means: nothing was written.

One guest for all. D12 is of the command line, D13 of fio jobs (tests/kit/test_fiojob.py).
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kit import blockdevice
from kit.devices.check import check
from kit.devices.guard import guarded
from kit.devices.inventory import Inventory, paste_ready, probe
from kit.devices.listing import list_devices
from kit.devices.locks import locked
from kit.devices.reasons import Code, Wanted, reasons
from kit.devices.wipe import plan_wipe, wipe
from kit.errors import SafetyRefusal
from kit.hosts.base import Process, Result
from kit.lab.machine import open_host
from kit.purge import purge
from tests.lab.diskstates import States
from tests.lab.rig import MIB, Rig, ssh

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

SIZE = 128 * MIB


@pytest.fixture(scope="module")
def states(rig: Rig) -> States:
    return States(rig)


@pytest.fixture
def blank(states: States) -> States:
    """All disks are blank."""
    states.blank(*states.rig.disks)
    return states


def wanted(rig: Rig, disk: str) -> Wanted:
    return Wanted(rig.by_id[disk], rig.disks[disk].serial, SIZE)


def found(rig: Rig, inventory: Inventory, disk: str) -> dict[Code, str]:
    listed = reasons(inventory, wanted(rig, disk))
    assert all(reason.text and reason.remedy for reason in listed)
    return {reason.code: reason.text for reason in reversed(listed)}


def refusal(rig: Rig, *asked: Wanted) -> str:
    """What a run says that would use these devices; none of them has changed then."""
    with pytest.raises(SafetyRefusal) as caught, guarded(rig.host, asked, "run-x"):
        pytest.fail("the devices were given away")
    assert caught.value.exit_code == 4 and caught.value.hint
    for one in asked:
        assert f"{one.path} on lab is not touched: " in caught.value.message
    return caught.value.message


def test_blank_disks_are_available_and_the_testbed_can_name_them(rig: Rig, blank: States) -> None:
    inventory = probe(rig.host)
    assert inventory.problems == ()
    for disk, known in rig.disks.items():
        node = inventory.find(rig.by_id[disk])
        assert node and (node.serial, node.size_bytes) == (known.serial, SIZE)
        assert paste_ready(node) == rig.by_id[disk]
        assert found(rig, inventory, disk) == {}
    with guarded(rig.host, [wanted(rig, disk) for disk in rig.disks], "run-1") as guard:
        guard.before_writing()


def test_d4_used_by_something(rig: Rig, blank: States, tmp_path: Path) -> None:
    """D4 and D6: every state at once, one look."""
    for disk in ("vd0", "vd1", "sd1", "ns1"):
        blank.put_ext4(disk, tmp_path)
    multipath = "0 262144 multipath 0 0 1 1 service-time 0 1 2 {} 1 1"
    crypt = "0 20480 crypt aes-cbc-essiv:sha256 00112233445566778899aabbccddeeff 0 {} 0"
    with contextlib.ExitStack() as stack:
        for state in (
            blank.mounted_elsewhere("vd1"), blank.swap("vd2"), blank.lvm("vd3"), blank.md("vd4"),
            blank.mapped("vd5", "hsp-crypt", "CRYPT-PLAIN-hsp", crypt),
            blank.mapped("sd0", "hsp-mp", "mpath-hsp", multipath),
            blank.mapped("vd0", "hsp-linear", "hsp", "0 20480 linear {} 0"),
            blank.read_only("sd2"), blank.mounted("ns1"),
        ):  # fmt: skip
            stack.enter_context(state)
        root = stack.enter_context(blank.partition_of_the_root_disk())
        before = {disk: blank.digest(disk) for disk in rig.disks}
        inventory = probe(rig.host, [*rig.by_id.values(), "/dev/vda", root])
        expected = {
            "vd0": {Code.HOLDER, Code.BUSY, Code.SIGNATURE},
            "vd1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
            "vd2": {Code.SWAP, Code.BUSY, Code.SIGNATURE},
            "vd3": {Code.LVM, Code.BUSY},
            "vd4": {Code.MD, Code.BUSY},
            "vd5": {Code.CRYPT, Code.BUSY},
            "sd0": {Code.MULTIPATH, Code.BUSY},
            "sd1": {Code.SIGNATURE},
            "sd2": {Code.READ_ONLY},
            "ns1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
            "ns2": {Code.SIBLING},
        }
        assert {disk: set(found(rig, inventory, disk)) for disk in rig.disks} == expected
        assert (
            "mounted at /mnt in the mount namespace of process" in found(rig, inventory, "vd1")[Code.MOUNTED]
        )
        assert "mounted at /mnt/own" in found(rig, inventory, "ns2")[Code.SIBLING]
        of_root = {r.code for r in reasons(inventory, Wanted(root, "x", 80 * MIB))}
        assert of_root >= {Code.KERNEL_NAME, Code.NOT_WHOLE, Code.ROOT_DISK, Code.MOUNTED, Code.BUSY}
        # Of two namespaces that are both of the testbed, neither is in the other's way.
        message = refusal(rig, *(wanted(rig, disk) for disk in rig.disks if disk != "ns1"))
        del expected["ns1"]
        for disk, codes in expected.items():
            for code in codes:
                assert found(rig, inventory, disk)[code] in message
        # What preconditioning asks gives the same answer.
        with pytest.raises(SafetyRefusal, match=r"signature on /dev/sd.: ext4"):
            blockdevice.find_unused(rig.host, rig.by_id["sd1"])
        assert {disk: blank.digest(disk) for disk in rig.disks} == before
    # Unused now, all have contents; those of LVM and md are not for the kit to wipe.
    rest = probe(rig.host, list(rig.by_id.values()))
    assert set(found(rig, rest, "vd4")) == {Code.MD}
    assert set(found(rig, rest, "vd2")) == {Code.SIGNATURE}


def test_d5_members_of_pools(rig: Rig, blank: States) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(blank.pool("inuse", "vd0", "log", "vd1", "cache", "vd2", "spare", "vd3"))
        stack.enter_context(blank.pool("away", "vd4", "cache", "sd0", "spare", "sd1"))
        stack.enter_context(blank.pool("broken", "ns1", "ns2"))
        stack.enter_context(blank.pool("gone", "vd5"))
        guids = dict(
            line.split("\t")
            for line in rig.host.run(["zpool", "list", "-H", "-p", "-o", "name,guid"]).stdout.splitlines()
        )
        rig.host.run(["zpool", "export", "away"])
        rig.host.run(["zpool", "destroy", "gone"])
        rig.host.run(["zpool", "export", "broken"])
        blank.blank("ns2")  # one of its two disks is lost: it cannot be imported any more
        quiet = ("vd4", "vd5", "sd0", "sd1", "ns1", "ns2")
        before = {disk: blank.digest(disk) for disk in quiet}
        inventory = probe(rig.host, list(rig.by_id.values()))
        by_disk = {disk: found(rig, inventory, disk) for disk in rig.disks}
        for disk in ("vd0", "vd1", "vd2", "vd3"):
            assert by_disk[disk].keys() >= {Code.POOL_IMPORTED, Code.BUSY}
            assert f"imported pool 'inuse' (GUID {guids['inuse']})" in by_disk[disk][Code.POOL_IMPORTED]
        # Neither the label of a spare nor that of a cache device says which pool it belongs to.
        for disk in ("vd4", "sd0", "sd1"):
            assert f"pool 'away' (GUID {guids['away']})" in by_disk[disk][Code.POOL_LABEL]
            assert Code.POOL_IMPORTED not in by_disk[disk]
        assert f"pool 'broken' (GUID {guids['broken']})" in by_disk["ns1"][Code.POOL_LABEL]
        assert set(by_disk["ns2"]) == {Code.SIBLING}
        assert set(by_disk["vd5"]) == {Code.OLD_LABEL, Code.PARTITIONS, Code.SIGNATURE}
        assert "'gone'" in by_disk["vd5"][Code.OLD_LABEL]
        refusal(rig, *(wanted(rig, disk) for disk in rig.disks if disk not in ("sd2", "ns2")))
        for disk in ("vd0", "vd4", "sd1", "ns1"):
            with pytest.raises(SafetyRefusal):
                plan_wipe(rig.host, wanted(rig, disk), "/run/hsp-test-backup")
        assert {disk: blank.digest(disk) for disk in quiet} == before
        # Another disk of the testbed is a partition of this one: a duplicate, and no whole disk.
        partition = f"{rig.by_id['vd4']}-part1"
        pair = [wanted(rig, "vd4"), Wanted(partition, "HSPVD4", SIZE)]
        codes = [{r.code for r in one.reasons} for one in check(rig.host, pair)]
        assert Code.DUPLICATE in codes[0] & codes[1] and Code.NOT_WHOLE in codes[1]
        _wipes_the_destroyed_pool(rig, blank)
        rig.host.run(["zpool", "import", "-o", "cachefile=none", "away"])


def _wipes_the_destroyed_pool(rig: Rig, states: States) -> None:
    """D6: shown, done with a backup, and the disk is available; the other disks are as they were."""
    others = {disk: states.digest(disk) for disk in ("vd4", "sd0", "sd1", "ns1")}
    before = states.digest("vd5")
    planned = plan_wipe(rig.host, wanted(rig, "vd5"), "/run/hsp-test-backup")
    assert "zfs_member" in planned.describe() and "gpt" in planned.describe()
    assert states.digest("vd5") == before
    assert not any("-f" in argv or "--force" in argv for argv in planned.commands)
    wipe(rig.host, planned)
    assert check(rig.host, [wanted(rig, "vd5")])[0].reasons == ()
    kept = rig.host.run(["ls", "/run/hsp-test-backup"]).stdout.split()
    assert {"zfs-label-vdh1-start.bak", "zfs-label-vdh1-end.bak"} <= set(kept)
    assert sum(name.startswith("wipefs-") for name in kept) >= 3
    rig.host.run(["rm", "-r", "/run/hsp-test-backup"])
    assert {disk: states.digest(disk) for disk in others} == others


def test_d1_d2_d3_names(rig: Rig, blank: States) -> None:
    node = blank.node("sd0")
    assert f'write path = "{rig.by_id["sd0"]}"' in _hint(rig, Wanted(node, "HSPSD0", SIZE))
    message = refusal(rig, Wanted(rig.by_id["sd0"], "OTHER", SIZE + 512))
    assert "serial is 'HSPSD0', the testbed says 'OTHER'" in message
    assert f"it has {SIZE} bytes, the testbed says {SIZE + 512}" in message
    # Two by-id links of one disk.
    aliases = sorted(link for link in probe(rig.host).links if "nvme" in link and link.endswith("HSPNVME0_1"))
    other = next(
        link
        for link, name in probe(rig.host).links.items()
        if name == "nvme0n1" and link != aliases[0] and link.startswith("/dev/disk/by-id/")
    )
    two = [Wanted(link, "HSPNVME0", SIZE) for link in (aliases[0], other)]
    assert "is the same disk" in refusal(rig, *two)
    assert "no such block device" in refusal(rig, Wanted("/dev/disk/by-id/virtio-NOT-THERE", "x", SIZE))
    assert "no such block device" in refusal(rig, Wanted("/dev/disk/by-id/../../sda; rm -rf /", "x", SIZE))


def _hint(rig: Rig, one: Wanted) -> str:
    with pytest.raises(SafetyRefusal) as caught, guarded(rig.host, [one], "run-x"):
        pytest.fail("the device was given away")
    assert "is not touched" in caught.value.message
    return caught.value.hint


class Tampered:
    """The guest with other tools: what is in `tools` (name: shell script) comes first in the PATH."""

    def __init__(self, rig: Rig, **tools: str) -> None:
        self.host, self.name = rig.host, rig.host.name
        self.folder = "/run/hsp-test-tools"
        self.host.run(["mkdir", "-p", self.folder])
        for tool, script in tools.items():
            self.host.put(f"#!/bin/sh\n{script}\n".encode(), f"{self.folder}/{tool}")
            self.host.run(["chmod", "0755", f"{self.folder}/{tool}"])

    def run(self, argv: Sequence[str], **options: Any) -> Result:
        path = f"PATH={self.folder}:/usr/sbin:/usr/bin"
        return self.host.run(["env", path, *argv], **options)

    def start(self, argv: Sequence[str]) -> Process:
        return self.host.start(argv)

    def close(self) -> None:
        self.host.run(["rm", "-r", self.folder])


HANGS = "exec sleep 100000000"
GARBAGE = "head -c 4096 /dev/urandom"


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ({"zdb": "exit 139"}, "zdb -l /dev/vd"),
        ({"zdb": HANGS}, "did not end within"),
        ({"zdb": GARBAGE}, "zdb -l /dev/vd"),
        ({"wipefs": "exit 1"}, "wipefs --no-act --json: ended with 1"),
        ({"wipefs": GARBAGE}, "wipefs"),
        ({"lsblk": 'echo "{}"'}, "lsblk --json --bytes"),
        ({"lsblk": GARBAGE}, "lsblk --json --bytes"),
        ({"zpool": "echo 'The ZFS modules are not loaded.' >&2; exit 1"}, "The ZFS modules are not loaded"),
        ({"zpool": HANGS}, "zpool list: did not end within"),
        ({"zpool": 'case "$*" in *guid*) printf "x\\t1\\n";; esac'}, "a pool without devices"),
    ],
)
def test_d7_a_tool_that_does_not_tell(rig: Rig, states: States, tools: dict[str, str], named: str) -> None:
    # Something where a label would be, or zdb would not be asked.
    node = states.node("vd0")
    states.blank("vd0")
    states.run(["sh", "-c", 'printf xxxx | dd of="$1" bs=4096 seek=4 conv=fsync status=none', "sh", node])
    before = states.digest("vd0")
    host = Tampered(rig, **tools)
    try:
        with pytest.raises(SafetyRefusal) as caught, guarded(host, [wanted(rig, "vd0")], "run-x"):  # type: ignore[arg-type]
            pytest.fail("the device was given away")
    finally:
        host.close()
    assert "could not be determined" in caught.value.message and named in caught.value.message
    assert states.digest("vd0") == before
    states.blank("vd0")


def test_d7_python_itself_does_not_tell(rig: Rig) -> None:
    class Deaf(Tampered):
        def run(self, argv: Sequence[str], **options: Any) -> Result:
            return Result(self.name, tuple(argv), 0, "what?", "")

    with pytest.raises(SafetyRefusal, match="could not be determined"):
        check(Deaf(rig), [wanted(rig, "vd0")])  # type: ignore[arg-type]
    rig.host.run(["rm", "-rf", "/run/hsp-test-tools"])


def test_d8_a_disk_is_exchanged_after_the_plan(rig: Rig, blank: States, tmp_path: Path) -> None:
    three = [wanted(rig, disk) for disk in ("sd0", "sd1", "vd0")]
    with guarded(rig.host, three, "run-8") as guard:
        guard.before_writing()
        rig.pull("sd1")
        with pytest.raises(SafetyRefusal, match="plan is void, because it was there and is not"):
            guard.before_writing()
        # Another disk in the same slot.
        rig.plug("sd1", serial="HSPOTHER")
        with pytest.raises(SafetyRefusal, match="plan is void"):
            guard.before_writing()
        # Somebody points the link at the other disk.
        link, other = rig.by_id["sd1"], blank.node("sd0")
        rig.host.run(["ln", "-s", other, link])
        with pytest.raises(SafetyRefusal, match="serial was 'HSPSD1' and is 'HSPSD0'"):
            guard.before_writing()
        rig.host.run(["rm", link])
        with pytest.raises(RuntimeError):
            rig.monitor("device_del", id="no-such-device")
        _pull_other(rig)
        rig.plug("sd1")
        # The same disk again, but it was away: it may have been elsewhere.
        with pytest.raises(SafetyRefusal, match="sequence was"):
            guard.before_writing()
        # Something new lies on a disk that was blank.
        blank.put_ext4("vd0", tmp_path)
        with pytest.raises(SafetyRefusal, match=r"signature on /dev/vd.: ext4"):
            guard.before_writing([rig.by_id["vd0"]])
        guard.before_writing([rig.by_id["vd0"]], content=False)
        with blank.mounted("vd0"), pytest.raises(SafetyRefusal, match="mounted at /mnt/own"):
            guard.before_writing([rig.by_id["vd0"]], content=False)
        guard.before_writing([rig.by_id["sd0"]])


def _pull_other(rig: Rig) -> None:
    node = rig.host.run(["readlink", "-f", rig.by_id["sd1"].replace("HSPSD1", "HSPOTHER")]).stdout.strip()
    rig.monitor("device_del", id="dev-sd1")
    rig.host.run(["sh", "-c", 'while [ -b "$1" ]; do sleep 0.1; done', "sh", node], deadline_s=60)


def test_d9_two_kits(rig: Rig, blank: States) -> None:
    inventory = probe(rig.host, [rig.by_id["vd0"], rig.by_id["vd1"]])
    one, two = (inventory.find(rig.by_id[disk]) for disk in ("vd0", "vd1"))
    assert one and two
    with open_host(rig.lab.state, 1) as second:
        with locked(rig.host, [one], "run-first", whole_host=False):
            with (
                pytest.raises(SafetyRefusal) as caught,
                locked(second, [one], "run-second", whole_host=False),
            ):
                pytest.fail("both have the lock")
            assert "locked by run run-first (process " in caught.value.message
            assert f"/dev/{one.kernel_name} on lab" in caught.value.message
            # Another disk is another lock.
            with locked(second, [two], "run-second", whole_host=False):
                pass
        with guarded(second, [wanted(rig, "vd0")], "run-third") as held:
            with pytest.raises(
                SafetyRefusal, match="the host on lab is not touched: it is locked by run run-third"
            ):
                locked(rig.host, [two], "run-fourth").__enter__()
            # The connection breaks: the lock is gone, and the one who had it does not write any more.
            second.connection.abort()
            for _ in range(100):
                with contextlib.suppress(SafetyRefusal), locked(rig.host, [one], "run-fifth"):
                    break
            else:
                pytest.fail("the lock outlives its connection")
            with pytest.raises(Exception, match=r"lost|broke|no longer|closed"):
                held.before_writing()


def test_d11_a_format_spares_the_sibling(rig: Rig, blank: States, tmp_path: Path) -> None:
    blank.put_ext4("ns1", tmp_path)
    with blank.mounted("ns1"):
        before = {disk: blank.digest(disk) for disk in ("ns1", "ns2")}
        with pytest.raises(SafetyRefusal, match="a namespace of the same controller, is in use"):
            blockdevice.find_unused(rig.host, rig.by_id["ns2"])
        assert {disk: blank.digest(disk) for disk in before} == before
    # Not used any more, the sibling has contents all the same: what a format does to it is asked for.
    device = blockdevice.find_unused(rig.host, rig.by_id["ns2"])
    before_sibling = blank.digest("ns1")
    with contextlib.suppress(SafetyRefusal):
        purge(rig.host, device, "format")
    assert blank.digest("ns1") == before_sibling


def test_listing(rig: Rig, blank: States) -> None:
    listed = {one.node.kernel_name: one for one in list_devices(rig.host)}
    assert not listed["vda"].available and not listed["vdb"].available
    first = listed["nvme0n1"]
    assert first.available and first.path == rig.by_id["ns1"]
    assert (first.health.temperature_c, first.health.wear_percent, first.health.warning) == (50, 0, False)
    assert {one.node.write_cache for one in listed.values()} <= {"write back", "write through"}
    json.dumps([one.as_json() for one in listed.values()])


def test_the_rig_is_a_host_like_any_other(rig: Rig) -> None:
    """OpenSSH's own client over TCP, several at once, and after connections were cut."""
    assert ssh(rig, "echo", "there").stdout == "there\n"
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(ssh(rig, "echo", str(n)).stdout.strip()))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["0", "1", "2", "3"]
    held = threading.Thread(target=ssh, args=(rig, "sleep", "100000000"))
    held.start()
    while not rig.relay.connections():
        pass
    assert rig.relay.drop() >= 1
    held.join()
    assert ssh(rig, "echo", "again").stdout == "again\n"
