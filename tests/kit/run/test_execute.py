"""kit.run.execute: how a run ends when a host, or the lab, is lost; what it says about runs before it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from kit.config.address import HostAddress
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, MeasurementUnknown, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.base import Host, HostLost
from kit.plan.plan import Plan, make_plan
from kit.recovery import clean, registry
from kit.recovery.journal import Journal, read_journal
from kit.run import execute as execute_module
from kit.run import teardown
from kit.run.execute import execute
from kit.run.teardown import tear_down
from kit.session.measure import going_on, measure
from kit.session.place import Request
from kit.setup import server_setup
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.setup.record import RunRecord
from kit.setup.site import Site, SiteClient
from kit.store import json_file, run_directory
from kit.store.manifest import Manifest
from kit.store.parts.machine import Warmup
from kit.trace.support import Program, TracingSupport
from kit.zfs import openzfs_version, tunables
from tests.fakes import Answer, Command, ScriptedHost

BOOT = "00000000-0000-0000-0000-000000000001\n0123456789abcdef0123456789abcdef\n"
LEFT = "20260101T000000Z-abcdef"


class Dying(ScriptedHost):
    """A host that is lost when it is asked to run `last`, and from then on."""

    def __init__(self, name: str, last: str = "", left: str = "") -> None:
        super().__init__({"cat /proc/sys/kernel/random/boot_id": BOOT, "find": left}, name=name)
        self._last = last

    def answer(self, command: Command) -> Answer:
        if self._last and command.argv[0] == self._last:
            self.lost = True
            raise HostLost(f"{self.name}: the connection broke during `sh -c until`")
        return super().answer(command)


@pytest.fixture(scope="module")
def plan() -> Plan:
    path = find_workload("top-speeds")
    return make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED)


@pytest.fixture
def run(tmp_path: Path) -> run_directory.RunDir:
    return run_directory.create_run(tmp_path, "top-speeds")


def site_of(plan: Plan, client: ScriptedHost, gone: str | None) -> Site:
    """An appliance's, whose only host is the client."""
    paths = {device.name: f"/dev/{device.name}" for device in plan.testbed.device}
    why = None if gone is None else lambda: gone
    return Site((SiteClient(client, "a", "b"),), Clock("virtual", 4), True, device_paths=paths, gone=why)


@pytest.fixture
def appliance(tmp_path: Path) -> Plan:
    file, path = tmp_path / "nas.toml", find_workload("top-speeds")
    file.write_text('[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c"\n')
    return make_plan(read_workload(path), read_testbed(file), path, file)


@pytest.mark.parametrize("last", ["find", "tee", "uname"])
def test_a_lab_that_died_leaves_nothing_and_says_so_once(
    appliance: Plan, run: run_directory.RunDir, last: str
) -> None:
    """Ten undos of a guest that is gone were "not undone", and the run "unfinished" until `hsp clean`."""
    site = site_of(appliance, Dying("lab", last), "QEMU ended with -9")
    outcome = execute(appliance, site, run, Progress(quiet=True), ["hsp"])
    assert isinstance(outcome.failure, HostError)
    assert outcome.failure.message == "the lab ended during the run: QEMU ended with -9"
    assert "nothing is left to clean up" in outcome.failure.hint
    assert outcome.left == [] and read_journal(run.journal).finished
    assert registry.find(run.path.name) is None
    texts = [str(problem) for problem in outcome.record.manifest.problems]
    assert texts == ["the lab ended during the run: QEMU ended with -9"]


@pytest.fixture
def _never_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_host(address: HostAddress, *_: object) -> Host:
        raise HostLost(f"{address.host}: no answer")

    monkeypatch.setattr(clean, "open_host", open_host)
    monkeypatch.setattr(teardown, "RECONNECT_S", 0.0)


@pytest.mark.usefixtures("_never_back")
def test_a_lost_host_is_no_dead_lab(appliance: Plan, run: run_directory.RunDir) -> None:
    site = site_of(appliance, Dying("c", "tee"), None)
    json_file.write_json(run.path / "plan.json", appliance.as_json())
    outcome = execute(appliance, site, run, Progress(quiet=True), ["hsp"])
    assert isinstance(outcome.failure, HostLost)
    what = f"c still has a directory of this run: when c answers again, run `hsp clean {run.path}`"
    assert [*map(str, outcome.left)] == [outcome.failure.hint] == [what]
    entry = registry.find(run.path.name)
    assert entry and entry.path == str(run.path) and not read_journal(run.journal).finished
    record = read_journal(run.journal)
    assert record.token_sha256 == registry.digest(entry.token) and entry.token not in run.journal.read_text()
    assert record.hosts["client0"].machine_id == BOOT.split()[1]


