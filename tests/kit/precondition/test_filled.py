"""A device that is filled in part: nothing is ever written to the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.precondition import budget, checkpoint, stage_loads
from tests.fakes import Command, on_device
from tests.kit.precondition.test_device import CAPACITY, MIB, Case, interrupt


class Half(Case):
    """A device whose first half has content after a fill."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sampled: list[int] = []
        whole = self.host.answer

        def answer(command: Command) -> object:
            argv = on_device(command.argv)
            if argv[0] == "fio" and f"--io_size={CAPACITY // 2}" in argv:
                self.host.filled = True
            if argv[0] == "sh" and "base64" in argv[2]:
                self.sampled += [int(place) for place in argv[5:]]
            return whole(command)

        self.host.answer = answer  # type: ignore[assignment, method-assign]


@pytest.fixture
def half(tmp_path: Path) -> Half:
    return Half(tmp_path)


def reach(argv: tuple[str, ...]) -> int:
    """The byte after the last that a call of fio can touch."""
    values = {name: int(value) for name, _, value in (a.partition("=") for a in argv) if value.isdigit()}
    return values["--offset"] + values["--size"]


@pytest.mark.parametrize("method", ["fills", "snia"])
def test_every_io_and_sample_is_in_the_filled_part(half: Half, method: str) -> None:
    done = half.run(method, filled="50%")
    calls = half.host.called("fio")
    assert len(calls) > 5 and max(map(reach, calls)) == CAPACITY // 2
    assert max(half.sampled) == CAPACITY // 2 // 4096 - 1
    assert done.problems == []
    fills = [stage for stage in done.entry["stages"] if stage["stage"].startswith("fill")]
    assert {stage["proven_bytes"] for stage in fills} == {CAPACITY // 2}
    assert done.entry["filled_bytes"] == CAPACITY // 2 and done.capacity_bytes == CAPACITY
    assert "fill 1 of 1 of 32MiB" in half.output.getvalue() or method == "snia"


def test_a_whole_device_says_nothing_of_a_part(tmp_path: Path) -> None:
    case = Case(tmp_path)
    assert "filled_bytes" not in case.run(filled="100%").entry


def test_another_part_is_another_state(half: Half) -> None:
    interrupt(half, "--randseed=1020", fills=2, filled="50%")
    done = half.run(fills=2, filled="25%")
    assert done.entry["resumed_after"] == [] and "the settings have changed" in half.output.getvalue()


def test_an_interrupted_one_goes_on(half: Half) -> None:
    interrupt(half, "--randseed=1020", fills=2, filled="50%")
    assert half.run(fills=2, filled="50%").entry["resumed_after"] == ["fill 1"]


def test_the_settings_of_a_whole_device_are_those_of_before() -> None:
    """Stored plans and kept states of SSDs keep their digests."""
    whole = Precondition(method="fills", fills=2)
    assert "filled" not in checkpoint.settings_of(whole)
    assert checkpoint.settings_of(Precondition(method="fills", fills=2, filled="50%"))["filled"] == "50%"
    loads = [stage_loads.stage_loads(stage_loads.Stage("fill", 1), "/dev/x", CAPACITY, each) for each in (
        whole, Precondition(method="fills", fills=2, filled="50%"))]  # fmt: skip
    assert [load.io_bytes for (load,) in loads] == [CAPACITY, CAPACITY // 2]


def test_the_budget_counts_the_part() -> None:
    whole, half = (
        budget.effort(Precondition(method="fills", fills=2, filled=filled), 100 * MIB).sequential_bytes
        for filled in ("100%", "50%")
    )
    assert half == pytest.approx(whole / 2, abs=2 * MIB)
