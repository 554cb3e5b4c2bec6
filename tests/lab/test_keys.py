"""The sample of the blocks that requests are for, against fio's own log and the tracer's counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kit.trace.support import last_key
from tests.lab.conftest import finish, hsp
from tests.lab.observed import MAKE, READS, UNMAKE, WRITES, Observation, read_records, serve, write
from tests.lab.rig import Bed, Rig
from tests.lab.workloads import JOB, OF_MIRROR, UNCACHED, head
from tests.sampling import share_error

PROTECTS = ("kit/trace", "kit/instruments/block_keys.py", "kit/observe")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

RECORD_BYTES, BLOCKS, ONE_IN = 4096, 1024, 4
LARGE_READS, LARGE_RECORDS = 16, 16
_LARGE = (
    f"dd if={{mount}}/read of=/dev/null iflag=direct bs={LARGE_RECORDS * RECORD_BYTES} "
    f"count={LARGE_READS} status=none"
)
_OVER_NFS4 = f"""\
mkdir /mnt/four; mount -t nfs -o vers=4.2,proto=tcp,noac 127.0.0.1:/tank/home /mnt/four
{_LARGE.format(mount="/mnt/four")}
umount /mnt/four; rmdir /mnt/four
"""
PHASES = f"""\
[[phase]]
name = "all"
title = "all blocks"
job = "read.fio"
tiers = ["disk"]
duration = "1s"
interval = "100ms"
keys = 1
[[phase]]
name = "some"
base = "all"
title = "some blocks"
keys = {ONE_IN}
[[phase]]
name = "writes"
title = "writes of some blocks"
job = "write.fio"
tiers = ["slog"]
duration = "500ms"
interval = "100ms"
keys = {ONE_IN}
"""


@pytest.fixture
def served(rig: Rig) -> Iterator[Rig]:
    rig.host.run(["sh", "-c", MAKE], deadline_s=300)
    try:
        for number, path in enumerate(("/tank/home", "/plain"), start=1):
            serve(rig, path, number)
        yield rig
    finally:
        rig.host.run(["sh", "-c", UNMAKE], deadline_s=300, check=False)


def by_first(values: Iterable[Hashable]) -> list[int]:
    """Each value by the number of different ones before its first time: the same for other names of them."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def load(rig: Rig) -> list[int]:
    """Small reads, writes of two datasets, reads of 16 records by NFSv3 and 4.2; the records of the first."""
    records = read_records(rig)
    write(rig, "/tank/home")
    write(rig, "/plain")
    rig.host.run(["sh", "-c", _LARGE.format(mount="/mnt/tank/home")], deadline_s=300)
    rig.host.run(["sh", "-ec", _OVER_NFS4], deadline_s=300)
    return records


