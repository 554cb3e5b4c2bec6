"""A run and `hsp clean`, killed at every moment: the machines are then as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.recovery import undo
from kit.run.resume import read_earlier
from kit.store import tables
from tests.kit.recovery.conftest import Whole, is_told, left_after
from tests.kit.recovery.strikes import KINDS, Struck, new_world
from tests.machines.world import HERE, Wire
from tests.sudo_lines import foreign, refused

# Hundreds of runs each: beside other work they take minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


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
