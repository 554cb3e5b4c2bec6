"""kit.devices.probe: output of hosts, complete, malformed or missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices.inventory import DeviceSettings
from kit.devices.probe import device_settings, probe
from kit.devices.refusal_reasons import WIPEABLE, Code, reasons
from kit.hosts.base import CommandFailed, CommandResult, DeadlineExceeded, OutputTooLarge
from kit.hosts.local import LocalHost
from kit.remote import probe_devices, read_drives
from tests.fakes import Command, ScriptedHost
from tests.kit.devices.facts import DISKS, codes, parse, recorded, spec_of


def test_btrfs_mounts_are_matched_by_their_source() -> None:
    facts = recorded("pools")
    facts["mounts"].append(["7", "mnt:[1]", "50 1 0:99 / /b\\040c rw - btrfs /dev/sdc rw"])
    facts["links"]["/dev/sdc"] = "/dev/sdc"
    texts = [r.text for r in reasons(parse("server", facts), spec_of("sd2"))]
    assert texts == ["it is mounted at /b c in the mount namespace of process 7"]


def test_the_copies_of_a_mount_in_other_namespaces_are_one_reason() -> None:
    facts = recorded("pools")
    line = "50 1 {} / {} rw - ext4 /dev/sdc rw"
    number = parse("server", facts).nodes["sdc"].device_number
    facts["mounts"] += [[str(n), f"mnt:[{n}]", line.format(number, f"/run/unit-{n}")] for n in (8, 9)]
    facts["mounts"].append(["1", facts["own"], line.format(number, "/srv")])
    texts = [r.text for r in reasons(parse("server", facts), spec_of("sd2"))]
    assert texts == ["it is mounted at /srv, and at 2 more places"]


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
    facts = recorded("pools")
    facts["tools"][tool] |= answer
    for disk in facts["disks"].values():
        if tool == "wipefs":
            disk["wipefs"] = dict(facts["tools"]["wipefs"])
    inventory = parse("server", facts)
    for disk in DISKS:
        assert Code.UNDETERMINED in codes(inventory, spec_of(disk)), (disk, inventory.problems)


def test_unreadable_facts_make_a_disk_undetermined() -> None:
    for change in (
        lambda facts: facts.update(unread=["5: Permission denied"]),
        lambda facts: facts.update(swaps=None),
        lambda facts: facts["mounts"].append(["9", "mnt:[2]", "garbage"]),
        lambda facts: facts["disks"]["sdc"].update(alone="opening it gave no answer within 60 s"),
        lambda facts: facts["disks"]["sdc"]["zdb"].update(
            sdc={"argv": [], "code": None, "out": "", "err": ""}
        ),
        lambda facts: facts["disks"]["sdc"]["zdb"].update(sdc={"argv": [], "code": 0, "out": "?", "err": ""}),
        lambda facts: facts["disks"]["sdc"].update(zdb={}),
        lambda facts: facts["disks"].pop("sdc"),
    ):
        facts = recorded("pools")
        change(facts)
        assert codes(parse("server", facts), spec_of("sd2")) == {Code.UNDETERMINED}


def test_one_bad_disk_does_not_hide_the_others() -> None:
    """wipefs of all at once fails if one disk does; then each is examined alone."""
    facts = recorded("pools")
    failed = {"argv": ["wipefs"], "code": 1, "out": "", "err": "probing initialization failed"}
    for name, disk in facts["disks"].items():
        disk["wipefs"] = failed if name == "sdc" else dict(facts["tools"]["wipefs"])
    facts["tools"]["wipefs"] = {**failed}
    inventory = parse("server", facts)
    assert codes(inventory, spec_of("sd2")) == {Code.UNDETERMINED}
    assert codes(inventory, spec_of("vd5")) == WIPEABLE


def test_settings_of_the_disks_of_this_machine() -> None:
    disks = [
        name for name in os.listdir("/sys/block") if os.path.exists(f"/sys/block/{name}/queue/nr_requests")
    ]
    if not disks:
        pytest.skip("this machine has no block device with a queue")
    queue = Path(f"/sys/block/{disks[0]}/queue")
    found = device_settings(LocalHost(), {"a": f"/dev/{disks[0]}"})["a"]
    assert found.nr_requests == int(queue.joinpath("nr_requests").read_text())
    assert found.max_sectors_kb == int(queue.joinpath("max_sectors_kb").read_text())
    assert found.write_cache == queue.joinpath("write_cache").read_text().strip()
    assert found.rotational is (queue.joinpath("rotational").read_text() == "1\n")


def in_sysfs(**queue: str | None) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("sectors", "ro", "removable", "diskseq", "hidden", "partition", "parent", "controller", "md", "loop")
    )
    known = dict.fromkeys(
        ("rotational", "logical_block_size", "physical_block_size", "write_cache", "discard_max_bytes")
    )
    lists: dict[str, Any] = {"holders": [], "slaves": [], "dm": [None, None]}
    return {**nothing, **lists, "dev": "8:0", "queue": {**known, **queue}}


def test_settings_of_a_disk() -> None:
    queue = {"scheduler": "[none] mq-deadline kyber", "nr_requests": "1023", "fua": "1", "rotational": "0"}
    disk = {**in_sysfs(**queue), "firmware": "EDB7602Q", "driver": "nvme"}
    behind = {"address": "0000:01:00.0", "driver": "nvme", "version": "1.0"}

    def answer(command: Command) -> dict[str, Any]:
        if b"PCI" in command.stdin:
            return {"/dev/a": behind, "/dev/old": None}
        return {"/dev/a": disk, "/dev/old": in_sysfs()}

    host = ScriptedHost({"/usr/bin/python3": answer})
    found = device_settings(host, {"log0": "/dev/a", "data0": "/dev/old"})
    assert found["log0"] == DeviceSettings(
        driver="nvme", firmware="EDB7602Q", scheduler="none", nr_requests=1023, rotational=False, fua=True,
        controller=behind,
    )  # fmt: skip
    assert found["data0"] == DeviceSettings()


@pytest.mark.parametrize("answer", ["", "[]", '{"/dev/b": {}}', "{}"])
def test_settings_that_cannot_be_parsed(answer: str) -> None:
    with pytest.raises(HostError, match="cannot be parsed"):
        device_settings(ScriptedHost({"/usr/bin/python3": answer}), {"a": "/dev/b"})


def test_a_host_that_does_not_answer_is_a_refusal() -> None:
    failed = CommandFailed(CommandResult("server", ("python3",), 127, "", "python3: not found"))
    late = DeadlineExceeded("server", ["python3"], 600.0)
    large = OutputTooLarge("server", "`python3`", 64 << 20)
    for answer in (failed, late, large, "", "{}", "[]", "null", '{"format": 2}', "x" * 100):
        with pytest.raises(SafetyRefusal, match="could not be determined"):
            probe(ScriptedHost(default=answer))


def test_a_tool_that_hangs_is_reported_with_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel; and a disk with a request in flight may have lost it."""
    read = probe_devices.text_of
    monkeypatch.setattr(probe_devices, "names_in", lambda path: ["vda", "vdb"])
    inflight = {"/sys/class/block/vda/inflight": "       1        0", "/sys/class/block/vdb/inflight": "0 0"}
    monkeypatch.setattr(probe_devices, "text_of", lambda path: inflight.get(path) or read(path))
    hung = probe_devices.tool(["sleep", "60"], 0.3)
    assert hung["code"] is None
    assert hung["err"].startswith("did not end within 0.3 s; in the kernel: [")
    assert hung["err"].endswith("]; reads+writes in flight: vda 1+0")


