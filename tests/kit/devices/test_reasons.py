"""kit.devices: recorded answers of a guest with disks in every state, and hostile changes of them."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import SafetyRefusal
from kit.devices import tool_output
from kit.devices.check import check, judge, recheck, refuse_any
from kit.devices.inventory import Inventory, paste_ready
from kit.devices.listing import describe, device_block, list_devices
from kit.devices.locks import lock_names
from kit.devices.probe import parse as parse_text
from kit.devices.probe import probe
from kit.devices.reasons import WIPEABLE, Code, Wanted, reasons
from kit.devices.wipe import plan_wipe
from kit.hosts.base import CommandFailed, DeadlineExceeded, Result
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded as facts

BY_ID = "/dev/disk/by-id/"
SIZE = 128 << 20


def parse(host: str, said: Any) -> Inventory:
    return parse_text(host, json.dumps(said))


def wanted(disk: str, **changes: Any) -> Wanted:
    kind, number = disk[:2], disk[2:]
    link = {
        "vd": f"virtio-HSPVD{number}",
        "sd": f"scsi-0QEMU_QEMU_HARDDISK_HSPSD{number}",
        "ns": f"nvme-QEMU_NVMe_Ctrl_HSPNVME0_{number}",
    }[kind]
    serial = "HSPNVME0" if kind == "ns" else f"HSP{disk.upper()}"
    return Wanted(**{"path": BY_ID + link, "serial": serial, "size_bytes": SIZE, **changes})


def codes(inventory: Inventory, one: Wanted, others: Sequence[Wanted] = ()) -> set[Code]:
    return {reason.code for reason in reasons(inventory, one, others)}


def test_each_use_has_its_reason() -> None:
    inventory = parse("server", facts())
    assert inventory.problems == ()
    found = {disk: codes(inventory, wanted(disk)) for disk in DISKS}
    assert found == {
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
    assert codes(inventory, Wanted("/dev/vda", "x", 1)) >= {Code.ROOT_DISK, Code.KERNEL_NAME, Code.MOUNTED}


DISKS = [*(f"vd{n}" for n in range(6)), *(f"sd{n}" for n in range(3)), "ns1", "ns2"]


def test_each_membership_in_a_pool_has_its_reason() -> None:
    inventory = parse("server", facts("pools"))
    assert inventory.problems == ()
    for disk in ("vd0", "vd1", "vd2", "vd3"):
        assert codes(inventory, wanted(disk)) >= {Code.POOL_IMPORTED, Code.BUSY, Code.PARTITIONS}
    for disk in ("vd4", "sd0", "sd1", "ns1"):
        assert Code.POOL_LABEL in codes(inventory, wanted(disk))
    assert codes(inventory, wanted("vd5")) == WIPEABLE
    assert codes(inventory, wanted("sd2")) == set()


def test_where_the_kernel_says_nothing_labels_and_pools_do() -> None:
    """Each of several witnesses is enough: without the exclusive open, and without the tables of mounts."""
    said = facts("pools")
    for disk in said["disks"].values():
        disk["alone"] = ""
    assert all(codes(parse("server", said), wanted(disk)) >= {Code.POOL_IMPORTED} for disk in ("vd0", "vd3"))
    said = facts()
    said["mounts"], said["swaps"] = [], "Filename Type"
    found = parse("server", said)
    assert Code.BUSY in codes(found, wanted("vd1")) and Code.BUSY in codes(found, wanted("vd2"))


def test_names_serials_sizes() -> None:
    inventory = parse("server", facts())
    assert codes(inventory, wanted("sd1", path="/dev/sdb")) >= {Code.KERNEL_NAME}
    (first,) = [r for r in reasons(inventory, wanted("sd1", path="/dev/sdb")) if r.code is Code.KERNEL_NAME]
    assert first.remedy == f'write path = "{wanted("sd1").path}"'
    texts = " ".join(r.text for r in reasons(inventory, wanted("sd1", serial="S2", size_bytes=5)))
    assert "is 'HSPSD1', the testbed says 'S2'" in texts and f"{SIZE} bytes, the testbed says 5" in texts
    assert Code.SERIAL in codes(inventory, wanted("sd1", serial=None))
    assert Code.SERIAL in codes(inventory, wanted("sd1", serial=""))
    for path in (BY_ID, f"{BY_ID}nothing", f"{BY_ID}../../sdb", "/dev/disk/by-path/x", "", "sdb"):
        assert codes(inventory, wanted("sd1", path=path)) & {Code.NOT_FOUND, Code.KERNEL_NAME}


def test_duplicates() -> None:
    inventory = parse("server", facts("pools"))
    one = wanted("vd4")
    part = Wanted(f"{one.path}-part1", one.serial, SIZE)
    alias = Wanted("/dev/vdg", one.serial, SIZE)
    assert Code.DUPLICATE in codes(inventory, one, [part])
    assert codes(inventory, part, [one]) >= {Code.DUPLICATE, Code.NOT_WHOLE}
    assert Code.DUPLICATE in codes(inventory, one, [alias])
    assert Code.DUPLICATE in codes(inventory, one, [one])
    assert Code.DUPLICATE not in codes(inventory, one, [wanted("vd5"), wanted("ns1")])


def test_a_sibling_of_the_same_testbed_is_no_stranger() -> None:
    inventory = parse("server", facts())
    assert codes(inventory, wanted("ns2"), [wanted("ns1")]) == set()
    assert Code.SIBLING in codes(inventory, wanted("ns2"), [wanted("sd1")])


def test_a_controller_on_its_own_is_no_sibling() -> None:
    said = facts()
    said["devices"]["nvme0n1"]["controller"] = "/sys/devices/other/nvme1"
    assert codes(parse("server", said), wanted("ns2")) == set()


@pytest.mark.parametrize(
    ("disk", "changes"),
    [
        ("sd2", {"removable": "1"}),
        ("sd2", {"removable": None}),
        ("sd2", {"ro": None}),
        ("sd2", {"slaves": ["sda"]}),
        ("sd2", {"holders": ["bcache0"]}),
    ],
)
def test_flags_of_the_kernel(disk: str, changes: dict[str, Any]) -> None:
    said = facts("pools")
    assert codes(parse("server", said), wanted(disk)) == set()
    said["devices"]["sdc"] |= changes
    assert codes(parse("server", said), wanted(disk))


def test_btrfs_and_other_devices_without_a_number_are_told_by_their_source() -> None:
    said = facts("pools")
    said["mounts"].append(["7", "mnt:[1]", "50 1 0:99 / /b\\040c rw - btrfs /dev/sdc rw"])
    said["links"]["/dev/sdc"] = "/dev/sdc"
    texts = [r.text for r in reasons(parse("server", said), wanted("sd2"))]
    assert texts == ["it is mounted at /b c in the mount namespace of process 7"]


@pytest.mark.parametrize("tool", ["lsblk", "guids", "imported", "wipefs"])
@pytest.mark.parametrize(
    "answer",
    [
        {"code": None, "out": "", "err": "No such file or directory"},
        {"code": None, "out": "", "err": "did not end within 60 s"},
        {"code": 1, "out": "", "err": "oops"},
        {"code": 0, "out": "\x00\xff garbage", "err": ""},
    ],
)
def test_a_tool_that_fails_makes_every_disk_undetermined(tool: str, answer: dict[str, Any]) -> None:
    said = facts("pools")
    said["tools"][tool] |= answer
    for disk in said["disks"].values():
        if tool == "wipefs":
            disk["wipefs"] = dict(said["tools"]["wipefs"])
    inventory = parse("server", said)
    for disk in DISKS:
        assert Code.UNDETERMINED in codes(inventory, wanted(disk)), (disk, inventory.problems)


def test_what_could_not_be_read_is_undetermined() -> None:
    for change in (
        lambda said: said.update(unread=["5: Permission denied"]),
        lambda said: said.update(swaps=None),
        lambda said: said["mounts"].append(["9", "mnt:[2]", "garbage"]),
        lambda said: said["disks"]["sdc"].update(alone="opening it did not end within 60 s"),
        lambda said: said["disks"]["sdc"]["zdb"].update(sdc={"argv": [], "code": None, "out": "", "err": ""}),
        lambda said: said["disks"]["sdc"]["zdb"].update(sdc={"argv": [], "code": 0, "out": "?", "err": ""}),
        lambda said: said["disks"]["sdc"].update(zdb={}),
        lambda said: said["disks"].pop("sdc"),
    ):
        said = facts("pools")
        change(said)
        assert codes(parse("server", said), wanted("sd2")) == {Code.UNDETERMINED}


def test_one_bad_disk_does_not_hide_the_others() -> None:
    """wipefs of all at once fails if one disk does; then each is asked by itself."""
    said = facts("pools")
    one = {"argv": ["wipefs"], "code": 1, "out": "", "err": "probing initialization failed"}
    for name, disk in said["disks"].items():
        disk["wipefs"] = one if name == "sdc" else dict(said["tools"]["wipefs"])
    said["tools"]["wipefs"] = {**one}
    inventory = parse("server", said)
    assert codes(inventory, wanted("sd2")) == {Code.UNDETERMINED}
    assert codes(inventory, wanted("vd5")) == WIPEABLE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_changed_the_answer_is_a_refusal_or_the_same_disk(data: st.DataObject) -> None:
    """One value anywhere in the answer of the host becomes another one: nothing but KitErrors, and a disk
    that is in use does not become free unless it is told to be another one."""
    said = facts()
    at: Any = said
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.integers(0, 9)) == 0:
            break
        at = at[key]
    at[key] = data.draw(json_values)
    try:
        checked = check(ScriptedHost(default=said), [wanted(disk) for disk in DISKS])
    except SafetyRefusal:
        return
    for one in checked:
        # vd0... each have two witnesses at least; sd1, sd2 and ns2 have one.
        if one.wanted in [wanted(disk) for disk in ("vd1", "vd2", "vd3", "vd4", "ns1")]:
            assert one.reasons


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_hostile_names_are_inert(model: str, serial: str) -> None:
    said = facts("pools")
    told = json.loads(said["tools"]["lsblk"]["out"])
    for entry in told["blockdevices"]:
        entry["model"], entry["serial"] = model, serial
    said["tools"]["lsblk"]["out"] = json.dumps(told)
    for one in list_devices(ScriptedHost(default=said)):
        shown = describe(one)
        assert all(" " <= char <= "~" or char == "\n" for char in shown)
        assert len(shown.splitlines()) == 2 + (1 if one.available else 1 + len(one.reasons))
        block = device_block(one)
        assert block.isascii() and all(char.isprintable() or char == "\n" for char in block)
        (device,) = tomllib.loads(block)["device"]
        assert device["serial"] == one.node.serial.encode("utf-16", "replace").decode("utf-16", "replace")
        assert json.dumps(one.as_json()).isascii()
        assert all("/" not in name for name in lock_names(one.node))


def test_the_listing_says_what_to_paste() -> None:
    said = facts("pools")
    log = '{"critical_warning": 0, "temperature": 323, "percent_used": 0}'
    said["disks"]["nvme0n1"]["nvme"] = {"argv": ["nvme"], "code": 0, "out": log, "err": ""}
    listed = {one.node.kernel_name: one for one in list_devices(ScriptedHost(default=said))}
    assert tomllib.loads(device_block(listed["sdc"]))["device"] == [
        {"name": "sdc", "role": "data", "path": wanted("sd2").path, "serial": "HSPSD2", "size": "128MiB"}
    ]
    shown = describe(listed["nvme0n1"])
    assert "QEMU NVMe Ctrl, serial HSPNVME0, 128MiB, nvme" in shown and "wear 0 %, 50 C" in shown
    assert "available: no, because" in shown and "pool 'broken'" in shown


def test_the_link_to_paste_says_the_serial_and_the_namespace() -> None:
    inventory = parse("server", facts())
    for disk in DISKS:
        node = inventory.find(wanted(disk).path)
        assert node and paste_ready(node) == wanted(disk).path


def test_a_namespace_is_told_by_its_link_whatever_the_kernel_calls_it() -> None:
    said = facts()
    numbered = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_HSPNVME0"
    said["links"] |= {f"{numbered}_1": "/dev/nvme0n2", f"{numbered}_2": "/dev/nvme0n1"}
    inventory = parse("server", said)
    for disk in ("ns1", "ns2"):
        node = inventory.find(wanted(disk).path)
        assert node and paste_ready(node) == wanted(disk).path
        assert Code.SHARED_ID not in codes(inventory, wanted(disk))


def test_a_link_that_several_namespaces_claim_is_refused() -> None:
    said = facts()
    plain = wanted("ns1", path=f"{BY_ID}nvme-QEMU_NVMe_Ctrl_HSPNVME0")
    (told,) = (r for r in reasons(parse("server", said), plain) if r.code == Code.SHARED_ID)
    assert wanted("ns1").path in told.remedy
    # Of a controller with one namespace it is as good as any.
    said["devices"]["nvme0n2"]["controller"] = "/sys/devices/other/nvme1"
    assert Code.SHARED_ID not in codes(parse("server", said), plain)


def test_all_refusals_are_told_at_once() -> None:
    checked = judge(parse("server", facts()), [wanted("vd2"), wanted("sd2"), wanted("sd1")])
    with pytest.raises(SafetyRefusal) as caught:
        refuse_any("server", checked)
    assert caught.value.exit_code == 4
    assert [line.split(" ")[0] for line in caught.value.message.splitlines()] == [
        wanted(disk).path for disk in ("vd2", "sd2", "sd1")
    ]
    refuse_any("server", checked[2:], WIPEABLE)


def test_a_host_that_does_not_answer_is_a_refusal() -> None:
    failed = CommandFailed(Result("server", ("python3",), 127, "", "python3: not found"))
    late = DeadlineExceeded("server", ["python3"], 600.0)
    for answer in (failed, late, "", "{}", "[]", "null", '{"format": 2}', "x" * 100):
        with pytest.raises(SafetyRefusal, match="could not be determined"):
            probe(ScriptedHost(default=answer))


def test_the_plan_is_void_if_anything_changed() -> None:
    before = facts("pools")
    checked = check(ScriptedHost(default=before), [wanted("sd2")])
    assert checked[0].reasons == ()
    recheck(ScriptedHost(default=before), checked)
    other = json.loads(json.dumps(before).replace("HSPSD2", "HSPXXX"))
    other["links"][wanted("sd2").path] = "/dev/sdc"
    elsewhere = copy.deepcopy(before)
    elsewhere["links"][wanted("sd2").path] = "/dev/sdb"
    again = copy.deepcopy(before)
    again["devices"]["sdc"]["diskseq"] = "999"
    mounted = copy.deepcopy(before)
    mounted["mounts"].append(["1", before["own"], "50 1 8:32 / /srv rw - ext4 /dev/sdc rw"])
    gone = copy.deepcopy(before)
    del gone["devices"]["sdc"], gone["links"][wanted("sd2").path]
    for now, why in (
        (other, "serial was 'HSPSD2' and is 'HSPXXX'"), (elsewhere, "serial was 'HSPSD2' and is 'HSPSD1'"),
        (again, "sequence was"), (mounted, "it is mounted at /srv"), (gone, "it was there and is not"),
    ):  # fmt: skip
        with pytest.raises(SafetyRefusal, match=f"the plan is void, because .*{why}"):
            recheck(ScriptedHost(default=now), checked)


def test_the_wipe_is_shown_and_never_forced() -> None:
    planned = plan_wipe(ScriptedHost(default=facts("pools")), wanted("vd5"), "/run/backup")
    last = [argv[-1] for argv in planned.commands]
    assert last[-1] == "/dev/vdh" and "/dev/vdh1" in last
    tools = [word for argv in planned.commands for word in argv if word in ("wipefs", "labelclear", "zpool")]
    assert tools == ["zpool", "labelclear", "wipefs", "wipefs"]
    assert not {"-f", "--force", "-ff"} & {word for argv in planned.commands for word in argv}
    assert "zfs_member" in planned.describe() and "wipefs --all --backup --lock" in planned.describe()
    for disk in ("vd0", "vd4", "sd1", "ns1"):
        with pytest.raises(SafetyRefusal):
            plan_wipe(ScriptedHost(default=facts("pools")), wanted(disk), "/run/backup")


def test_locks_are_of_the_disk_and_of_its_number() -> None:
    inventory = parse("server", facts())
    nodes = [inventory.find(wanted(disk).path) for disk in DISKS]
    names = [set(lock_names(node)) for node in nodes if node]
    assert all(len(own) == 2 for own in names)
    assert len(set().union(*names)) == 2 * len(DISKS)  # namespaces of one controller are not one disk
    nameless = inventory.nodes["nullb0"]
    assert lock_names(nameless) == (f"device-{nameless.device_number.replace(':', '-')}.lock",)


def test_words_of_zdb() -> None:
    none = "".join(f"failed to unpack label {n}\n" for n in range(4))
    assert tool_output.parse_zdb("sda", 2, none) == () == tool_output.parse_zdb("sda", 0, none)
    both = "LABEL 0\n    name: 'a'\n    state: 0\n    pool_guid: 5\nLABEL 2\n    name: 'b'\n    state: 2\n"
    assert [(label.state, label.pool, label.guid) for label in tool_output.parse_zdb("sda", 0, both)] == [
        (0, "a or b", "5"),
        (2, "a or b", "5"),
    ]
    for code, text in ((0, ""), (2, "failed to read label 0"), (1, "cannot open"), (0, "LABEL 0\nname: 'a'")):
        with pytest.raises(ValueError):
            tool_output.parse_zdb("sda", code, text)


def test_words_of_smartctl() -> None:
    ata = {
        "temperature": {"current": 31},
        "smart_status": {"passed": False},
        "ata_device_statistics": {
            "pages": [
                {
                    "table": [
                        {
                            "name": "Percentage Used Endurance Indicator",
                            "value": 7,
                            "flags": {"valid": True},
                        }
                    ]
                }
            ]
        },
    }
    assert tool_output.parse_smartctl(json.dumps(ata)) == tool_output.Health(7, 31, True)
    assert tool_output.parse_smartctl('{"temperature": {"current": 0}}') == tool_output.Health()
    sas = '{"scsi_percentage_used_endurance_indicator": 3, "smart_status": {"passed": true}}'
    assert tool_output.parse_smartctl(sas) == tool_output.Health(3, None, False)


def test_the_document_names_every_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    part = text.partition("## Disks of a server")[2].partition("\n## ")[0]
    assert {code for code in Code if f"`{code.value}`" in part} == set(Code)
