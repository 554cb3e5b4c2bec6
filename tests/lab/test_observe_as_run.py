"""`hsp observe` beside `hsp run`: one load on two pools that are alike, one of the kit's and one by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.observed import Observation
from tests.lab.rig import Bed, Rig
from tests.lab.workloads import JOB, TUNED, UNCACHED, head

PROTECTS = ("kit/observe", "kit/trace")
pytestmark = [pytest.mark.long, pytest.mark.lab, pytest.mark.timeout(1500, func_only=True)]

_SEED = 11
_DISKS = {"data": ("vd0",), "log": ("vd1",)}
_PHASES = """\
[[phase]]
name = "read"
title = "512 B reads"
job = "read.fio"
tiers = ["disk"]
duration = "2s"
interval = "100ms"
[[phase]]
name = "write"
title = "512 B O_DSYNC writes"
job = "write.fio"
tiers = ["slog"]
duration = "1s"
interval = "100ms"
"""
# As the kit makes them; the disks have no partitions.
_MAKE = """\
set -e
echo 67108864 >/sys/module/zfs/parameters/zfs_arc_max; echo 1 >/sys/module/zfs/parameters/zfs_prefetch_disable
zpool create -f -m /hand -O recordsize=4k -O compression=off -O primarycache=metadata -O atime=off \\
  hand "$1" log "$2"
exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=7 127.0.0.1:/hand
mkdir /mnt/hand; mount -t nfs -o vers=3,proto=tcp,nolock 127.0.0.1:/hand /mnt/hand
fio --name=fill --directory=/hand --filename=working-set --rw=write --bs=131072 --size=16m \\
  --ioengine=psync --thread=1 --refill_buffers=1 --fallocate=none --end_fsync=1 >/dev/null
"""
_UNMAKE = """\
umount -f /mnt/hand; rmdir /mnt/hand; exportfs -u 127.0.0.1:/hand; zpool destroy hand
echo 0 >/sys/module/zfs/parameters/zfs_arc_max; echo 0 >/sys/module/zfs/parameters/zfs_prefetch_disable
"""
# Of the job file of the run; fio reads the same places in the same order.
_LOAD = (
    "fio --output=/dev/null --ioengine=psync --bs=512 --direct=1 --directory=/mnt/hand "
    "--filename=working-set --thread=1 --norandommap --size=16m --randseed={seed} "
    "--number_ios={ios} --name={name} {more}"
)
_JOBS = {"read": "rw=randread", "write": "rw=randwrite\nsync=dsync"}


def counts(run: Path) -> dict[tuple[str, str], int]:
    """I/Os at the NFS server by op and tier."""
    rows = json.loads((run / "summary.json").read_text())["rows"]
    return {(row["op"], row["tier"]): row["count"] for row in rows if row["layer"] == "nfs-server"}


def tolerance(run: Path, id_: str) -> int:
    """Of a check of the run."""
    phases = json.loads((run / "manifest.json").read_text())["phases"]
    return max(check["tolerance"] for phase in phases for check in phase["checks"] if check["id"] == id_)


def test_the_tiers_of_an_observation_are_those_of_a_run_with_the_same_load(rig: Rig, tmp_path: Path) -> None:
    for name, words in _JOBS.items():
        job = f"{JOB}{words}\nsize=${{HSP_SIZE}}\nrandseed={_SEED}\n"
        tmp_path.joinpath(f"{name}.fio").write_text(job)
    workload = tmp_path / "alike.toml"
    workload.write_text(head("alike", "4KiB", "16MiB", TUNED, UNCACHED) + _PHASES)
    bed = Bed(rig, tmp_path / "run", _DISKS)
    done = bed.hsp(*bed.run_words(workload), *bed.results)
    assert done.returncode == 0, done.stderr
    latest = bed.folder / "alike" / "latest"
    of_run = counts(latest)
    disks = [rig.by_id[disk] for names in _DISKS.values() for disk in names]
    rig.host.run(["sh", "-c", _MAKE, "sh", *disks], deadline_s=300)
    try:
        with Observation(rig, tmp_path / "observed") as seen:
            for op, words in _JOBS.items():
                ios = sum(count for (each, _), count in of_run.items() if each == op)
                more = " ".join(f"--{word}" for word in words.split())
                load = _LOAD.format(seed=_SEED, ios=ios, name=op, more=more)
                rig.host.run(["sh", "-c", load], deadline_s=300)
    finally:
        rig.host.run(["sh", "-c", _UNMAKE], deadline_s=300, check=False)
    assert seen.summary()["verdict"] == "valid", seen.summary()["reasons"]
    observed = counts(seen.run)
    print("run:", of_run, "observation:", observed)
    assert observed.keys() == of_run.keys() and observed["write", "slog"] == of_run["write", "slog"]
    reads = [sum(count for (op, _), count in of.items() if op == "read") for of in (of_run, observed)]
    assert reads[0] == reads[1] > 1000
    assert abs(observed["read", "disk"] - of_run["read", "disk"]) <= tolerance(latest, "ARC-MISSES")
