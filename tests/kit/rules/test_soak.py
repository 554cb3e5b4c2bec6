"""Soaks and impacts that cannot be watched or compared are refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.plan import make_plan

HEAD = 'format = 1\nname = "x"\ntitle = "x"\nbase = "top-speeds"\nprecondition = "none"\n'
PHASE = '[[phase]]\nname = "write-slog"\nduration = "4min"\ninterval = "1s"\n'
SOAK = 'soak = {{ row = "1min", {} }}\n'


def plan(folder: Path, text: str, testbed: Path = LAB_TESTBED) -> object:
    path = folder / "x.toml"
    path.write_text(HEAD + text)
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


def order(sides: str) -> str:
    """Phases of both sides of an impact, in this order."""
    names = [f"{side}-{number}" for number, side in enumerate(sides)]
    text = "".join(f'[[phase]]\nname = "{name}"\nbase = "write-slog"\n' for name in names)
    alone, beside = ([name for name in names if name.startswith(side)] for side in "ab")
    return f'{text}[[impact]]\nalone = {alone}\nbeside = {beside}\nop = "write"\n'.replace("'", '"')


@pytest.mark.parametrize("sides", ["ab", "abba", "abbaab", "abbba"])
def test_sides_of_an_impact_are_measured_in_turn(tmp_path: Path, sides: str) -> None:
    made = plan(tmp_path, order(sides))
    assert len(made.workload.impact[0].sides[1]) == sides.count("b")  # type: ignore[attr-defined]


def test_a_soak_is_counted(tmp_path: Path) -> None:
    made = plan(tmp_path, PHASE + SOAK.format('written_max = "1GB"'))
    assert made.workload.phase[0].soak.written_max == 10**9  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PHASE.replace("4min", "90s") + SOAK.format("p50_drift_max = 0.1"), "two are needed"),
        (PHASE.replace('"1s"', '"10s"') + SOAK.format("p50_drift_max = 0.1"), "needs 12 intervals"),
        (
            PHASE.replace("4min", "24h") + SOAK.format("p50_drift_max = 0.1"),
            "needs 6: make it 132s or longer",
        ),
        (PHASE + SOAK.format("temperature_max = 70"), "no temperature"),
        (PHASE + SOAK.format("endurance_max = 2"), "less than or equal to 1"),
        (PHASE + 'log = "every-io"\n' + SOAK.format("p50_drift_max = 0.1"), "for hours"),
        (PHASE + '[[impact]]\nalone = "write-slog"\nbeside = "nope"\n', "no phase is called 'nope'"),
        (PHASE + '[[impact]]\nalone = "write-slog"\nbeside = "write-slog"\n', "is a phase alone"),
        (PHASE + '[[impact]]\nalone = ["write-slog", "write-slog"]\nbeside = "b"\n', "is there twice"),
        (PHASE + '[[impact]]\nalone = []\nbeside = "b"\n', "impact[0].alone"),
        (PHASE + '[[impact]]\nalone = ["write-slog", 3]\nbeside = "b"\n', "impact[0].alone"),
        (PHASE + '[[impact]]\nalone = ["write-slog", "nope"]\nbeside = "b"\n', "no phase is called 'nope'"),
        (order("abab"), "order them alone, beside, beside, alone"),
        (order("aabb"), "order them alone, beside, beside, alone"),
        (
            PHASE
            + '[[phase]]\nname = "read"\n[[impact]]\nalone = "write-slog"\nbeside = "read"\nop = "write"\n',
            "makes no writes",
        ),
        (PHASE + "options = { rate_iops = 10 }\n", "no whole number on the lab's clock"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text)
    assert words in refused.value.message and "x.toml:" in refused.value.message


def test_rates_and_pauses_are_in_the_experiments_time(tmp_path: Path) -> None:
    made = plan(tmp_path, PHASE + 'options = { rate_iops = 400, thinktime = "5ms" }\n')
    [job] = made.jobs.values() if len(made.jobs) == 1 else [made.jobs[made.workload.phase[0].load]]  # type: ignore[attr-defined]
    assert "rate_iops=100\n" in job.text and "thinktime=20ms\n" in job.text
