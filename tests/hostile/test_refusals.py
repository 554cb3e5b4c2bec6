"""Mistakes in files that people write: each is refused by `hsp plan`, with file, line, key and remedy.

The table is also in docs/refusals.md, row by row.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Called

ROOT = Path(__file__).parents[2]

DATA = ROOT / "tests/kit/data/plan"
W, T, READ, WRITE, NAS = (
    "top-speeds.toml",
    "testbed.toml",
    "top-speeds-read.fio",
    "top-speeds-write.fio",
    "mynas.toml",
)


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` in `file`. The refusal names the line of `at` (default: of `new`), and `key`."""

    name: str
    file: str
    old: str
    new: str
    key: str
    remedy: str
    at: str = ""
    testbed: str = T

    @property
    def row(self) -> str:
        """Of the table in the documentation."""
        shown = self.new.strip().replace("\n", " ⏎ ") or f"(without `{self.old.strip()}`)"
        shown = shown if shown.startswith("(") else f"`{shown}`"
        return f"| {self.name} | {shown} | 2 | `{self.file}:{self.line}` | `{self.key}` | {self.remedy} |"

    @property
    def text(self) -> str:
        """The file with the mistake."""
        original = (ROOT / "docs/examples" if self.file == NAS else DATA) / self.file
        text = original.read_text()
        assert self.old in text
        return text.replace(self.old, self.new, 1)

    @property
    def line(self) -> int:
        """That the refusal has to name."""
        at = self.at or self.new
        assert at in self.text
        return self.text.split(at, 1)[0].count("\n") + 1


def properties(name: str, new: str, key: str, remedy: str, old: str = 'atime = "off"') -> Mistake:
    return Mistake(name, W, old, new, key, remedy)


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

