"""Limits of expectations that could never be judged are refused, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.plan import make_plan

MINE = """format = 1
base = "top-speeds"
name = "mine"
title = "Mine"

[[expect]]
phase = "write-slog"
op = "write"
tier = "slog"
"""


def planned(folder: Path, *lines: str) -> None:
    path = folder / "mine.toml"
    path.write_text(MINE + "\n".join(lines) + "\n")
    make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED)


@pytest.mark.parametrize(
    "lines",
    [
        ("max_us_max = 900",),
        ("stall_ms_max = 40",),
        ('ratio_to = { phase = "write-pool", tier = "pool" }', "p50_ratio_max = 0.1", "p99_ratio_max = 1"),
        ('ratio_to = { phase = "read", op = "read", tier = "l2arc" }', "p50_ratio_min = 0.5"),
    ],
)
def test_limits_that_can_be_judged(tmp_path: Path, lines: tuple[str, ...]) -> None:
    planned(tmp_path, *lines)


RATIO = "p50_ratio_max = 2"


@pytest.mark.parametrize(
    ("lines", "line", "key", "words"),
    [
        (("stall_ms_max = 39",), 10, "stall_ms_max",
         "less than two intervals of the phase 'write-slog' (20ms each)"),
        (("stall_ms_max = 39",), 10, "stall_ms_max",
         'write interval = "19ms" in the phase, or a limit of at least 40'),
        (("stall_ms_max = 1.5",), 10, "stall_ms_max", "write a limit of at least 40"),
        ((RATIO,), 10, "p50_ratio_max", "to which row?"),
        (('ratio_to = { tier = "slog" }',), 10, "ratio_to", "no limit on the ratio"),
        (('ratio_to = { tier = "slog" }', RATIO), 10, "ratio_to", "this is the row itself"),
        (("ratio_to = {}", RATIO), 10, "ratio_to", "this is the row itself"),
        (('ratio_to = { phase = "reed" }', RATIO), 10, "ratio_to.phase", "did you mean 'read'?"),
        (('ratio_to = { phase = "read" }', RATIO), 10, "ratio_to.tier", "only dram, l2arc, disk"),
        (('ratio_to = { phase = "read", tier = "all" }', RATIO), 10, "ratio_to.tier",
         'goes with layer = "client"'),
        (('ratio_to = { row = "read" }', RATIO), 10, "ratio_to.row", "unknown key"),
        (('ratio_to = { phase = "write-pool", tier = "pool" }', RATIO, "p50_ratio_min = 3"), 12,
         "p50_ratio_min",
         "3 is above p50_ratio_max = 2"),
        (("max_us_max = 0",), 10, "max_us_max", "greater than 0"),
        (('stall_ms_max = "1s"',), 10, "stall_ms_max", "expected a number"),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_judged(
    tmp_path: Path, lines: tuple[str, ...], line: int, key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, *lines)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"{tmp_path}/mine.toml:{line}: expect[0].{key}: ")
    assert words in caught.value.message
