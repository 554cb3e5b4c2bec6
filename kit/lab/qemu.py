"""QEMU of the lab guest: its command line (nothing is started here) and its monitor."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kit.core.clock import Clock
from kit.core.errors import HostError

QEMU = "qemu-system-x86_64"
QEMU_PACKAGE = "qemu-system-x86"
_MONITOR_DEADLINE_S = 120.0

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
class ExtraDisk:
    """An extra disk for tests of real devices; its content is the file `name`.

    NVMe disks with the same serial are namespaces of one controller. SCSI disks can be unplugged.
    """

    name: str
    kind: Literal["virtio", "scsi", "nvme"]
    serial: str
    size_bytes: int


@dataclass(frozen=True)
class SavedGuest:
    """A saved guest: `root` is a qcow2 overlay of the image's disk, `memory` QEMU's migration stream."""

    root: Path
    memory: Path


@dataclass(frozen=True)
class LabSpec:
    """Configuration of a lab guest.

    `extra_*` and `ssh_ports` are for tests. `ssh_ports`: serial lines with an sshd each, one connection
    per line. `seed`: makes the random numbers of the guest reproducible (its seed, RDRAND, virtio-rng);
    without it they always differ.
    """

    image_dir: Path
    clock: Clock
    memory_mib: int = 4096
    extra_kernel_args: tuple[str, ...] = ()
    extra_disks: tuple[ExtraDisk, ...] = ()
    ssh_ports: int = SSH_PORTS
    seed: int | None = None


def installed(program: str, package: str) -> str:
    """Path of a program on this machine. Raises HostError with the package to install."""
    path = shutil.which(program)
    if path is None:
        raise HostError(f"{program} is not installed", f"install it: apt-get install {package}")
    return path


def quote_value(value: str | os.PathLike[str]) -> str:
    """A value inside a QEMU option list: commas are doubled (qemu(1), -drive)."""
    return os.fspath(value).replace(",", ",,")


def _clock_arguments(clock: Clock) -> list[str]:
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


def command_line(spec: LabSpec, root: Path | None = None, resume: SavedGuest | None = None) -> list[str]:
    """QEMU's argv. The image and a saved guest are not changed: the guest's writes are discarded.

    `root`: an overlay that keeps the guest's writes. `resume`: a saved guest of the same spec. Both and the
    image may have paths with any character; the other files are in the working directory.
    """
    kernel_args = [
        "root=/dev/vda", "rootfstype=ext4", "rw", "init=/usr/local/sbin/hsp-init",
        "console=ttyS0", "quiet", "panic=-1", "oops=panic", "nokaslr", "mitigations=off",
        "nowatchdog", "random.trust_cpu=on", "audit=0", "selinux=0", "apparmor=0",
        *spec.extra_kernel_args,
    ]  # fmt: skip
    argv = [
        QEMU,
        "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
        "-machine", "q35",
        *_clock_arguments(spec.clock),
        "-m", str(spec.memory_mib),
        "-kernel", os.fspath(spec.image_dir / "vmlinuz"),
        "-initrd", os.fspath(spec.image_dir / "initrd.img"),
        "-append", " ".join(kernel_args),
        "-drive", _root_drive(spec, root, resume),
        "-device", "virtio-blk-pci,drive=root",
        "-drive", "file=keys.tar,if=none,id=keys,format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=keys,serial=hsp-keys",
        "-drive", f"file={HAND_OVER},if=none,id=hand-over,format=raw,readonly=on",
        "-device", f"virtio-blk-pci,drive=hand-over,serial=hsp-{HAND_OVER}",
        "-device", "virtio-rng-pci",
        "-device", f"virtio-serial-pci,max_ports={spec.ssh_ports + 1}",
        "-chardev", "file,id=console,path=console.log",
        "-serial", "chardev:console",
        "-qmp", "unix:qmp.sock,server=on,wait=off",
    ]  # fmt: skip
    if spec.seed is not None:
        argv += ["-seed", str(spec.seed)]
    if resume:
        argv += ["-incoming", f"exec:exec cat {shlex.quote(os.fspath(resume.memory))}"]
    for port in range(spec.ssh_ports):
        argv += [
            "-chardev", f"socket,id=ssh{port},path=ssh{port}.sock,server=on,wait=off",
            "-device", f"virtserialport,chardev=ssh{port},name=hsp.ssh.{port}",
        ]  # fmt: skip
    return argv + _disk_arguments(spec.extra_disks)


def _root_drive(spec: LabSpec, root: Path | None, resume: SavedGuest | None) -> str:
    """The option value of -drive for the root disk."""
    if root:
        file, options = root, "format=qcow2,cache=unsafe"
    elif resume:
        file, options = resume.root, "format=qcow2,snapshot=on"
    else:
        file, options = spec.image_dir / "root.img", "format=raw,snapshot=on"
    return f"file={quote_value(file)},if=none,id=root,{options}"


def _disk_arguments(disks: tuple[ExtraDisk, ...]) -> list[str]:
    argv = list[str]()
    if any(disk.kind == "scsi" for disk in disks):
        argv += ["-device", "virtio-scsi-pci,id=scsi"]
    for serial in dict.fromkeys(disk.serial for disk in disks if disk.kind == "nvme"):
        argv += ["-device", f"nvme,id={serial},serial={quote_value(serial)}"]
    for disk in disks:
        drive = f"file={disk.name},if=none,id={disk.name},format=raw,cache=unsafe,discard=unmap"
        argv += ["-drive", drive, "-device", disk_device(disk)]
    return argv


def disk_device(disk: ExtraDisk) -> str:
    """The option value of -device for a disk whose drive has the disk's name as its id."""
    named = f"drive={disk.name},id=dev-{disk.name}"
    if disk.kind == "nvme":
        return f"nvme-ns,bus={disk.serial},{named}"
    driver = "virtio-blk-pci" if disk.kind == "virtio" else "scsi-hd,bus=scsi.0"
    return f"{driver},{named},serial={quote_value(disk.serial)}"


def monitor(state: Path, name: str, **arguments: Any) -> Any:
    """Run one command of QEMU's monitor; returns its result. Raises HostError.

    `state`: the lab's directory. QMP: docs/interop/qmp-intro.txt of QEMU.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_MONITOR_DEADLINE_S)
        try:
            line.connect(os.fspath(state / "qmp.sock"))
            with line.makefile("rw") as stream:
                stream.readline()
                for request in ({"execute": "qmp_capabilities"}, {"execute": name, "arguments": arguments}):
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()
                    answer: dict[str, Any] = {"event": None}
                    while "event" in answer:
                        answer = json.loads(stream.readline())
        except (OSError, ValueError) as error:
            raise HostError(f"the monitor of QEMU does not answer to {name}: {error}") from error
    if "error" in answer:
        raise HostError(f"QEMU refuses {name}: {answer['error']['desc']}")
    return answer["return"]
