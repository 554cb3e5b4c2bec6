"""`hsp observe` on a pool and an export that the kit did not make, under a load that it does not run."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from kit.core.errors import EXIT_UNKNOWN
from kit.observe import local, probe_cost
from kit.trace.support import MAP_KEYS
from reports.features.split.judge import LEAST_JOINED
from tests.lab.hoststate import state_of
from tests.lab.observed import (
    DISK_NS,
    LOG_NS,
    MAKE,
    OF_NFS,
    READS,
    SERVED,
    UNMAKE,
    WRITE,
    WRITES,
    Observation,
    changed,
    has_begun,
    misplaced,
    read,
    serve,
    start,
    write,
)
from tests.lab.rig import Bed, Rig
from tests.lab.template import hsp
from tests.lab.test_faults import wait_for

PROTECTS = ("kit/observe", "kit/trace", "reports/features/observed")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]


@pytest.fixture(scope="module")
def served(rig: Rig) -> Iterator[Rig]:
    rig.host.run(["sh", "-c", MAKE], deadline_s=300)
    try:
        for number, path in enumerate(SERVED, start=1):
            serve(rig, path, number)
        yield rig
    finally:
        rig.host.run(["sh", "-c", UNMAKE], deadline_s=300, check=False)


def test_tiers_are_those_of_each_pool_and_the_counts_those_of_the_load(served: Rig, tmp_path: Path) -> None:
    """Beside a scrub; a file system is made and exported, and nfsd restarted meanwhile."""
    before = state_of(served.host)
    with Observation(served, tmp_path, "--files") as seen:
        served.host.run(["zpool", "scrub", "tank"])
        reads, records = read(served)
        for path in SERVED:
            write(served, path)
        served.host.run(["sh", "-c", "zfs create tank/late && rpc.nfsd 0 && rpc.nfsd 4"])
        serve(served, "/tank/late", 9)
        # The kernel counts the time of the probes for a second; it is read before the writes end.
        wait_for(lambda: '"nfs"]' in (seen.run / "raw" / "commands.jsonl").read_text(), 120, "a window")
        counting = ["sh", "-c", "test -e /run/hsp/2*/counting"]
        wait_for(lambda: served.host.run(counting, check=False).returncode != 0, 60, "its end")
        write(served, "/tank/late", 20)
        write(served, "/tank/late", WRITES - 20)
    summary, rows = seen.summary(), seen.rows()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    writes = {name: tiers for (name, op), tiers in rows.items() if op == "write"}
    assert writes == {
        "tank/home": {"slog": WRITES}, "tank/late": {"slog": WRITES}, "plain": {"pool": WRITES},
        "tank/unsynced": {"dram": WRITES},
    }  # fmt: skip
    assert {row["client"] for row in summary["observed"]} == {"127.0.0.1"}
    (used,) = (note for note in summary["notes"] if note.startswith("bpftrace used "))
    assert re.fullmatch(r"bpftrace used \S+ \w+ of processor time, .* MiB of memory at most\.", used), used
    (cost,) = (note for note in summary["notes"] if note.startswith("The tracer's probes ran "))
    print(cost)
    of_files: Counter[tuple[str, str, str]] = Counter()
    for (name, file, op, _), ios in seen.files().items():
        of_files[name, file, op] += ios
    assert of_files == {
        ("tank/home", "read", "read"): READS,
        **{(path.strip("/"), "w", "write"): WRITES for path in (*SERVED, "/tank/late")},
    }
    operations = json.loads((seen.run / "manifest.json").read_text())["observed"]["operations"]
    calls = {each["name"]: each["calls"] for each in operations}
    assert calls["NFSv3 READ"] == READS and calls["NFSv3 WRITE"] == 4 * WRITES and calls["NFSv3 CREATE"] == 5
    found = rows["tank/home", "read"]
    assert found.get("disk", 0) + found.get("indirect", 0) == records
    assert found["dram"] == reads - records == READS - records
    assert misplaced(seen.run) <= 0.01 * (READS + 4 * WRITES)
    assert not changed(before, served)


# What is read lies there before; fio itself must not write it.
_LAY = """\
dd if=/dev/urandom of=/tank/home/warm bs=1M count=1 status=none
dd if=/dev/urandom of=/tank/cold/cold bs=1M count=16 status=none
zpool sync tank plain
"""
# A client of NFS; the file is there from the first time on.
_NFS_FIO = (
    "fio --output=/dev/null --ioengine=psync --bs=512 --size=4k --number_ios={nfs} "
    "--name=served --filename=/mnt/tank/home/served --rw=write --sync=dsync; "
)
_LOCAL_LOAD = (
    # Its last read is at the end of the file.
    "dd if=/tank/home/warm of=/dev/null bs=64k status=none; "
    # The data of each record are in its block pointer: no device is read.
    "dd if=/tank/packed/letters of=/dev/null bs=4k count=16 status=none; "
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
    nfs = _NFS_FIO.format(nfs=OF_NFS)
    served.host.run(["sh", "-ec", nfs + _LAY], deadline_s=300)
    try:
        before = local.read(served.host)
        with Observation(served, tmp_path, "--local", "--files") as seen:
            load = nfs + _LOCAL_LOAD.format(n=WRITES)
            said = served.host.run(["sh", "-ec", load], deadline_s=300).stdout
        after = local.read(served.host)
    finally:
        served.host.run(["sh", "-c", _UNLAY], deadline_s=300, check=False)
    summary, jobs = seen.summary(), {job["jobname"]: job for job in json.loads(said)["jobs"]}
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    keys = ("program", "file_system", "op", "tier")
    rows = {tuple(row[key] for key in keys): row["ios"] for row in summary["observed"]}
    # A scrub of another test may have read the block that has the block pointers.
    pointers = rows.pop(("dd", "tank/packed", "read", "indirect"), 0)
    done = {(name, op): job[op]["total_ios"] for name, job in jobs.items() for op in ("read", "write")}
    assert rows == {
        ("fio", "tank/home", "write", "slog"): done["log", "write"],
        ("fio", "plain", "write", "pool"): done["nolog", "write"],
        ("fio", "tank/home", "write", "dram"): done["forced", "write"],
        ("fio", "tank/home", "fsync", "slog"): jobs["forced"]["sync"]["lat_ns"]["N"],
        ("fio", "tank/home", "read", "dram"): done["warm", "read"],
        ("fio", "tank/cold", "read", "disk"): done["cold", "read"],
        ("dd", "tank/home", "read", "dram"): (1 << 20) // (64 << 10),
        ("dd", "tank/packed", "read", "dram"): 16 - pointers,
        ("nfsd", "tank/home", "write", "slog"): OF_NFS,
    }
    files, of_job = seen.files(), {
        ("write", "slog"): "log", ("write", "pool"): "nolog", ("write", "dram"): "forced",
        ("fsync", "slog"): "forced", ("read", "dram"): "warm", ("read", "disk"): "cold",
    }  # fmt: skip
    assert {key: ios for key, ios in files.items() if key[1] in jobs} == {
        (name, of_job[op, tier], op, tier): ios + (16 if of_job[op, tier] == "warm" else 0)
        for (program, name, op, tier), ios in rows.items() if program == "fio"
    }  # fmt: skip
    assert files["tank/home", "served", "write", "slog"] == OF_NFS
    manifest = json.loads((tmp_path / "observe" / "latest" / "manifest.json").read_text())
    apart = manifest["observed"]
    assert apart["empty"] == 1 and apart["mapped"] >= done["mapped", "read"] == WRITES
    moved = Counter({("tank/cold", "read"): apart["mapped"]})
    moved["tank/packed", "read"] += pointers
    for (_, name, op, _), ios in rows.items():
        moved[name, op] += ios if op != "fsync" else 0
    changes = {key: value - before.calls.get(key, 0) for key, value in after.calls.items()}
    assert {key: change for key, change in changes.items() if change} == +moved
    forced = sum(ios for (*_, tier), ios in rows.items() if tier in ("slog", "pool"))
    # nfsd commits changes of attributes, too.
    assert after.zil["zil_commit_count"] - before.zil["zil_commit_count"] >= forced


def test_probes_that_cost_more_than_they_may_are_removed(served: Rig, tmp_path: Path) -> None:
    """Reads from DRAM by one program take a few microseconds each, much of them the time of the probes."""
    before = state_of(served.host)
    read_warm = (
        "dd if=/dev/urandom of=/tank/home/hot bs=1M count=1 status=none; "
        "fio --output=/dev/null --ioengine=psync --bs=512 --size=1m --rw=randread --name=hot "
        "--filename=/tank/home/hot --invalidate=0 --norandommap --io_size=50m; rm /tank/home/hot"
    )
    with Observation(served, tmp_path, "--local") as seen:
        for _ in range(60):
            if seen.ended:
                break
            served.host.run(["sh", "-ec", read_warm], deadline_s=300)
    summary = seen.summary()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    (removed,) = (note for note in summary["notes"] if note.startswith("The tracer was removed after "))
    assert "limit 5 % (--cost-max)" in removed
    (cost,) = (note for note in summary["notes"] if note.startswith("The tracer's probes ran "))
    print(cost)
    assert not changed(before, served)


@pytest.mark.parametrize("word", ["TERM", "KILL"])
def test_the_kernel_stops_counting_with_the_connection_or_by_the_guard(served: Rig, word: str) -> None:
    before, host = state_of(served.host), served.host
    host.run(["mkdir", "/tmp/counted"])
    # Longer than the test: it ends by the signal alone.
    long = probe_cost.WINDOW.replace("sleep 1 ", "sleep 600 ")
    process = host.start(["sh", "-c", long, "sh", "/tmp/counted", "1", "nfs"])
    on = ["sh", "-c", f"grep -q 1 {probe_cost.STATS}"]
    wait_for(lambda: host.run(on, check=False).returncode == 0, 60, "the count of programs")
    if word == "TERM":
        # As where Ctrl-C ends the observation meanwhile.
        host.run(["rm", "-r", "/tmp/counted"])
    process.stop(30, word)
    if word == "KILL":
        host.run(["sh", "-c", probe_cost.RESTORE, "sh", "/tmp/counted"])
        host.run(["rm", "-r", "/tmp/counted"])
    wait_for(lambda: host.run(on, check=False).returncode != 0, 60, "the end of the count")
    host.run(["pkill", "-x", "-f", "sleep 600"], check=False)
    assert not changed(before, served)


def test_a_split_says_which_device_requests_wait_for(served: Rig, tmp_path: Path) -> None:
    with Observation(served, tmp_path, "--split") as seen:
        read(served)
        for path in SERVED:
            write(served, path)
    summary = seen.summary()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    [split] = summary["split"]
    tiers = {(each["op"], each["tier"]): each for each in split["tiers"]}
    print(tiers)
    # The kernel skips a probe in an interrupt that comes during another probe: parts are not known then.
    joined = {key: each["joined"] for key, each in tiers.items()}
    known = sum(each["joined"] * each["ios"] for each in tiers.values())
    assert known >= LEAST_JOINED * sum(each["ios"] for each in tiers.values())
    parts = {key: {part["part"]: part["mean_us"] for part in each["parts"]} for key, each in tiers.items()}
    # What the devices take at least, and no more than what requests take.
    assert parts["write", "slog"]["log_write"] >= LOG_NS / 1e3 * joined["write", "slog"]
    assert parts["write", "pool"]["log_write"] >= DISK_NS / 1e3 * joined["write", "pool"]
    # The ARC has what another test has read, and no device has a part in that.
    assert {*parts["read", "dram"]} - {"unknown"} == {"nfs", "zfs"}
    for key, each in parts.items():
        assert sum(each.values()) == pytest.approx(tiers[key]["mean_us"], rel=0.01)


# Metadata, and the small blocks of one dataset, lie on an SSD that takes 1 ms; those of the other on a disk.
_MAKE_SPECIAL = """\
at=/sys/kernel/config/nullb/hspspecial; mkdir $at; cd $at
echo 1 >memory_backed; echo 128 >size; echo 2 >irqmode; echo 1000000 >completion_nsec; echo 1 >power
at=/sys/kernel/config/nullb/hspslow; mkdir $at; cd $at
echo 1 >memory_backed; echo 128 >size; echo 2 >irqmode; echo 4000000 >completion_nsec; echo 1 >power
cd /
zpool create -f -O recordsize=4k -O compression=off -O atime=off -O primarycache=metadata \
  -m /mixed mixed /dev/hspslow special /dev/hspspecial