def test_the_link_and_the_interrupts_of_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NVMe drive in a slot with fewer lanes than it has, as sysfs shows it; and one that says nothing."""
    pci = tmp_path / "sys" / "devices" / "pci0000:00"
    files = {
        "0000:01:00.0/current_link_speed": "8.0 GT/s PCIe\n", "0000:01:00.0/current_link_width": "2\n",
        "0000:01:00.0/max_link_speed": "16.0 GT/s PCIe\n", "0000:01:00.0/max_link_width": "4\n",
        "0000:01:00.0/msi_irqs/41": "msix\n", "0000:01:00.0/msi_irqs/42": "msix\n",
        "0000:01:00.0/nvme/nvme0/power/pm_qos_latency_tolerance_us": "100000\n",
        "0000:02:00.0/vendor": "0x1b36\n",
    }  # fmt: skip
    for name, text in files.items():
        (pci / name).parent.mkdir(parents=True, exist_ok=True)
        (pci / name).write_text(text)
    for irq, cpus in (("41", "4-7\n"), ("42", "0-3\n")):
        (tmp_path / "irq" / irq).mkdir(parents=True)
        (tmp_path / "irq" / irq / "smp_affinity_list").write_text(cpus)
    block = tmp_path / "sys" / "class" / "block"
    block.mkdir(parents=True)
    for place, disk in (("0000:01:00.0", "nvme0n1"), ("0000:02:00.0", "nvme1n1")):
        (pci / place / "nvme" / disk).mkdir(parents=True)
        (block / disk).symlink_to(pci / place / "nvme" / disk)
    monkeypatch.setattr(read_drives, "SYS", str(tmp_path / "sys"))
    monkeypatch.setattr(read_drives, "IRQ", str(tmp_path / "irq"))
    found = read_drives.controller_of("/dev/nvme0n1")
    assert found == {
        "address": "0000:01:00.0", "link": "8.0 GT/s PCIe x2", "link_max": "16.0 GT/s PCIe x4",
        "irq_cpus": "0-3 4-7", "wake_us": "100000",
    }  # fmt: skip
    assert read_drives.controller_of("/dev/nvme1n1") == {"address": "0000:02:00.0"}
