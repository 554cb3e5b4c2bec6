"""Four clients over SSH, each with its own network and mounts: one load, sums that close, one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from kit.hosts.base import HostLost
from kit.hosts.ssh import SshHost
from kit.lab.guest import open_host
from kit.lab.image.image import Image
from tests.lab.conftest import Finished, finish
from tests.lab.test_faults import start_run, wait_for
from tests.lab.workloads import write_small, write_testbed

PROTECTS = ("kit/load", "kit/nfs", "kit/hosts", "kit/instruments")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

HELPER = Path(__file__).with_name("breaking_helper.py")
CLIENTS = [f"lab/client{number}" for number in range(4)]
KILLED = 2


class Broken:
    """A run of two phases; in the second one the fio of a client was killed. `listeners`: of each network."""

    def __init__(self, run: Finished, listeners: dict[str, str]) -> None:
        self.run, self.listeners = run, listeners
        self.latency = pl.read_parquet(run.run / "latency.parquet")
        self.phases = {phase["name"]: phase for phase in run.manifest["phases"]}

    def counts(self, phase: str, layer: str) -> dict[str, int]:
        """I/Os of each host."""
        mine = self.latency.filter((pl.col("phase") == phase) & (pl.col("layer") == layer))
        return dict(mine.group_by("host").agg(pl.col("count").sum()).iter_rows())


def second_connection(state: Path) -> SshHost:
    """Beside the run's own; a guest that is at work may not get to a key exchange at once."""
    for _ in range(4):
        try:
            return open_host(state, 1)
        except HostLost:
            continue
    return open_host(state, 1)


@pytest.fixture(scope="module")
def broken(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    directory = tmp_path_factory.mktemp("clients")
    workload = write_small(directory, ("good", "write", "200ms"), ("bad", "write", "1s"))
    testbed = write_testbed(directory, len(CLIENTS))
    process, state = start_run(str(workload), "--testbed", str(testbed), results=directory)
    journal = directory / "small" / "latest" / "journal.jsonl"
    wait_for(lambda: journal.exists() and '"mount"' in journal.read_text(), 900, "the clients")
    with second_connection(state()) as guest:
        guest.put(HELPER.read_bytes(), "/tmp/breaking.py")
        # Begun a phase early: it waits for its own, and a busy machine may be slow to start it.
        wait_for(lambda: '"phase good"' in journal.read_text(), 1200, "the first phase")
        said = guest.run(["python3", "-I", "/tmp/breaking.py", str(KILLED), "bad"], deadline_s=1200).stdout
    yield Broken(finish(process, directory, "small"), json.loads(said))


def test_total_and_merged_histogram_are_the_sums_over_the_clients(broken: Broken) -> None:
    merged, *each = [row for row in broken.run.summary["clients"] if row["phase"] == "good"]
    assert [row["host"] for row in each] == CLIENTS
    assert merged["merged"] and merged["count"] == sum(row["count"] for row in each) > 300
    assert all(row["count"] > 60 for row in each)
    assert merged["iops"] == pytest.approx(sum(row["iops"] for row in each), rel=1e-9)
    # Bin by bin, and against what each client's fio itself counted.
    mine = broken.latency.filter((pl.col("phase") == "good") & (pl.col("layer") == "client"))
    (row,) = [row for row in broken.run.summary["rows"] if (row["phase"], row["layer"]) == ("good", "client")]
    assert row["count"] == int(mine["count"].sum()) == merged["count"]
    assert row["p50_us"] == merged["p50_us"]
    for host in CLIENTS:
        log = broken.run.run / "raw" / f"good-{host.replace('/', '-')}-fio_lat.log"
        assert len(log.read_text().splitlines()) == broken.counts("good", "client")[host]


def test_the_accounting_closes_across_all_clients(broken: Broken) -> None:
    phase = broken.phases["good"]
    assert phase["problems"] == []
    total = sum(broken.counts("good", "client").values())
    assert phase["client_ios"] == phase["server_ios"] == total
    assert sum(broken.counts("good", "nfs-server").values()) == total
    (calls,) = [check for check in phase["checks"] if check["name"] == "NFS WRITE calls"]
    assert calls["expected"] == calls["found"] == total
    assert all(check["ok"] for check in phase["checks"]), phase["checks"]


def test_they_start_together_and_it_is_said_how_well(broken: Broken) -> None:
    rows = broken.phases["good"]["clients"]
    assert [row["host"] for row in rows] == CLIENTS
    assert min(row["skew_ns"] for row in rows) == 0
    # A tenth of the phase would have made it unknown; one kernel has one clock.
    assert max(row["skew_ns"] for row in rows) < 50_000_000
    assert {(row["clock_offset_ns"], row["clock_error_ns"]) for row in rows} == {(0, 0)}
    report = (broken.run.run / "report.html").read_text()
    assert "all together" in report and "The last client began" in report


def test_no_fio_listens_on_a_network(broken: Broken) -> None:
    assert sorted(broken.listeners) == ["client0", "client1", "client2", "client3"]
    for text in broken.listeners.values():
        lines = text.splitlines()
        assert len(lines) == 1 and ":22 " in lines[0] and "sshd" in lines[0]


def test_a_client_whose_fio_dies_is_named_and_the_others_are_kept(broken: Broken) -> None:
    assert broken.run.code == 3, broken.run.stderr
    assert broken.run.summary["verdict"] == "unknown"
    named = [reason for reason in broken.run.summary["reasons"] if "fio failed on" in reason]
    assert len(named) == 1 and f"fio failed on {CLIENTS[KILLED]}: " in named[0]
    others = [host for host in CLIENTS if host != CLIENTS[KILLED]]
    counts = broken.counts("bad", "client")
    assert sorted(counts) == others and all(counts.values())
    assert "not undone" not in " ".join(broken.run.summary["reasons"])
