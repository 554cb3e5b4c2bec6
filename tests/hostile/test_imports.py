"""Files of fio without latencies, or with latencies in an unusual way: `hsp import` names each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Called
from tests.process import hsp

pytestmark = pytest.mark.slow

LATENCIES_NS = [100_000 + 7_000 * (number % 40) for number in range(2000)]


def log(values: list[int], start_ms: int = 0, size: int = 4096) -> str:
    """One I/O at a time, each of which took as long as LATENCIES_NS says, whatever the values."""
    now_ns, lines = 0, []
    for value, latency_ns in zip(values, LATENCIES_NS, strict=True):
        now_ns += latency_ns
        lines.append(f"{start_ms + now_ns // 1_000_000}, {value}, 0, {size}, 0, 0\n")
    return "".join(lines)


def bandwidths(size: int = 4096) -> list[int]:
    """KiB/s, as fio's add_bw_sample has them."""
    return [size * 10**9 // 1024 // latency_ns for latency_ns in LATENCIES_NS]


@pytest.fixture
def imported(hsp_here: Called, tmp_path: Path) -> Called:
    """imported(name, content, *words): `hsp import` of a file of that name."""

    def call(name: str, content: str, *words: str) -> subprocess.CompletedProcess[str]:
        return hsp_here(*written(tmp_path, name, content), *words)

    return call


def written(tmp_path: Path, name: str, content: str) -> tuple[str, ...]:
    """The command that imports it."""
    (tmp_path / name).write_text(content)
    return "import", str(tmp_path / name), "--results", str(tmp_path / "results")


def refused(done: subprocess.CompletedProcess[str], tmp_path: Path) -> str:
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "results").exists()
    return done.stderr


NORMAL = """\
write: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
fio-3.33
Starting 1 process

write: (groupid=0, jobs=1): err= 0: pid=2: Sun Nov 22 19:00:22 2026
  read: IOPS=1690, BW=6763KiB/s (6925kB/s)(2028KiB/300msec)

Run status group 0 (all jobs):
   READ: bw=6763KiB/s (6925kB/s), 6763KiB/s-6763KiB/s (6925kB/s-6925kB/s), io=2028KiB, run=300-300msec
"""
TERSE = (
    "3;fio-3.33;write;0;0;1296;4291;1072;302;0;0;0.000000;0.000000;0;12971;688.785870;1569.086935;1.0%=0\n"
)
TERSE_2 = "2;j;0;0;2656;8823;2205;301;0;0;0.000000;0.000000;13;6686;195.379938;542.218281;1.000000%=14\n"
PLAIN = json.dumps(
    {
        "fio version": "fio-3.33",
        "jobs": [{"jobname": "j", "read": {"total_ios": 507, "clat_ns": {"N": 507}}}],
    },
    indent=2,
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x_bw.1.log", log(bandwidths()), "by its name a bandwidth log (write_bw_log): its values are KiB/s"),
        ("x_bw.log.nodeA", log(bandwidths()), "by its name a bandwidth log (write_bw_log)"),
        ("x_iops.1.log", log([1] * 2000), "by its name an IOPS log (write_iops_log): its values are I/Os"),
        ("x_slat.1.log", log([2700] * 2000), "by its name a log of submissions (slat)"),
        ("renamed.txt", log([1] * 2000), "values at its begin are 1: an IOPS log"),
        ("renamed.txt", log(bandwidths()), "by its values it may be a bandwidth log (write_bw_log)"),
    ],
)
def test_logs_of_the_same_columns_are_no_latencies(
    tmp_path: Path, imported: Called, name: str, content: str, said: str
) -> None:
    message = refused(imported(name, content), tmp_path)
    assert said in message and "--from fio-log insists" in message
    insisted = imported(name, content, "--from", "fio-log")
    assert insisted.returncode == 0 and "2,000 of 2,000 I/Os counted" in insisted.stderr, insisted.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (NORMAL, "this is fio's normal output (--output-format=normal)"),
        ("fio: some warning\n" + NORMAL, "this is fio's normal output"),
        (TERSE, "this is fio's terse output (--output-format=terse)"),
        (TERSE_2, "this is fio's terse output"),
        (PLAIN, "fio's plain JSON (--output-format=json) has none"),
        ("warning\n" + PLAIN, "fio's plain JSON (--output-format=json) has none"),
    ],
)
@pytest.mark.parametrize("words", [(), ("--from", "fio-json")])
def test_reports_of_fio_are_called_what_they_are(
    tmp_path: Path, imported: Called, content: str, said: str, words: tuple[str, ...]
) -> None:
    message = refused(imported("out.txt", content, *words), tmp_path)
    assert said in message and "--output-format=json+" in message


