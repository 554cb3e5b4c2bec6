"""The interlocks, D1 to D14, with real disks in the states described. Refused means: nothing was written.

One guest for all, a saved one. D11, D14 and siblings need an NVMe disk: tests/lab/test_settings.py. D12 is of
the command line, D13 of fio jobs (tests/kit/config/test_fio_job.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.config.address import parse_address
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.testbed_devices import Device, resolve_devices
from kit.core.clock import Clock
from kit.core.errors import SafetyRefusal
from kit.devices import block_device, clear_label, udev
from kit.devices.check import check, guarded, refuse_any
from kit.devices.inventory import Inventory, preferred_link
from kit.devices.locks import Locks
from kit.devices.probe import probe
from kit.devices.refusal_reasons import WIPEABLE, Code, DeviceSpec, reasons
from kit.devices.wipe import plan_wipe, wipe
from kit.emulation.udev_links import link_by_id, unlink
from kit.hosts.base import CommandResult
from kit.hosts.connect import open_host
from kit.lab.site import make_devices
from kit.nfs import export as nfs_export
from kit.nfs import unlisted_exports
from tests.kit.devices.facts import REASONS_OF_USES
from tests.lab.changed_hosts import ALSO_SILENT, SILENT, Tampered, sd1_is_exchanged
from tests.lab.diskstates import States
from tests.lab.rig import MIB, Rig
from tests.process import hsp

PROTECTS = ("kit/devices", "kit/remote")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

SIZE = 128 * MIB
# By disk, without the namespaces.
USES = {disk: codes for disk, codes in REASONS_OF_USES.items() if not disk.startswith("ns")}
NULLB = "/sys/kernel/config/nullb"


@pytest.fixture(scope="module")
def states(rig: Rig) -> States:
    return States(rig)


@pytest.fixture
def blank(states: States) -> States:
    """All disks are blank."""
    states.blank(*states.rig.disks)
    return states


def wanted(rig: Rig, disk: str) -> DeviceSpec:
    return DeviceSpec(rig.by_id[disk], rig.disks[disk].serial, rig.disks[disk].size_bytes)


def found(rig: Rig, inventory: Inventory, disk: str) -> dict[Code, str]:
    listed = reasons(inventory, wanted(rig, disk))
    assert all(reason.text and reason.remedy for reason in listed)
    return {reason.code: reason.text for reason in reversed(listed)}


def refusal(rig: Rig, *asked: DeviceSpec) -> str:
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
        assert node and (node.serial, node.size_bytes) == (known.serial, known.size_bytes)
        assert preferred_link(node) == rig.by_id[disk]
        assert found(rig, inventory, disk) == {}
    with guarded(rig.host, [wanted(rig, disk) for disk in rig.disks], "run-1") as guard:
        guard.before_writing()


@pytest.mark.basic
def test_d4_used_by_something(rig: Rig, blank: States, tmp_path: Path) -> None:
    """D4 and D6: every state at once, one look."""
    for disk in ("vd0", "vd1", "sd1"):
        blank.put_ext4(disk, tmp_path)
    multipath = "0 262144 multipath 0 0 1 1 service-time 0 1 2 {} 1 1"
    crypt = "0 20480 crypt aes-cbc-essiv:sha256 00112233445566778899aabbccddeeff 0 {} 0"
    with contextlib.ExitStack() as stack:
        for state in (
            blank.mounted_elsewhere("vd1"), blank.swap("vd2"), blank.lvm("vd3"), blank.md("vd4"),
            blank.mapped("vd5", "hsp-crypt", "CRYPT-PLAIN-hsp", crypt),
            blank.mapped("sd0", "hsp-mp", "mpath-hsp", multipath),
            blank.mapped("vd0", "hsp-linear", "hsp", "0 20480 linear {} 0"),
            blank.read_only("sd2"),
        ):  # fmt: skip
            stack.enter_context(state)
        root = stack.enter_context(blank.partition_of_the_root_disk())
        before = blank.digests(*USES)
        inventory = probe(rig.host, [*rig.by_id.values(), "/dev/vda", root])
        assert {disk: set(found(rig, inventory, disk)) for disk in USES} == USES
        assert (
            "mounted at /mnt in the mount namespace of process" in found(rig, inventory, "vd1")[Code.MOUNTED]
        )
        of_root = {r.code for r in reasons(inventory, DeviceSpec(root, "x", 80 * MIB))}
        assert of_root >= {Code.KERNEL_NAME, Code.NOT_WHOLE, Code.ROOT_DISK, Code.MOUNTED, Code.BUSY}
        message = refusal(rig, *(wanted(rig, disk) for disk in USES))
        for disk, codes in USES.items():
            assert all(found(rig, inventory, disk)[code] in message for code in codes)
        # What preconditioning asks gives the same answer.
        with pytest.raises(SafetyRefusal, match=r"signature on /dev/sd.: ext4"):
            block_device.find_unused(rig.host, rig.by_id["sd1"])
        assert blank.digests(*USES) == before
    # Unused now, all have contents; those of LVM and md are not for the kit to wipe.
    rest = probe(rig.host, list(rig.by_id.values()))
    assert set(found(rig, rest, "vd4")) == {Code.MD}
    assert set(found(rig, rest, "vd2")) == {Code.SIGNATURE}


@pytest.mark.basic
def test_d5_members_of_pools(rig: Rig, blank: States, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(blank.pool("inuse", "vd0", "log", "vd1", "cache", "vd2", "spare", "vd3"))
        stack.enter_context(blank.pool("away", "vd4", "cache", "sd0", "spare", "sd1"))
        stack.enter_context(blank.pool("broken", "vd6", "vd7"))
        stack.enter_context(blank.pool("gone", "vd5"))
        guids = dict(
            line.split("\t")
            for line in rig.host.run(["zpool", "list", "-H", "-p", "-o", "name,guid"]).stdout.splitlines()
        )
        rig.host.run(["zpool", "export", "away"])
        rig.host.run(["zpool", "destroy", "gone"])
        rig.host.run(["zpool", "export", "broken"])
        blank.blank("vd7")  # one of its two disks is lost: it cannot be imported any more
        quiet = ("vd4", "vd5", "sd0", "sd1", "vd6")
        before = blank.digests(*quiet)
        inventory = probe(rig.host, list(rig.by_id.values()))
        by_disk = {disk: found(rig, inventory, disk) for disk in rig.disks}
        for disk in ("vd0", "vd1", "vd2", "vd3"):
            assert by_disk[disk].keys() >= {Code.POOL_IMPORTED, Code.BUSY}
            assert f"imported pool 'inuse' (GUID {guids['inuse']})" in by_disk[disk][Code.POOL_IMPORTED]
        # Neither the label of a spare nor that of a cache device says which pool it belongs to.
        for disk in ("vd4", "sd0", "sd1"):
            assert f"pool 'away' (GUID {guids['away']})" in by_disk[disk][Code.POOL_LABEL]
            assert Code.POOL_IMPORTED not in by_disk[disk]
        assert f"pool 'broken' (GUID {guids['broken']})" in by_disk["vd6"][Code.POOL_LABEL]
        assert by_disk["vd7"] == {}
        assert set(by_disk["vd5"]) == {Code.OLD_LABEL, Code.PARTITIONS, Code.SIGNATURE}
        assert "'gone'" in by_disk["vd5"][Code.OLD_LABEL]
        refusal(rig, *(wanted(rig, disk) for disk in rig.disks if disk not in ("sd2", "vd7")))
        for disk in ("vd0", "vd4", "sd1", "vd6"):
            with pytest.raises(SafetyRefusal):
                plan_wipe(rig.host, wanted(rig, disk))
        assert blank.digests(*quiet) == before
        # Another disk of the testbed is a partition of this one: a duplicate, and no whole disk.
        partition = f"{rig.by_id['vd4']}-part1"
        pair = [wanted(rig, "vd4"), DeviceSpec(partition, "HSPVD4", SIZE)]
        codes = [{r.code for r in one.reasons} for one in check(rig.host, pair)]
        assert Code.DUPLICATE in codes[0] & codes[1] and Code.NOT_WHOLE in codes[1]
        _wipes_the_destroyed_pool(rig, blank, tmp_path)
        rig.host.run(["zpool", "import", "-o", "cachefile=none", "away"])


def _wipes_the_destroyed_pool(rig: Rig, states: States, results: Path) -> None:
    """D6: shown, done with copies, and the disk is available; the other disks are as they were."""
    others = states.digests("vd4", "sd0", "sd1", "vd6")
    before = states.digests("vd5")
    planned = plan_wipe(rig.host, wanted(rig, "vd5"))
    assert "zfs_member" in planned.describe() and "gpt" in planned.describe()
    assert states.digests("vd5") == before
    assert not any("-f" in argv or "--force" in argv for argv in planned.commands)
    folder = wipe(rig.host, planned, results)
    assert check(rig.host, [wanted(rig, "vd5")])[0].reasons == ()
    assert "HSPVD5" in folder.name and states.digests(*others) == others
    # What was copied restores it: the disk's own bytes first, which bring its partitions back.
    files = json.loads((folder / "wipe.json").read_text())["files"]
    for entry in sorted(files, key=lambda entry: len(entry["kernel_name"])):
        argv = ["dd", f"of=/dev/{entry['kernel_name']}", f"seek={entry['offset_bytes']}", "oflag=seek_bytes"]
        content = (folder / entry["file"]).read_bytes()
        rig.host.run([*argv, "conv=notrunc,fsync", "iflag=fullblock", "bs=64K"], stdin=content)
        rig.host.run(["blockdev", "--rereadpt", states.node("vd5")], check=False)
        udev.settle(rig.host)
    assert states.digests("vd5") == before
    assert wipe(rig.host, plan_wipe(rig.host, wanted(rig, "vd5")), results) != folder


def test_what_an_ended_zpool_create_leaves_goes_and_what_holds_anything_stays(
    rig: Rig, blank: States
) -> None:
    path, serial, run = rig.by_id["vd0"], rig.disks["vd0"].serial, rig.host.run
    run(["zpool", "create", "hsp-begun", path])
    run(["zpool", "destroy", "hsp-begun"])
    # As if it had been ended between its partitions and its labels.
    run(["zpool", "labelclear", "-f", f"{path}-part1"])
    run(["mkswap", f"{path}-part1"])
    with pytest.raises(clear_label.Foreign, match="signature of swap"):
        clear_label.clear(rig.host, path, serial, "hsp-begun")
    assert "swap" in run(["wipefs", "--noheadings", f"{path}-part1"]).stdout
    run(["wipefs", "--all", f"{path}-part1"])
    with pytest.raises(SafetyRefusal, match="SOMEBODYS"):
        clear_label.clear(rig.host, path, "SOMEBODYS", "hsp-begun")
    assert run(["test", "-b", f"{path}-part9"], check=False).returncode == 0
    for _ in range(2):
        clear_label.clear(rig.host, path, serial, "hsp-begun")
        assert check(rig.host, [wanted(rig, "vd0")])[0].reasons == ()


@pytest.mark.basic
def test_d1_d2_d3_names(rig: Rig, blank: States) -> None:
    node = blank.node("sd0")
    assert f'write path = "{rig.by_id["sd0"]}"' in _hint(rig, DeviceSpec(node, "HSPSD0", SIZE))
    message = refusal(rig, DeviceSpec(rig.by_id["sd0"], "OTHER", SIZE + 512))
    assert "serial is 'HSPSD0', the testbed says 'OTHER'" in message
    assert f"it has {SIZE} bytes, the testbed says {SIZE + 512}" in message
    # Two by-id links of one disk.
    second = "/dev/disk/by-id/scsi-second-HSPSD0"
    rig.host.run(["ln", "-s", node, second])
    two = [DeviceSpec(link, "HSPSD0", SIZE) for link in (rig.by_id["sd0"], second)]
    try:
        assert "is the same disk" in refusal(rig, *two)
    finally:
        rig.host.run(["rm", second])
    assert "no such block device" in refusal(rig, DeviceSpec("/dev/disk/by-id/virtio-NOT-THERE", "x", SIZE))
    assert "no such block device" in refusal(
        rig, DeviceSpec("/dev/disk/by-id/../../sda; rm -rf /", "x", SIZE)
    )


def _hint(rig: Rig, one: DeviceSpec) -> str:
    with pytest.raises(SafetyRefusal) as caught, guarded(rig.host, [one], "run-x"):
        pytest.fail("the device was given away")
    assert "is not touched" in caught.value.message
    return caught.value.hint


# What an answer of each kind makes of a disk: tests/kit/devices/test_probe.py.
@pytest.mark.parametrize(
    "silent", [SILENT, pytest.param(ALSO_SILENT, marks=pytest.mark.long)], ids=["some", "others"]
)
def test_d7_a_tool_that_does_not_tell(
    rig: Rig, blank: States, silent: Sequence[tuple[dict[str, str], str]]
) -> None:
    # Something where a label would be, or zdb would not be asked.
    node = blank.node("vd0")
    blank.run(["sh", "-c", 'printf xxxx | dd of="$1" bs=4096 seek=4 conv=fsync status=none', "sh", node])
    assert check(rig.host, [wanted(rig, "vd0")])[0].reasons == ()
    before = blank.digests("vd0")
    for tools, named in silent:
        host = Tampered(rig, **tools)
        try:
            checked = check(host, [wanted(rig, "vd0")])  # type: ignore[arg-type]
        finally:
            host.close()
        with pytest.raises(SafetyRefusal) as caught:
            refuse_any("lab", checked)
        assert "could not be determined" in caught.value.message, tools
        assert named in caught.value.message, (tools, caught.value.message)
    assert blank.digests("vd0") == before


def test_d7_python_itself_does_not_tell(rig: Rig) -> None:
    class Deaf(Tampered):
        def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
            return CommandResult(self.name, tuple(argv), 0, "what?", "")

    with pytest.raises(SafetyRefusal, match="could not be determined"):
        check(Deaf(rig), [wanted(rig, "vd0")])  # type: ignore[arg-type]
    rig.host.run(["rm", "-rf", "/run/hsp-test-tools"])


def test_d8_a_disk_is_exchanged_after_the_plan(rig: Rig, blank: States, tmp_path: Path) -> None:
    three = [wanted(rig, disk) for disk in ("sd0", "sd1", "vd0")]
    with guarded(rig.host, three, "run-8") as guard:
        guard.before_writing()
        with sd1_is_exchanged(rig, guard) as link:
            # Somebody points the link at another disk of the testbed, then at none of it.
            for other, serial in (("sd0", "HSPSD0"), ("vd5", "HSPVD5")):
                rig.host.run(["ln", "-s", "-f", blank.node(other), link])
                with pytest.raises(SafetyRefusal, match=f"serial was 'HSPSD1' and is '{serial}'"):
                    guard.before_writing()
            rig.host.run(["rm", link])
        # The same disk again, but it was away: it may have been elsewhere.
        with pytest.raises(SafetyRefusal, match="sequence was"):
            guard.before_writing()
        # Something new lies on a disk that was blank.
        blank.put_ext4("vd0", tmp_path)
        with pytest.raises(SafetyRefusal, match=r"signature on /dev/vd.: ext4"):
            guard.before_writing([rig.by_id["vd0"]])
        guard.before_writing([rig.by_id["vd0"]], content=False)
        # While it is claimed nobody can mount it, nor make a file system on it.
        for argv in (["mount", blank.node("vd0"), "/mnt"], ["mkswap", blank.node("vd0")]):
            assert rig.host.run(argv, check=False).returncode != 0, argv
        guard.release()
        with blank.mounted("vd0"), pytest.raises(SafetyRefusal, match="mounted at /mnt/own"):
            guard.before_writing([rig.by_id["vd0"]], content=False)
        guard.before_writing([rig.by_id["sd0"]])


@pytest.mark.basic
def test_d9_two_kits(rig: Rig, blank: States) -> None:
    inventory = probe(rig.host, [rig.by_id["vd0"], rig.by_id["vd1"]])
    one, two = (inventory.find(rig.by_id[disk]) for disk in ("vd0", "vd1"))
    assert one and two
    with open_host(parse_address(rig.address), os.fspath(rig.ssh_config())) as second:
        with Locks(rig.host, [one], "run-first", whole_host=False):
            with (
                pytest.raises(SafetyRefusal) as caught,
                Locks(second, [one], "run-second", whole_host=False),
            ):
                pytest.fail("both have the lock")
            assert "locked by run run-first (process " in caught.value.message
            assert f"/dev/{one.kernel_name} on {second.name} is not touched" in caught.value.message
            # Another disk is another lock.
            with Locks(second, [two], "run-second", whole_host=False):
                pass
        with guarded(second, [wanted(rig, "vd0")], "run-third") as held:
            with pytest.raises(
                SafetyRefusal, match="the host on lab is not touched: it is locked by run run-third"
            ):
                Locks(rig.host, [two], "run-fourth")
            # The connection breaks: the lock is gone, and the one who had it does not write any more.
            assert rig.relay.drop() >= 1
            for _ in range(100):
                with contextlib.suppress(SafetyRefusal), Locks(rig.host, [one], "run-fifth"):
                    break
            else:
                pytest.fail("the lock outlives its connection")
            with pytest.raises(Exception, match=r"lost|broke|no longer|closed"):
                held.before_writing()


def test_exports_that_are_in_no_file(rig: Rig, blank: States) -> None:
    """ZFS removes them with the first pool, which is why a run is refused; with a file they stay."""
    file, export = "/etc/exports.d/others.exports", "/mnt 10.9.8.7(ro,no_subtree_check,fsid=7)"
    unlisted_exports.refuse(rig.host)
    rig.host.run(["exportfs", "-o", "ro,no_subtree_check,fsid=7", "10.9.8.7:/mnt"])
    try:
        with pytest.raises(SafetyRefusal, match=r"/mnt to 10\.9\.8\.7"):
            unlisted_exports.refuse(rig.host)
        assert nfs_export.lines_of(rig.host, "/mnt")
        with blank.pool("other", "vd5"):
            assert not nfs_export.lines_of(rig.host, "/mnt")
        rig.host.run(
            ["sh", "-c", 'mkdir -p /etc/exports.d; echo "$1" >"$2"; exportfs -ra', "sh", export, file]
        )
        unlisted_exports.refuse(rig.host)
        with blank.pool("other", "vd5"):
            assert nfs_export.lines_of(rig.host, "/mnt")
    finally:
        rig.host.run(["sh", "-c", 'rm -f "$1"; exportfs -ra', "sh", file])


def test_the_command_over_tcp(rig: Rig, blank: States, tmp_path: Path) -> None:
    """`hsp host disks` with a testbed that has no devices yet; what it prints is a testbed's."""
    testbed = tmp_path / "testbed.toml"
    testbed.write_text(f'ssh_config = "{rig.ssh_config()}"\n{rig.testbed_toml({})}')
    shown = hsp("host", "disks", "--testbed", os.fspath(testbed), deadline_s=600)
    assert shown.returncode == 0, shown.stderr
    # Beside its own disks there are the root disk, those with the keys and what is handed over, and the
    # module's null_blk.
    assert re.search(r"^11 of 15 disks of \S+ are available$", shown.stderr, re.MULTILINE)
    assert "available: no, because" in shown.stderr and "the system runs from it (/)" in shown.stderr
    found = tomllib.loads(shown.stdout)["device"]
    assert {(one["path"], one["serial"], one["size"]) for one in found} == {
        (rig.by_id[name], disk.serial, f"{disk.size_bytes // MIB}MiB") for name, disk in rig.disks.items()
    }
    with_devices = tmp_path / "with-devices.toml"
    with_devices.write_text(testbed.read_text() + shown.stdout)
    assert len(read_testbed(with_devices).device) == 11


