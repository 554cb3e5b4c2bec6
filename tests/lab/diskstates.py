"""Disks of the rig brought into the states that people's disks are in, and made blank again.

Each maker is a context manager that takes a disk's device node. Tests leave the disks as they found them.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.lab.rig import Rig

# BLKPG(2 of linux/blkpg.h): a partition that only the kernel knows. Arguments: node, 1 to add, 2 to remove.
_PARTITION = """
import ctypes, fcntl, os, sys
class P(ctypes.Structure):
    _fields_ = [("start", ctypes.c_longlong), ("length", ctypes.c_longlong), ("pno", ctypes.c_int),
                ("names", ctypes.c_char * 128)]
class A(ctypes.Structure):
    _fields_ = [("op", ctypes.c_int), ("flags", ctypes.c_int), ("datalen", ctypes.c_int),
                ("data", ctypes.c_void_p)]
part = P(1 << 20, 80 << 20, 1)
ask = A(int(sys.argv[2]), 0, ctypes.sizeof(part), ctypes.addressof(part))
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x1269, ask)
"""
_ELSEWHERE = 'mount "$1" /mnt && echo mounted && exec sleep 100000000'
# Discarded blocks of the rig's disks read as zeros.
_BLANK = """\
for d; do blkdiscard --force --quiet "$d" && blockdev --rereadpt "$d" || exit 1; done
udevadm settle --timeout=60
"""


class States:
    """What can be done to the disks of a rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.run = rig, rig.host.run

    def node(self, disk: str) -> str:
        return self.rig.nodes[disk]

    def digests(self, *disks: str) -> dict[str, str]:
        """Of the whole content of each, as it is on the disk itself."""
        self.run(["sync"])
        found = {}
        for disk in disks:
            with (self.rig.lab.state / disk).open("rb") as file:
                found[disk] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def blank(self, *disks: str) -> None:
        """Nothing on it, not even a partition that the kernel remembers."""
        self.run(["sh", "-c", _BLANK, "sh", *(self.rig.by_id[disk] for disk in disks)])

    def put_ext4(self, disk: str, folder: Path) -> None:
        """A file system, made on this machine: the guest has no tool for it."""
        image = folder / "ext4.img"
        if not image.exists():
            subprocess.run(
                ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=0", image, "8M"],
                check=True,
            )
        packed = gzip.compress(image.read_bytes())
        copy = 'gzip -d | dd of="$1" bs=1M iflag=fullblock conv=fsync status=none'
        self.run(["sh", "-c", copy, "sh", self.node(disk)], stdin=packed)

    @contextlib.contextmanager
    def _during(self, *begin: list[str], end: list[str]) -> Iterator[None]:
        """Run the commands `begin`, and `end` after the block."""
        for argv in begin:
            self.run(argv)
        try:
            yield
        finally:
            self.run(end)

    def mounted(self, disk: str) -> AbstractContextManager[None]:
        mount = ["mount", self.node(disk), "/mnt/own"]
        return self._during(["mkdir", "-p", "/mnt/own"], mount, end=["umount", "/mnt/own"])

    @contextlib.contextmanager
    def mounted_elsewhere(self, disk: str) -> Iterator[None]:
        """In a mount namespace of its own: nothing of it shows in the host's."""
        argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", _ELSEWHERE, "sh", self.node(disk)]
        process = self.rig.host.start(argv)
        there = 'until grep -q " /mnt .* $1 " /proc/[0-9]*/mountinfo; do sleep 0.1; done'
        try:
            self.run(["sh", "-c", there, "sh", self.node(disk)], deadline_s=60)
            yield
        finally:
            process.stop(60, "TERM")

    def swap(self, disk: str) -> AbstractContextManager[None]:
        node = self.node(disk)
        return self._during(["mkswap", node], ["swapon", node], end=["swapoff", node])

    def lvm(self, disk: str) -> AbstractContextManager[None]:
        return self._during(
            ["pvcreate", self.node(disk)],
            ["vgcreate", "hspvg", self.node(disk)],
            ["lvcreate", "--yes", "--name=lv0", "--size=16M", "hspvg"],
            end=["vgremove", "--force", "--force", "--yes", "hspvg"],
        )

    def md(self, disk: str) -> AbstractContextManager[None]:
        devices = ["--level=1", "--raid-devices=2", self.node(disk), "missing"]
        create = ["mdadm", "--create", "/dev/md7", "--run", *devices]
        return self._during(create, end=["mdadm", "--stop", "/dev/md7"])

    def mapped(self, disk: str, name: str, uuid: str, table: str) -> AbstractContextManager[None]:
        """A device-mapper device over the disk; `{}` in the table stands for its node."""
        create = ["dmsetup", "create", name, "--uuid", uuid, "--table", table.format(self.node(disk))]
        return self._during(create, end=["dmsetup", "remove", "--retry", name])

    def read_only(self, disk: str) -> AbstractContextManager[None]:
        node = self.node(disk)
        return self._during(["blockdev", "--setro", node], end=["blockdev", "--setrw", node])

    @contextlib.contextmanager
    def partition_of_the_root_disk(self) -> Iterator[str]:
        self.run(["/usr/bin/python3", "-c", _PARTITION, "/dev/vda", "1"])
        try:
            yield "/dev/vda1"
        finally:
            self.run(["/usr/bin/python3", "-c", _PARTITION, "/dev/vda", "2"])

    @contextlib.contextmanager
    def pool(self, name: str, *arguments: str) -> Iterator[None]:
        """`arguments` name disks of the rig or are words of zpool create."""
        named = [self.rig.by_id.get(word, word) for word in arguments]
        self.run(["zpool", "create", "-o", "cachefile=none", "-O", "mountpoint=none", name, *named])
        self.run(["udevadm", "settle", "--timeout=60"])
        try:
            yield
        finally:
            self.run(["zpool", "destroy", name], check=False)
