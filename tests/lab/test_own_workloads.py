"""Workloads of a user's own, based on the main job: valid at the first try, with the planned tiers.

The model of the ARC's memory is held against arcstats of the same runs. Of records of 16 and of 128 KiB the
runs are made in tests marked `long`; their stored figures are checked in each change.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.lab.image.image import Image
from kit.sizes.auto_sizes import resolve
from kit.sizes.tier_sizes import tiers
from kit.sizes.workload_sizes import planned_tiers, sizes_of
from tests.lab.arc_model import WITHOUT_SPECIAL, check_arc, check_shares
from tests.lab.conftest import Finished, finish, hsp

PROTECTS = ("kit/sizes", "kit/zfs", "kit/trace", "kit/load", "kit/instruments", "kit/plan", "kit/rules")
pytestmark = pytest.mark.lab

OWN = Path(__file__).parent / "own_workloads"
# Other sizes of records are held to stored runs in tests/kit/sizes/test_workload_sizes.py.
READS = ("threads", *(pytest.param(name, marks=pytest.mark.long) for name in ("read-16k", "read-128k")))


def run(name: str, folder: Path, *options: str) -> Finished:
    words = "run", os.fspath(OWN / f"{name}.toml"), "--json", *options
    return finish(hsp(*words, results=folder), folder, name)


@pytest.fixture(scope="module")
def reads(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """The finished run of a workload."""

    @functools.cache
    def of(name: str) -> Finished:
        # What the ARC keeps differs from seed to seed as well: its parts by up to a tenth.
        return run(name, tmp_path_factory.mktemp(name), "--seed", "1")

    return of


@pytest.fixture(scope="module")
def threads(reads: Callable[[str], Finished]) -> Finished:
    return reads("threads")


@pytest.fixture(scope="module")
def raid10(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    testbed = os.fspath(OWN / "raid10-testbed.toml")
    return run("raid10", tmp_path_factory.mktemp("raid10"), "--testbed", testbed)


def check_valid(done: Finished) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows at the NFS server by phase and tier."""
    assert done.summary["verdict"] == "valid" and done.code == 0, (done.summary["reasons"], done.stderr)
    rows = [row for row in done.summary["rows"] if row["layer"] == "nfs-server"]
    return {(row["phase"], row["tier"]): row for row in rows}


@pytest.mark.parametrize("name", READS)
def test_random_reads_of_any_record_size(reads: Callable[[str], Finished], name: str) -> None:
    done = reads(name)
    rows = check_valid(done)
    testbed = read_testbed(LAB_TESTBED).without_idle
    workload = resolve(read_workload(OWN / f"{name}.toml"), testbed)
    sizes = sizes_of(workload, testbed)
    assert sizes and planned_tiers(workload, testbed) == tiers(sizes)
    check_shares({tier: rows[workload.phase[0].name, tier]["share"] for tier in WITHOUT_SPECIAL}, sizes)
    check_arc(done.manifest["warmup"]["arc"], sizes)


@pytest.mark.parametrize("name", ["threads", pytest.param("read-128k", marks=pytest.mark.long)])
def test_streaming_reads(reads: Callable[[str], Finished], name: str) -> None:
    rows = check_valid(reads(name))
    # What the prefetcher asks for is not read from the L2ARC (l2arc_noprefetch): it may answer nothing.
    assert rows["stream", "dram"]["count"] and rows["stream", "disk"]["count"]
    assert rows["stream", "disk"]["p50_us"] < rows["read", "disk"]["p50_us"] / 2


def test_synchronous_writes_need_no_warm_up(raid10: Finished) -> None:
    rows = check_valid(raid10)
    assert rows["write-slog", "slog"]["p50_us"] < rows["write-pool", "pool"]["p50_us"] / 10
    assert raid10.manifest.get("warmup") is None


def test_log_blocks_of_several_threads_close(raid10: Finished) -> None:
    check_log_blocks(raid10)
    assert raid10.summary["observer_effect"] == []


def check_log_blocks(done: Finished) -> None:
    """Threads share log blocks: the blocks that the tracer counted are those of the ZIL."""
    rows = check_valid(done)
    # Some threads find their write in the log block of another.
    assert rows["write-slog-4", "slog"]["count"] > 500 and rows["write-slog-4", "shared"]["count"] > 50
    [blocks] = [check for source, check in checks_of(done, "write-slog-4").items() if "slog_count" in source]
    assert blocks["expected"] == pytest.approx(blocks["found"], abs=4), blocks


def checks_of(done: Finished, phase: str) -> dict[str, dict[str, Any]]:
    """The checks of a phase by their source."""
    [mine] = [each for each in done.summary["accounting"]["phases"] if each["phase"] == phase]
    assert mine["client_ios"] == mine["server_ios"] > 0
    return {check["source"]: check for check in mine["checks"]}


