"""Lengths of a workload: what they set, that short runs are marked, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.overrides import LENGTHS, as_set
from kit.config.testbed import LAB_TESTBED
from kit.config.workload_base import WORKLOADS, read_source
from kit.core.errors import ConfigError
from kit.session.side import Side
from kit.setup.manifest import planned

SECOND = 10**9


def mine(tmp_path: Path, tables: str) -> str:
    for job in WORKLOADS.glob("*.fio"):
        (tmp_path / job.name).write_text(job.read_text())
    text = (WORKLOADS / "top-speeds.toml").read_text()
    before, _, rest = text.partition("# `hsp run top-speeds --length smoke`")
    expectations = rest[rest.index("# Published ranges") :]
    path = tmp_path / "mine.toml"
    path.write_text(f"{before}{tables}\n{expectations}")
    return str(path)


def test_a_length_sets_keys_and_the_others_stay(tmp_path: Path) -> None:
    tables = '[lengths.smoke]\n"phase.read.duration" = "5s"\n"precondition.fills" = 1\nmin_count = 100\n'
    workload = mine(tmp_path, tables)
    full, smoke = (Side(workload, LAB_TESTBED, as_set(length)).plan() for length in (None, "smoke"))
    assert [phase.duration // SECOND for phase in full.workload.phase] == [36, 0, 36]
    assert [phase.duration // SECOND for phase in smoke.workload.phase] == [5, 0, 36]
    assert {each.min_count for each in smoke.workload.expect} == {100}
    assert {each.min_count for each in full.workload.expect} == {3000}
    assert (
        smoke.workload.length == "smoke" and planned(smoke).title == f"{full.workload.title} (smoke length)"
    )
    assert "length" not in full.as_json()["workload"] and smoke.digest != full.digest


def test_the_number_of_ios_is_also_that_of_expectations_that_the_kit_makes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'format = 1\nname = "mine"\ntitle = "Reads"\nbase = "top-speeds"\n[[phase]]\nname = "read"\n'
        "[lengths.smoke]\nmin_count = 5\n[lengths.sanity]\nmin_count = 5000\n"
    )
    asked = {
        length: {
            each.min_count for each in Side(str(path), LAB_TESTBED, as_set(length)).plan().workload.expect
        }
        for length in LENGTHS
    }
    assert asked == {"smoke": {5}, "sanity": {368}, "full": {368}}


def test_a_workload_without_lengths_has_the_same_digest(tmp_path: Path) -> None:
    with_them, without = (
        Side(mine(tmp_path, tables), LAB_TESTBED).plan()
        for tables in ('[lengths.smoke]\n"phase.duration" = "5s"\n', "")
    )
    assert with_them.digest == without.digest


@pytest.mark.parametrize(("tables", "length", "words"), [
    ("", "smoke", "has no [lengths.smoke]"),
    ("", "tiny", "no such length"),
    ('[lengths.tiny]\n"phase.duration" = "1s"', "full", "'tiny' is no shorter length"),
    ('[lengths.full]\n"phase.duration" = "1s"', "full", "'full' is no shorter length"),
    ('[lengths.smoke]\n"phase.reed.duration" = "1s"', "full", "no phase 'reed', did you mean 'read'?"),
    ('[lengths.smoke]\n"phase.durations" = "1s"', "full", "cannot be set, did you mean 'phase.duration'?"),
    ("[lengths.smoke]\nmin_count = 0", "full", "expected a number of I/Os from 1"),
    ("[lengths.smoke]\nmin_count = true", "full", "expected a number of I/Os from 1"),
    ("[lengths.smoke]", "full", "expected keys as --set takes them"),
    ("[lengths]\nsmoke = 3", "full", "expected keys as --set takes them"),
    ('[lengths.smoke]\n"phase.duration" = "soon"', "smoke", "soon"),
    ('[lengths.smoke]\nphase.read.duration = "1s"', "full", 'in quotes: "phase.read.duration" ='),
    ("[lengths.smoke]\nprecondition.fills = 1", "full", 'in quotes: "precondition.fills" ='),
])  # fmt: skip
def test_what_cannot_be(tmp_path: Path, tables: str, length: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Side(mine(tmp_path, tables), LAB_TESTBED, as_set(length)).plan()
    assert words in str(caught.value)
    if tables:
        line = (tmp_path / "mine.toml").read_text().split(tables)[0].count("\n") + 1
        assert f"mine.toml:{line}:" in str(caught.value) or f"mine.toml:{line + 1}:" in str(caught.value)


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_lengths_of_the_kit_can_be_planned(path: Path) -> None:
    tables = read_source(path).lengths
    assert set(tables) <= set(LENGTHS)
    for length in tables:
        plan = Side.of(path.stem, None, as_set(length)).plan()
        assert plan.workload.length == length


def test_some_workloads_have_lengths() -> None:
    having = [path.stem for path in WORKLOADS.glob("*.toml") if read_source(path).lengths]
    assert {"top-speeds", "drives", "ageing"} <= set(having)
