"""The power is turned on again: by the run, and by `hsp clean` before it contacts a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.recovery import clean, registry, undo
from kit.recovery.journal import Journal
from kit.recovery.power_undos import CONTROLLER, PowerOn
from tests.fakes import Answer
from tests.kit.recovery.test_clean import RUN, World, machine, make_run


def cut(run: Path, on: list[str], *, listed: bool = True) -> None:
    """As a run does it before it cuts the power of the server."""
    action = PowerOn(on=on, what="the server")
    if listed:
        registry.allow(RUN, action.permit)
    with Journal(run / "journal.jsonl") as journal:
        journal.on_teardown(action.kind, CONTROLLER, action.text(""), **action.model_dump())


def test_the_power_is_on_before_a_host_is_contacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    lit = tmp_path / "lit"
    cut(run, ["touch", str(lit)])
    world = World(monkeypatch, nas=machine(token), c1=machine(token))
    opened: list[bool] = []

    def open_host(*arguments: object) -> object:
        opened.append(lit.exists())
        # It is starting.
        if len(opened) < 3:
            raise HostLost("nas: no answer")
        return world.open_host(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(clean, "open_host", open_host)
    monkeypatch.setattr("kit.hosts.connect._AGAIN_S", 0.0)
    done = clean.clean(run, Progress(quiet=True))
    assert (done.undone, done.powered, done.left, done.unreachable) == (3, 1, [], [])
    assert opened and all(opened)


def test_commands_of_a_foreign_journal_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, token = make_run(tmp_path)
    bad = tmp_path / "bad"
    cut(run, ["touch", str(bad)], listed=False)
    World(monkeypatch, nas=machine(token), c1=machine(token))
    done = clean.clean(run, Progress(quiet=True))
    assert not bad.exists()
    left = [str(each) for each in done.left]
    # The work directories stay: they say whose host it is.
    assert len(left) == 3 and "not in this machine's list of runs" in left[0]
    # Nor is the command shown, to be copied.
    assert "touch" not in "".join(left)


def test_commands_are_allowed_by_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = make_run(tmp_path)
    cut(run, ["true"])
    with Journal(run / "journal.jsonl") as journal:
        (item,) = (each for each in journal.pending if each.kind == "power")
        undo.undo(item, {}, frozenset(), RUN)
        item.arguments["on"] = ["touch", str(tmp_path / "bad")]
        with pytest.raises(SafetyRefusal):
            undo.undo(item, {}, frozenset(), RUN)
    assert not (tmp_path / "bad").exists()


def test_power_that_does_not_come_on_stops_no_other_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path, pool=True)
    tried = tmp_path / "tried"
    cut(run, ["sh", "-c", f"echo x >>{tried}; echo no such outlet >&2; exit 7"])
    pool: dict[str, Answer] = {
        "zpool list": "hsp-abcdef\n", "zpool get": "7\n", "zfs get": f"{RUN}\n",
    }  # fmt: skip
    world = World(monkeypatch, nas=machine(token, more=pool), c1=machine(token))
    done = clean.clean(run, Progress(quiet=True))
    assert world.hosts["nas"].called("zpool", "destroy", "hsp-abcdef")
    assert (done.undone, done.powered, done.unreachable) == (1, 0, [])
    # The directories say on each host that something is left.
    assert [left.text for left in done.left] == [
        "turn the power of the server on",
        *[f"remove /run/hsp/{RUN}"] * 2,
    ]
    assert "ended with 7: no such outlet" in done.left[0].why and tried.read_text() == "x\n"
    with Journal(run / "journal.jsonl") as journal:
        assert len(journal.pending) == 3


def test_what_a_foreign_journal_says_is_no_text_for_a_terminal(tmp_path: Path) -> None:
    for what in ("the \x1b[2Jserver", "", "a\nb", "x" * 601):
        with pytest.raises(ValueError, match="what"):
            PowerOn(on=["true"], what=what)
