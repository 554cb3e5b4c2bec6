"""kit.sizes.workload_sizes: the planned sizes and the model of the ARC against figures of real runs.

data/stored_runs.json says how the runs were made. The same checks run on new runs in
tests/lab/test_own_workloads.py and tests/lab/test_main_job.py.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.sizes.auto_sizes import resolve
from kit.sizes.tier_sizes import Sizes, tiers
from kit.sizes.workload_sizes import planned_tiers, sizes_of
from tests.lab.arc_model import check_arc, check_shares

ROOT = Path(__file__).parents[3]
STORED = json.loads((Path(__file__).parent / "data" / "stored_runs.json").read_text())["runs"]
by_workload = pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["workload"])


def sizes_in(stored: dict[str, Any]) -> Sizes:
    return Sizes(**stored["sizes"])


@by_workload
def test_the_plan_has_the_sizes_of_the_stored_run(stored: dict[str, Any]) -> None:
    """With other sizes the figures say nothing any more: make such a run again, and store its figures."""
    own = ROOT / "tests" / "lab" / "own_workloads" / f"{stored['workload']}.toml"
    testbed = read_testbed(LAB_TESTBED).without_idle
    workload = resolve(read_workload(own if own.exists() else find_workload(stored["workload"])), testbed)
    sizes = sizes_of(workload, testbed)
    assert sizes is not None
    assert {name: asdict(sizes)[name] for name in stored["sizes"]} == stored["sizes"]
    assert planned_tiers(workload, testbed) == tiers(sizes_in(stored))


@by_workload
def test_the_parts_of_the_arc_are_those_of_arcstats(stored: dict[str, Any]) -> None:
    check_arc(stored["arc"], sizes_in(stored))


@by_workload
def test_the_tiers_answered_what_the_model_says(stored: dict[str, Any]) -> None:
    every = sum(stored["reads"].values())
    check_shares({tier: count / every for tier, count in stored["reads"].items()}, sizes_in(stored))


@by_workload
def test_the_figures_tell_a_wrong_model(stored: dict[str, Any]) -> None:
    """Records of another size, or no L2ARC."""
    sizes = sizes_in(stored)
    with pytest.raises(AssertionError):
        check_arc(stored["arc"], replace(sizes, record=512 if sizes.record != 512 else 4096))
    every = sum(stored["reads"].values())
    with pytest.raises(AssertionError):
        check_shares({tier: n / every for tier, n in stored["reads"].items()}, replace(sizes, l2arc=0))
