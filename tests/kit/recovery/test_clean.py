"""kit.recovery.clean: pending undos run once, on hosts that have the run's token; failed ones are listed."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kit.cli.main import app
from kit.config.address import HostAddress
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.hosts.identity import HostIdentity
from kit.recovery import clean, registry
from kit.recovery.journal import Journal, read_journal
from tests.fakes import Answer, ScriptedHost

RUN = "20260101T000000Z-abcdef"
MACHINE, BOOT = "0123456789abcdef0123456789abcdef", "00000000-0000-0000-0000-000000000001"
DIRECTORY, REMOVE = f"/run/hsp/{RUN}", ("rm", "-r", "-f", "--one-file-system", "--", f"/run/hsp/{RUN}")
REMOVED = [REMOVE]
NOT_THERE = (1, "", "No such file or directory")
LIVING = "python3 -I - list"


def machine(token: str | None, boot: str = BOOT, more: dict[str, Answer] | None = None) -> ScriptedHost:
    """A host with that token in the run's directory; None: the directory is not there."""
    answers: dict[str, Answer] = {
        "cat /proc/sys/kernel/random/boot_id": f"{boot}\n{MACHINE}\n",
        f"cat {DIRECTORY}/token": NOT_THERE if token is None else token,
        "find": NOT_THERE if token is None else f"{DIRECTORY}/pool\n",
        LIVING: "[]",
    }
    return ScriptedHost({**answers, **(more or {})})


def changes(host: ScriptedHost) -> list[tuple[str, ...]]:
    """Commands that do more than look."""
    return [argv for argv in host.calls if argv[0] not in ("cat", "find") and argv[3:4] != ("list",)]


class World:
    """Hosts by address; others cannot be reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **hosts: ScriptedHost) -> None:
        self.hosts = hosts
        monkeypatch.setattr(clean, "open_host", self.open_host)
        monkeypatch.setattr(clean, "Locks", lambda *_: nullcontext())

    def open_host(self, address: HostAddress, *_: object) -> ScriptedHost:
        assert address.host is not None
        if address.host not in self.hosts:
            raise HostLost(f"{address}: no answer")
        return self.hosts[address.host]


def make_run(
    folder: Path, server: str = "ssh://nas", client: str = "ssh://c1", pool: bool = False
) -> tuple[Path, str]:
    """A run of this machine's kit that was killed, and its token."""
    run = folder / "small" / RUN
    run.mkdir(parents=True)
    plan = {"hosts": {"server": server, "client0": client}, "ssh_config": None}
    (run / "plan.json").write_text(json.dumps(plan))
    token = registry.enter(RUN, run).token
    with Journal(run / "journal.jsonl") as journal:
        journal.begin(RUN, "digest", registry.digest(token))
        for key in ("server", "client0"):
            journal.know_host(key, HostIdentity(MACHINE, BOOT))
            journal.on_teardown("work-directory", key, f"remove {DIRECTORY}", path=DIRECTORY)
        if pool:
            named = {"name": "hsp-abcdef", "run_id": RUN, "devices": ["/dev/disk/by-id/x"], "guid": "7"}
            journal.on_teardown("pool", "server", "destroy pool hsp-abcdef", **named)
    return run, token


def test_pending_undos_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token), c1=machine(token))
    assert [left.path for left in clean.unfinished(tmp_path)] == [run]
    told: list[str] = []
    progress = Progress(quiet=True)
    monkeypatch.setattr(progress, "detail", told.append)
    done = clean.clean(run, progress)
    assert (done.undone, done.left, done.unreachable) == (2, [], [])
    assert told == [f"remove {DIRECTORY}"] * 2
    assert changes(world.hosts["nas"]) == changes(world.hosts["c1"]) == REMOVED
    assert list(clean.unfinished(tmp_path)) == [] and registry.find(RUN) is None
    calls = len(world.hosts["nas"].calls)
    assert clean.clean(run, Progress(quiet=True)).undone == 0
    assert len(world.hosts["nas"].calls) == calls


def test_undos_of_an_unreachable_host_stay_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token))
    done = clean.clean(run, Progress(quiet=True))
    assert [error.message for error in done.unreachable] == ["ssh://c1: no answer"]
    assert [left.text for left in done.left] == [f"remove /run/hsp/{RUN}"]
    assert done.left[0].by_hand == (f"on ssh://c1: rm -r -- {DIRECTORY}",) and registry.find(RUN)
    world.hosts["c1"] = machine(token)
    assert clean.clean(run, Progress(quiet=True)).left == []
    assert read_journal(run / "journal.jsonl").finished


