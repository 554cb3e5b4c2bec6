"""`hsp reproduce`: the list, and a stored run judged; the lab is not started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Called
from tests.kit.session.reproducing import runs


def test_the_list_has_each_claim_with_command_tolerance_and_time(hsp_here: Called) -> None:
    done = hsp_here("reproduce", "--list")
    assert done.returncode == 0
    assert "`hsp reproduce main-job`" in done.stdout and "2 minutes" in done.stdout
    assert "p50, L2ARC" in done.stdout and "5 %: 169 to 187 µs" in done.stdout
    listed = json.loads(hsp_here("reproduce", "--list", "--json").stdout)["claims"]
    assert listed[0]["name"] == "main-job" and len(listed[0]["tiers"]) == 5
    assert len(listed) > 1 and all(each["ratios"] for each in listed[1:])


@pytest.mark.parametrize(
    ("times", "code", "state"), [({}, 0, "PASS"), ({"slog": 1.2}, 1, "FAIL")], ids=["pass", "fail"]
)
def test_a_stored_run_is_judged(
    hsp_here: Called, tmp_path: Path, times: dict[str, float], code: int, state: str
) -> None:
    run = runs.write(tmp_path / "run", times)
    done = hsp_here("reproduce", "--run", str(run.path))
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(f"{state}  main-job, by run {run.path.name}") or state in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("p50, SLOG"))
    assert line.split()[-1] == state.lower()
    (judged,) = json.loads(hsp_here("reproduce", "--run", str(run.path), "--json").stdout)["claims"]
    assert (judged["claim"], judged["state"]) == ("main-job", state.lower())


def test_a_pack_is_judged_as_its_run(hsp_here: Called, tmp_path: Path) -> None:
    run = runs.write(tmp_path / "20261121T050100Z-000001", {"slog": 1.2})
    assert hsp_here("pack", str(run.path), "-o", "a.hsp", cwd=tmp_path).returncode == 0
    found = [
        hsp_here("reproduce", "--run", name, "--json", cwd=tmp_path) for name in (str(run.path), "a.hsp")
    ]
    of_run, of_pack = (json.loads(each.stdout)["claims"][0] for each in found)
    assert of_run["figures"] == of_pack["figures"] and of_run["state"] == of_pack["state"] == "fail"


def test_a_run_of_another_workload_is_refused(hsp_here: Called, tmp_path: Path) -> None:
    run = runs.write(tmp_path / "run", workload="capacity")
    done = hsp_here("reproduce", "--run", str(run.path))
    assert done.returncode == 2 and "of which nothing is claimed" in done.stderr


def test_an_unknown_claim_is_refused_with_the_one_that_was_meant(hsp_here: Called) -> None:
    done = hsp_here("reproduce", "main-jb")
    assert done.returncode == 2 and "did you mean 'main-job'?" in done.stderr


def test_a_list_judges_no_run(hsp_here: Called) -> None:
    done = hsp_here("reproduce", "--list", "--run", "x")
    assert done.returncode == 2 and "--run has no effect on a list of claims" in done.stderr
