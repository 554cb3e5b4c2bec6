"""Texts of a stranger's run or series in what is handed on: CSV, JUnit; and values that ended a command."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.store.baselines import run_of_baseline
from kit.store.json_file import read_json, write_json
from reports.output.export import exported
from reports.output.junit import add_outcome, case, document, junit
from tests.conftest import Called
from tests.reports import synthetic, synthetic_series

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES = ["\x1b[31mred", "\x9b2J", "a\nb", "=cmd|' /C calc'!A1", "\u202egnp", "+1", "@x"]
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("name", NAMES)
def test_no_column_of_csv_acts(name: str) -> None:
    frame = pl.DataFrame({name: ["x"], f"{name}!": ["y"], "n": [1]})
    text = exported(frame, "csv", None).decode()
    header, *_ = text.splitlines()
    assert not UNSAFE.search(text) and len(text.splitlines()) == 2
    assert not re.match(r'"?[=+\-@]', header)


def test_columns_that_are_alike_once_they_are_safe_stay_apart() -> None:
    text = exported(pl.DataFrame({"a\n": [1], "a\r": [2], "a?": [3]}), "csv", None).decode()
    assert text == "a?,a? #2,a? #3\n1,2,3\n"


def test_a_series_with_strange_axes_is_exported(tmp_path: Path, hsp_here: Called) -> None:
    path = synthetic_series.series(tmp_path)
    value = json.loads((path / "series.json").read_text().replace('"bs"', json.dumps("=\x1b[31m\n")))
    write_json(path / "series.json", value)
    done = hsp_here("show", str(path), "--format", "csv")
    assert done.returncode == 0 and not UNSAFE.search(done.stdout)
    assert not done.stdout.startswith("=")


def test_parquet_of_a_series_is_not_written_to_a_terminal(tmp_path: Path) -> None:
    path = synthetic_series.series(tmp_path)
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "kit.cli", "show", str(path), "--format", "parquet"]
    done = subprocess.run(words, stdout=theirs, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2 and "parquet is not for a terminal" in done.stderr


@pytest.mark.parametrize("name", [*NAMES, "\x00\x01", "\ud800"])
def test_junit_is_xml_without_controls_wherever_a_text_stands(name: str) -> None:
    suite = ET.Element("testsuite", name=name)
    made = case(suite, f"{name}.x", name)
    add_outcome(made, "failure", name, [name])
    add_outcome(made, "skipped", name, [])
    content = document(suite)
    ET.fromstring(content)
    assert not UNSAFE.search(content.decode())
    title = synthetic.summary_of(workload=name.replace("\ud800", ""))
    assert not UNSAFE.search(junit(title).decode())


def test_a_series_has_a_suite_with_a_safe_name(tmp_path: Path, hsp_here: Called) -> None:
    path, target = synthetic_series.series(tmp_path, name="bad\x00\x1b[31m"), tmp_path / "junit.xml"
    hsp_here("show", str(path), "--junit", str(target))
    ET.fromstring(target.read_bytes())
    assert not UNSAFE.search(target.read_text())


@pytest.mark.parametrize("path", ["x" * 5000, "\x00", "a/" * 3000, "..", ""])
def test_a_baseline_at_no_place_is_refused(tmp_path: Path, path: str) -> None:
    entry = {"path": path, "run": "x", "set_utc": "2026-01-01T00:00:00Z"}
    write_json(tmp_path / "baselines.json", {"format": 1, "baselines": {"default": entry}})
    with pytest.raises(ConfigError):
        run_of_baseline(tmp_path, "default")


WORKLOADS = {
    "phases that are a number": "phase = 2\n",
    "phases that are a text": 'phase = "read"\n',
    "a phase that is no table": "phase = [2, {name = 'read', base = 'read'}]\n",
    "a phase that is a list": "phase = [[]]\n",
    "expectations that are a number": "expect = 2\n",
    "lengths that are a number": "lengths = 2\n",
    "a length without phases": "phase = 2\n[lengths.smoke]\n'phase.read.duration' = '1s'\nmin_count = 1\n",
}


@pytest.mark.parametrize("text", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("base", ["", 'base = "top-speeds"\n'])
@pytest.mark.parametrize("options", [[], ["--length", "smoke"]], ids=["", "smoke"])
def test_a_workload_without_tables_is_refused(
    tmp_path: Path, hsp_here: Called, text: str, base: str, options: list[str]
) -> None:
    path = tmp_path / "w.toml"
    path.write_text(f'{base}format = 1\nname = "w"\ntitle = "w"\n{text}')
    done = hsp_here("plan", str(path), *options)
    assert done.returncode == 2 and "w.toml" in done.stderr and "a defect" not in done.stderr, done.stderr


def test_a_device_of_no_size_is_refused(tmp_path: Path, hsp_here: Called) -> None:
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    value = read_json(run.path / "manifest.json")
    value["testbed"]["devices"][0]["size_bytes"] = -1
    write_json(run.path / "manifest.json", value)
    done = hsp_here("show", str(run.path))
    assert done.returncode == 2 and "size_bytes" in done.stderr


def ended_by_ctrl_c(words: list[str], ready: Any, cwd: Path) -> int:
    """Exit code of a command that was interrupted once it was `ready`; without it, it would wait on."""
    with subprocess.Popen(
        [sys.executable, "-m", "kit.cli", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(cwd)}, text=True,
    ) as process:  # fmt: skip
        ready(process)
        process.send_signal(signal.SIGINT)
        try:
            # asyncssh waits 60 s for a greeting.
            process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.returncode


def test_ctrl_c_ends_a_page_of_a_run_that_has_ended(tmp_path: Path) -> None:
    """polars puts a handler before Python's, with which an untimed wait goes on for good."""
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency(3))
    write_json(run.path / "plan.json", {"workload": {"name": "w", "title": "w"}})
    run.report.write_text("x")

    def ready(process: Any) -> None:
        for line in process.stderr:
            if "Ctrl-C ends it" in line:
                return

    assert ended_by_ctrl_c(["show", "--live", str(run.path)], ready, tmp_path) == 0


def test_ctrl_c_ends_a_connection_to_a_silent_host(tmp_path: Path) -> None:
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (tmp_path / "t.toml").write_text(
            f'name = "t"\n[server]\nhost = "ssh://127.0.0.1:{port}"\n'
            f'[[client]]\nhost = "ssh://127.0.0.1:{port}"\n'
            '[[device]]\nname = "d0"\nrole = "data"\npath = "/dev/disk/by-id/x"\n'
            'serial = "X"\nsize = "1GiB"\n'
        )

        def ready(process: Any) -> None:
            silent.settimeout(60)
            kept.append(silent.accept()[0])

        words = ["host", "check", "--testbed", str(tmp_path / "t.toml")]
        code = ended_by_ctrl_c(words, ready, tmp_path)
    for each in kept:
        each.close()
    assert code == 130