@pytest.mark.parametrize("phase", ["randrw", "beside"])
def test_reads_and_writes_of_one_phase_close_each(threads: Finished, phase: str) -> None:
    check_valid(threads)
    at = {
        (row["layer"], row["op"], row["tier"]): row["count"]
        for row in threads.summary["rows"]
        if row["phase"] == phase
    }
    checks, traced = (
        checks_of(threads, phase),
        {key[1:]: n for key, n in at.items() if key[0] == "nfs-server"},
    )
    by_op = {op: sum(n for (each, _), n in traced.items() if each == op) for op in ("read", "write")}
    assert by_op == {op: at["client", op, "all"] for op in by_op}
    # One thread: each write is one commit and one block on the log device.
    assert checks["ZIL zil_itx_metaslab_slog_count"]["found"] == by_op["write"] == traced["write", "slog"]
    assert checks["ZIL zil_commit_count"]["found"] == pytest.approx(by_op["write"], abs=4)
    from_devices = traced["read", "l2arc"] + traced["read", "disk"] + traced.get(("read", "indirect"), 0)
    assert checks["arcstats demand_data_misses"]["found"] == pytest.approx(from_devices, rel=0.02, abs=4)
    assert by_op["read"] > 100 and by_op["write"] > 50
    [stored] = [each for each in threads.manifest["phases"] if each["name"] == phase]
    assert (stored["op"], stored["block_bytes_by_op"]) == ("mixed", {"read": 4096, "write": 4096})


def test_the_impact_of_the_writes_on_the_reads_is_a_ratio_by_tier(threads: Finished) -> None:
    rows = {(row["tier"], row["figure"]): row for row in threads.summary["impact"]}
    assert {tier for tier, _ in rows} <= {"dram", "l2arc", "disk"} and rows
    assert all(row["ok"] is None for row in rows.values())


def test_the_warm_up_of_a_mixed_phase_is_that_of_its_reads(threads: Finished) -> None:
    assert threads.manifest["warmup"]["l2arc_bytes"] > 0 and not threads.manifest["warmup"]["problems"]


def test_asynchronous_writes_hardly_use_the_log_device(image: Image, tmp_path: Path) -> None:
    done = run("async-write", tmp_path)
    rows = check_valid(done)
    writes = rows["async-write", "dram"]
    assert writes["op"] == "write" and writes["share"] > 0.999 and writes["count"] > 3000
    # As fast as a read from DRAM: nothing waits for a device.
    assert writes["p50_us"] < 15
    assert ("async-write", "slog") not in rows or rows["async-write", "slog"]["op"] == "commit"
    checks = checks_of(done, "async-write")
    [logged] = [check for source, check in checks.items() if "slog_bytes" in source]
    written = checks["/proc/net/rpc/nfsd io"]["found"]
    assert written == writes["count"] * 512 and logged["found"] < 0.01 * written
    assert checks["ZIL zil_commit_count"]["found"] < 10
    assert done.manifest.get("warmup") is None


def test_groups_of_mirrors_with_a_mirrored_log(raid10: Finished) -> None:
    """The log's mirror is removed by its name: its devices alone cannot be (zpool-remove(8))."""
    done = raid10
    rows = check_valid(done)
    assert rows["write-slog", "slog"]["share"] > 0.99 and rows["write-pool", "pool"]["share"] > 0.99
    lines = [json.loads(line) for line in (done.run / "raw" / "commands.jsonl").read_text().splitlines()]
    ran = [line["argv"] for line in lines if "argv" in line]
    [created] = [argv for argv in ran if argv[:2] == ["zpool", "create"]]
    words = [word for word in created[created.index("mirror") :] if not word.startswith("/")]
    assert words == ["mirror", "mirror", "log", "mirror"]
    assert [argv[-1] for argv in ran if argv[:2] == ["zpool", "remove"]] == ["mirror-2"]
    use = {phase["phase"]: phase for phase in done.summary["use"]}
    with_log, without = use["write-slog"]["bytes"], use["write-pool"]["bytes"]
    logs = [device for device in use["write-slog"]["devices"] if device["role"] == "log"]
    # Each device of the mirror gets each block of the ZIL: of 4 KiB, for a write of 512 bytes.
    [first, second] = [device["model_written_bytes"] for device in logs]
    assert first == second == pytest.approx(with_log["log_blocks"], rel=0.01)
    assert with_log["log_models"] == with_log["log_devices"] == 2 * first
    assert with_log["log_blocks"] >= 8 * with_log["clients"] > 0
    assert without["log_devices"] == without["log_models"] == 0
    [blocks] = [
        check for source, check in checks_of(done, "write-slog").items() if source.endswith("slog_count")
    ]
    assert blocks["found"] == pytest.approx(rows["write-slog", "slog"]["count"], abs=4), "not once a device"
    done.check_undone()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_observer_effect_stands_in_the_report(image: Image, tmp_path: Path) -> None:
    done = run("writes", tmp_path, "--observer-effect")
    check_log_blocks(done)
    effect = done.summary["observer_effect"]
    assert [row["threads"] for row in effect] == [1, 4, 16, 64], done.summary["notes"]
    for row in effect:
        p50 = row["p50"]
        assert row["pairs"] == 6 and p50["low"] < p50["ratio"] < p50["high"]
        assert 1 < p50["ratio"] < 1.1, row
    assert len(done.manifest["observer_effect"]["stretches"]) == 48
    assert '"step": "observer effect", "state": "done"' in (done.run / "journal.jsonl").read_text()
    assert "Observer effect" in (done.run / "report.html").read_text()
