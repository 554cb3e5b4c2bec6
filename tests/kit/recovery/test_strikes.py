"""A run and `hsp clean`, killed or cut off at every moment: the machines are then as they were."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.core.signals import ENDING, interrupt_at_end
from kit.hosts.base import HostLost
from kit.recovery import undo
from kit.run.execute import Outcome
from kit.run.resume import read_earlier
from kit.store import tables
from tests.kit.recovery.strikes import KINDS, Moment, Struck, each_line, new_world
from tests.machines.world import HERE, Wire, differences
from tests.sudo_lines import foreign, refused


@dataclass(frozen=True)
class Whole:
    """A run without a strike, and its moments. `breaks`: number of a command, and when in it.

    `sent`: its commands, by machine.
    """

    struck: Struck
    sent: list[tuple[str, list[str]]]
    moments: list[Moment]
    breaks: list[tuple[int, str]]

    @property
    def fullest(self) -> Moment:
        """All is made, and nothing is undone yet."""
        return next(
            each for each in self.moments if '"step": "undo: ' in each.text and "/run/" not in each.text
        )


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with pytest.MonkeyPatch.context() as patch:
        struck, wire = Struck(request.param, tmp_path_factory.mktemp("struck"), patch), Wire(new_world())
        with struck.watched(wire) as moments:
            outcome = struck.execute(wire)
        assert outcome and outcome.failure is None and outcome.left == [], outcome
        assert differences(struck.pristine, wire.world) == []
        lines = map(json.loads, (struck.run.raw / "commands.jsonl").read_text().splitlines())
        sent = [(line["host"], line["argv"]) for line in lines if "argv" in line]
        yield Whole(struck, sent, moments, breaks(wire))


def breaks(wire: Wire) -> list[tuple[int, str]]:
    return [(number, when) for number, listed in wire.moments.items() for when in listed]


def left_after(struck: Struck, moments: Sequence[Moment]) -> list[str]:
    """What a clean leaves, with the moment of the kill."""
    found = []
    for moment in moments:
        if problems := struck.problems(struck.put_back(moment)):
            found.append(f"killed at {moment.text}: {problems[0][:400]}")
    return found


def is_told(moment: Moment) -> bool:
    """Whether a setting of the user's has changed another, and the journal does not have that yet."""
    text = moment.files["journal.jsonl"].decode()
    return (
        moment.world.machines["nas"].settings == {"a": "on", "b": "off"}
        and '"known": {"settings"' not in text
    )


def test_an_ordinary_user_may_send_its_commands_and_they_change_nothing_of_others(whole: Whole) -> None:
    of_hosts = [("server" if host == "nas" else "client", argv) for host, argv in whole.sent if host != HERE]
    assert len(of_hosts) > 20
    assert [why for role, argv in of_hosts if (why := refused(role, argv) or foreign(argv))] == []


def test_killed_at_every_moment(whole: Whole) -> None:
    # It then is somebody else's to the kit, which says so and leaves it.
    told = [moment for moment in whole.moments if is_told(moment)]
    assert left_after(whole.struck, [each for each in whole.moments if each not in told]) == []
    assert all("setting.b is off, the run had set on" in each for each in left_after(whole.struck, told))


def test_killed_at_every_moment_of_clean(whole: Whole) -> None:
    struck, wire = whole.struck, Wire(whole.struck.put_back(whole.fullest))
    with struck.watched(wire) as moments:
        struck.clean(wire)
    assert left_after(struck, [each for each in moments if not is_told(each)]) == []


def test_cut_off_at_every_command(whole: Whole) -> None:
    """It goes on without its machines, says so once, and what it could not undo, `hsp clean` does."""
    struck, found = whole.struck, []
    for number, when in whole.breaks:
        wire = Wire(new_world(), number, when)
        outcome = struck.execute(wire)
        assert wire.lost, "the run is not another one each time"
        if outcome and not (outcome.failure or outcome.left):
            found.append(f"{when} command {number}: it says nothing")
        if outcome and (wrong := unlike_once(outcome, struck.run.path)):
            found.append(f"{when} command {number}: {wrong}")
        if outcome and is_told(struck.moment("", wire.world)):
            continue
        if outcome and (problems := struck.problems(wire.world)):
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []


