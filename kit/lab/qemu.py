"""QEMU command line of the lab guest. Pure: nothing is started here."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.core.clock import Clock

SSH_PORTS = 3
"""Number of serial lines with an sshd each: one for a run, the others for shells beside it."""

READY_LINE = "hsp-guest: ready"
WAITING_LINE = "hsp-guest: waiting for keys"
"""Console line of a guest that has booted and waits for its keys: it can be saved then."""

HAND_OVER = "hand-over"
HAND_OVER_BYTES = 4 << 30
"""The transfer disk for large files, much faster than SSH: a sparse file."""

KEYS_BYTES = 1 << 16
"""Size of the disk with the keys: equal for a saved guest and the guests that resume it."""

# A simple CPU: OpenZFS benchmarks every SIMD variant of its checksums at load time, and
# emulating AVX is slow. AES for SSH. cx16 is off because QEMU 7.2's TCG corrupts flags
# around cmpxchg16b (the guest dies with a double fault in kmalloc).
_TCG_CPU = "qemu64,-cx16,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,+rdrand,+rdtscp"
# A fixed date: nothing in the guest may depend on the real date, and the virtual clock,
# which skips idle time, cannot follow the host's.
_RTC = "base=2026-01-01T00:00:00,clock=vm"


@dataclass(frozen=True)
class Disk:
    """An extra disk for tests of real devices; its content is the file `name`.

    NVMe disks with the same serial are namespaces of one controller. SCSI disks can be unplugged.
    """

    name: str
    kind: Literal["virtio", "scsi", "nvme"]
    serial: str
    size_bytes: int


@dataclass(frozen=True)
class Saved:
    """A saved guest: `root` is a qcow2 overlay of the image's disk, `memory` QEMU's migration stream."""

    root: Path
    memory: Path


@dataclass(frozen=True)
class Machine:
    """Virtual machine of a lab guest. Paths may contain any character.

    `root`: an overlay for the guest's writes. `resume`: resume a saved guest of the same machine.
    `seed`: for QEMU's random numbers: the guest's RDRAND and virtio-rng.
    """

    image_dir: Path
    state_dir: Path
    memory_mib: int
    clock: Clock
    extra_kernel_args: tuple[str, ...] = ()
    extra_disks: tuple[Disk, ...] = ()
    ssh_ports: int = SSH_PORTS
    root: Path | None = None
    resume: Saved | None = None
    seed: int | None = None


def quote_value(value: str | os.PathLike[str]) -> str:
    """A value inside a QEMU option list: commas are doubled (qemu(1), -drive)."""
    return os.fspath(value).replace(",", ",,")


def clock_arguments(clock: Clock) -> list[str]:
    """Accelerator, CPU and time base.

    virtual: one instruction is one nanosecond and idle time is skipped (qemu docs,
    "TCG Instruction Counting"); one CPU, since icount runs CPUs in turn.
    """
    if clock.kind == "virtual":
        return [
            "-accel", "tcg,thread=single",
            "-icount", "shift=0,sleep=off",
            "-cpu", _TCG_CPU,
            "-smp", "1",
            "-rtc", _RTC,
        ]  # fmt: skip
    return ["-accel", "kvm", "-cpu", "host", "-smp", "2", "-rtc", "base=utc"]


def command_line(machine: Machine, qemu: str = "qemu-system-x86_64") -> list[str]:
    """QEMU's argv. The image and a saved guest are not changed: the guest's writes are discarded."""
    kernel_args = [
        "root=/dev/vda", "rootfstype=ext4", "rw", "init=/usr/local/sbin/hsp-init",
        "console=ttyS0", "quiet", "panic=-1", "oops=panic", "nokaslr", "mitigations=off",
        "nowatchdog", "random.trust_cpu=on", "audit=0", "selinux=0", "apparmor=0",
        *machine.extra_kernel_args,
    ]  # fmt: skip
    state = machine.state_dir
    argv = [
        qemu,
        "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
        "-machine", "q35",
        *clock_arguments(machine.clock),
        "-m", str(machine.memory_mib),
        "-kernel", os.fspath(machine.image_dir / "vmlinuz"),
        "-initrd", os.fspath(machine.image_dir / "initrd.img"),
        "-append", " ".join(kernel_args),
        "-drive", _root_drive(machine),
        "-device", "virtio-blk-pci,drive=root",
        "-drive", f"file={quote_value(state / 'keys.tar')},if=none,id=keys,format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=keys,serial=hsp-keys",
        "-drive", f"file={quote_value(state / HAND_OVER)},if=none,id=hand-over,format=raw,readonly=on",
        "-device", f"virtio-blk-pci,drive=hand-over,serial=hsp-{HAND_OVER}",
        "-device", "virtio-rng-pci",
        "-device", f"virtio-serial-pci,max_ports={machine.ssh_ports + 1}",
        "-chardev", f"file,id=console,path={quote_value(state / 'console.log')}",
        "-serial", "chardev:console",
        "-qmp", f"unix:{quote_value(state / 'qmp.sock')},server=on,wait=off",
    ]  # fmt: skip
    if machine.seed is not None:
        argv += ["-seed", str(machine.seed)]
    if machine.resume:
        argv += ["-incoming", f"exec:exec cat {shlex.quote(os.fspath(machine.resume.memory))}"]
    for port in range(machine.ssh_ports):
        socket = quote_value(state / f"ssh{port}.sock")
        argv += [
            "-chardev", f"socket,id=ssh{port},path={socket},server=on,wait=off",
            "-device", f"virtserialport,chardev=ssh{port},name=hsp.ssh.{port}",
        ]  # fmt: skip
    return argv + (_disk_arguments(machine) if machine.extra_disks else [])


def _root_drive(machine: Machine) -> str:
    """The option value of -drive for the root disk."""
    if machine.root:
        return f"file={quote_value(machine.root)},if=none,id=root,format=qcow2,cache=unsafe"
    if machine.resume:
        return f"file={quote_value(machine.resume.root)},if=none,id=root,format=qcow2,snapshot=on"
    image = quote_value(machine.image_dir / "root.img")
    return f"file={image},if=none,id=root,format=raw,snapshot=on"


def _disk_arguments(machine: Machine) -> list[str]:
    state, argv = machine.state_dir, list[str]()
    if any(disk.kind == "scsi" for disk in machine.extra_disks):
        argv += ["-device", "virtio-scsi-pci,id=scsi"]
    serials = {disk.serial: None for disk in machine.extra_disks if disk.kind == "nvme"}
    for serial in serials:
        argv += ["-device", f"nvme,id={serial},serial={quote_value(serial)}"]
    for disk in machine.extra_disks:
        file = quote_value(state / disk.name)
        drive = f"file={file},if=none,id={disk.name},format=raw,cache=unsafe,discard=unmap"
        argv += ["-drive", drive, "-device", disk_device(disk)]
    return argv


def disk_device(disk: Disk) -> str:
    """The option value of -device for a disk whose drive has the disk's name as its id."""
    named = f"drive={disk.name},id=dev-{disk.name}"
    if disk.kind == "nvme":
        return f"nvme-ns,bus={disk.serial},{named}"
    driver = "virtio-blk-pci" if disk.kind == "virtio" else "scsi-hd,bus=scsi.0"
    return f"{driver},{named},serial={quote_value(disk.serial)}"
