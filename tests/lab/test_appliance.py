"""A server that the kit does not log into, on one shared guest: the export is the test's, not the kit's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.config.tables.phase_table import Phase
from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError
from kit.core.progress import Progress
from kit.hosts import ssh
from kit.hosts.base import Host
from kit.load import launch
from kit.nfs import export_directory
from kit.plan.plan import Plan, make_plan
from kit.recovery import undo, work_directory
from kit.recovery.journal import Journal, read_journal
from kit.run import execute as execution
from kit.run import phase as phases
from kit.run import watch
from kit.run.execute import execute
from kit.run.resume import read_earlier
from kit.setup.bench import Bench
from kit.setup.site import Site, SiteClient
from kit.store import json_file, run_directory
from tests.lab.conftest import RunningLab
from tests.lab.pools import dataset, exported
from tests.lab.workloads import JOB

PROTECTS = ("kit/nfs", "kit/hosts", "kit/rules", "kit/setup/appliance_setup.py")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

WORKLOAD = """\
format = 1
name = "nas"
title = "nas"
reference = "sun-7410-2009"
[dataset]
properties = { recordsize = 512 }
[tunables]
zfs_arc_max = "64MiB"
[nfs]
%s
[working_set]
file = "working-set"
size = "1MiB"
[warmup]
job = "read.fio"
read_first = "512KiB"
duration = "20ms"
l2arc_min = "1MiB"
feed_max = "1MiB"
[[expect]]
phase = "read"
op = "read"
tier = "all"
layer = "client"
min_count = 50
p50_us_max = %s
"""
PHASE = """
[[phase]]
name = "%s"
title = "%s"
job = "%s.fio"
tiers = ["%s"]
duration = "%s"
interval = "20ms"
"""


@pytest.fixture(scope="module")
def site(running_lab: RunningLab) -> Iterator[tuple[Site, str, Host]]:
    guest = running_lab.guest
    with dataset(guest, "nas", size="256MiB", latency="50us") as (_, path):
        # As an appliance gives it to the user that clients' root is squashed to.
        guest.run(["chown", "65534:65534", path])
        with exported(guest, path, 21) as client:
            plain = SiteClient(client.host, "", "")
            source = f"{client.server_address}:{path}"
            yield Site((plain,), Clock("virtual", 4), emulated=True), source, guest
            assert guest.run(["ls", "-A", path]).stdout == ""


def plan(
    directory: Path,
    export: str,
    *phases: tuple[str, str, str, str, str],
    nfs_table: str = "",
    p50_us_max: float = 1e9,
) -> Plan:
    whole = JOB + "size=${HSP_SIZE}\n"
    directory.joinpath("read.fio").write_text(whole + "rw=randread\n")
    directory.joinpath("cached.fio").write_text(whole.replace("direct=1", "direct=0") + "rw=randread\n")
    directory.joinpath("write.fio").write_text(whole + "rw=write\nsync=dsync\n")
    workload, testbed = directory / "nas.toml", directory / "testbed.toml"
    workload.write_text(WORKLOAD % (nfs_table, p50_us_max) + "".join(PHASE % phase for phase in phases))
    workload.write_text(
        workload.read_text() + 'remove = "log"\n' if phases[-1][3] == "pool" else workload.read_text()
    )
    testbed.write_text(
        f'name = "nas"\n[server]\nhost = "none"\nexport = "{export}"\n[[client]]\nhost = "local"\n'
    )
    return make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)


@pytest.mark.basic
def test_its_clients_tell_what_they_can_and_nothing_is_left(
    site: tuple[Site, str, Host], tmp_path: Path
) -> None:
    where, export, _ = site
    asked = plan(
        tmp_path,
        export,
        ("read", "read", "read", "dram", "100ms"),
        ("write", "write", "write", "slog", "100ms"),
        ("cached", "cached", "cached", "dram", "40ms"),
        ("pool", "pool", "write", "pool", "100ms"),
        nfs_table='version = 4.2\noptions = ["hard", "proto=tcp"]',
    )
    run_dir = run_directory.create_run(tmp_path, "nas")
    outcome = execute(asked, where, run_dir, Progress(quiet=True), ["hsp"])
    assert outcome.left == [] and outcome.record.manifest.problems == ()
    phases = {entry.name: entry.as_json() for entry in outcome.record.manifest.phases}
    assert list(phases) == ["read", "write", "cached"]
    for name in ("read", "write"):
        assert phases[name]["client_ios"] > 50, phases[name]
        # Three of the mount, one of the wall clock.
        assert len(phases[name]["checks"]) == 4 and all(c["ok"] for c in phases[name]["checks"]), phases[name]
    broken = [check["name"] for check in phases["cached"]["checks"] if not check["ok"]]
    assert "NFS READ calls answered" in broken
    summary = reports.analyse(run_dir).summary.as_json()
    assert summary["verdict"] == "unknown"
    assert [wish["ok"] for wish in summary["expect"]] == [True]
    assert "could not be looked into" in summary["reasons"][0]
    assert all(reason.startswith("cached: ") for reason in summary["reasons"][1:])
    assert {row["layer"] for row in summary["rows"]} == {"client"}
    # They were measured over NFSv3.
    assert [entry["published"] for entry in summary["bands"]] == [None] * 3
    html = run_dir.report.read_text()
    assert "What could not be seen" in html and "zfs_arc_max=64MiB" in html
    assert "pool: it removes the log device from the pool" in html
    assert read_journal(run_dir.journal).finished
    for host in where.hosts.values():
        assert work_directory.left_by(host) == []
        assert f"hsp-{run_dir.path.name}" not in host.run(["ls", "/mnt"]).stdout


def test_a_link_in_the_place_of_the_working_set_ends_the_run_which_goes_on_and_expects_of_its_clients(
    site: tuple[Site, str, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, export, guest = site
    read, write = (("read", "read", "read", "dram", "100ms"), ("write", "write", "write", "slog", "100ms"))
    asked = plan(tmp_path, export, read, write, p50_us_max=0.001)
    assert all(Path(source).is_file() for source in asked.sources)
    run_dir = run_directory.create_run(tmp_path, "nas")
    json_file.write_json(run_dir.path / "plan.json", asked.as_json())
    guest.put(b"precious", "/run/victim")
    measure, modes = phases.run_phase, []

    def replaced_before_the_second(bench: Bench, phase: Phase, *more: Any) -> phases.PhaseResult:
        if phase.name == "write":
            directory = f"{export.partition(':')[2]}/hsp-{run_dir.path.name}"
            modes.append(guest.run(["stat", "--format=%a %u", directory, f"{directory}/working-set"]).stdout)
            guest.run(["ln", "-s", "-f", "/run/victim", f"{directory}/working-set"])
        return measure(bench, phase, *more)

    with monkeypatch.context() as replacing:
        replacing.setattr(execution, "run_phase", replaced_before_the_second)
        outcome = execute(asked, where, run_dir, Progress(quiet=True), ["hsp"])
    assert isinstance(outcome.failure, HostError)
    assert "is a symbolic link, not what the run made: fio was not started" in outcome.failure.message
    assert modes == ["1777 65534\n666 65534\n"]
    assert guest.get("/run/victim") == b"precious"
    guest.run(["rm", "/run/victim"])
    assert outcome.left == [] and read_journal(run_dir.journal).finished
    assert [entry.name for entry in outcome.record.manifest.phases] == ["read"]

    earlier = read_earlier(run_dir, asked)
    again = execute(asked, where, run_dir, Progress(quiet=True), ["hsp"], earlier)
    first, second = again.record.manifest.phases
    assert (first, second.name) == (outcome.record.manifest.phases[0], "write")
    assert first.end_ns < second.start_ns and len(again.record.manifest.resumed) == 1
    summary = reports.analyse(run_dir).summary.as_json()
    assert summary["verdict"] == "invalid" and "p50 of" in summary["reasons"][-1]
    with pytest.raises(ConfigError, match="complete"):
        read_earlier(run_dir, asked)


def test_reads_without_a_mount(site: tuple[Site, str, Host], tmp_path: Path) -> None:
    where, export, _ = site
    asked = plan(tmp_path, export, ("read", "read", "read", "dram", "100ms"), nfs_table='engine = "libnfs"')
    run_dir = run_directory.create_run(tmp_path, "nas")
    outcome = execute(asked, where, run_dir, Progress(quiet=True), ["hsp"])
    assert outcome.left == [] and outcome.record.manifest.problems == ()
    [phase] = outcome.record.manifest.phases
    assert phase.client_ios > 50 and phase.problems == ()
    assert [check.name.split(" of ")[0] for check in phase.checks] == ["wall clock step"]
    assert "is not known either" in reports.analyse(run_dir).summary.reasons[0]


def test_a_server_that_goes_away_hangs_nobody_and_is_cleaned_up_when_it_is_back(
    site: tuple[Site, str, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, export, guest = site
    monkeypatch.setattr(watch, "limit_s", lambda *_: 15.0)
    monkeypatch.setattr(launch, "_STOP_DEADLINE_S", 5.0)
    monkeypatch.setattr(export_directory, "_DEADLINE_S", 8.0)
    # What hangs in the kernel does not end when it is killed.
    monkeypatch.setattr(ssh, "_KILL_GRACE_S", 2.0)
    asked = plan(tmp_path, export, ("read", "read", "read", "dram", "600s"))
    run_dir = run_directory.create_run(tmp_path, "nas")

    def go_away() -> None:
        while '"phase read"' not in (run_dir.journal.read_text() if run_dir.journal.exists() else ""):
            time.sleep(0.2)
        # Once fio runs the mount has been looked at; it hangs wherever it is then.
        down = "until pgrep -x fio >/dev/null; do sleep 0.1; done; ip link set srv21 down"
        guest.run(["sh", "-c", down], deadline_s=300)

    away = threading.Thread(target=go_away)
    away.start()
    started = time.monotonic()
    try:
        outcome = execute(asked, where, run_dir, Progress(quiet=True), ["hsp"])
    finally:
        away.join()
        guest.run(["ip", "link", "set", "srv21", "up"])
    # The short deadlines were for the time without a server.
    monkeypatch.undo()
    print(f"with the server gone: {time.monotonic() - started:.1f} s")
    [phase] = outcome.record.manifest.phases
    assert any("did not end within" in str(problem) for problem in phase.problems), phase.problems
    of_run = outcome.record.manifest.problems
    assert any(problem.code == "not-undone" and "remove hsp-" in problem.text for problem in of_run)
    assert reports.analyse(run_dir).summary.verdict == "unknown"
    # What `hsp clean` does, in another process, twice.
    for _ in range(2):
        with Journal(run_dir.journal) as journal:
            assert journal.teardown(lambda item, kinds: undo.undo(item, where.hosts, kinds)) == []
    assert read_journal(run_dir.journal).finished