def test_all_blocks_are_those_of_fios_log_in_its_order(served: Rig, tmp_path: Path) -> None:
    with Observation(served, tmp_path, "--keys", "1") as seen:
        records = load(served)
    summary = seen.summary()
    assert (seen.code, summary["verdict"]) == (0, "valid"), summary["reasons"]
    rows = pl.read_parquet(seen.run / "keys.parquet")
    print([note for note in summary["notes"] if "probes" in note])
    assert len(records) == READS
    reads = rows.filter(pl.col("op") == "read")
    whole = range(LARGE_READS * LARGE_RECORDS)
    # The same blocks in the same order, under other names.
    assert by_first(reads["key"]) == by_first([*records, *whole, *whole])
    assert set(reads["dataset"]) == {"tank/home"}
    assert set(rows["block_bytes"]) == {RECORD_BYTES} and set(rows["phase"]) == {""}
    # Each request of one block is a row.
    large = reads.slice(READS).gather_every(LARGE_RECORDS)
    single = pl.concat([rows.filter(pl.col("op") == "write"), reads.head(READS), large])
    found = Counter(single.select("dataset", "op", "tier").iter_rows())
    assert found == {
        (name, op, tier): ios for (name, op), tiers in seen.rows().items() for tier, ios in tiers.items()
    }
    assert sum(n for (_, op, _), n in found.items() if op == "write") == 2 * WRITES
    # A block that two datasets have at the same place is two blocks.
    written = rows.filter(pl.col("op") == "write").group_by("dataset").agg("key")
    assert not set.intersection(*(set(each) for each in written["key"]))
    # Names are in no file of the run.
    trace = (seen.run / "raw" / "trace-observed.json").read_text()
    assert "hsp-trace key" in trace and "home" not in trace
    # The same load again: a sample has exactly those rows whose blocks are in it. fio writes other files.
    with Observation(served, tmp_path / "some", "--keys", str(ONE_IN)) as again:
        assert load(served) == records
    some = pl.read_parquet(again.run / "keys.parquet").filter(pl.col("op") == "read")
    expected = reads.filter(pl.col("key") // 2 <= last_key(ONE_IN))
    assert some["key"].equals(expected["key"])
    assert 0 < some.height < reads.height and set(some["one_in"]) == {ONE_IN}


def test_some_blocks_are_with_all_their_requests_and_their_share_is_that_of_chance(
    rig: Rig, tmp_path: Path
) -> None:
    job = JOB + "size=${HSP_SIZE}\n"
    tmp_path.joinpath("bed").mkdir()
    bed = Bed(rig, tmp_path / "bed", {"data": ("vd0",), "log": ("vd1",)})
    bed.folder.joinpath("read.fio").write_text(job + "rw=randread\n")
    bed.folder.joinpath("write.fio").write_text(job + "rw=randwrite\nsync=dsync\n")
    path = bed.folder / "keys.toml"
    size_bytes = BLOCKS * RECORD_BYTES
    tuned = OF_MIRROR.replace('data = "mirror"\n', "")
    path.write_text(head("keys", "4KiB", f"{size_bytes >> 20}MiB", tuned, UNCACHED) + PHASES)
    done = finish(hsp(*bed.run_words(path), results=bed.folder), bed.folder, "keys")
    assert done.code == 0, (done.stdout, done.stderr)
    rows = pl.read_parquet(done.run / "keys.parquet")
    ios = {phase["name"]: phase["server_ios"] for phase in done.manifest["phases"]}
    whole, some = (rows.filter(pl.col("phase") == name) for name in ("all", "some"))
    # With all blocks each request is a row, and each tier has as many as the tracer counted.
    assert whole.height == ios["all"] > 200
    tiers = {
        row["tier"]: row["count"]
        for row in done.summary["rows"]
        if (row["phase"], row["layer"]) == ("all", "nfs-server") and row["count"]
    }
    assert Counter(whole["tier"]) == tiers
    # Which blocks are in the sample does not depend on the phase.
    last = last_key(ONE_IN)
    for name in ("some", "writes"):
        part = rows.filter(pl.col("phase") == name)
        of_all = part.height / ios[name]
        requests = part.group_by("key").len()["len"].to_numpy()
        # As if the blocks that are not in the sample had been asked for as often.
        error = share_error(np.tile(requests, ONE_IN), ONE_IN)
        print(f"{name}: {part.height} of {ios[name]} requests, {of_all:.4f}, standard error {error:.4f}")
        assert abs(of_all - 1 / ONE_IN) < 5 * error and 0 < of_all < 1
        assert set(part["one_in"]) == {ONE_IN} and all(key >> 1 <= last for key in part["key"])
    known = set(whole["key"])
    chosen = {key for key in known if key >> 1 <= last}
    assert abs(len(chosen) / len(known) - 1 / ONE_IN) < 5 * np.sqrt((ONE_IN - 1) / len(known)) / ONE_IN
    assert set(some["key"]) & known <= chosen
    assert set(rows.filter(pl.col("phase") == "writes")["tier"]) == {"slog"}
    assert rows["time_ns"].min() >= 0 and rows["time_ns"].max() <= 3 * 10**9  # type: ignore[operator]