zfs create -o special_small_blocks=4k mixed/small; zfs create mixed/large
for name in small large; do dd if=/dev/urandom of=/mixed/$name/data bs=4k count=64 status=none; done
zpool export mixed; zpool import -d /dev mixed
"""
_USE_SPECIAL = """\
dd if=/mixed/small/data of=/dev/null bs=4k status=none; dd if=/mixed/large/data of=/dev/null bs=4k status=none
dd if=/dev/zero of=/mixed/large/forced bs=4k count=16 oflag=dsync status=none
"""
_UNMAKE_SPECIAL = """\
zpool destroy mixed
for name in hspspecial hspslow; do
  echo 0 >/sys/kernel/config/nullb/$name/power; rmdir /sys/kernel/config/nullb/$name
done
"""


def test_what_a_special_vdev_answers_is_not_called_disk(served: Rig, tmp_path: Path) -> None:
    served.host.run(["sh", "-ec", _MAKE_SPECIAL], deadline_s=300)
    try:
        with Observation(served, tmp_path, "--local", "--dataset", "mixed") as seen:
            served.host.run(["sh", "-ec", _USE_SPECIAL], deadline_s=300)
    finally:
        served.host.run(["sh", "-c", _UNMAKE_SPECIAL], deadline_s=300, check=False)
    summary, rows = seen.summary(), seen.rows()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    print(rows)
    small, large = rows["mixed/small", "read"], rows["mixed/large", "read"]
    assert small == {"special": 64}
    # The first had its metadata from the special vdev, too, but waited for the disk.
    assert large == {"disk": 64}
    # OpenZFS 2.3 has the log of a pool without a log device on its disks; from 2.4 on, on the special vdev.
    version = served.host.run(["cat", "/sys/module/zfs/version"]).stdout
    release = tuple(int(part) for part in version.partition("-")[0].split(".")[:2])
    assert rows["mixed/large", "write"] == {"special" if release >= (2, 4) else "pool": 16}
    latency = pl.read_parquet(seen.run / "latency.parquet").filter(pl.col("op") == "read")
    # By the upper ends of bins.
    fastest = dict(latency.group_by("tier").agg(pl.col("hi_ns").min()).iter_rows())
    assert LOG_NS < fastest["special"] < DISK_NS < fastest["disk"]


# Each has its own log blocks, reads and fsyncs.
_DATASETS, _OF_EACH = 200, 32
_MANY = f"""\
for n in $(seq {_DATASETS}); do zfs create "tank/many$n"; done; zpool sync tank
"""
_USE_MANY = f"""\
for n in $(seq {_DATASETS}); do
  at="/tank/many$n/file"
  dd if=/dev/urandom of="$at" bs=4k count={_OF_EACH} oflag=dsync status=none
  dd if="$at" of=/dev/null bs=4k count={_OF_EACH} status=none