def test_emulated_devices_can_be_named(rig: Rig, states: States, tmp_path: Path) -> None:
    """One of each kind has a link and a serial; a pool is made and destroyed on the links."""
    devices = tuple(
        Device.model_validate({"role": "data", "size": "128MiB", **more})
        for more in (
            {"name": "flat0", "model": "null_blk", "latency": "100us"},
            {"name": "disk0", "preset": "disk-7200"},
        )
    )
    made = make_devices(rig.host, resolve_devices(devices, LAB_TESTBED), Clock("virtual", 4))
    try:
        paths = link_by_id(rig.host, made.paths)
        asked = [DeviceSpec(paths[d.name], f"hsp-emulated-{d.name}", SIZE) for d in devices]
        assert [one.path for one in asked] == [f"/dev/disk/by-id/hsp-emulated-{d.name}" for d in devices]
        with guarded(rig.host, asked, "run-e") as guard:
            guard.before_writing()
            guard.release()
            with states.pool("named", *paths.values()):
                assert Code.POOL_IMPORTED in {r.code for r in check(rig.host, asked)[0].reasons}
        assert {r.code for one in check(rig.host, asked) for r in one.reasons} <= WIPEABLE
        for one in asked:
            wipe(rig.host, plan_wipe(rig.host, one), tmp_path)
    finally:
        assert made.served
        made.served.stop()
        unlink(rig.host)
        rig.host.run(["sh", "-c", 'echo 0 >"$1/power" && rmdir "$1"', "sh", f"{NULLB}/flat0"])