@pytest.mark.usefixtures("_never_back")
def test_what_a_lost_host_keeps_is_in_the_advice(
    appliance: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was only in the manifest, without a command."""

    @contextmanager
    def place(run_id: str) -> Iterator[Site]:
        assert not (tmp_path / "top-speeds" / "latest").is_symlink(), "nothing has booted yet"
        yield site_of(appliance, Dying("c", "tee"), None)

    measured = measure(appliance, place, Request(tmp_path), Progress(quiet=True))
    assert measured.code == 5
    assert measured.failure and f"run `hsp clean {measured.run_dir.path}`" in measured.failure.hint
    assert "not undone" not in capsys.readouterr().err
    assert (tmp_path / "top-speeds" / "latest").resolve() == measured.run_dir.path.resolve()


@pytest.mark.parametrize("made_of_it", ["8", "9"])
def test_what_openzfs_makes_of_a_value_is_undone(
    plan: Plan, run: run_directory.RunDir, made_of_it: str
) -> None:
    """A value that it changes silently ends the run: the parameter goes back to what it was."""
    path = tunables.parameter_path("zfs_txg_timeout")
    planned = replace(plan, tunables=(tunables.PlannedTunable("zfs_txg_timeout", "9", 9),))
    values = ["5"]

    def tee(command: Command) -> str:
        written = command.stdin.decode().strip()
        values[0] = made_of_it if written == "9" else written
        return ""

    answers: dict[str, Answer] = {
        "cat /proc/sys/kernel/random/boot_id": BOOT, "grep": lambda _: f"{path}:{values[0]}\n", "tee": tee,
    }  # fmt: skip
    server = ScriptedHost(answers)
    site = Site((), Clock(), False, server=server)
    with Journal(run.journal, run.path.name, "digest") as journal:
        context = Context(planned, site, run, journal, Progress(quiet=True), RunRecord(Manifest()), "t")
        refused = contextlib.nullcontext() if made_of_it == "9" else pytest.raises(HostError, match="is 8")
        with refused:
            server_setup.set_tunables(context, server, TracingSupport("full", cast(Program, None)))
        assert values == [made_of_it]
        assert tear_down(context, None) == [] and values == ["5"]


def test_notes_of_the_plan_are_in_the_run_once(
    tmp_path: Path, run: run_directory.RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    file, testbed = tmp_path / "mine.toml", tmp_path / "nas.toml"
    file.write_text('format = 1\nname = "mine"\ntitle = "M"\nbase = "top-speeds"\n[job]\nrandseed = 7\n')
    testbed.write_text('[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c"\n')
    planned = make_plan(read_workload(file), read_testbed(testbed), file, testbed)
    outcome = execute(planned, site_of(planned, Dying("c", "find"), "ended"), run, Progress(), ["hsp"])
    (note,) = (each for each in outcome.record.manifest.notes if "randseed=7" in each)
    assert note in planned.notes and "mine.toml:6: [read] randseed=7: warm-up and read draw" in note
    assert "note: mine.toml:6: [read] randseed=7" in " ".join(capsys.readouterr().err.split())


OLD = """\
format = 1
name = "mine"
title = "Mine"
base = "top-speeds"
[dataset.properties]
direct = "always"
recordsize = "4MiB"
[tunables]
zfs_arc_meta_balance = 500
"""


def test_what_the_servers_openzfs_lacks_is_refused_with_its_lines(
    tmp_path: Path, run: run_directory.RunDir
) -> None:
    """Right after the login: nothing is set, made or erased yet."""
    file = tmp_path / "mine.toml"
    file.write_text(OLD)
    planned = make_plan(read_workload(file), read_testbed(LAB_TESTBED), file, LAB_TESTBED)
    known = [each.name for each in planned.tunables if each.name != "zfs_arc_meta_balance"]
    values = "".join(f"{tunables.parameter_path(name)}:0\n" for name in known)
    server = ScriptedHost({"grep": values})
    site = Site((), Clock(), False, server=server)
    with Journal(run.journal, run.path.name, "digest") as journal:
        context = Context(planned, site, run, journal, Progress(quiet=True), RunRecord(Manifest()), "t")
        with pytest.raises(ConfigError) as caught:
            server_setup._check_workload(context, server, openzfs_version.parse("2.1.11-1+deb12u1"))
    assert caught.value.exit_code == 2
    lines = caught.value.message.replace(f"{tmp_path}/", "").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["mine.toml:6", "mine.toml:7", "mine.toml:9"]
    assert "dataset.properties.direct: OpenZFS 2.1.11-1+deb12u1 of the server does not have" in lines[0]
    assert "dataset.properties.recordsize: 4MiB is above 1MiB" in lines[1]
    assert "tunables.zfs_arc_meta_balance: " in lines[2] and "it is of 2.2 to 2.4" in lines[2]
    assert not any(command.argv[0] == "tee" for command in server.commands)


def test_latest_never_points_to_a_run_that_did_not_boot(appliance: Plan, tmp_path: Path) -> None:
    @contextmanager
    def place(run_id: str) -> Iterator[Site]:
        raise HostError("the lab guest did not come up")
        yield

    with pytest.raises(HostError):
        measure(appliance, place, Request(tmp_path), Progress(quiet=True))
    assert not (tmp_path / "top-speeds" / "latest").is_symlink()


def test_a_run_that_is_locked_already_is_not_measured(appliance: Plan, run: run_directory.RunDir) -> None:
    """`hsp run --resume` of a live run booted a second lab on the same directory."""

    begun = going_on(run, appliance)
    with Journal(run.journal), pytest.raises(SafetyRefusal, match="still goes on"), begun:
        pytest.fail("a second site could be opened")


@pytest.mark.parametrize("state", ["alive", "killed", "of another machine"])
def test_a_second_run_says_whether_the_first_still_lives(
    appliance: Plan, run: run_directory.RunDir, tmp_path: Path, state: str
) -> None:
    first = tmp_path / "first" / LEFT
    first.mkdir(parents=True)
    if state != "of another machine":
        registry.enter(LEFT, first)
    journal = Journal(first / "journal.jsonl")
    if state != "alive":
        journal.close()
    site = site_of(appliance, Dying("c", left=f"{LEFT}\n"), None)
    outcome = execute(appliance, site, run, Progress(quiet=True), ["hsp"])
    journal.close()
    registry.leave(LEFT)
    assert isinstance(outcome.failure, SafetyRefusal) and LEFT in outcome.failure.message
    expected = {
        "alive": "still goes on (process ",
        "killed": f"ended before it could clean up: `hsp clean {first}`",
        "of another machine": "on the machine that made it",
    }
    assert expected[state] in outcome.failure.hint
    assert json.loads(run.journal.read_text().splitlines()[-1])["finished"]


def test_a_cold_l2arc_ends_the_run_unless_the_user_wants_it(
    plan: Plan, run: run_directory.RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Warmup(l2arc_bytes=5, fed_bytes=(0,), problems=("the L2ARC is not warm",))
    monkeypatch.setattr(execute_module, "warm_up", lambda *_: gate)
    warmup = plan.workload.warmup
    assert warmup is not None
    bench, job = cast(Bench, None), plan.jobs[warmup.job]
    with Journal(run.journal) as journal:
        site, quiet = site_of(plan, ScriptedHost({}), None), Progress(quiet=True)
        record = RunRecord(Manifest())
        context = Context(plan, site, run, journal, quiet, record, "token")
        with pytest.raises(MeasurementUnknown, match="nothing was measured") as caught:
            execute_module._warm_up(context, bench, warmup, job, despite=False)
        assert caught.value.exit_code == 3 and "--despite-warm-up" in caught.value.hint
        execute_module._warm_up(context, bench, warmup, job, despite=True)
    assert [problem.code for problem in record.manifest.problems] == ["warm-up", "warm-up"]
    stored = record.manifest.warmup
    assert stored and (stored.l2arc_bytes, stored.fed_bytes, stored.problems) == (
        5,
        (0,),
        tuple(gate.problems),
    )