def test_what_is_special_in_a_log_is_said(tmp_path: Path, imported: Called) -> None:
    done = hsp(*written(tmp_path, "x_lat.log", log(LATENCIES_NS)))
    assert done.returncode == 0 and "a log of all jobs (per_job_logs=0)" in " ".join(done.stdout.split())
    done = imported("x_clat.1.log", log(LATENCIES_NS, start_ms=1_795_374_022_504))
    assert done.returncode == 0 and "(log_unix_epoch), from 2026-11-22T19:00:22Z" in " ".join(
        done.stdout.split()
    )
    assert "per_job_logs" not in done.stderr


def test_a_paced_job_has_latencies_by_its_name(imported: Called) -> None:
    """4 KiB at 10,000 a second, 41 us each: by chance the values fit a bandwidth as well."""
    rows = "".join(f"{n // 10}, {37_000 + 617 * (n % 14)}, 0, 4096, 0\n" for n in range(1500))
    done = imported("paced_lat.1.log", rows)
    assert done.returncode == 0 and "1,500 of 1,500 I/Os counted" in done.stderr, done.stderr
    assert imported("renamed.txt", rows).returncode == 2


@pytest.mark.parametrize("start_ms", [0, 3_000_000_000])
def test_a_log_of_latencies_is_read_without_a_word(imported: Called, start_ms: int) -> None:
    """Also one whose I/Os come slowly, and one stamped with the time since boot."""
    done = imported("x_lat.1.log", log(LATENCIES_NS, start_ms), "--quiet")
    assert done.returncode == 0 and "warning" not in done.stderr
    seldom = "".join(f"{10 * number}, {value}, 0, 4096, 0, 0\n" for number, value in enumerate(LATENCIES_NS))
    done = imported("seldom.log", seldom, "--quiet")
    assert done.returncode == 0 and "warning" not in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("@us:\n[4, 8)   NaN |@|\n", "line 2: not a row of the histogram above it"),
        ("@us:\n[4, 8)   -3 |@|\n", "line 2: not a row of the histogram above it"),
        ("@us:\n[4, 8)   99999999999999999999 |@|\n", "line 2: a count is"),
        ("@us_ms:\n[4, 8)   3 |@|\n", "line 1: several units in"),
        ('a_seconds_bucket{le="1"} 3\na_seconds_bucket{le="+Inf"} 2\n', "counts fall from one limit"),
        ('a_seconds_bucket{le="1"} 3\na_seconds_bucket{le="1e-99"} 3\n', "buckets are missing"),
        ('a_seconds_bucket{le="' + "x" * (2 << 20) + '"} 3\n', "line 1: longer than 1 MiB"),
        ("0.0,1.0,1.0,HISTFAAAA\n", "no unit of time in"),
        ("4 KiB <<< . (ext4 /dev/x): request=2 time=1e999 us\n", "line 1: not a request"),
        ("read:   ops/s  kB/s  kB/op  retrans  avg RTT (ms)  avg exe (ms)\n 1 1 1\n", "line 2: not the fig"),
        ("device a:/ mounted on /m with fstype nfs\n per-op statistics\n READ: 1 1\n", "line 3: not an op"),
        ('{"phase_type":"READ","last_done": {"latency": {"IO": {"histogram": 7}}}}\n', "line 1: not a phase"),
        ("[" * 100_000 + "\n", "no known format"),
    ],
)
def test_damaged_histograms_and_means_are_refused_with_their_line(
    tmp_path: Path, imported: Called, content: str, said: str
) -> None:
    assert said in refused(imported("x.txt", content), tmp_path)