def unlike_once(outcome: Outcome, run: Path) -> str:
    """What is wrong with what a run says that has lost a machine: a line, and the command in it."""
    waiting = [each for each in outcome.left if each.waits]
    if len(waiting) > 1 or len(outcome.left) > 3 or any(each.by_hand for each in waiting):
        return f"it says {[*map(str, outcome.left)]}"
    if waiting and not str(waiting[0]).endswith(f"run `hsp clean {run}`"):
        return str(waiting[0])
    is_last = isinstance(outcome.failure, HostLost) and waiting
    return "it is not said last" if is_last and outcome.failure.hint != str(waiting[0]) else ""


def test_cut_off_and_reached_again_at_every_command(whole: Whole) -> None:
    """It cleans up by itself then, on new connections."""
    struck, found = whole.struck, []
    for number, when in whole.breaks:
        wire = Wire(new_world(), number, when)
        outcome = struck.execute(wire, comes_back=True)
        left = [str(each) for each in outcome.left] if outcome else []
        if outcome is None or any("setting.b is off, the run had set on" in each for each in left):
            # As above: it is somebody else's, and is said.
            continue
        if problems := struck.after(wire.world) + left:
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []


def test_clean_cut_off_at_every_command(whole: Whole) -> None:
    struck, first = whole.struck, Wire(whole.struck.put_back(whole.fullest), look=lambda _: None)
    struck.clean(first)
    found = []
    for number, when in breaks(first):
        wire = Wire(struck.put_back(whole.fullest), number, when)
        with contextlib.suppress(HostLost):
            struck.clean(wire)
        if problems := struck.problems(wire.world):
            found.append(f"{when} command {number}: {problems[0][:400]}")
    assert found == []


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_terminal_that_closes_at_every_step(whole: Whole) -> None:
    """The run cleans up by itself, and is not disturbed while it does."""
    struck, found = whole.struck, []
    lines = [json.loads(line) for line in whole.moments[-1].files["journal.jsonl"].splitlines()]
    for number, line in enumerate(lines):
        if "state" not in line:
            continue
        left = [number]

        def hang_up(_: dict[str, Any], left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), signal.SIGHUP)

        interrupt_at_end()
        wire = Wire(new_world())
        with each_line(hang_up):
            outcome = struck.execute(wire)
        assert outcome
        undoes = line["step"].startswith("undo: ") and "array" not in line["step"]
        problems = struck.after(wire.world) + [str(each) for each in outcome.left]
        problems += [] if outcome.interrupted else [f"not interrupted: {outcome.failure}"] * (not undoes)
        found += [f"at {line['state']} of {line['step']}: {problems[0][:400]}"] if problems else []
    assert found == []


def test_a_server_that_was_killed_as_well(whole: Whole) -> None:
    """Nothing is left on its disks, and nothing that it then has is changed."""
    struck, found = whole.struck, []
    pristine = new_world()
    pristine.restart("nas", new_world().machines["nas"])
    for moment in whole.moments:
        world = struck.put_back(moment)
        world.restart("nas", new_world().machines["nas"])
        problems = struck.problems(world, pristine)
        # Nothing but the pool's GUID proves whose cache device it is, and that was not known yet.
        is_unproven = any("cache device or a spare of an unknown pool" in each for each in problems)
        if is_unproven and '"known": {"guid"' not in moment.files["journal.jsonl"].decode():
            continue
        if problems and not is_told(moment):
            found.append(f"{moment.text}: {problems[0][:400]}")
    assert found == []


def test_a_killed_run_goes_on(whole: Whole) -> None:
    """After a clean: what was stored is not measured again, and the rest is."""
    struck = whole.struck
    phases = [phase.name for phase in struck.plan.workload.phase]
    for moment in whole.moments:
        if '"step": "phase ' not in moment.text:
            continue
        world = struck.put_back(moment)
        stored = (
            json.loads(moment.files["manifest.json"])["phases"] if "manifest.json" in moment.files else []
        )
        earlier = read_earlier(struck.run, struck.plan)
        struck.clean(Wire(world))
        outcome = struck.execute(Wire(world), earlier)
        assert outcome and outcome.failure is None and struck.after(world) == [], moment.text
        assert struck.measured == phases[len(stored) :], moment.text
        assert [phase.name for phase in outcome.record.manifest.phases] == phases
        assert tables.read_latency(struck.run)["phase"].to_list() == phases


def test_every_kind_of_undo_is_struck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for kind in KINDS:
        struck = Struck(kind, tmp_path / kind, monkeypatch)
        struck.execute(Wire(new_world()))
        lines = map(json.loads, struck.run.journal.read_text().splitlines())
        found |= {line["kind"] for line in lines if "kind" in line}
    assert found == set(undo.KINDS)
