"""`hsp pack`: the same bytes each time, and read by other commands as the run itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.store.json_file import write_json
from kit.store.load.capture import capture_of
from tests.captures import Row, capture_file
from tests.conftest import Called
from tests.kit.pack import marked
from tests.reports import synthetic_series

NUMBERS = range(1, 7)
# Two sides of three runs.
SIDES = [*NUMBERS[:3], None, *NUMBERS[3:]]


@pytest.fixture
def packed(tmp_path: Path, hsp_here: Called) -> Callable[[int], Path]:
    """A run in results/sizes by its number, with its pack NUMBER.hsp in the directory."""

    def make(number: int) -> Path:
        median = 150_000 + 1_000 * (number % 3) + 30_000 * (number > 3)
        name = synthetic_series.run(tmp_path / "results", number, {"write-slog": median})
        path = tmp_path / "results" / "sizes" / name
        done = hsp_here("pack", os.fspath(path), "-o", f"{number}.hsp", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"pack: {number}.hsp\n"), done.stderr
        return path

    return make


def without_places(text: str) -> str:
    """Without what says where the files are."""
    return re.sub(r"[\w/.:-]*(?:/results/sizes/|\.hsp/)|(?:run|report|pack): .*\n", "", text)


@pytest.mark.parametrize(
    "more", [(), ("--json",), ("--checks", "--all"), ("--format", "openmetrics")], ids=str
)
def test_show_says_of_a_pack_what_it_says_of_the_run(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called, more: tuple[str, ...]
) -> None:
    names = str(packed(1)), "1.hsp"
    of_run, of_pack = (hsp_here("show", name, *more, cwd=tmp_path) for name in names)
    assert of_run.returncode == of_pack.returncode == 0, of_pack.stderr
    assert without_places(of_run.stdout) == without_places(of_pack.stdout) != ""


def test_compare_and_trend_of_packs_are_those_of_the_runs(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called
) -> None:
    found, runs = [], {number: packed(number) for number in NUMBERS}
    for name in (lambda number: str(runs[number]), lambda number: f"{number}.hsp"):
        compared = [name(number) if number else "--" for number in SIDES]
        one = hsp_here("compare", *compared, "--json", "--worse-than", "10%", cwd=tmp_path)
        phases = hsp_here("compare", f"{name(1)}:write-slog", "--", f"{name(4)}:write-slog", cwd=tmp_path)
        trend = hsp_here("trend", *map(name, NUMBERS), "--json", cwd=tmp_path)
        assert (one.returncode, phases.returncode, trend.returncode) == (1, 0, 0), one.stderr + phases.stderr
        found.append([without_places(each.stdout) for each in (one, phases, trend)])
    assert found[0] == found[1]
    assert json.loads(found[0][0])["rows"]


def test_a_series_is_packed_with_its_runs(tmp_path: Path, hsp_here: Called) -> None:
    path = synthetic_series.series(tmp_path / "series")
    done = hsp_here("pack", os.fspath(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pack = f"{synthetic_series.ID}.hsp"
    with zipfile.ZipFile(tmp_path / pack) as file:
        assert len({name.partition("/")[0] for name in file.namelist()}) == 6
    of_series, of_pack = (hsp_here("show", name, "--json", cwd=tmp_path) for name in (str(path), pack))
    before, after = json.loads(of_series.stdout), json.loads(of_pack.stdout)
    assert before["ratios"] and before["ratios"] == after["ratios"] and before["cells"] == after["cells"]
    compared = hsp_here("compare", pack, "--", pack, cwd=tmp_path)
    assert compared.returncode == 2 and "both" in compared.stderr, compared.stderr


def test_the_same_run_is_the_same_pack(packed: Callable[[int], Path], tmp_path: Path) -> None:
    """In another process, with another seed of hashes, at another time and place."""
    path = packed(1)
    copied = tmp_path / "copied" / path.name
    shutil.copytree(path, copied)
    command = [sys.executable, "-m", "kit.cli", "pack", os.fspath(copied), "-o", tmp_path / "again.hsp"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True)
    assert (tmp_path / "again.hsp").read_bytes() == (tmp_path / "1.hsp").read_bytes()


def test_what_is_kept_is_there_and_nothing_else(tmp_path: Path, hsp_here: Called) -> None:
    of = marked.run(tmp_path / marked.RUN, "dataset", 1)
    manifest = json.loads((tmp_path / marked.RUN / "manifest.json").read_text())
    host, guid = manifest["testbed"]["server"], manifest["pool"]["guid"]

    def text(*keep: str) -> str:
        done = hsp_here("pack", marked.RUN, *(f"--keep={each}" for each in keep), "-o", "a.hsp", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        with zipfile.ZipFile(tmp_path / "a.hsp") as file:
            assert json.loads(file.read("pack.json"))["kept"] == sorted(
                ",".join(keep).split(",") if keep else []
            )
            return "".join(file.read(name).decode() for name in file.namelist() if "parquet" not in name)

    assert host not in text() and guid not in text()
    assert host in text("hosts") and guid not in text("hosts")
    both = text("hosts,serials")
    assert host in both and guid in both
    # In sentences as well: problems name the host.
    assert text("hosts").count(host) > 3
    raw = text("raw")
    assert '"commands"' in raw and any(each in raw for each in of.secret)
    done = hsp_here("pack", marked.RUN, "--keep", "disks", cwd=tmp_path)
    assert done.returncode == 2 and "serials, devices, hosts" in done.stderr


def test_a_capture_is_in_the_pack_if_it_is_kept_and_can_be_replayed_from_there(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called
) -> None:
    path = packed(1)
    rows: list[Row] = [(0, 0, 0, 0, 512, "read", False), (7 * 10**9, 0, 1, 4096, 512, "write", True)]
    capture_file(path / "capture.parquet", rows, lost=3, left_out=4)
    for name, keep in ("without", ()), ("with", ("--keep", "capture")):
        done = hsp_here("pack", os.fspath(path), *keep, "-o", f"{name}.hsp", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "with.hsp") as file:
        found = capture_of(file.read(f"{path.name}/capture.parquet"), tmp_path)
    assert (found.rows.rows(), found.lost, found.left_out) == (rows, 3, 4)
    plans = []
    for name in "with.hsp", os.fspath(path), os.fspath(path / "capture.parquet"):
        planned = hsp_here(
            "plan", "replay", "--set", f"replay.capture={json.dumps(name)}", "--json", cwd=tmp_path
        )
        assert planned.returncode == 0, planned.stderr
        plans.append({k: v for k, v in json.loads(planned.stdout).items() if k != "digest"})
    assert plans[0] == plans[1] == plans[2] != json.loads(hsp_here("plan", "replay", "--json").stdout)
    without = hsp_here("plan", "replay", "--set", 'replay.capture="without.hsp"', cwd=tmp_path)
    assert without.returncode == 2 and "hsp pack --keep capture" in without.stderr
    content = (tmp_path / "with.hsp").read_bytes()
    (tmp_path / "bad.hsp").write_bytes(content[:99] + content[100:])
    bad = hsp_here("plan", "replay", "--set", 'replay.capture="bad.hsp"', cwd=tmp_path)
    assert bad.returncode == 2 and "bad.hsp: damaged: its content" in bad.stderr


def test_a_damaged_capture_is_not_packed(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called
) -> None:
    path = packed(1)
    (path / "capture.parquet").write_bytes(b"PAR1 is no table")
    done = hsp_here("pack", os.fspath(path), "--keep", "capture", "-o", "a.hsp", cwd=tmp_path)
    assert done.returncode == 2 and "capture.parquet" in done.stderr and not (tmp_path / "a.hsp").exists()


def test_equal_names_stay_equal_and_others_differ(tmp_path: Path, hsp_here: Called) -> None:
    marked.run(tmp_path / marked.RUN, "mixed", 1)
    assert hsp_here("pack", marked.RUN, "-o", "a.hsp", cwd=tmp_path).returncode == 0
    before = json.loads((tmp_path / marked.RUN / "manifest.json").read_text())
    with zipfile.ZipFile(tmp_path / "a.hsp") as file:
        after = json.loads(file.read(f"{marked.RUN}/manifest.json"))
    assert after["testbed"]["server"] != before["testbed"]["server"]
    pairs = set(zip(hosts(before), hosts(after), strict=True))
    assert len(pairs) > 3 and len({old for old, _ in pairs}) == len(pairs) == len({new for _, new in pairs})


def hosts(value: Any, key: str = "") -> list[str]:
    if isinstance(value, dict):
        # What this version does not know is left out.
        return [each for name in sorted({*value} - {"newer"}) for each in hosts(value[name], name)]
    if isinstance(value, list):
        return [each for inner in value for each in hosts(inner, key)]
    return [value] if key in ("host", "server", "clients", "device") and isinstance(value, str) else []


def test_a_sheet_is_packed_with_its_page(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called
) -> None:
    packed(1)
    (tmp_path / "need.toml").write_text("title = 'x'\nsync_write_p99 = '1ms'\n")
    sheet = ("sheet", "1.hsp", "--need", "need.toml", "-o", "sheet.json")
    assert hsp_here(*sheet, cwd=tmp_path).returncode in (0, 1, 3)
    stored = json.loads((tmp_path / "sheet.json").read_text())
    stored["candidates"][0]["name"] = "qxdrive7"
    write_json(tmp_path / "sheet.json", stored)
    for keep, is_there in ((), False), (("--keep", "devices"), True):
        assert hsp_here("pack", "sheet.json", *keep, cwd=tmp_path).stdout == "pack: sheet.hsp\n"
        with zipfile.ZipFile(tmp_path / "sheet.hsp") as file:
            for name in ("sheet.json", "sheet.html"):
                assert (b"qxdrive7" in file.read(name)) == is_there


def test_a_damaged_pack_and_what_a_pack_has_not_are_refused(
    packed: Callable[[int], Path], tmp_path: Path, hsp_here: Called
) -> None:
    packed(1)
    content = bytearray((tmp_path / "1.hsp").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "bad.hsp").write_bytes(content)
    for command in (
        ("show", "bad.hsp"),
        ("compare", "bad.hsp", "--", "1.hsp"),
        ("trend", "bad.hsp", "1.hsp"),
    ):
        done = hsp_here(*command, cwd=tmp_path)
        assert (
            done.returncode == 2 and "bad.hsp: damaged: its content does not have the digest" in done.stderr
        )
    done = hsp_here("show", "1.hsp", "--open", cwd=tmp_path)
    assert done.returncode == 2 and "-o report.html" in done.stderr
    done = hsp_here("pack", "nothing-there", cwd=tmp_path)
    assert done.returncode == 2 and "nothing-there" in done.stderr
