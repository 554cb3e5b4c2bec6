"""kit.lab.qemu: the command line of the guest, for both clocks and for paths with any character."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.clock import Clock
from kit.lab.qemu import QEMU, SSH_PORTS, ExtraDisk, LabSpec, SavedGuest, command_line, quote_value

SPEC = LabSpec(Path("/images/x"), Clock("virtual", 4))


def values(argv: list[str], option: str) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == option]


def value(argv: list[str], option: str) -> str:
    [found] = values(argv, option)
    return found


def split_list(text: str) -> dict[str, str]:
    """An option list as QEMU reads it: two commas are one of the value, one ends it."""
    parts = [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",")]
    return dict(part.split("=", 1) for part in parts if "=" in part)


# --- Clocks ---


@pytest.mark.parametrize("dilation", [1, 4, 64])
def test_the_virtual_clock_counts_instructions_on_one_cpu(dilation: int) -> None:
    argv = command_line(dataclasses.replace(SPEC, clock=Clock("virtual", dilation)))
    assert value(argv, "-icount") == "shift=0,sleep=off"
    assert value(argv, "-smp") == "1"
    assert value(argv, "-accel") == "tcg,thread=single"
    # The same moment each time.
    assert value(argv, "-rtc") == "base=2026-01-01T00:00:00,clock=vm"
    assert "host" not in value(argv, "-cpu")
    assert "-cx16" in value(argv, "-cpu").split(",")


def test_the_real_clock_has_kvm_and_no_icount() -> None:
    argv = command_line(dataclasses.replace(SPEC, clock=Clock()))
    assert value(argv, "-accel") == "kvm"
    assert value(argv, "-cpu") == "host"
    assert "-icount" not in argv
    assert int(value(argv, "-smp")) > 1
    assert "clock=vm" not in value(argv, "-rtc")


# --- Paths ---


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("/a/b", "/a/b"), ("/a,b", "/a,,b"), (",,", ",,,,"), (Path("/x,readonly=off"), "/x,,readonly=off")],
)
def test_commas_are_doubled(path: str | Path, quoted: str) -> None:
    assert quote_value(path) == quoted


names = st.text(
    st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda name: name not in (".", ".."))


@given(names)
def test_a_path_with_any_character_is_one_value(image: str) -> None:
    argv = command_line(dataclasses.replace(SPEC, image_dir=Path("/i") / image))
    root, keys, _ = (split_list(drive) for drive in values(argv, "-drive"))
    assert root["file"] == f"/i/{image}/root.img"
    assert {name: root[name] for name in ("if", "id", "format", "snapshot")} == {
        "if": "none", "id": "root", "format": "raw", "snapshot": "on",
    }  # fmt: skip
    assert keys["file"] == "keys.tar" and keys["readonly"] == "on"
    console, *sockets = (split_list(chardev) for chardev in values(argv, "-chardev"))
    assert console["path"] == "console.log"
    assert [socket["path"] for socket in sockets] == [f"ssh{n}.sock" for n in range(SSH_PORTS)]
    # These two are no lists: QEMU takes them as they are.
    assert value(argv, "-kernel") == f"/i/{image}/vmlinuz"
    assert value(argv, "-initrd") == f"/i/{image}/initrd.img"


# --- The machine ---


def test_the_root_disk_stays_as_it_was() -> None:
    for drive in values(command_line(SPEC), "-drive"):
        options = split_list(drive)
        assert options.get("snapshot") == "on" or options.get("readonly") == "on"
        assert options["format"] == "raw"


def test_there_is_no_network_and_nothing_by_default() -> None:
    argv = command_line(SPEC)
    assert {"-nodefaults", "-no-user-config", "-nographic", "-no-reboot"} <= set(argv)
    assert not {"-netdev", "-nic", "-net"} & set(argv)
    assert not any("net" in device for device in values(argv, "-device"))


def test_every_serial_line_has_its_device_and_room_on_the_bus() -> None:
    argv = command_line(SPEC)
    ports = [split_list(device) for device in values(argv, "-device") if device.startswith("virtserialport")]
    assert [(port["chardev"], port["name"]) for port in ports] == [
        (f"ssh{number}", f"hsp.ssh.{number}") for number in range(SSH_PORTS)
    ]
    [bus] = [device for device in values(argv, "-device") if device.startswith("virtio-serial")]
    assert int(split_list(bus)["max_ports"]) > SSH_PORTS


def test_memory_program_and_kernel_arguments() -> None:
    argv = command_line(dataclasses.replace(SPEC, memory_mib=777, extra_kernel_args=("hsp.x=1", "y")))
    assert argv[0] == QEMU
    assert value(argv, "-m") == "777"
    kernel = value(argv, "-append").split(" ")
    assert kernel[-2:] == ["hsp.x=1", "y"]
    assert {"root=/dev/vda", "init=/usr/local/sbin/hsp-init", "console=ttyS0"} <= set(kernel)
    assert re.fullmatch(r"[ -~]+", value(argv, "-append"))


# --- Saved and resumed ---


@given(names, names)
def test_a_saved_guest_is_resumed_from_any_path(root: str, memory: str) -> None:
    saved = SavedGuest(Path("/w") / root, Path("/w") / memory)
    argv = command_line(dataclasses.replace(SPEC, seed=7), resume=saved)
    drive = split_list(values(argv, "-drive")[0])
    assert drive["file"] == f"/w/{root}" and drive["format"] == "qcow2" and drive["snapshot"] == "on"
    program = value(argv, "-incoming").removeprefix("exec:")
    assert shlex.split(program) == ["exec", "cat", f"/w/{memory}"]
    assert value(argv, "-seed") == "7"


def test_what_is_resumed_differs_in_nothing_but_disk_stream_and_seed() -> None:
    saved = SavedGuest(Path("/w/root"), Path("/w/memory"))
    cold, warm = (command_line(SPEC, resume=resume) for resume in (None, saved))
    at = warm.index("-incoming")
    rest = [*warm[:at], *warm[at + 2 :]]
    assert [(one, other) for one, other in zip(cold, rest, strict=True) if one != other] == [
        (values(cold, "-drive")[0], values(warm, "-drive")[0])
    ]


def test_a_guest_to_be_saved_writes_to_its_overlay() -> None:
    argv = command_line(SPEC, root=Path("/w/root.qcow2"))
    assert "snapshot" not in split_list(values(argv, "-drive")[0])
    assert "-seed" not in argv


# --- Disks of its own ---


def test_disks_have_serials_and_namespaces_share_a_controller() -> None:
    disks = (
        ExtraDisk("vd0", "virtio", "S1", 1 << 20), ExtraDisk("sd0", "scsi", "S,2", 1 << 20),
        ExtraDisk("ns1", "nvme", "S3", 1 << 20), ExtraDisk("ns2", "nvme", "S3", 1 << 20),
    )  # fmt: skip
    argv = command_line(dataclasses.replace(SPEC, extra_disks=disks, ssh_ports=7))
    devices = [split_list(text) | {"": text.split(",")[0]} for text in values(argv, "-device")]
    by_drive = {device["drive"]: device for device in devices if "drive" in device}
    assert (by_drive["vd0"][""], by_drive["vd0"]["serial"]) == ("virtio-blk-pci", "S1")
    assert (by_drive["sd0"][""], by_drive["sd0"]["serial"]) == ("scsi-hd", "S,2")
    assert [device["id"] for device in devices if device[""] == "nvme"] == ["S3"]
    assert {by_drive[name]["bus"] for name in ("ns1", "ns2")} == {"S3"}
    files = {split_list(text)["id"]: split_list(text)["file"] for text in values(argv, "-drive")}
    assert files["vd0"] == "vd0" and files["ns2"] == "ns2"
    assert len([device for device in devices if device[""] == "virtserialport"]) == 7
    assert value(argv, "-qmp").startswith("unix:qmp.sock,")
