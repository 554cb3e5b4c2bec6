"""kit.recovery.clean: pending undos run once; failed ones are listed with their commands."""

from __future__ import annotations

import json
from contextlib import nullcontext
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


class World:
    """Hosts by address; others cannot be reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **hosts: ScriptedHost) -> None:
        self.hosts = hosts
        monkeypatch.setattr(clean, "open_host", self.open_host)
        monkeypatch.setattr(clean, "Locks", lambda *_: nullcontext())

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


def cleaned(run: Path) -> clean.Cleaned:
    return clean.clean(run, Progress(quiet=True))


def test_pending_undos_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, run = World(monkeypatch, nas=ScriptedHost(), c1=ScriptedHost()), make_run(tmp_path)
    assert list(clean.unfinished(tmp_path)) == [run]
    done = cleaned(run)
    assert (done.undone, done.left, done.unreachable) == (2, [], [])
    removal = ("rm", "-r", "-f", "--one-file-system", "--", f"/run/hsp/{RUN}")
    assert world.hosts["nas"].calls == world.hosts["c1"].calls == [removal]
    assert list(clean.unfinished(tmp_path)) == []
    assert cleaned(run).undone == 0
    assert world.hosts["nas"].calls == [removal]


def test_undos_of_an_unreachable_host_stay_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, run = World(monkeypatch, nas=ScriptedHost()), make_run(tmp_path)
    done = cleaned(run)
    assert [error.message for error in done.unreachable] == ["ssh://c1: no answer"]
    assert [left.text for left in done.left] == [f"remove /run/hsp/{RUN}"]
    world.hosts["c1"] = ScriptedHost()
    assert cleaned(run).left == []
    assert read_journal(run / "journal.jsonl").finished


def test_undos_in_the_lab_need_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch)
    run = make_run(tmp_path, "lab", "lab")
    assert cleaned(run).undone == 2
    assert list(clean.unfinished(tmp_path)) == []


def test_the_command_lists_failed_undos_with_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nas, run = ScriptedHost({"rm": (1, "", "busy")}, name="nas"), make_run(tmp_path)
    world = World(monkeypatch, nas=nas, c1=ScriptedHost(name="c1"))
    result = CliRunner().invoke(app, ["clean", "--json", "--quiet", "--results", str(tmp_path)])
    assert result.exit_code == 5
    (entry,) = json.loads(result.stdout)["runs"]
    assert entry["undone"] == 1
    assert entry["left"][0]["by_hand"] == [f"on nas: rm -r -- /run/hsp/{RUN}"]
    world.hosts["nas"] = ScriptedHost()
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0


def test_a_run_that_still_goes_on_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch, nas=ScriptedHost(), c1=ScriptedHost())
    run = make_run(tmp_path)

    def held(*_: object) -> None:
        raise SafetyRefusal("locked by run x")

    monkeypatch.setattr(clean, "Locks", held)
    monkeypatch.setattr(clean, "_LOCK_WAIT_S", -1.0)
    with pytest.raises(SafetyRefusal, match="locked by run x"):
        cleaned(run)
    assert len(read_journal(run / "journal.jsonl").pending) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"hosts": {}, "ssh_config": null}', '{"hosts": {"server": "; rm"}, "ssh_config": null}',
     '{"hosts": 1}'],
)  # fmt: skip
def test_a_plan_without_hosts_is_refused(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path)
    (run / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match="does not name the hosts"):
        clean.stored_hosts(run)


def test_a_directory_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["clean", str(tmp_path)]).exit_code != 0


def test_shared_hosts() -> None:
    hosts = {"server": "ssh://nas", "client0": "ssh://a"}
    assert clean.shares_hosts(hosts, {"server": "ssh://other", "client0": "ssh://a"})
    assert not clean.shares_hosts(hosts, {"server": "ssh://other", "client0": "ssh://b"})
    assert not clean.shares_hosts({"server": "lab", "client0": "lab"}, {"server": "lab", "client0": "lab"})
