"""kit.session.repeated_runs: in which order, and when it is enough; `hsp run` refuses what makes no sense."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reports
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.core.progress import Progress
from kit.session import repeated_runs
from kit.session.measure import MeasuredRun
from kit.session.place import Request
from kit.session.presentation import code_of
from kit.session.side import Side
from kit.store.checks.known_failures import Known
from kit.store.parts.comparison import ComparedRow
from kit.store.run_directory import RunDir
from kit.store.summary import Summary
from tests.reports import synthetic

ROOT = Path(__file__).parents[3]
Called = Callable[..., subprocess.CompletedProcess[str]]


def test_the_order_is_abba() -> None:
    assert "".join(repeated_runs.order(5)) == "ABBAABBAAB"


@given(st.integers(1, 100))
def test_each_side_is_run_as_often_and_a_drift_falls_on_both(count: int) -> None:
    turns = repeated_runs.order(count)
    assert turns.count("A") == turns.count("B") == count
    places = {letter: [n for n, turn in enumerate(turns) if turn == letter] for letter in "AB"}
    # A steady drift adds the same to both sides, but for a last incomplete ABBA.
    assert abs(sum(places["A"]) - sum(places["B"])) == count % 2
    # After every second run both sides have as many.
    assert all(turns[:n].count("A") == turns[:n].count("B") for n in range(0, 2 * count, 2))


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.5%", 0.005), ("99%", 0.99)])
def test_widths(text: str, value: float) -> None:
    assert repeated_runs.parse_width(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "0%", "-1%", "100%", "nan%", "%", "", "x%", "inf%"])
def test_what_is_no_width(text: str) -> None:
    with pytest.raises(ConfigError, match="not a width"):
        repeated_runs.parse_width(text)


def row(interval: list[float] | None, figure: str = "p50", layer: str = "nfs-server") -> dict[str, Any]:
    return {"layer": layer, "figure": figure, "interval": interval}


@pytest.mark.parametrize(
    ("rows", "enough"),
    [
        ([], False),
        ([row(None)], False),
        ([row([0.98, 1.02])], True),
        ([row([1.18, 1.22])], True),
        ([row([0.9, 1.1])], False),
        ([row([0.98, 1.02]), row([0.9, 1.1])], False),
        ([row([0.98, 1.02]), row([0.5, 2.0], figure="p99")], True),
        ([row([0.98, 1.02]), row([0.5, 2.0], layer="client")], True),
        ([row([0.98, 1.02]), row(None)], True),
        # Only the clients say anything where the server is an appliance.
        ([row([0.98, 1.02], layer="client")], True),
        ([row([0.9, 1.1], layer="client")], False),
        ([row(None), row([0.98, 1.02], layer="client")], False),
    ],
)
def test_when_the_intervals_are_narrow_enough(rows: list[dict[str, Any]], enough: bool) -> None:
    assert repeated_runs.narrow_enough([ComparedRow.model_construct(**row) for row in rows], 0.05) is enough


def test_the_spread_over_runs() -> None:
    def summary(*values: float | None) -> Summary:
        rows = [{"tier": f"t{n}", "p50_us": value} for n, value in enumerate(values)]
        return synthetic.summary_of([*rows, {"layer": "client", "p50_us": 1.0}])

    found = repeated_runs.spread([summary(5.0, None), summary(4.0, 9.0), summary(6.0, None)])
    assert [(one["tier"], one["runs"], one["p50_us"]) for one in found] == [
        ("t0", 3, [4.0, 6.0]), ("t1", 1, [9.0, 9.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeat", "2", "--known", "/nonexistent.toml"], "/nonexistent.toml"),
        (["--versus-workload", "top-speeds", "--repeat", "4", "--until", "5"], "not a width"),
        (["--versus", "/nonexistent.toml", "--repeat", "2"], "/nonexistent.toml"),
        (["--versus-workload", "nonesuch", "--repeat", "2"], "nonesuch"),
        (["--repeat", "0"], "it must be at least 1"),
        (["--repeat", "101"], "it must be at most 100"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_built(
    arguments: list[str], said: str, tmp_path: Path, hsp_here: Called
) -> None:
    done = hsp_here("run", "top-speeds", "--results", str(tmp_path), *arguments, cwd=ROOT)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_testbeds_that_are_not_alike_are_refused_before_the_first_run(
    hsp_here: Called, tmp_path: Path
) -> None:
    other = tmp_path / "other.toml"
    text = LAB_TESTBED.read_text()
    assert 'preset = "ssd-2009-read"' in text
    other.write_text(text.replace('preset = "ssd-2009-read"', 'preset = "ssd-2009-write"'))
    words = ["run", "top-speeds", "--versus", str(other), "--repeat", "2", "--results", str(tmp_path / "r")]
    done = hsp_here(*words, cwd=ROOT)
    assert done.returncode == 2, done.stderr
    assert "testbed.devices.cache0.parameters.ssd.read: A has" in done.stderr
    assert "what you compare: --across testbed.devices.cache0\n" in done.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("check", "codes"), [("LOST-EVENTS:read", [0, 0]), ("LOST-EVENTS:r*", [0, 3])])
def test_a_known_failure_of_each_repeat_is_no_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, codes: list[int]
) -> None:
    """Two runs of one side: the second has a failure more, which is new, or has not."""
    known = (Known(check=check, reason="a slow CPU"),)
    runs = iter(codes)

    def measure(_: Any, __: Any, request: Request, ___: Any) -> MeasuredRun:
        manifest = synthetic.manifest()
        manifest["phases"][0]["lost_events"] = 2
        if next(runs):
            manifest["problems"] = [{"code": "host-health", "text": "it slept"}]
        name = f"20261121T05000{len(list(tmp_path.iterdir()))}Z-00000a"
        synthetic.write(tmp_path / name, manifest, synthetic.latency())
        analysed = reports.analyse(RunDir(tmp_path / name), known=request.known)
        return MeasuredRun(RunDir(tmp_path / name), analysed, code_of(analysed.summary), None)

    monkeypatch.setattr(repeated_runs, "measure", measure)
    monkeypatch.setattr(repeated_runs, "prepare", lambda *_, **__: None)
    side = Side("top-speeds", LAB_TESTBED)
    xml = tmp_path.parent / f"{tmp_path.name}.xml"
    request = Request(tmp_path, json_output=True, junit=xml, count=2, known=known)
    code = repeated_runs.repeat([side], request, Progress(quiet=True))
    assert code == max(codes)
    suites = ET.parse(xml).getroot()
    assert [int(str(suite.get("errors"))) > 0 for suite in suites] == [bool(each) for each in codes]
    assert not list(suites.iter("failure")) and len(suites) == 2
