"""Mistakes in files that people write: each is refused by `hsp plan`, with file, line, key and remedy.

The table is also in docs/refusals.md, row by row.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Called
from tests.hostile.mistake import DATA, NAS, READ, ROOT, Mistake, T, W, properties
from tests.hostile.more_mistakes import MORE

OF_THE_ISSUE = (
    properties(
        "dataset property misspelt",
        "recordsze = 512",
        "dataset.properties.recordsze",
        "did you mean 'recordsize'?",
        "recordsize = 512",
    ),
    properties(
        "pool property misspelt",
        "ashfit = 9",
        "pool.properties.ashfit",
        "did you mean 'ashift'?",
        "ashift = 9",
    ),
    Mistake(
        "tunable misspelt",
        W,
        "zfs_arc_max = ",
        "zfs_arc_mx = ",
        "tunables.zfs_arc_mx",
        "did you mean 'zfs_arc_max'?",
    ),
    Mistake(
        "tunable below its limit",
        W,
        'zfs_arc_max = "64MiB"',
        'zfs_arc_max = "32MiB"',
        "tunables.zfs_arc_max",
        "is below 64MiB, the least that OpenZFS takes",
    ),
    Mistake(
        "expectation of an unknown phase",
        W,
        'phase = "write-pool"',
        'phase = "write-pol"',
        "expect[4].phase",
        "did you mean 'write-pool'?",
    ),
    Mistake(
        "expectation of another operation",
        W,
        'op = "write"\ntier = "slog"',
        'op = "read"\ntier = "slog"',
        "expect[3].op",
        'write op = "write"',
        at='op = "read"\ntier = "slog"',
    ),
    Mistake(
        "expectation of another tier",
        W,
        'tier = "slog"\nmin_count',
        'tier = "pool"\nmin_count',
        "expect[3].tier",
        "add it to the phase's tiers",
    ),
    Mistake(
        "fio size above the set",
        READ,
        "size=${HSP_SIZE}",
        "size=1g",
        "[read] size=1g",
        "write size=${HSP_SIZE}",
    ),
    Mistake(
        "runtime bypasses the duration",
        READ,
        "runtime=${HSP_RUNTIME}",
        "runtime=10s",
        "[read] runtime=10s",
        "write runtime=${HSP_RUNTIME}",
    ),
    Mistake(
        "bs bypasses the record size", READ, "bs=512", "bs=4k", "[read] bs", "make bs smaller, or that larger"
    ),
    Mistake(
        "bare path of a device",
        NAS,
        "/dev/disk/by-id/nvme-INTEL_SSDPE21K375GA_PHKE730000AB375AGN",
        "/dev/sda",
        "device[3].path",
        "a link such as /dev/disk/by-id/",
        testbed=NAS,
    ),
)

MISTAKES = OF_THE_ISSUE + MORE


def write(folder: Path, mistake: Mistake) -> None:
    """Copies of the files, with the mistake."""
    for file in (*DATA.iterdir(), ROOT / "docs/examples/mynas.toml"):
        shutil.copy(file, folder)
    (folder / mistake.file).write_text(mistake.text)
    if mistake.testbed == NAS:
        # Real devices age: the workload has to say how to precondition them.
        workload = folder / W
        workload.write_text(workload.read_text().replace("[pool]", 'precondition = "none"\n[pool]', 1))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_has_file_line_key_and_remedy(hsp_here: Called, tmp_path: Path, mistake: Mistake) -> None:
    write(tmp_path, mistake)
    done = hsp_here("plan", W, "--testbed", mistake.testbed, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    start = f"{mistake.file}:{mistake.line}: {mistake.key}"
    own = [text for text in done.stderr.splitlines() if start in text]
    assert own, done.stderr
    assert mistake.remedy in own[0]


def test_there_are_twenty_more_than_in_the_issue() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)
    assert len(MORE) >= 20


def test_the_files_without_mistakes_are_planned(hsp_here: Called, tmp_path: Path) -> None:
    write(tmp_path, Mistake("", W, "format = 1", "format = 1", "", ""))
    assert hsp_here("plan", W, "--testbed", T, cwd=tmp_path).returncode == 0


def test_a_process_of_its_own_says_it_too(tmp_path: Path) -> None:
    write(tmp_path, MISTAKES[0])
    argv = [sys.executable, "-m", "kit.cli", "plan", W, "--testbed", T, "--json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{W}:{MISTAKES[0].line}: dataset.properties.recordsze: " in done.stderr


def test_the_table_in_the_documentation_has_every_mistake() -> None:
    text = (ROOT / "docs/refusals.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert rows == [mistake.row for mistake in MISTAKES]
