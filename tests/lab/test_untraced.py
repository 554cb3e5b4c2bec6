"""A server that cannot be traced, for real: no bpftrace, a function that is not there, none asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.progress import Progress
from kit.hosts.base import CommandResult, Process
from kit.hosts.ssh import SshHost
from kit.instruments import read_history
from kit.lab.clients import make_client
from kit.lab.site import make_devices
from kit.nfs import export as nfs_export
from kit.nfs import mount as nfs_mount
from kit.plan.plan import Plan, make_plan
from kit.run.execute import execute
from kit.setup.site import Site
from kit.store import run_directory
from kit.zfs import datasets, pool
from kit.zfs.tunables import READ_HISTORY, read_tunables, write_tunable
from tests.lab.conftest import RunningLab
from tests.lab.pools import create_dataset, create_pool, mount
from tests.lab.workloads import write_small, write_testbed
from tests.reports import drawn

PROTECTS = ("kit/trace", "kit/doctor")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

TESTBED: dict[str, Any] = {"prefix": "u", "data": "300us", "log": "100us"}
EXPECT = """\
[[expect]]
phase = "write"
op = "write"
tier = "slog"
min_count = 10
"""


class Without:
    """A server without bpftrace, or whose kernel has no function of that name; else the guest itself."""

    def __init__(self, guest: SshHost, *, bpftrace: bool = True, function: str = "") -> None:
        self._guest, self._bpftrace, self._function = guest, bpftrace, function
        self.name = guest.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def run(self, argv: Sequence[str], **more: Any) -> CommandResult:
        if not self._bpftrace and "bpftrace" in argv:
            return CommandResult(self.name, tuple(argv), 127, "", "bpftrace: not found")
        found = self._guest.run(argv, **more)
        if self._function and "/proc/kallsyms" in argv:
            kept = [line for line in found.stdout.splitlines() if self._function not in line.split()]
            return replace(found, stdout="\n".join(kept) + "\n")
        return found

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        assert "bpftrace" not in argv, "nothing is traced here"
        return self._guest.start(argv, output, stdin)


@pytest.fixture(scope="module")
def site(running_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    testbed = read_testbed(write_testbed(tmp_path_factory.mktemp("untraced"), **TESTBED))
    guest = running_lab.guest
    made = make_devices(guest, testbed.device, testbed.clock)
    client = make_client(guest, 11)
    yield Site((client,), testbed.clock, True, guest, made.paths)


def planned(directory: Path, *phases: tuple[str, str, str], trace: str = "auto") -> Plan:
    workload = write_small(directory, *phases)
    workload.write_text(workload.read_text() + EXPECT)
    testbed = write_testbed(directory, **TESTBED, trace=trace)
    return make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)


def ran(plan: Plan, site: Site, directory: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Manifest, summary and page."""
    run_dir = run_directory.create_run(directory / "results", plan.workload.name)
    outcome = execute(plan, site, run_dir, Progress(), ["hsp", "run"])
    assert outcome.left == []
    summary = reports.analyse(run_dir).summary.as_json()
    return outcome.record.manifest.as_json(), summary, run_dir.report.read_text()


def test_without_bpftrace_tiers_are_shares_by_counters_and_the_verdict_is_unknown(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path, ("write", "write", "100ms"), ("read", "read", "100ms"))
    before = read_tunables(site.server, list(READ_HISTORY))
    server = Without(site.server, bpftrace=False)  # type: ignore[arg-type]
    manifest, summary, page = ran(plan, replace(site, server=server), tmp_path)
    words = "The server is not traced (lab has no bpftrace): which tier answered each I/O cannot be seen."
    assert words in capsys.readouterr().err
    assert summary["verdict"] == "unknown"
    assert summary["reasons"][0].startswith(words) and len(summary["reasons"]) == 1
    assert page.index("lab has no bpftrace") < page.index("How to read this page")
    assert manifest["tracing"]["kind"] == "none" and manifest["versions"]["bpftrace"] == "none"

    write, read = summary["accounting"]["phases"]
    assert write["client_ios"] == write["server_ios"] > 20
    assert read["client_ios"] == read["server_ios"] > 20
    # With a log device each write goes there; what was just written is in the ARC.
    assert write["shares"]["counts"]["slog"] == pytest.approx(write["client_ios"], abs=10)
    assert write["shares"]["counts"]["pool"] == 0
    assert read["shares"]["unit"] == "requests"
    assert read["shares"]["counts"] == {"dram": read["client_ios"], "l2arc": 0, "disk": 0}
    for phase in (write, read):
        assert all(check["ok"] for check in phase["checks"])
        # And a guest has no counters of heat.
        assert {missing["name"] for missing in phase["unavailable"]} == {
            "I/Os by tier", "latency at the server", "thermal throttling of lab",
        }  # fmt: skip
    assert {row["layer"] for row in summary["rows"]} == {"client"}
    assert [wish["ok"] for wish in summary["expect"]] == [None]
    assert read_tunables(site.server, list(READ_HISTORY)) == before


