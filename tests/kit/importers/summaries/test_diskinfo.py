"""FreeBSD's diskinfo -wS: a phase a size, with its mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.importers.format_detection import detect
from kit.importers.source import Source
from tests.kit.importers.samples import imported, put

HEAD = (
    "/dev/ada1\n\t512         \t# sectorsize\n\t240057409536\t# mediasize in bytes (224G)\n"
    "\tINTEL SSDSC2BA\t# Disk descr.\n\tYes         \t# TRIM/UNMAP support\n\n"
)
# As printf has it: "\t%4.4g kbytes: " and "%8.1f usec/IO = %8.1f Mbytes/s\n".
ROWS = (
    "Synchronous random writes:\n\t 0.5 kbytes:    137.0 usec/IO =      3.6 Mbytes/s\n"
    "\t   4 kbytes:     85.3 usec/IO =     45.8 Mbytes/s\n"
    "\t8192 kbytes:  20567.5 usec/IO =    389.0 Mbytes/s\n"
)


def test_each_size_is_a_phase_with_its_mean(tmp_path: Path) -> None:
    path = put(tmp_path, "# diskinfo -wS ada1\n" + HEAD + ROWS, "x.txt")
    assert detect(Source(path)).name == "diskinfo"
    run = imported(path)
    found = [(p["name"], p["sums"][0]["sum_ns"] / p["sums"][0]["ios"]) for p in run.phases]
    assert found == [
        ("0.5 kB synchronous write", 137_000),
        ("4 kB synchronous write", 85_300),
        ("8192 kB synchronous write", 20_567_500),
    ]
    # 250 at a time, until a second has passed.
    assert [p["sums"][0]["ios"] for p in run.phases] == [7500, 11_750, 250]


def test_several_disks_are_told_apart(tmp_path: Path) -> None:
    run = imported(put(tmp_path, HEAD + ROWS + "\n" + HEAD.replace("ada1", "ada2") + ROWS, "x.txt"))
    assert [p["name"][:9] for p in run.phases] == ["/dev/ada1"] * 3 + ["/dev/ada2"] * 3


def test_damage_is_refused_and_a_cut_line_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 9: not a row"):
        imported(put(tmp_path, HEAD + ROWS.replace("85.3", "8x.3"), "x.txt"))
    cut = imported(put(tmp_path, (HEAD + ROWS)[:-30], "x.txt"))
    assert len(cut.phases) == 2 and "cut, left out" in cut.section["warnings"][-1]
