"""What `hsp size` says of a special vdev, by a server without, against the same server with it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lab.observed import Observation, serve
from tests.lab.rig import Rig
from tests.lab.template import hsp
from tests.lab.test_size import MIB, UNMAKE

PROTECTS = ("reports/size", "kit/trace/keys.py")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1800, func_only=True)]

# Two file systems with a file each. Half of the reads go to each; some blocks are more popular.
SMALL_BYTES, LARGE_BYTES, SMALL_BLOCKS, LARGE_BLOCKS = 16 << 10, 64 << 10, 3 << 10, 2 << 10
FILES = {"small": (SMALL_BYTES, SMALL_BLOCKS), "large": (LARGE_BYTES, LARGE_BLOCKS)}
WARM, READS, ZIPF, LEAST_MIB = 20_000, 8_000, 0.8, 64
DEVICES = f"""\
set -e
modprobe null_blk nr_devices=0
device() {{
  at=/sys/kernel/config/nullb/$1; mkdir $at; cd $at
  echo 1 >memory_backed; echo $2 >size; echo 2 >irqmode; echo $3 >completion_nsec; echo 1 >power
}}
device hspdisk 512 2000000; device hspspecial "$1" 200000
cd /sys/module/zfs/parameters
echo 1 >zfs_prefetch_disable; echo {32 * MIB} >zfs_arc_min; echo {64 * MIB} >zfs_arc_max
mkdir -p /mnt
"""
# $1: more vdevs; $2: options of the file systems, which need a special vdev.
POOL = """\
set -e
zpool create -f -O compression=off -O atime=off -m /sized sized /dev/hspdisk $1
""" + "".join(
    f"zfs create $2 -o recordsize={size} sized/{name}; fio --name=fill --filename=/sized/{name}/set "
    f"--rw=write --bs=64k --size={size * blocks} --end_fsync=1 >/dev/null\n"
    for name, (size, blocks) in FILES.items()
)
UNSERVE = """\
umount -f /mnt/sized/*; rm /etc/exports.d/observed.exports; exportfs -ra; zpool destroy sized
"""


def drawn(count: int, seed: int) -> str:
    """fio's list of reads: a file by lot, and a block of it. Popular blocks lie anywhere."""
    random = np.random.default_rng([2026, seed])
    lines = []
    chosen = {}
    for number, (name, (_, blocks)) in enumerate(FILES.items()):
        weights = np.arange(1, blocks + 1) ** -ZIPF
        places = np.random.default_rng(number).permutation(blocks)
        chosen[name] = places[random.choice(blocks, count, p=weights / weights.sum())]
    for at, name in enumerate(random.choice([*FILES], count)):
        size = FILES[name][0]
        lines.append(f"{{at}}/{name}/set read {chosen[name][at] * size} {size}\n")
    return "".join(lines)


def read(rig: Rig, at: str, count: int, seed: int, *, direct: bool) -> None:
    opened, closed = ("".join(f"{at}/{name}/set {verb}\n" for name in FILES) for verb in ("open", "close"))
    added = "".join(f"{at}/{name}/set add\n" for name in FILES)
    text = f"fio version 2 iolog\n{added}{opened}{drawn(count, seed).format(at=at)}{closed}"
    rig.host.put(text.encode(), "/tmp/reads")
    argv = ["fio", "--name=r", "--ioengine=psync", f"--direct={int(direct)}", "--read_iolog=/tmp/reads"]
    rig.host.run([*argv, "--replay_no_stall=1", "--output=/dev/null"], deadline_s=900)


def answered(rig: Rig, folder: Path, vdevs: str, options: str, *words: str) -> Observation:
    """Of a new pool, after a warm-up."""
    rig.host.run(["sh", "-c", POOL, "sh", vdevs, options], deadline_s=300)
    for number, name in enumerate(FILES, 1):
        serve(rig, f"/sized/{name}", number)
    read(rig, "/sized", WARM, 1, direct=False)
    folder.mkdir()
    with Observation(rig, folder, *words) as seen:
        read(rig, "/mnt/sized", READS, 2, direct=True)
    summary = seen.summary()
    assert summary["verdict"] == "valid", summary["reasons"]
    return seen


def said(run: Path, size_mib: int) -> dict[str, Any]:
    out = run.parent / "size.json"
    done = hsp(["size", os.fspath(run), "--special", f"{size_mib}MiB", "-o", os.fspath(out)], 300)
    print(done.stdout)
    assert done.returncode == 0, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.fixture
def devices(rig: Rig) -> Iterator[Rig]:
    try:
        yield rig
    finally:
        rig.host.run(["sh", "-c", UNSERVE + UNMAKE], deadline_s=300, check=False)


def test_a_special_vdev_of_the_stated_size_answers_the_stated_part(devices: Rig, tmp_path: Path) -> None:
    """The room, too: the vdev of the least size that is said has all small blocks and the metadata."""
    # Larger than what will be said; the device is made with what is said afterwards.
    devices.host.run(["sh", "-c", DEVICES, "sh", "128"], deadline_s=300)
    now = answered(devices, tmp_path / "now", "", "", "--keys", "1")
    sizing = said(now.run, 128)
    small = next(each for each in sizing["small_blocks"] if each["limit_bytes"] == SMALL_BYTES)
    # What was not asked for needs room, too. OpenZFS takes no smaller vdev.
    whole = SMALL_BYTES * SMALL_BLOCKS / small["room_bytes"]["value"]
    size_mib = max(LEAST_MIB, math.ceil(small["vdev_bytes"]["high"] * whole / MIB))
    devices.host.run(["sh", "-c", UNSERVE], deadline_s=300)

    at = "/sys/kernel/config/nullb/hspspecial"
    resize = f"echo 0 >{at}/power; echo {size_mib} >{at}/size; echo 1 >{at}/power"
    devices.host.run(["sh", "-c", resize], deadline_s=60)
    then = answered(
        devices, tmp_path / "then", "special /dev/hspspecial", f"-o special_small_blocks={SMALL_BYTES}"
    )
    listed = devices.host.run(["zpool", "list", "-vHp", "sized"]).stdout
    ios = {name: then.rows()[f"sized/{name}", "read"] for name in FILES}
    special, disk = ios["small"]["special"], ios["large"]["disk"]
    part = special / (special + disk)
    error = 2 * math.sqrt(part * (1 - part) / (special + disk))
    print(f"a special vdev of {size_mib} MiB: {part:.4f} of {special + disk} reads, {ios}, {small}\n{listed}")

    of_disks = small["of_disk_reads_now"]
    assert of_disks["low"] - error <= part <= of_disks["high"] + error
    assert "disk" not in ios["small"] and "special" not in ios["large"]
    allocated = next(int(line.split()[2]) for line in listed.splitlines() if "hspspecial" in line)
    # It has those that were asked for, and all others of the file.
    assert small["room_bytes"]["low"] <= allocated
