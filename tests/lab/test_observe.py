"""`hsp observe` on a pool and an export that the kit did not make, under a load that it does not run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.observe import local
from tests.lab.conftest import ROOT
from tests.lab.hoststate import State, differences, state_of
from tests.lab.rig import Bed, Rig
from tests.lab.test_faults import wait_for

PROTECTS = ("kit/observe", "kit/trace", "reports/features/observed")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

# As an administrator makes them: one pool with a log device, one without.
_MAKE = """\
set -e
zpool create -f -O recordsize=4k -m /tank tank "$1" log "$2"
zpool create -f -O recordsize=4k -m /plain plain "$3"
zfs create tank/home
zfs create -o primarycache=metadata tank/cold
for path in /tank/home /plain; do
  exportfs -o rw,no_root_squash,insecure,fsid=$((n += 1)) "127.0.0.1:$path"
done
mkdir -p /mnt/home /mnt/plain
mount -t nfs -o vers=3,proto=tcp,nolock,noac 127.0.0.1:/tank/home /mnt/home
mount -t nfs -o vers=3,proto=tcp,nolock,noac 127.0.0.1:/plain /mnt/plain
"""
_UNMAKE = """\
umount -f /mnt/home /mnt/plain; rmdir /mnt/home /mnt/plain
exportfs -u 127.0.0.1:/tank/home; exportfs -u 127.0.0.1:/plain
zpool destroy tank; zpool destroy plain
"""
_FIO = (
    "fio --output-format=json --ioengine=psync --bs=512 --size=1m --number_ios={n} --randrepeat=1 "
    "--name=a --filename=/mnt/home/a --rw=randwrite --sync=dsync --new_group "
    "--name=b --filename=/mnt/plain/b --rw=randwrite --sync=dsync"
)
_WRITES, _SERVED = 150, 5


@pytest.fixture(scope="module")
def served(rig: Rig) -> Iterator[Rig]:
    nodes = [rig.nodes[name] for name in ("vd6", "vd1", "vd7")]
    rig.host.run(["sh", "-c", _MAKE, "sh", *nodes], deadline_s=300)
    try:
        yield rig
    finally:
        rig.host.run(["sh", "-c", _UNMAKE], deadline_s=300, check=False)


def changed(before: State, served: Rig) -> list[str]:
    """But for what nfsd has in its caches, which it forgets by itself."""
    return [text for text in differences(before, state_of(served.host)) if not text.startswith("nfsd's")]


def has_begun(results: Path, step: str) -> bool:
    return any(f'"{step}"' in each.read_text() for each in results.glob("observe/2*/journal.jsonl"))


def start(argv: list[str], **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "kit.cli", *argv], cwd=ROOT, **more)


def observed(served: Rig, folder: Path, load: str, *words: str) -> tuple[Any, Any]:
    """Summary of an observation, and what fio in the guest says of the load under it."""
    bed = Bed(served, folder, {"data": ("vd0",)})
    before = state_of(served.host)
    argv = ["observe", "--testbed", os.fspath(bed.path), "--for", "1h", *words, *bed.results]
    with start(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watching:
        wait_for(lambda: has_begun(folder, "observe") or watching.poll() is not None, 300, "the observation")
        try:
            issued = json.loads(served.host.run(["sh", "-ec", load], deadline_s=300).stdout)
        finally:
            watching.send_signal(signal.SIGINT)
        said, _ = watching.communicate(timeout=300)
    print(said)
    assert watching.returncode == 0, said
    summary = json.loads((folder / "observe" / "latest" / "summary.json").read_text())
    assert summary["verdict"] == "valid", summary["reasons"]
    assert not changed(before, served)
    return summary, {job["jobname"]: job for job in issued["jobs"]}


def test_each_pool_has_its_own_tiers_and_the_counts_are_those_of_the_load(
    served: Rig, tmp_path: Path
) -> None:
    summary, jobs = observed(served, tmp_path, _FIO.format(n=_WRITES))
    rows = {(row["file_system"], row["op"], row["tier"]): row["ios"] for row in summary["observed"]}
    issued = {name: job["write"]["total_ios"] for name, job in jobs.items()}
    written = {key: ios for key, ios in rows.items() if key[1] == "write"}
    assert written == {("tank/home", "write", "slog"): issued["a"], ("plain", "write", "pool"): issued["b"]}


# What is read lies there before; fio itself must not write it.
_LAY = """\
dd if=/dev/urandom of=/tank/home/warm bs=1M count=1 status=none
dd if=/dev/urandom of=/tank/cold/cold bs=1M count=16 status=none
zpool sync tank plain
"""
# A client of NFS; the file is there from the first time on.
_NFS_FIO = (
    "fio --output=/dev/null --ioengine=psync --bs=512 --size=4k --number_ios={nfs} "
    "--name=served --filename=/mnt/home/served --rw=write --sync=dsync; "
)
_LOCAL_LOAD = (
    # Its last read is at the end of the file.
    "dd if=/tank/home/warm of=/dev/null bs=64k status=none; "
    "fio --output-format=json --ioengine=psync --bs=4k --size=1m --number_ios={n} --randrepeat=1 "
    "--invalidate=0 "
    "--name=log --filename=/tank/home/log --rw=randwrite --sync=dsync "
    "--name=nolog --stonewall --filename=/plain/nolog --rw=randwrite --sync=dsync "
    "--name=forced --stonewall --filename=/tank/home/forced --rw=randwrite --fdatasync=1 "
    "--name=warm --stonewall --filename=/tank/home/warm --rw=randread "
    "--name=cold --stonewall --filename=/tank/cold/cold --size=16m --rw=randread "
    "--name=mapped --stonewall --ioengine=mmap --filename=/tank/cold/cold --size=16m --rw=randread"
)
_UNLAY = "cd /tank/home && rm -f warm served log forced /tank/cold/cold /plain/nolog"


def test_programs_have_the_tiers_of_their_datasets_and_the_counts_of_fio_and_openzfs(
    served: Rig, tmp_path: Path
) -> None:
    nfs = _NFS_FIO.format(nfs=_SERVED)
    served.host.run(["sh", "-ec", nfs + _LAY], deadline_s=300)
    try:
        before = local.read(served.host)
        load = nfs + _LOCAL_LOAD.format(n=_WRITES)
        summary, jobs = observed(served, tmp_path, load, "--local")
        after = local.read(served.host)
    finally:
        served.host.run(["sh", "-c", _UNLAY], deadline_s=300, check=False)
    keys = ("program", "file_system", "op", "tier")
    rows = {tuple(row[key] for key in keys): row["ios"] for row in summary["observed"]}
    done = {(name, op): job[op]["total_ios"] for name, job in jobs.items() for op in ("read", "write")}
    assert rows == {
        ("fio", "tank/home", "write", "slog"): done["log", "write"],
        ("fio", "plain", "write", "pool"): done["nolog", "write"],
        ("fio", "tank/home", "write", "dram"): done["forced", "write"],
        ("fio", "tank/home", "fsync", "slog"): jobs["forced"]["sync"]["lat_ns"]["N"],
        ("fio", "tank/home", "read", "dram"): done["warm", "read"],
        ("fio", "tank/cold", "read", "disk"): done["cold", "read"],
        ("dd", "tank/home", "read", "dram"): (1 << 20) // (64 << 10),
        ("nfsd", "tank/home", "write", "slog"): _SERVED,
    }
    manifest = json.loads((tmp_path / "observe" / "latest" / "manifest.json").read_text())
    apart = manifest["observed"]
    assert apart["empty"] == 1 and apart["mapped"] >= done["mapped", "read"] == _WRITES
    moved = Counter({("tank/cold", "read"): apart["mapped"]})
    for (_, name, op, _), ios in rows.items():
        moved[name, op] += ios if op != "fsync" else 0
    changes = {key: value - before.calls.get(key, 0) for key, value in after.calls.items()}
    assert {key: change for key, change in changes.items() if change} == +moved
    forced = sum(ios for (*_, tier), ios in rows.items() if tier in ("slog", "pool"))
    # nfsd commits changes of attributes, too.
    assert after.zil["zil_commit_count"] - before.zil["zil_commit_count"] >= forced


@pytest.mark.parametrize("moment", ["make work directory", "start the tracer", "observe"])
def test_nothing_is_left_on_the_server_after_a_kill(served: Rig, tmp_path: Path, moment: str) -> None:
    bed = Bed(served, tmp_path, {"data": ("vd0",)})
    before = state_of(served.host)
    words = ["observe", "--testbed", os.fspath(bed.path), "--for", "1h", *bed.results]
    process = start(words)
    wait_for(lambda: has_begun(tmp_path, moment) or process.poll() is not None, 300, moment)
    assert process.poll() is None
    process.kill()
    process.wait()
    wait_for(lambda: not changed(before, served), 120, "the guard")
