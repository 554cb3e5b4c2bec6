"""A run has one p50 in each tier and one count of checks, whichever command says it, in whichever form."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.core.units import format_latency
from kit.store.labels import short_name, tier_name
from kit.store.run_directory import RunDir
from tests.conftest import Called
from tests.reports import synthetic

pytestmark = pytest.mark.slow

IDS = [f"2026112{day}T053000Z-ab12cd" for day in (1, 2, 3)]
Figures = dict[tuple[str, str], str]
TIERS = [
    ("read", "dram"),
    ("read", "l2arc"),
    ("read", "disk"),
    ("write-slog", "slog"),
    ("write-pool", "pool"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    for number, name in enumerate(IDS):
        frame = synthetic.realistic(intervals=5, per_interval=120, seed=number)
        started = {"run": name, "started_utc": f"2026-11-2{number + 1}T05:30:02Z"}
        manifest = synthetic.manifest(frame, 5) | started
        reports.analyse(synthetic.write(folder / "results" / "w" / name, manifest, frame))
    return folder


def of_rows(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], Any]) -> Figures:
    """The p50 of each tier at the server, as people read it."""
    found = {(row["phase"], row["tier"]): row for row in rows if row.get("figure", "p50") == "p50"}
    return {key: format_latency(float(value(found[key]))) for key in TIERS}


def of_text(text: str, row: str) -> Figures:
    """In a table for people; `row`: a pattern with the phase, the tier and a group for the p50."""
    found = {}
    for phase, tier in TIERS:
        pattern = row.format(phase=phase, tier=re.escape(tier_name(tier)))
        (found[phase, tier],) = re.findall(pattern, text, re.MULTILINE)
    return found


def of_list(text: str) -> Figures:
    return {
        (phase, tier): re.findall(rf"{short_name(tier, '')} ([0-9.]+ .s)", text)[tier == "pool"]
        for phase, tier in TIERS
    }


def of_csv(text: str, column: str) -> Figures:
    return of_rows([*csv.DictReader(io.StringIO(text))], lambda row: row[column])


# Of the newest run: words, and how to read the p50 of each tier out of what they print.
NEWEST, OTHER = IDS[2], IDS[1]
COMPARE, TREND = f"compare {NEWEST} -- {OTHER}", f"trend {NEWEST} {OTHER}"
_P50 = r"([0-9.]+ .s)"
P50: dict[str, Callable[[str], Figures]] = {
    f"show {NEWEST}": lambda text: of_text(text, r"^\S+ B {phase}\n(?: .*\n)*? {tier} +" + _P50),
    f"show {NEWEST} --json": lambda text: of_rows(json.loads(text)["rows"], lambda row: row["p50_us"]),
    "list -n 1": of_list,
    "list -n 1 --json": lambda text: of_rows(json.loads(text)["runs"][0]["rows"], lambda row: row["p50_us"]),
    COMPARE: lambda text: of_text(text, r"^{phase}, NFS server: .* {tier}\n p50 +" + _P50),
    f"{COMPARE} --json": lambda text: of_rows(json.loads(text)["rows"], lambda row: row["a"]),
    f"{COMPARE} --format csv": lambda text: of_csv(text, "a"),
    TREND: lambda text: of_text(text, r"^{phase}, NFS server: .* {tier}\n p50 +[0-9.]+ .s +" + _P50),
    f"{TREND} --json": lambda text: of_rows(json.loads(text)["figures"], lambda row: row["values"][-1]),
    f"{TREND} --format csv": lambda text: of_csv(text, "value"),
}  # fmt: skip
COUNT: dict[str, Callable[[str], tuple[int, int]]] = {
    f"show {NEWEST}": lambda text: numbers(r"([0-9]+)/([0-9]+) checks", text),
    f"show {NEWEST} --json": lambda text: counted(json.loads(text)["outcomes"]),
    f"show {NEWEST} --checks": lambda text: numbers(r"([0-9]+) of ([0-9]+) checks hold", text),
    f"show {NEWEST} --checks --json": lambda text: counted(json.loads(text)["runs"][0]["checks"]),
    f"show {NEWEST} --format html": lambda text: numbers(r"([0-9]+) of ([0-9]+) checks", text),
}


def numbers(pattern: str, text: str) -> tuple[int, int]:
    (hold, made) = {*re.findall(pattern, text)}.pop()
    return int(hold), int(made)


def counted(checks: list[dict[str, Any]]) -> tuple[int, int]:
    judged = [each for each in checks if each["holds"] is not None]
    return sum(each["holds"] for each in judged), len(judged)


@pytest.mark.parametrize("words", P50)
def test_one_p50_in_each_tier(hsp_here: Called, results: Path, words: str) -> None:
    expected = P50[f"show {NEWEST} --json"](hsp_here("show", NEWEST, "--json", cwd=results).stdout)
    assert len({*expected.values()}) == len(TIERS)
    done = hsp_here(*words.split(), cwd=results)
    assert done.returncode == 0 and P50[words](done.stdout) == expected, done


@pytest.mark.parametrize("words", COUNT)
def test_one_count_of_checks(hsp_here: Called, results: Path, words: str) -> None:
    stored = reports.judged(RunDir(results / "results" / "w" / NEWEST)).tally
    done = hsp_here(*words.split(), cwd=results)
    assert done.returncode == 0 and COUNT[words](done.stdout) == (stored.hold, stored.made)
    assert stored.made > 20
