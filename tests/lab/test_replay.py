"""A load of clients that the kit does not run, captured on a server in use, replayed on the kit's pool."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.session.comparison import ComparedRun, comparison
from kit.store.load.capture import NAME, capture_of
from kit.store.load.replayed import MOST_LATE
from reports.comparison.comparability import Incomparable
from tests.lab.conftest import finish, hsp
from tests.lab.observed import Observation
from tests.lab.rig import Bed, Rig

PROTECTS = (
    "kit/trace", "kit/observe", "kit/store/load/capture.py", "kit/capacity/replay_load.py",
    "kit/load/programs/force_load.c",
)  # fmt: skip
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1500, func_only=True)]

IOS, RECORD_BYTES, PER_S = 300, 4096, 50
# On disks like those of the replay. $1: data, $2: log.
_MAKE = """\
set -e
echo 1 >/sys/module/zfs/parameters/zfs_prefetch_disable
zpool create -f -O recordsize=4k -O compression=off -O atime=off -m /tank tank "$1" log "$2"
fio --name=fill --filename=/tank/read --rw=write --bs=128k --size=1m --end_fsync=1 >/dev/null
fio --name=fill --filename=/tank/write --rw=write --bs=128k --size=1m --end_fsync=1 >/dev/null
zpool export tank; zpool import -d /dev tank
mkdir -p /mnt/tank /etc/exports.d
echo "/tank 127.0.0.1(rw,no_root_squash,insecure,no_subtree_check,fsid=1)" >/etc/exports.d/captured.exports
exportfs -ra
mount -t nfs -o vers=3,proto=tcp,nolock,noac 127.0.0.1:/tank /mnt/tank
"""
_UNMAKE = """\
umount -f /mnt/tank; rmdir /mnt/tank; rm /etc/exports.d/captured.exports; exportfs -ra
zpool destroy tank; echo 0 >/sys/module/zfs/parameters/zfs_prefetch_disable
"""
_LOAD = f"""\
cd /tmp && fio --ioengine=psync --direct=1 --size=1m --io_size=1g --bs=4k --norandommap --randseed=7 \
  --rate_iops={PER_S} --rate_process=poisson --number_ios={IOS} \
  --name=r --rw=randread --filename=/mnt/tank/read --write_iolog=iolog-read \
  --name=w --rw=randwrite --sync=dsync --filename=/mnt/tank/write --write_iolog=iolog-write >/dev/null
grep -hE ' (read|write) ' iolog-read iolog-write; rm iolog-read iolog-write
"""
_WORKLOAD = f"""\
format = 1
name = "again"
title = "A captured load"
precondition = "none"
[dataset]
properties = {{ recordsize = "4KiB", compression = "off", atime = "off" }}
[nfs]
options = ["hard", "nolock"]
[tunables]
zfs_prefetch_disable = 1
[working_set]
file = "working-set"
size = "auto"
[[phase]]
name = "once"
title = "as captured"
cold = true
replay = {{ capture = "{NAME}" }}
[[phase]]
name = "twice"
base = "once"
title = "twice as fast"
replay = {{ speed = 2 }}
"""


def by_tier(summary: dict[str, Any], phase: str) -> Counter[tuple[str, str]]:
    rows = (row for row in summary["rows"] if (row["phase"], row["layer"]) == (phase, "nfs-server"))
    return Counter({(row["op"], row["tier"]): row["count"] for row in rows if row["count"]})


def test_a_captured_load_is_replayed_with_the_same_tiers_and_at_twice_the_rate(
    rig: Rig, tmp_path: Path
) -> None:
    disks = [rig.nodes[name] for name in ("vd2", "vd3")]
    rig.host.run(["sh", "-c", _MAKE, "sh", *disks], deadline_s=300)
    try:
        with Observation(rig, tmp_path / "seen", "--capture") as seen:
            issued = rig.host.run(["sh", "-ec", _LOAD], deadline_s=600).stdout.splitlines()
    finally:
        rig.host.run(["sh", "-c", _UNMAKE], deadline_s=300, check=False)
    observed = seen.summary()
    assert (seen.code, observed["verdict"]) == (0, "valid"), observed["reasons"]
    capture = capture_of((seen.run / NAME).read_bytes(), seen.run / NAME)
    rows = capture.rows
    # As fio's own logs have it, in its order.
    for op in ("read", "write"):
        places = [int(line.split()[-2]) for line in issued if f" {op} " in line]
        mine = rows.filter(pl.col("op") == op)
        assert mine["offset_bytes"].to_list() == places and len(places) == IOS
        assert set(mine["length_bytes"]) == {RECORD_BYTES} and mine["file"].n_unique() == 1
        assert set(mine["stable"]) == {op == "write"}
    assert rows.height == 2 * IOS and (capture.lost, capture.left_out) == (0, 0)
    assert (rows["client"].n_unique(), rows["file"].n_unique()) == (1, 2)
    bed = Bed(rig, tmp_path / "bed", {"data": ("vd0",), "log": ("vd1",)})
    shutil.copy(seen.run / NAME, bed.folder / NAME)
    path = bed.folder / "again.toml"
    path.write_text(_WORKLOAD)
    done = finish(hsp(*bed.run_words(path), results=bed.folder), bed.folder, "again")
    assert done.code == 0, (done.stdout, done.stderr)
    phases = {phase["name"]: phase for phase in done.manifest["phases"]}
    before = by_tier(observed, "observed")
    for name, phase in phases.items():
        found = phase["replayed"]
        assert found["due"] == found["captured"] == phase["client_ios"] == phase["server_ios"] == 2 * IOS
        assert found["unstarted"] == 0 and found["late_ios"] <= MOST_LATE * found["due"]
        tiers = by_tier(done.summary, name)
        print(name, dict(tiers), dict(before), found["elapsed_ns"], found["late_ios"])
        # A read that another one waits for, or an indirect block, may be a few of them.
        assert (tiers - before).total() <= 0.01 * tiers.total(), (tiers, before)
    once, twice = (phases[name]["replayed"]["elapsed_ns"] for name in ("once", "twice"))
    assert once == pytest.approx(capture.span_ns, rel=0.05)
    assert once / twice == pytest.approx(2, rel=0.05)
    # Two phases of one run, then what was observed beside what was replayed.
    compared(f"{done.run}:once", f"{done.run}:twice")
    compared(f"{seen.run}:observed", f"{done.run}:once")


def compared(a: str, b: str) -> None:
    """`hsp compare` of two phases, across all that they differ in by their nature."""
    sides = [ComparedRun(a)], [ComparedRun(b)]
    try:
        comparison(*sides, [])
        across: list[str] = []
    except Incomparable as error:
        across = [line.partition(": A has ")[0].strip() for line in error.lines]
    found = comparison(*sides, across)
    assert not found.different
    for op, tier in (("read", "dram"), ("read", "disk"), ("write", "slog")):
        [p50, share] = (
            row.ratio
            for figure in ("p50", "share")
            for row in found.rows
            if (row.layer, row.op, row.tier, row.figure) == ("nfs-server", op, tier, figure)
        )
        print(a, b, op, tier, p50, share)
        # One CPU of the lab serves clients, server and tracer: what else it does meanwhile varies.
        assert p50 == pytest.approx(1, rel=0.2) and share == pytest.approx(1, rel=0.02)
