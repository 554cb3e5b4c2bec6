"""A run is struck in the lab: killed (SIGKILL), cut off from its hosts, or its terminal closes.

After a kill, and after every SSH connection broke, `hsp clean` runs, and once more: the host is what it was
before (tests.lab.recovery). After SIGHUP the run cleans up by itself: its journal says so, and the first
`hsp clean` changes nothing.

One strike of each kind shows that processes, connections and OpenZFS are as their model has them, which is
struck at every moment (tests/kit/recovery/test_killed.py, test_cut_off.py). Tests marked `long` strike at
every step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.hoststate import State, state_of
from tests.lab.interrupted import LOAD
from tests.lab.recovery import SmallBed, Striking, Whole, beds, hang_up_at_each, strike_at_each, whole
from tests.lab.rig import Rig

__all__ = ["beds", "whole"]

PROTECTS = ("kit/recovery", "kit/zfs", "kit/hosts")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.basic,
    pytest.mark.faults,
    pytest.mark.timeout(3000, func_only=True),
]

# Mode and place of tests.lab.interrupted, and whether the tracer runs.
STRIKES = {
    "killed while it makes": ("kill", "done:fill", "none"),
    "killed while it undoes": ("kill", "done:undo: destroy pool", "none"),
    "cut off while it makes": ("drop", "begin:create pool", "none"),
    "cut off while it undoes": ("drop", "begin:undo: destroy pool", "none"),
    "cut off under traced load": ("drop", LOAD, "auto"),
    "hung up under traced load": ("hang-up", LOAD, "auto"),
}


@pytest.fixture(scope="module")
def before(rig: Rig) -> State:
    return state_of(rig.host)


@pytest.mark.parametrize("strike", STRIKES)
def test_one_of_each_kind(
    strike: str, beds: dict[str, SmallBed], before: State, request: pytest.FixtureRequest
) -> None:
    mode, where, trace = STRIKES[strike]
    striking = Striking(mode, before)
    striking.once(beds[trace], strike, where)
    striking.report(request)


def test_cut_off_for_good_under_load(beds: dict[str, SmallBed], before: State) -> None:
    Striking("drop", before).said(beds["none"], LOAD)


@pytest.mark.long
def test_killed_while_its_pool_is_exported(rig: Rig, tmp_path: Path, before: State) -> None:
    """The event export-import: its pool is imported again by the server's own program, and then destroyed."""
    bed, seen = SmallBed(rig, tmp_path, "none"), set[bool]()
    text = bed.workload.read_text().replace('duration = "100ms"', 'duration = "2s"')
    bed.workload.write_text(f'{text}[[event]]\nat = "500ms"\nwhat = "export-import"\n')

    def is_away() -> bool:
        there = "hsp-" in rig.host.run(["zpool", "list", "-H", "-o", "name"]).stdout
        seen.add(there)
        return True in seen and not there

    Striking("kill", before).killed_when(bed, is_away)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "state"), [("kill", "done"), ("drop", "begin")])
def test_at_every_step(
    mode: str, state: str, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    strike_at_each(mode, state, beds, whole, request)


@pytest.mark.long
def test_a_terminal_that_closes(
    beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    hang_up_at_each(4, beds, whole, request)
