"""What is stored as JSON comes back; what is damaged is refused with exit code 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.store import json_file, tables
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.summary import read_summary

pytestmark = pytest.mark.any_python

SUMMARY: dict[str, Any] = {
    "format": 1, "verdict": "valid", "reasons": [],
    "accounting": {"client_ios": 1, "server_ios": 1, "lost_events": 0, "phases": []},
    "rows": [{
        "phase": "read", "layer": "client", "op": "read", "tier": "all", "count": 1, "share": 1.0,
        "min_us": 1.5, "p50_us": None, "p95_us": None, "p99_us": None, "p999_us": None, "max_us": 1.5,
        "range_us": [1.5, 1.5], "published": None,
    }],
}  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}, object()])
def test_what_is_no_json_is_not_written(tmp_path: Path, value: Any) -> None:
    file = tmp_path / "x.json"
    file.write_text("old")
    with pytest.raises((ValueError, TypeError)):
        json_file.write_json(file, value)
    assert file.read_text() == "old"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(json_values)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "round-trip.json"
    json_file.write_json(file, value)
    assert json_file.read_json(file) == value


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"format": 1, "x', "not a readable JSON file"),
        (b"", "not a readable JSON file"),
        (b'{"format": 1, "x": NaN}', "NaN is not a number"),
        (b'{"format": 1, "x": -Infinity}', "-Infinity is not a number"),
        (b'{"format": 1, "x": "\xff"}', "not a readable JSON file"),
        (b'{"format": 3}', "format 3, hsp "),
        (b'{"format": "1"}', 'format "1"'),
        (b'{"format": true}', "format true"),
        (b"{}", ": no format, hsp "),
        (b"[1]", ": no format, hsp "),
        (b'{"format": 1, "x": 1e999}', ""),
        (b"[" * 200_000, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["summary", "manifest"])
def test_damaged_json_is_refused(run: RunDir, name: str, content: bytes, problem: str) -> None:
    file = run.path / f"{name}.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        {"summary": read_summary, "manifest": read_manifest}[name](run)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"{file}: ")
    assert problem in caught.value.message


@given(st.integers(0, 200))
def test_every_truncation_of_a_summary_is_refused(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    content = json.dumps(SUMMARY).encode()
    run = RunDir(tmp_path_factory.getbasetemp())
    (run.path / "summary.json").write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(ConfigError):
        read_summary(run)


def test_a_good_summary_and_manifest_are_read(run: RunDir) -> None:
    for name, read, rest in (("summary", read_summary, SUMMARY), ("manifest", read_manifest, {})):
        stored = {**rest, "format": 1, "title": name}
        json_file.write_json(run.path / f"{name}.json", stored)
        value: Any = read(run)
        assert value.as_json() == stored


@pytest.mark.parametrize("other", [0, 2])
def test_another_format_is_refused_with_what_to_do(run: RunDir, other: int) -> None:
    json_file.write_json(run.path / "summary.json", {**SUMMARY, "format": other})
    with pytest.raises(ConfigError, match=f"format {other}, hsp [0-9.]+ reads format 1$") as caught:
        read_summary(run)
    hint = caught.value.hint
    assert "the version of the kit that wrote the file" in hint and "measured or imported again" in hint


def test_half_a_character_becomes_a_question_mark(run: RunDir) -> None:
    text = r'{"format": 1, "\udcff": ["a\uD800b", "\ud83d\ude00", "\\ud800"]}'
    (run.path / "manifest.json").write_text(text)
    read = read_manifest(run).as_json()
    assert read == {"format": 1, "?": ["a?b", "\U0001f600", "\\ud800"]}


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        read_summary(RunDir(tmp_path))
    assert "results/<workload>/<run>" in caught.value.hint


def test_a_huge_file_is_not_read(run: RunDir) -> None:
    with (run.path / "summary.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(ConfigError, match="larger than 64 MiB"):
        read_summary(run)


@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "latency.parquet", "ageing.parquet"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_not_waited_for(
    run: RunDir, name: str, make: Callable[[Path], None]
) -> None:
    make(run.path / name)
    read = {
        "summary.json": read_summary,
        "manifest.json": read_manifest,
        "latency.parquet": tables.read_latency,
        "ageing.parquet": tables.read_ageing,
    }[name]
    with pytest.raises(ConfigError, match=f"{name}: not a file") as caught:
        read(run)
    assert "copy it again" in caught.value.hint