# The token on the server, the id of its boot, whether the pool is destroyed.
STATES = {
    "as the run left it": ("own", BOOT, True),
    "another run's directory": ("f" * 32, BOOT, False),
    "restarted": (None, "00000000-0000-0000-0000-000000000002", True),
    "restarted, and another run's directory": ("f" * 32, "00000000-0000-0000-0000-000000000002", False),
    "somebody removed the token": ("", BOOT, False),
}


@pytest.mark.parametrize("state", STATES)
def test_the_token_is_compared_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    run, token = make_run(tmp_path, pool=True)
    on_server, boot, undone = STATES[state]
    pool: dict[str, Answer] = {
        "zpool list": "hsp-abcdef\ntank\n", "zpool get": "7\n", "zfs get": f"{RUN}\n",
    }  # fmt: skip
    server = machine(token if on_server == "own" else on_server, boot, pool)
    World(monkeypatch, nas=server, c1=machine(token))
    done = clean.clean(run, Progress(quiet=True))
    assert bool(server.called("zpool", "destroy", "hsp-abcdef")) == undone
    if undone:
        assert done.left == []
        return
    assert changes(server) == []
    assert [left.by_hand[0] for left in done.left][:2] == [
        # The other host's directory says that something is left, until nothing is.
        f"on server: {command}"
        for command in ("zpool destroy hsp-abcdef", f"rm -r -- {DIRECTORY}")
    ]
    assert "token" in done.left[0].why and registry.find(RUN)


def test_another_machine_at_the_address_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    other = machine(token, more={"cat /proc/sys/kernel/random/boot_id": f"{BOOT}\n{'f' * 32}\n"})
    World(monkeypatch, nas=other, c1=machine(token))
    (left,) = clean.clean(run, Progress(quiet=True)).left
    assert "another machine" in left.why and changes(other) == []


@pytest.mark.parametrize("content", ["", f"{DIRECTORY}/locks\n"])
def test_a_run_that_was_killed_while_it_made_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """Or while it removed it: nothing else is to be undone on that host."""
    run, _ = make_run(tmp_path)
    hosts = [machine("", more={"find": content}) for _ in range(2)]
    World(monkeypatch, nas=hosts[0], c1=hosts[1])
    assert clean.clean(run, Progress(quiet=True)).left == []
    assert [changes(host) for host in hosts] == [REMOVED, REMOVED]


def test_a_run_that_another_kit_made_is_shown_and_needs_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path, pool=True)
    registry.leave(RUN)
    world = World(monkeypatch, nas=machine(token, more={"zpool list": ""}), c1=machine(token))
    words = ["clean", "--quiet", "--results", str(tmp_path)]
    by_itself = CliRunner().invoke(app, words)
    assert by_itself.exit_code == 4 and f"hsp clean {run}" in by_itself.stderr
    for more in ([], ["--agree", "20260101T000000Z-000000"]):
        asked = CliRunner().invoke(app, [*words, str(run), *more])
        assert isinstance(asked.exception, SafetyRefusal) and f"--agree {RUN}" in asked.exception.hint
        for shown in ("server: ssh://nas", "ssh_config: none", "undo: destroy pool hsp-abcdef"):
            assert shown in asked.stderr
    assert [host.calls for host in world.hosts.values()] == [[], []]
    agreed = CliRunner().invoke(app, [*words, str(run), "--agree", RUN])
    assert agreed.exit_code == 0, agreed.stderr
    assert changes(world.hosts["c1"]) == REMOVED


def test_a_moved_directory_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    World(monkeypatch, nas=machine(token), c1=machine(token))
    run = run.rename(tmp_path / "small" / "20260101T000001Z-abcdef")
    with pytest.raises(SafetyRefusal, match="nothing was contacted"):
        clean.clean(run, Progress(quiet=True))


def test_another_runs_directory_is_left_also_where_nothing_else_is_to_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token), c1=machine("f" * 32))
    (left,) = clean.clean(run, Progress(quiet=True)).left
    assert "has the token of another run" in left.why and changes(world.hosts["c1"]) == []


