"""A server in use for the tests of observing: pools, exports and loads that the kit does not make."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from tests.lab.conftest import ROOT
from tests.lab.hoststate import State, differences, state_of
from tests.lab.rig import Bed, Rig
from tests.lab.test_faults import wait_for

# As an administrator makes them: disks that take 4 ms, a log device of 1 ms; a pool with and one without log.
# The files are there, and an import later the ARC has nothing of them.
MAKE = """\
set -e
modprobe null_blk nr_devices=0
device() {
  at=/sys/kernel/config/nullb/$1; mkdir $at; cd $at
  echo 1 >memory_backed; echo 128 >size; echo 2 >irqmode; echo $2 >completion_nsec; echo 1 >power
}
device hspdisk 4000000; device hspother 4000000; device hsplog 1000000; cd /
echo 1 >/sys/module/zfs/parameters/zfs_prefetch_disable
zpool create -f -O recordsize=4k -O compression=off -O atime=off -m /tank tank /dev/hspdisk log /dev/hsplog
zpool create -f -O recordsize=4k -m /plain plain /dev/hspother
zfs create tank/home; zfs create -o sync=disabled tank/unsynced
zfs create -o primarycache=metadata tank/cold
zfs create -o primarycache=metadata -o compression=lz4 tank/packed
yes | head -c 64k >/tank/packed/letters
fio --name=fill --filename=/tank/home/read --rw=write --bs=128k --size=1m --end_fsync=1 >/dev/null
zpool export tank; zpool import -d /dev tank
mkdir -p /mnt
"""
# $1: the path, $2: its fsid. In a file: `zfs create` makes `exportfs -ra`, which forgets others.
_EXPORTS = "/etc/exports.d/observed.exports"
_SERVE = f"""\
set -e
mkdir -p /etc/exports.d "/mnt$1"
echo "$1 127.0.0.1(rw,no_root_squash,insecure,no_subtree_check,fsid=$2)" >>{_EXPORTS}; exportfs -ra
mount -t nfs -o vers=3,proto=tcp,nolock,noac "127.0.0.1:$1" "/mnt$1"
"""
SERVED = ("/tank/home", "/tank/unsynced", "/plain")
UNMAKE = f"""\
umount -f /mnt/tank/* /mnt/plain; rmdir /mnt/tank/* /mnt/tank /mnt/plain; rm {_EXPORTS}; exportfs -ra
zpool destroy tank; zpool destroy plain
echo 0 >/sys/module/zfs/parameters/zfs_prefetch_disable
for at in /sys/kernel/config/nullb/*/; do echo 0 >"$at/power"; rmdir "$at"; done; modprobe -r null_blk
"""
# 512-byte writes by O_DSYNC of this many, in this file.
WRITE = (
    "fio --ioengine=psync --direct=1 --bs=512 --size=1m --rw=randwrite --sync=dsync --name=w "
    "--number_ios={n} --filename=/mnt{path}/w >/dev/null"
)
_READ = (
    "cd /tmp && fio --ioengine=psync --direct=1 --bs=512 --size=1m --rw=randread --randseed=7 --name=r "
    "--number_ios={n} --filename=/mnt/tank/home/read --write_iolog=iolog >/dev/null && "
    "grep -E ' read ' iolog; rm iolog"
)
WRITES, READS, OF_NFS, _RECORD_BYTES = 100, 400, 5, 4096
DISK_NS, LOG_NS = 4_000_000, 1_000_000


def serve(rig: Rig, path: str, fsid: int) -> None:
    rig.host.run(["sh", "-c", _SERVE, "sh", path, str(fsid)], deadline_s=300)


def write(rig: Rig, path: str, n: int = WRITES) -> None:
    rig.host.run(["sh", "-c", WRITE.format(n=n, path=path)], deadline_s=300)


def read(rig: Rig) -> tuple[int, int]:
    """How many reads, and how many different records of the file they are of, by fio's own log."""
    records = read_records(rig)
    return len(records), len(set(records))


def read_records(rig: Rig) -> list[int]:
    """The record of the file that each read is of, in their order, by fio's own log."""
    lines = rig.host.run(["sh", "-c", _READ.format(n=READS)], deadline_s=300).stdout.splitlines()
    return [int(line.split()[-2]) // _RECORD_BYTES for line in lines]


def changed(before: State, served: Rig) -> list[str]:
    """But for what nfsd has in its caches, which it forgets by itself, and the test's own new file system."""
    found = differences(before, state_of(served.host))
    return [text for text in found if not text.startswith("nfsd's") and "/tank/late" not in text]


def has_begun(results: Path, step: str) -> bool:
    return any(f'"{step}"' in each.read_text() for each in results.glob("observe/2*/journal.jsonl"))


def start(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "kit.cli", *argv], cwd=ROOT, text=True)


class Observation:
    """`hsp observe` of the rig until the block ends: Ctrl-C, as a person ends it."""

    def __init__(self, rig: Rig, folder: Path, *words: str) -> None:
        self._words = ["observe", "--testbed", os.fspath(Bed(rig, folder, {"data": ("vd0",)}).path)]
        self._words += ["--for", "1h", "--results", os.fspath(folder), *words]
        self._folder = folder
        self.code = -1

    def __enter__(self) -> Observation:
        self._process = start(self._words)
        wait_for(lambda: has_begun(self._folder, "observe") or self.ended, 300, "the observation")
        assert not self.ended
        return self

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def __exit__(self, *_: object) -> None:
        if not self.ended:
            self._process.send_signal(signal.SIGINT)
        self.code = self._process.wait(300)

    @property
    def run(self) -> Path:
        return self._folder / "observe" / "latest"

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / "summary.json").read_text())
        return found

    def files(self) -> dict[tuple[str, str, str, str], int]:
        """I/Os by file system, name, op and tier."""
        found = json.loads((self.run / "manifest.json").read_text())["observed"]["files"]
        made: Counter[tuple[str, str, str, str]] = Counter()
        for row in found:
            # fio makes a file of another size anew.
            made[row["file_system"], row["name"], row["op"], row["tier"]] += row["ios"]
        return dict(made)

    def rows(self) -> dict[tuple[str, str], dict[str, int]]:
        """I/Os by tier, of each file system and op."""
        made: dict[tuple[str, str], dict[str, int]] = {}
        for row in self.summary()["observed"]:
            made.setdefault((row["file_system"], row["op"]), {})[row["tier"]] = row["ios"]
        return made


def misplaced(run: Path) -> int:
    """I/Os whose tier is not that of their latency, by what the devices take at least."""
    least = {"disk": DISK_NS, "indirect": DISK_NS, "pool": DISK_NS, "slog": LOG_NS}
    latency = pl.read_parquet(run / "latency.parquet").select("tier", "lo_ns", "hi_ns", "count")
    return sum(
        count
        for tier, low_ns, high_ns, count in latency.iter_rows()
        if high_ns < least.get(tier, 0) or (tier == "dram" and low_ns >= LOG_NS)
    )
