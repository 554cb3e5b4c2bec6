"""P2: fio's histogram logs to percentiles per second, beside the two scripts that come with fio.

Each side is a process of its own, in ABBA order, timed without its imports; what they say is compared. The
scripts are those of the installed fio
(Debian has them in its documentation); HSP_BENCH_FIO_TOOLS names another folder with them.
HSP_BENCH_JOBS (32) and HSP_BENCH_SECONDS (600) make it smaller.
"""

from __future__ import annotations

import gzip
import os
import statistics
from pathlib import Path

import numpy as np
import pytest

from tests.bench.conftest import Tell, histogram_lines, in_pairs, python

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600, func_only=True)]

JOBS = int(os.environ.get("HSP_BENCH_JOBS", "32"))
SECONDS = int(os.environ.get("HSP_BENCH_SECONDS", "600"))
FOLDERS = [os.environ.get("HSP_BENCH_FIO_TOOLS", ""), "/usr/bin", "/usr/share/doc/fio", "/usr/share/fio"]
WORKER = Path(__file__).with_name("percentiles.py")
# A bin of the kit; those of fio are half as wide, and its scripts interpolate between the middles of two.
BIN = 1 / 32
Table = dict[int, tuple[int, list[float]]]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A log per job."""
    folder, generator = tmp_path_factory.mktemp("histograms"), np.random.default_rng(2)
    paths = [folder / f"x_clat_hist.{job}.log" for job in range(1, JOBS + 1)]
    for path in paths:
        path.write_text(histogram_lines(generator, SECONDS))
    return paths


def tool(name: str, folder: Path) -> Path:
    """fio's own script, unpacked if the package has it compressed."""
    for place in filter(None, FOLDERS):
        plain, packed = Path(place) / name, Path(place) / f"{name}.gz"
        if plain.is_file():
            return plain
        if packed.is_file():
            (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
            return folder / name
    pytest.skip(f"{name} is not here: install fio")


# What the scripts import is imported before the clock starts, as the kit's is.
TIMED = """
import argparse, ast, copy, functools, math, os, re, runpy, sys, time
try:
    import numpy, pandas
except ImportError:
    pass
sys.argv = sys.argv[1:]
started = time.perf_counter()
runpy.run_path(sys.argv[0], run_name="__main__")
print("seconds", time.perf_counter() - started)
"""


def table(text: str, columns: tuple[int, ...], ns_per_unit: int) -> Table:
    """End of each second in ms -> I/Os and p50, p95, p99 in ns."""
    found = {}
    for line in text.splitlines():
        fields = line.replace(" ", "").split(",")
        if fields[0].isdigit() and all(fields[c] for c in columns):
            values = [float(fields[c]) * ns_per_unit for c in columns]
            found[int(fields[0])] = (round(float(fields[1])), values)
    return found


@pytest.mark.parametrize(
    ("name", "options", "columns", "ns_per_unit"),
    [
        ("fiologparser_hist.py", [], (4, 6, 7), 1),
        # A second's line is named after the start of the next; microseconds.
        ("fio-histo-log-pctiles.py", ["--percentiles", "50", "95", "99", "--"], (2, 3, 4), 1000),
    ],
)
def test_p2_beside_fios_scripts(
    logs: list[Path], tmp_path: Path, name: str, options: list[str], columns: tuple[int, ...],
    ns_per_unit: int, tell: Tell,
) -> None:  # fmt: skip
    pytest.importorskip("pandas", reason="tox -e bench installs it")
    peer = ["-c", TIMED, tool(name, tmp_path), *options, *logs]
    pairs = in_pairs(lambda: python(WORKER, *logs), lambda: python(*peer))
    # The last word is the seconds.
    ratio = statistics.median(float(b.split()[-1]) / float(a.split()[-1]) for a, b in pairs)
    tell("P2", f"{JOBS} jobs x {SECONDS} s, time of {name} / ours", ratio, "x", at_least=20)
    ours = table(pairs[-1][0], (2, 3, 4), 1)
    theirs = table(pairs[-1][1], columns, ns_per_unit)
    # They cut the edges of a run in their own ways; all else must be there.
    both = sorted(set(ours) & set(theirs))
    assert len(both) >= SECONDS - 2
    assert all(abs(ours[t][0] - theirs[t][0]) <= 1 for t in both), "unlike counts"
    worst = max(abs(a - b) / b for t in both for a, b in zip(ours[t][1], theirs[t][1], strict=True))
    tell("P2", f"largest difference from {name}", worst / BIN, "bins", at_most=1)
    assert worst <= BIN
