"""Claims are those of the documents; a run reproduces them or not."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from kit.cli.run import _announcement
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.session.reproducing import claims
from kit.session.side import Side
from tests import figures
from tests.kit.session.reproducing import runs

BENCHMARKS = (figures.ROOT / "docs" / "benchmarks.md").read_text()
(MAIN_JOB,) = claims.chosen(["main-job"])
TIERS = [each.tier for each in MAIN_JOB.tiers]


def test_the_main_job_claims_what_the_readme_shows() -> None:
    rows = {row["tier"]: row for row in json.loads(figures.STORED.read_text())["rows"]}
    assert TIERS == list(rows)
    for each in MAIN_JOB.tiers:
        row = rows[each.tier]
        assert (each.p50_us, each.inside) == (row["p50_us"], row["inside"])
        assert each.published_us == tuple(row["published_us"])


@pytest.mark.parametrize("claimed", MAIN_JOB.tiers, ids=TIERS)
def test_a_tolerance_is_the_scatter_that_was_measured(claimed: claims.ClaimedTier) -> None:
    name = {"dram": "DRAM", "l2arc": "L2ARC", "slog": "SLOG"}.get(claimed.tier, claimed.tier)
    found = re.search(rf"^\| {name} \| ([\d.]+) % \| ([\d.]+) % \|$", BENCHMARKS, re.MULTILINE)
    assert found
    scatter = max(map(float, found.groups()))
    assert claimed.p50_tolerance * 100 == math.ceil(3 * math.sqrt(2) * scatter + 1.6)


def test_the_time_is_that_which_the_demo_announces() -> None:
    told = _announcement(Side(MAIN_JOB.workload, LAB_TESTBED))
    assert f"about {MAIN_JOB.minutes} minutes on two cores, {MAIN_JOB.first_minutes} the first time" in told


def test_the_figures_that_were_claimed_reproduce_them(tmp_path: Path) -> None:
    judged = claims.judge(MAIN_JOB, runs.write(tmp_path / "run"))
    assert (judged.state, judged.reasons, judged.exit_code) == ("pass", (), 0)
    assert len(judged.figures) == 2 * len(TIERS) and {each.state for each in judged.figures} == {"pass"}


@pytest.mark.parametrize("beyond", [1, -1])
@pytest.mark.parametrize("claimed", MAIN_JOB.tiers, ids=TIERS)
def test_a_tier_beyond_its_tolerance_fails_and_no_other(
    tmp_path: Path, claimed: claims.ClaimedTier, beyond: int
) -> None:
    # A bin is at most 3.2 % wide.
    times = 1 + beyond * (claimed.p50_tolerance + 0.04)
    judged = claims.judge(MAIN_JOB, runs.write(tmp_path / "run", {claimed.tier: times}))
    failed = {each.tier for each in judged.figures if each.state == "fail"}
    assert (judged.state, judged.exit_code, failed) == ("fail", 1, {claimed.tier})


def test_outside_of_the_published_range_fails(tmp_path: Path) -> None:
    judged = claims.judge(MAIN_JOB, runs.write(tmp_path / "run", {"l2arc": 2}))
    (inside,) = (each for each in judged.figures if (each.tier, each.unit) == ("l2arc", "1"))
    assert (inside.found, inside.state) == (0, "fail")


def test_a_run_that_is_not_valid_decides_nothing(tmp_path: Path) -> None:
    problems = [{"code": "error", "text": "a host was lost"}]
    judged = claims.judge(MAIN_JOB, runs.write(tmp_path / "run", {"l2arc": 2}, problems=problems))
    assert (judged.state, judged.exit_code) == ("unknown", 3)
    assert any("a host was lost" in each for each in judged.reasons)
    assert all(each.found is not None for each in judged.figures)


@pytest.mark.parametrize("change", [{"workload": "capacity"}, {"length": "smoke"}, "hosts"], ids=str)
def test_a_run_of_something_else_is_refused(tmp_path: Path, change: dict[str, str] | str) -> None:
    run = runs.write(tmp_path / "run")
    manifest = json.loads((run.path / "manifest.json").read_text())
    if isinstance(change, str):
        manifest["testbed"]["emulated"] = False
    else:
        manifest |= change
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match="main-job"):
        claims.judge(MAIN_JOB, run)


def test_claims_have_names_of_their_own() -> None:
    names = [each.name for each in claims.claims()]
    assert names and len(set(names)) == len(names)