def test_a_run_with_another_token_than_the_listed_one_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token), c1=machine(token))
    registry.enter(RUN, run)
    with pytest.raises(SafetyRefusal, match="nothing was contacted"):
        clean.clean(run, Progress(quiet=True))
    assert [host.calls for host in world.hosts.values()] == [[], []]


def test_the_copy_of_a_live_run_is_refused_even_if_a_person_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token), c1=machine(token))
    copy = tmp_path / "copy" / "small" / RUN
    shutil.copytree(run, copy)
    with Journal(run / "journal.jsonl"), pytest.raises(SafetyRefusal, match="still goes on"):
        clean.clean(copy, Progress(quiet=True), agreed=RUN)
    assert [host.calls for host in world.hosts.values()] == [[], []]


def test_one_unreadable_journal_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    World(monkeypatch, nas=machine(token), c1=machine(token))
    damaged = tmp_path / "a" / "20250101T000000Z-abcdef"
    damaged.mkdir(parents=True)
    (damaged / "journal.jsonl").write_text("{}\n")
    result = CliRunner().invoke(app, ["clean", "--quiet", "--results", str(tmp_path)])
    assert result.exit_code == 2 and f"{damaged}/journal.jsonl:1" in result.stderr
    assert f"{run}: 2 undone" in result.stdout and read_journal(run / "journal.jsonl").finished


def test_a_live_run_is_passed_over_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token), c1=machine(token))
    before = (run / "journal.jsonl").read_bytes()
    with Journal(run / "journal.jsonl"):
        # In this process, as another one has it: flock is of the open file.
        by_itself = CliRunner().invoke(app, ["clean", "--quiet", "--results", str(tmp_path)])
        named = CliRunner().invoke(app, ["clean", "--quiet", str(run)])
    assert by_itself.exit_code == 0 and f"still goes on (process {os.getpid()})" in by_itself.stderr
    assert isinstance(named.exception, SafetyRefusal) and "still goes on" in named.exception.message
    assert [host.calls for host in world.hosts.values()] == [[], []]
    assert (run / "journal.jsonl").read_bytes() == before


def test_what_is_on_a_host_that_is_not_reached_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    World(monkeypatch, nas=machine(token))
    result = CliRunner().invoke(app, ["clean", "--quiet", str(run)])
    assert result.exit_code == 5
    assert "clean" not in result.stdout.splitlines()[-1] and "not reached: ssh://c1" in result.stderr


def test_undos_in_the_lab_need_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(monkeypatch)
    run, _ = make_run(tmp_path, "lab", "lab")
    assert clean.clean(run, Progress(quiet=True)).undone == 2
    assert list(clean.unfinished(tmp_path)) == []


def test_the_command_lists_failed_undos_with_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    world = World(monkeypatch, nas=machine(token, more={"rm": (1, "", "busy")}), c1=machine(token))
    result = CliRunner().invoke(app, ["clean", "--json", "--quiet", "--results", str(tmp_path)])
    assert result.exit_code == 5
    (entry,) = json.loads(result.stdout)["runs"]
    assert entry["undone"] == 1
    assert entry["left"][0]["by_hand"] == [f"on server: rm -r -- /run/hsp/{RUN}"]
    world.hosts["nas"] = machine(token)
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0
    assert CliRunner().invoke(app, ["clean", str(run), "--quiet"]).exit_code == 0


def test_a_run_that_still_goes_on_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    World(monkeypatch, nas=machine(token), c1=machine(token))

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
        '{"hosts": {"server": "lab", "../x": "lab"}, "ssh_config": null}',
    ],
)
def test_a_plan_without_hosts_is_refused(tmp_path: Path, text: str) -> None:
    run, _ = make_run(tmp_path)
    (run / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match=r"plan\.json"):
        clean.stored_hosts(run)


def test_a_directory_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["clean", str(tmp_path)]).exit_code != 0


def test_shared_hosts() -> None:
    hosts = {"server": "ssh://nas", "client0": "ssh://a"}
    assert clean.shares_hosts(hosts, {"server": "ssh://other", "client0": "ssh://a"})
    assert not clean.shares_hosts(hosts, {"server": "ssh://other", "client0": "ssh://b"})
    assert not clean.shares_hosts({"server": "lab", "client0": "lab"}, {"server": "lab", "client0": "lab"})
