"""What is pending is undone once, what cannot be is listed with its commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kit.cli.main import app
from kit.config.address import HostAddress
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.recovery import clean
from kit.recovery.journal import Journal, read_journal
from tests.fakes import ScriptedHost

RUN = "20260101T000000Z-abcdef"


class NoLocks:
    def __init__(self, *_: object) -> None: ...

    def release(self) -> None: ...


class World:
    """Hosts by address; what is not here cannot be reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **hosts: ScriptedHost) -> None:
        self.hosts = hosts
        monkeypatch.setattr(clean, "open_host", self.open_host)
        monkeypatch.setattr(clean, "Locks", NoLocks)

    def open_host(self, address: HostAddress, ssh_config: str | None = None) -> ScriptedHost:
        assert address.host is not None
        if address.host not in self.hosts:
            raise HostLost(f"{address}: no answer")
        return self.hosts[address.host]


def make_run(folder: Path, server: str = "ssh://nas", client: str = "ssh://c1") -> Path:
    run = folder / "small" / RUN
    run.mkdir(parents=True)
    plan = {"hosts": {"server": server, "client0": client}, "ssh_config": None}
    (run / "plan.json").write_text(json.dumps(plan))
    with Journal(run / "journal.jsonl", RUN, "digest") as journal:
        for key in ("server", "client0"):
            path = f"/run/hsp/{RUN}"
            journal.on_teardown("work-directory", key, f"remove {path}", path=path)
    return run


def test_it_is_undone_and_then_there_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, run = World(monkeypatch, nas=ScriptedHost(), c1=ScriptedHost()), make_run(tmp_path)
    assert list(clean.unfinished(tmp_path)) == [run]
    done = clean.clean(run, Progress(quiet=True))
    assert (done.undone, done.left, done.unreachable) == (2, [], [])
    removal = ("rm", "-r", "-f", "--one-file-system", "--", f"/run/hsp/{RUN}")
    assert world.hosts["nas"].calls == world.hosts["c1"].calls == [removal]
    assert list(clean.unfinished(tmp_path)) == []
    assert clean.clean(run, Progress(quiet=True)).undone == 0
    assert world.hosts["nas"].calls == [removal]


def test_what_is_on_a_host_that_is_gone_stays_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, run = World(monkeypatch, nas=ScriptedHost()), make_run(tmp_path)
    done = clean.clean(run, Progress(quiet=True))
    assert [error.message for error in done.unreachable] == ["ssh://c1: no answer"]
    assert [left.text for left in done.left] == [f"remove /run/hsp/{RUN}"]
    world.hosts["c1"] = ScriptedHost()
    assert clean.clean(run, Progress(quiet=True)).left == []
    assert read_journal(run / "journal.jsonl").finished


def test_the_guest_of_the_lab_went_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch)
    run = make_run(tmp_path, "lab", "lab")
    assert clean.clean(run, Progress(quiet=True)).undone == 2
    assert list(clean.unfinished(tmp_path)) == []


def test_the_command_says_what_is_left_and_how_to_do_it_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nas, run = ScriptedHost({"rm": (1, "", "busy")}, name="nas"), make_run(tmp_path)
    world = World(monkeypatch, nas=nas, c1=ScriptedHost(name="c1"))
    told = CliRunner().invoke(app, ["clean", "--json", "--quiet", "--results", str(tmp_path)])
    assert told.exit_code == 5
    (entry,) = json.loads(told.stdout)["runs"]
    assert entry["undone"] == 1
    assert entry["left"][0]["by_hand"] == [f"on nas: rm -r -- /run/hsp/{RUN}"]
    world.hosts["nas"] = ScriptedHost()
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0


def test_a_run_that_is_still_going_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, nas=ScriptedHost(), c1=ScriptedHost())
    run = make_run(tmp_path)

    class Held:
        def __init__(self, *_: object) -> None:
            raise SafetyRefusal("locked by run x")

    monkeypatch.setattr(clean, "Locks", Held)
    monkeypatch.setattr(clean, "_LOCK_WAIT_S", -1.0)
    with pytest.raises(SafetyRefusal, match="locked by run x"):
        clean.clean(run, Progress(quiet=True))
    assert len(read_journal(run / "journal.jsonl").pending) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"hosts": {}, "ssh_config": null}',
        '{"hosts": {"server": "; rm"}, "ssh_config": null}',
        '{"hosts": 1}',
    ],
)
def test_a_plan_that_says_nothing_is_refused(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    (run / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match="which hosts"):
        clean.stored_hosts(run)


def test_a_run_of_a_version_that_knew_only_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch)
    run = tmp_path / "small" / RUN
    run.mkdir(parents=True)
    (run / "plan.json").write_text(json.dumps({"testbed": {"server": {"host": "lab"}}}))
    lines = [
        {"step": "export", "state": "begin"},
        {"undo": "unexport /x"},
        {"step": "export", "state": "done"},
    ]
    (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(clean.unfinished(tmp_path)) == [run]
    assert not clean.shares_hosts(clean.stored_hosts(run).addresses, {"server": "ssh://nas"})
    assert clean.clean(run, Progress(quiet=True)).left == []
    assert list(clean.unfinished(tmp_path)) == []


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["clean", str(tmp_path)]).exit_code != 0


def test_hosts_are_shared_or_not() -> None:
    one = {"server": "ssh://nas", "client0": "ssh://a"}
    assert clean.shares_hosts(one, {"server": "ssh://other", "client0": "ssh://a"})
    assert not clean.shares_hosts(one, {"server": "ssh://other", "client0": "ssh://b"})
    assert not clean.shares_hosts({"server": "lab", "client0": "lab"}, {"server": "lab", "client0": "lab"})