done
"""
_UNMAKE_MANY = f'for n in $(seq {_DATASETS}); do zfs destroy "tank/many$n"; done'


@pytest.mark.long
def test_two_hundred_datasets_have_room_in_the_maps(served: Rig, tmp_path: Path) -> None:
    served.host.run(["sh", "-ec", _MANY], deadline_s=900)
    try:
        with Observation(served, tmp_path, "--local") as seen:
            served.host.run(["sh", "-ec", _USE_MANY], deadline_s=900)
    finally:
        served.host.run(["sh", "-c", _UNMAKE_MANY], deadline_s=900)
    summary, rows = seen.summary(), seen.rows()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    names = [f"tank/many{n}" for n in range(1, _DATASETS + 1)]
    assert {name: rows[name, "write"] for name in names} == {name: {"slog": _OF_EACH} for name in names}
    assert {name: rows[name, "read"] for name in names} == {name: {"dram": _OF_EACH} for name in names}
    printed = map(json.loads, (seen.run / "raw" / "trace-observed.json").read_text().splitlines())
    maps = (each["data"] for each in printed if each["type"] in ("map", "stats"))
    keys = [len(content) for each in maps for content in each.values() if isinstance(content, dict)]
    print("keys of the fullest map:", max(keys))
    assert max(keys) < MAP_KEYS


def test_a_log_device_that_is_removed_meanwhile_makes_it_unknown(served: Rig, tmp_path: Path) -> None:
    with Observation(served, tmp_path) as seen:
        write(served, "/tank/home", 20)
        served.host.run(["zpool", "remove", "tank", "/dev/hsplog"])
        write(served, "/tank/home", 20)
    served.host.run(["zpool", "add", "-f", "tank", "log", "/dev/hsplog"])
    summary = seen.summary()
    assert (seen.code, summary["verdict"]) == (EXIT_UNKNOWN, "unknown")
    assert any("log devices of tank changed meanwhile" in text for text in summary["reasons"])


def killed_when(served: Rig, folder: Path, due: Callable[[], bool], moment: str) -> None:
    """An observation that is killed when it is `due`; nothing may be left of it."""
    bed = Bed(served, folder, {"data": ("vd0",)})
    before = state_of(served.host)
    process = start(["observe", "--testbed", os.fspath(bed.path), "--for", "1h", *bed.results])
    wait_for(lambda: due() or process.poll() is not None, 300, moment)
    assert process.poll() is None
    process.kill()
    process.wait()
    wait_for(lambda: not changed(before, served), 120, "the guard")


@pytest.mark.parametrize("moment", ["make work directory", "start the tracer", "observe"])
def test_nothing_is_left_on_the_server_after_a_kill(served: Rig, tmp_path: Path, moment: str) -> None:
    killed_when(served, tmp_path, lambda: has_begun(tmp_path, moment), moment)


@pytest.mark.long
@pytest.mark.parametrize("commands", range(3, 33, 3))
def test_nothing_is_left_after_a_kill_at_ten_moments(served: Rig, tmp_path: Path, commands: int) -> None:
    def due() -> bool:
        return any(
            each.read_bytes().count(b"\n") >= commands
            for each in tmp_path.glob("observe/2*/raw/commands.jsonl")
        )

    killed_when(served, tmp_path, due, f"{commands} commands")


def test_a_trace_taken_by_hand_is_imported(served: Rig, tmp_path: Path) -> None:
    """By the lines that `hsp observe --program` prints, in a shell of the server."""
    host = served.host
    done = hsp(["observe", "--program", host.run(["cat", "/sys/module/zfs/version"]).stdout.strip()], 60)
    lines = [line.removeprefix(" *   ") for line in done.stdout.splitlines() if line.startswith(" *   ")]
    host.run(["mkdir", "/tmp/by-hand"])
    host.put(done.stdout.encode(), "/tmp/by-hand/nfsd.bt")
    load = WRITE.format(n=WRITES, path="/tank/home")
    script = "\n".join(lines[:3]).replace("sleep 600", load)
    host.run(["bash", "-c", f"set -m; cd /tmp/by-hand; {script}"], deadline_s=300)
    ids = host.run(["sh", "-c", lines[3].replace("POOL", "tank").partition("#")[0]]).stdout.split()
    log = ids[ids.index("is_log:") - 1]
    (tmp_path / "trace.json").write_bytes(host.get("/tmp/by-hand/trace.json"))
    host.run(["rm", "-r", "/tmp/by-hand"])
    made = hsp(
        ["import", os.fspath(tmp_path / "trace.json"), "--log-vdev", log, "--results", os.fspath(tmp_path)],
        120,
    )
    assert made.returncode == 0, made.stderr
    summary = json.loads((tmp_path / "import" / "latest" / "summary.json").read_text())
    assert {(row["op"], row["tier"]): row["count"] for row in summary["rows"]} == {("write", "slog"): WRITES}
