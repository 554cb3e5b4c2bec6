"""Rate over addresses: a disk by its zones, an SSD that is partly filled, on one series and its page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import find_preset
from kit.config.testbed import LAB_TESTBED
from kit.core.text import NO_BREAK
from kit.lab.image.image import Image
from kit.store.series import Series, SeriesCell, read_series
from tests.lab.conftest import hsp

PROTECTS = ("kit/emulation", "kit/load")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]
DISK_BYTES, SSD_BYTES = 640 << 20, 64 << 20

ADDRESSES = """\
format = 1
name = "whole"
title = "Addresses"
base = "addresses"

[precondition]
method = "fills"
fills = 1
filled = "25%"
roles = ["cache"]
ios = 368

[[phase]]
name = "read"
duration = "200ms"

[[phase]]
name = "ssd"
base = "read"
target = "device:cache"
duration = "100ms"
interval = "10ms"

[[phase]]
name = "write"
duration = "200ms"
"""
MEASURED = ("address=10", "address=90")
DEVICES = f"""
[[device]]
name = "disk"
role = "data"
size = "{DISK_BYTES}B"
preset = "disk-7200"
set = {{ stroke_percent = 100 }}

[[device]]
name = "ssd"
role = "cache"
size = "{SSD_BYTES}B"
preset = "ssd-2009-read"
"""


@pytest.fixture(scope="module")
def path(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the series."""
    folder = tmp_path_factory.mktemp("addresses")
    (folder / "whole.toml").write_text(ADDRESSES)
    (folder / "disk.toml").write_text(LAB_TESTBED.read_text().split("[[device]]")[0] + DEVICES)
    words = "run", os.fspath(folder / "whole.toml"), "--testbed", os.fspath(folder / "disk.toml")
    only = [word for name in MEASURED for word in ("--only", name)]
    process = hsp(*words, *only, "--age-again", results=folder)
    _, stderr = process.communicate(timeout=500)
    assert process.returncode == 0, stderr
    (found,) = (folder / "whole").glob("series-*")
    return found


@pytest.fixture(scope="module")
def series(path: Path) -> Series:
    return read_series(path)


def cells(series: Series, phase: str) -> dict[str, SeriesCell]:
    """By address, without the base that is measured last."""
    found = [cell for cell in series.cells if cell.phase == phase and not cell.again]
    return {cell.at.get("address", "0"): cell for cell in found}


def rows(path: Path, series: Series) -> dict[str, dict[str, Any]]:
    """Of summary.json of the run, by phase."""
    (run,) = {run.run for cell in series.cells for run in cell.runs}
    summary = json.loads((path.parent / run / "summary.json").read_text())
    return {row["phase"]: row for row in summary["rows"]}


def disk_rate(first: float, last: float) -> float:
    """Bytes a second between two parts of a disk's addresses, by its zones (kit/emulation/models/geometry.c).

    A zone has as many cylinders as another, so its share of the addresses is that of its rate.
    """
    disk = find_preset("disk-7200").disk
    assert disk is not None
    fall = disk.outer_per_s - disk.inner_per_s
    rates = [disk.outer_per_s - fall * (2 * z + 1) / (2 * disk.zones) for z in range(disk.zones)]
    at, seconds = 0.0, 0.0
    for rate in rates:
        end = at + rate / sum(rates)
        seconds += max(0.0, min(end, last) - max(at, first)) / rate
        at = end
    return (last - first) / seconds


@pytest.mark.parametrize("phase", ["read", "write"])
def test_a_disk_is_as_much_faster_outside_as_its_zones(path: Path, series: Series, phase: str) -> None:
    measured = cells(series, phase)
    taken = rows(path, series)
    outstanding = {"read": 1, "write": 4}[phase]
    # Without the first I/Os, which move the arm to the place: nothing else takes as long.
    rates, ends = {}, {}
    for address, cell in measured.items():
        row = taken[cell.in_run]
        ios = row["count"] - outstanding
        rates[address] = 1e6 * ios / (row["mean_us"] * row["count"] - outstanding * row["max_us"])
        ends[address] = int(address) / 100 + min(0.1, row["count"] * (128 << 10) / DISK_BYTES)
    expected = disk_rate(0, ends["0"]) / disk_rate(0.9, ends["90"])
    assert rates["0"] / rates["90"] == pytest.approx(expected, rel=0.03), (rates, expected)


def test_a_partly_filled_ssd_is_flat_where_it_was_written(series: Series) -> None:
    rates = {address: cell.runs[0].bytes_per_s or 0 for address, cell in cells(series, "ssd").items()}
    assert abs(rates["0"] / rates["10"] - 1) < 0.05, rates
    # 1.31 by the models: a read that needs no flash takes the link and the firmware alone.
    assert rates["90"] / max(rates["0"], rates["10"]) > 1.15, rates


def test_what_was_never_written_is_stored_and_shaded(path: Path, series: Series) -> None:
    unwritten = {address: cell.runs[0].never_written for address, cell in cells(series, "ssd").items()}
    assert unwritten == {"0": 0, "10": 0, "90": 1}
    assert all(run.never_written == 0 for cell in cells(series, "read").values() for run in cell.runs)
    (run,) = {run.run for cell in series.cells for run in cell.runs}
    manifest = json.loads((path.parent / run / "manifest.json").read_text())
    (device,) = manifest["precondition"]["devices"]
    assert device["filled_bytes"] == SSD_BYTES // 4
    page = (path / "report.html").read_text().replace(NO_BREAK, " ")
    assert "ssd: never-written 90 %: " in page and "no flash was read" in page
    # Three places are no profile; what they differ by is said all the same.
    assert (
        " from 0 % to 90 % of the device, too few places to tell whether it is flat (3 places differ by "
        in page
    )
    assert "Shaded: never written: answered from the map" in page