MORE = (
    properties(
        "record size not a power of two",
        "recordsize = 3000",
        "dataset.properties.recordsize",
        'the nearest are "2KiB" and "4KiB"',
        "recordsize = 512",
    ),
    properties(
        "unit of ZFS, not of the kit",
        'recordsize = "128K"',
        "dataset.properties.recordsize",
        "did you mean 'KiB'?",
        "recordsize = 512",
    ),
    properties(
        "compression level that is none",
        'compression = "zstd-20"',
        "dataset.properties.compression",
        "did you mean 'zstd-19'?",
        'compression = "off"',
    ),
    properties(
        "value of a property misspelt",
        'sync = "standart"',
        "dataset.properties.sync",
        "did you mean 'standard'?",
        'sync = "standard"',
    ),
    properties(
        "number where a word is needed", "atime = 0", "dataset.properties.atime", "expected on or off"
    ),
    properties(
        "property in the wrong table",
        'compression = "lz4", ashift = 9',
        "pool.properties.compression",
        "write it into dataset.properties",
        "ashift = 9",
    ),
    properties(
        "feature misspelt",
        '"feature@lz4_compres" = "enabled", ashift = 9',
        'pool.properties."feature@lz4_compres"',
        "did you mean 'lz4_compress'?",
        "ashift = 9",
    ),
    properties(
        "ashift out of range",
        "ashift = 20",
        "pool.properties.ashift",
        "expected 0 or a number from 9 to 16",
        "ashift = 9",
    ),
    Mistake(
        "minimum above its maximum",
        W,
        'zfs_arc_min = "32MiB"',
        'zfs_arc_min = "128MiB"',
        "tunables.zfs_arc_min",
        "set both, zfs_arc_min below zfs_arc_max",
    ),
    Mistake(
        "reference misspelt",
        W,
        'reference = "sun-7410-2009"',
        'reference = "sun-7410-2008"',
        "reference",
        "did you mean 'sun-7410-2009'?",
    ),
    Mistake(
        "maximum below the default minimum",
        W,
        "l2arc_headroom = 8",
        "zfs_vdev_sync_read_max_active = 1",
        "tunables.zfs_vdev_sync_read_max_active",
        "set both, zfs_vdev_sync_read_min_active not above zfs_vdev_sync_read_max_active",
    ),
    Mistake(
        "ARC not above the default minimum",
        W,
        'zfs_arc_min = "32MiB"\n',
        "",
        "tunables.zfs_arc_max",
        'add zfs_arc_min = "32MiB"',
        at="zfs_arc_max",
    ),
    Mistake(
        "ARC larger than the guest",
        W,
        'zfs_arc_max = "64MiB"',
        'zfs_arc_max = "8GiB"',
        "tunables.zfs_arc_max",
        "is not below the memory of the server",
    ),
    Mistake(
        "time without unit",
        W,
        'zfs_txg_timeout = "5s"',
        "zfs_txg_timeout = 5",
        "tunables.zfs_txg_timeout",
        'a time needs its unit, such as "5s"',
    ),
    Mistake(
        "tunable of another module",
        W,
        "l2arc_headroom = 8",
        "spl_kmem_alloc_max = 1",
        "tunables.spl_kmem_alloc_max",
        "remove it",
    ),
    Mistake(
        "tunable that is read only",
        W,
        "l2arc_headroom = 8",
        "zfs_dirty_data_max_max = 1",
        "tunables.zfs_dirty_data_max_max",
        "remove it",
    ),
    Mistake(
        "time_based forgotten", READ, "time_based\n", "", "[read] time_based", "add time_based", at="[read]"
    ),
    Mistake("direct forgotten", READ, "direct=1\n", "", "[read] direct", "add direct=1", at="[read]"),
    Mistake(
        "io_size above the set",
        READ,
        "norandommap",
        "io_size=1g",
        "[read] io_size=1g",
        "write io_size=${HSP_SIZE}",
    ),
    Mistake(
        "number of I/Os beside time_based",
        READ,
        "norandommap",
        "number_ios=1000",
        "[read] number_ios=1000",
        "remove it",
    ),
    Mistake(
        "depth with an engine that has none",
        READ,
        "ioengine=psync",
        "ioengine=psync\niodepth=8",
        "[read] iodepth=8",
        "write ioengine=libaio, or numjobs=8",
        at="iodepth=8",
    ),
    Mistake(
        "latencies switched off",
        READ,
        "norandommap",
        "disable_lat=1",
        "[read] disable_lat=1",
        "remove it",
    ),
    Mistake("fio option misspelt", READ, "bs=512", "blocksze=512", "blocksze", "did you mean 'blocksize'?"),
    Mistake(
        "file that is not the working set",
        READ,
        "filename=working-set",
        "filename=data",
        "[read] filename",
        "write filename=working-set",
    ),
    Mistake(
        "job file misspelt",
        W,
        'job = "top-speeds-write.fio"\ntiers = ["slog"]',
        'job = "top-speed-write.fio"\ntiers = ["slog"]',
        "phase[1].job",
        "did you mean 'top-speeds-write.fio'?",
    ),
    Mistake(
        "workload that is no base",
        W,
        "format = 1\n",
        'format = 1\nbase = "top-sped"\n',
        "base",
        "did you mean 'top-speeds'?",
        at='base = "top-sped"',
    ),
    Mistake(
        "tier of another operation",
        W,
        'tiers = ["slog"]',
        'tiers = ["dram"]',
        "phase[1].tiers",
        "give the phase a job that reads",
    ),
    Mistake(
        "removed device still expected",
        W,
        'remove = "log"\n',
        "",
        "phase[2].tiers",
        'add remove = "log" to the phase',
        at='tiers = ["pool"]',
    ),
    Mistake(
        "two phases of one name",
        W,
        'name = "write-pool"',
        'name = "write-slog"',
        "phase[2].name",
        "give each its own name",
        at='name = "write-slog"\ntitle = "512 B O_DSYNC writes, log',
    ),
    Mistake(
        "phase called as the warm-up",
        W,
        'name = "read"',
        'name = "warm-up"',
        "phase[0].name",
        "choose another",
    ),
    Mistake(
        "interval longer than the phase",
        W,
        'duration = "1500ms"',
        'duration = "10ms"',
        "phase[1].duration",
        "duration must be at least one interval (50ms)",
    ),
    Mistake(
        "every I/O of a long phase",
        W,
        'duration = "6s"',
        'duration = "16min"',
        "phase[0].duration",
        'write log = "histograms" in this phase',
    ),
    Mistake(
        "histograms of a day in short intervals",
        W,
        'duration = "6s"',
        'duration = "24h"\nlog = "histograms"',
        "phase[0].interval",
        'write interval = "1s"',
        at='interval = "200ms"',
    ),
    Mistake(
        "kind of log misspelt",
        W,
        'duration = "6s"',
        'duration = "6s"\nlog = "histogram"',
        "phase[0].log",
        "did you mean 'histograms'?",
        at='log = "histogram"',
    ),
    Mistake(
        "a log of every I/O that is to be resumed",
        W,
        'duration = "6s"',
        'duration = "6s"\nresumable = true',
        "phase[0].resumable",
        "add it, or remove resumable",
        at="resumable = true",
    ),
    Mistake(
        "more in the L2ARC than it holds",
        W,
        'l2arc_min = "32MiB"',
        'l2arc_min = "65MiB"',
        "warmup.l2arc_min",
        "make it smaller",
    ),
    Mistake(
        "deadline before the windows are over",
        W,
        'deadline = "30s"',
        'deadline = "1s"',
        "warmup.deadline",
        "make it longer, or the windows fewer",
    ),
    Mistake(
        "shares that add up to more than all",
        W,
        'tier = "dram"\nmin_count = 500\n\n[[expect]]\nphase = "read"\nop = "read"\ntier = "l2arc"\n',
        'tier = "dram"\nshare_min = 0.7\n\n[[expect]]\nphase = "read"\nop = "read"\n'
        'tier = "l2arc"\nshare_min = 0.6\n',
        "expect[1].share_min",
        "make them smaller",
        at="share_min = 0.6",
    ),
    Mistake(
        "layout without its devices",
        W,
        'data = "stripe"',
        'data = "raidz1"',
        "pool.data",
        "take stripe",
    ),
    Mistake(
        "set larger than the devices",
        W,
        'size = "72MiB"',
        'size = "400MiB"',
        "working_set.size",
        "make it smaller",
    ),
    Mistake(
        "block of the fill above the set",
        W,
        'file = "working-set"',
        'file = "working-set"\nfill_block = "1GiB"',
        "working_set.fill_block",
        "make it smaller",
        at="fill_block",
    ),
    Mistake("bs that is no size", READ, "bs=512", "bs=512b,4k", "bs", "one size such as 512, 8k or 1m"),
    Mistake(
        "key twice",
        W,
        'file = "working-set"',
        'file = "a"\nfile = "b"',
        "working_set.file",
        "given twice",
        at='file = "b"',
    ),
    Mistake(
        "preset misspelt",
        T,
        'model = "null_blk"\nsize = "64MiB"\nlatency = "130us"',
        'preset = "ssd-2009-raed"\nsize = "64MiB"',
        "device[1].preset",
        "did you mean 'ssd-2009-read'?",
        at="preset",
    ),
    Mistake(
        "two devices of one name",
        T,
        'name = "log0"',
        'name = "data0"',
        "device[2].name",
        "give each its own name",
        at='name = "data0"\nrole = "log"',
    ),
    Mistake(
        "no data device",
        T,
        'role = "data"',
        'role = "cache"',
        "device",
        "hsp devices",
        at='[[device]]\nname = "log0"',
    ),
    Mistake(
        "device without its serial",
        NAS,
        'serial = "V1GABCDE"\n',
        "",
        "device[0].serial",
        "`hsp devices --testbed FILE` shows it",
        at="[[device]]",
        testbed=NAS,
    ),
    Mistake(
        "client in the lab, server not",
        NAS,
        'host = "ssh://root@client1"',
        'host = "lab"',
        "client[0].host",
        "all must be in the lab, or none",
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