def test_who_asks_for_no_trace_gets_a_verdict_on_what_can_be_judged(site: Site, tmp_path: Path) -> None:
    plan = planned(tmp_path, ("write", "write", "100ms"), trace="none")
    manifest, summary, page = ran(plan, site, tmp_path)
    assert manifest["tracing"]["asked_for"] is True
    assert summary["verdict"] == "valid", summary["reasons"]
    assert "1 expectations on tiers could not be judged" in summary["reasons"][0]
    assert "which tier answered each I/O cannot be seen" in page
    assert summary["notes"] and manifest["problems"] == []


class SetMeanwhile:
    """A client that begins its load and then has its clock set."""

    def __init__(self, client: Any, guest: SshHost) -> None:
        self._client, self._guest = client, guest
        self.name = client.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        process: Process = self._client.start(argv, output, stdin)
        self._guest.run(["date", "--set", "+5 seconds"])
        return process


def test_a_function_that_is_not_there_and_a_clock_that_is_set_are_in_the_verdict(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The function is named before any load; the step of the clock is on the time axis, too."""
    plan = planned(tmp_path, ("write", "write", "100ms"))
    server = Without(site.server, function="zil_commit")  # type: ignore[arg-type]
    client = replace(site.clients[0], host=SetMeanwhile(site.clients[0].host, site.server))  # type: ignore[arg-type]
    where = replace(site, server=server, clients=(client,))
    manifest, summary, page = ran(plan, where, tmp_path)
    site.server.run(["date", "--set", "-5 seconds"])
    assert manifest["tracing"]["missing"] == ["zil_commit"]
    assert "zil_commit" in capsys.readouterr().err
    assert summary["verdict"] == "unknown"
    untraced, step = summary["reasons"]
    assert "the kernel of lab has no zil_commit to probe" in untraced
    assert "wall clock step of lab, in us (CLOCK_REALTIME - CLOCK_BOOTTIME)" in step
    [phase] = manifest["phases"]
    [event] = [event for event in phase["events"] if event["kind"] == "clock-step"]
    assert (event["time_ns"], event["end_ns"]) == (phase["start_ns"], phase["end_ns"])
    [machine] = phase["machines"]
    assert 4_900_000_000 < machine["clock_step_ns"] <= 5_000_000_000 and machine["slept_ns"] == 0
    figures = json.dumps(drawn.specs(page))
    assert event["text"] in figures and "clock step" in figures


def test_reads_that_the_arc_had_and_had_not(site: Site) -> None:
    """The list of reads itself, with blocks of which it is known where they were."""
    server, client = site.server, site.clients[0]
    spec = pool.PoolSpec(
        "hsp-reads", "run-1", "stripe", (site.device_paths["udata"],), (), (), {"ashift": 9}, "/run/reads"
    )
    built = create_pool(server, spec)
    dataset = "hsp-reads/bench"
    create_dataset(server, built, dataset, {"recordsize": 512})
    path = datasets.mountpoint(server, dataset)
    server.run(["dd", "if=/dev/urandom", f"of={path}/file", "bs=512", "count=200"])
    # After that no block of it is in the ARC.
    pool.export_pool(server, built)
    pool.import_pool(server, built, spec.data)
    server.run(["zfs", "mount", dataset])
    objset = int(pool.properties_of(server, "zfs", dataset, ["objsetid"])["objsetid"])
    wanted = {**READ_HISTORY, "zfs_prefetch_disable": "1"}
    before = read_tunables(server, list(wanted))
    nfs_export.export_command(path, client.address).run(server)
    mount(client.host, f"{client.server_address}:{path}", "/mnt/reads", 3, ("hard", "nolock"))

    def read_all() -> read_history.DemandReads:
        read_history.begin(server, built.name)
        client.host.run(["dd", "if=/mnt/reads/file", "of=/dev/null", "bs=512", "iflag=direct"])
        return read_history.history(server, built.name, objset)

    try:
        for name, value in wanted.items():
            write_tunable(server, name, value)
        cold, warm = read_all(), read_all()
    finally:
        for name, value in reversed(before.items()):
            write_tunable(server, name, value)
        nfs_mount.unmount(client.host, "/mnt/reads")
        nfs_export.unexport(server, path, client.address)
        pool.remove(server, built.name, "run-1", str(built.guid), ())
    assert (cold.hits, cold.misses) == (0, 200)
    # What the dbuf cache has is no read of the ARC.
    assert warm.misses == 0 and warm.hits <= 200
