"""Damaged and hostile files of this folder's formats: refused with file and line, or told."""

from __future__ import annotations

import base64
import os
import re
import struct
import zlib
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.importers.base import Options
from kit.importers.format_detection import detect
from kit.importers.source import Source
from kit.importers.summaries import hdr_histogram
from tests.kit.importers.samples import SEEDS, imported, put, survives

NEW = (
    "bpf-hist", "elbencho", "hdr-log", "hdr-percentiles", "ioping", "mountstats", "nfsiostat", "prometheus",
    "vdbench", "diskinfo", "pg-test-fsync", "fio-percentiles",
)  # fmt: skip
HUGE = "9" * 19
ETCD = SEEDS["prometheus"][0].decode()
HLOG = SEEDS["hdr-log"][1].decode()
HGRM = SEEDS["hdr-percentiles"][0].decode()
VDBENCH = SEEDS["vdbench"][0].decode()
JSON, CSV = (seed.decode() for seed in SEEDS["elbencho"])
MOUNTS, PRINTED = SEEDS["mountstats"][0].decode(), SEEDS["nfsiostat"][0].decode()
BCC, STEPS, BPF = (seed.decode() for seed in SEEDS["bpf-hist"])
REQUESTS = next(seed.decode() for seed in SEEDS["ioping"] if b"request=2 " in seed)


def hdr(
    counts: bytes, digits: int = 3, lowest: int = 1, cookies: tuple[int, int] = (0x1C849314, 0x1C849313),
    held: int | None = None, offset: int = 0,
) -> str:  # fmt: skip
    """A line of an HdrHistogram log with these counts, as they are stored."""
    size = len(counts) if held is None else held
    inner = struct.pack(">iiiiqqd", cookies[1], size, offset, digits, lowest, 10**12, 1.0) + counts
    packed = zlib.compress(inner)
    text = base64.b64encode(struct.pack(">iI", cookies[0], len(packed)) + packed).decode()
    return f"#[Histogram log format version 1.3]\n0.0,1.0,1.0,{text}\n"


DAMAGED = [
    (BCC.replace(": 10  ", ": NaN ", 1), r"line 8: not a row of the histogram above it"),
    (BCC.replace(": 10  ", ": -10 ", 1), r"line 8: not a row of the histogram"),
    (BCC.replace(": 10  ", f": {HUGE}", 1), r"line 8: a count is '9+', and must be a number from 0 to 2\^53"),
    (BCC.replace(" 2 -> 3 ", " 2e9 -> 3 ", 1), r"line 8: not a row"),
    (BPF.replace("[5, 10)                1 ", "[5, 10)              1.5 "), r"line 7: not a row"),
    (BPF.replace("@lin_us", "@lin"), r"line 4: no unit of time in '@lin'"),
    (BPF.replace("@lin_us", "@lin_us_ns"), r"line 4: several units in '@lin_us_ns'"),
    ("@us:\n[8, 4)   3 |@|\n", r"line 1: a bin from 8000 to 4000 ns"),
    ("@s:\n[4E, 5E)   3 |@|\n", r"line 1: a bin from \d+ to \d+ ns"),
    (JSON.replace('"range":"13-16us"', '"range":"13-17us"'), r"line 1: '13-17us' is none of"),
    (JSON.replace('16us","count":"1"', '16us","count":"NaN"'), r"line 1: a count is 'NaN'"),
    (JSON.replace('16us","count":"1"', '16us","count":-1'), r"line 1: a count is '-1'"),
    (JSON.replace('"buckets":[', '"buckets":{', 1), r"line 1: not a phase of elbencho"),
    (CSV.replace(",1661,9383,120903", ",1661,nan,120903"), r"line 3: a mean is 'nan'"),
    (CSV.replace(",1661,9383,120903", ",1661,9383"), r"line 3: 36 columns, and its head has 37"),
    (CSV.replace(",1661,9383,120903", f",1661,{HUGE},1"), r"line 3: a mean is '9+'"),
    (re.sub("HIST", "HISX", HLOG, count=1), r"line 4: not an interval"),
    (re.sub(r"(HISTFA.{60})....", r"\1AAAA", HLOG, count=1), r"line 4: a damaged histogram"),
    (hdr(b"\x02", cookies=(0x1C849314, 0x1C849312)), r"line 2: not a histogram of version 2"),
    (hdr(b"\x02", held=99), r"line 2: a histogram that is cut, shifted, or has more than 4 digits"),
    (hdr(b"\x02", digits=5), r"line 2: a histogram that is cut, shifted, or has more than 4 digits"),
    (hdr(b"\x02", offset=1), r"line 2: a histogram that is cut, shifted"),
    (hdr(b"\x02", lowest=-1), r"line 2: a histogram that is cut, shifted"),
    (hdr(b"\x80"), r"line 2: a damaged histogram: a count without an end"),
    (hdr(b"\x80" * 8 + b"\x01"), r"line 2: a damaged histogram: a count without an end"),
    (hdr(b"\xff" * 5 + b"\x01\x02"), r"line 2: a damaged histogram: a count or a gap that cannot be"),
    (hdr(b"\xff\xff\x7f\x02"), r"line 2: a damaged histogram: a value of more than 2\^53"),
    (HLOG.replace(",2.000000,", ",9e9,", 1), r"line 4: not an interval"),
    (HLOG.replace(",2.000000,", ",999999999999,", 1), r"line 4: the time .* s is impossible"),
    (HGRM.replace("      46.591 ", "      NaN ", 1), r"line 4: not a row of the distribution"),
    (HGRM.replace("        500 ", "          0 ", 1), r"line 4: not a row with no less than"),
    (HGRM.replace("5000.000]", "5001.000]"), r"rows do not have the 5001.000 I/Os that its end says"),
    (REQUESTS.replace("request=2 time=", "request=2 time=NaN ", 1), r"line 2: not a request or a raw row"),
    (REQUESTS.replace("request=2 time=", "request=2 time=-", 1), r"line 2: not a request or a raw row"),
    (f"5 5 5 5 9 8 10 5 6 {HUGE}\n", r"line 1: a number is '9+'"),
    ("5 574004 8711 35679194 79955 14801 149053 26057 6 250309864\n", r"line 1: a mean of 14801 ns"),
    ("5 574004 8711 3567 1 2 3 4 6 2\n5 574004 x 3\n", r"line 2: not a request or a raw row"),
    (MOUNTS.replace("1689 503927 505677", "1689 503927 nan"), r"line 15: not an operation and its counts"),
    (MOUNTS.replace("1689 503927 505677", "1689 503927 -5"), r"line 15: not an operation and its counts"),
    (MOUNTS.replace("1689 503927 505677", f"1689 503927 {HUGE}"), r"line 15: a count is '9+'"),
    (MOUNTS + MOUNTS.replace("READ: 1000", "READ: 900"), r"/mnt: READ has less than in the copy before"),
    (MOUNTS.split("device xx")[0], "no NFS mount"),
    (PRINTED.replace("202.000", "nan"), r"line 18: a mean is 'nan'"),
    (PRINTED.replace("250.000", "-250.000"), r"line 18: a rate is '-250.000'"),
    (PRINTED.replace("202.000           0.200", ""), r"line 18: not the figures of an operation"),
    (ETCD.replace('"} 28', '"} NaN'), r"line 4: a count is 'NaN'"),
    (ETCD.replace('"} 28', '"} -28'), r"line 4: a count is '-28'"),
    (ETCD.replace('"} 28', f'"}} {HUGE}'), r"line 4: a count is '9+'"),
    (ETCD.replace('"} 28', '"} 2.5'), r"line 4: '2.5' I/Os: not a whole number"),
    (ETCD.replace('"} 28', '"} 12'), r"counts fall from one limit to the next"),
    (ETCD.replace('le="0.002"', 'le="x"'), r"line 4: le is 'x'"),
    (ETCD.replace('le="0.002"', 'le="0.002'), r"line 4: not a bucket of a histogram"),
    (ETCD.replace('le="0.002"', "le=0.002"), r"line 4: not a label"),
    (ETCD.replace('le="+Inf"', 'le="16"'), r"buckets are missing, up to \+Inf"),
    (VDBENCH.replace(" 2,", " x,", 1).replace("1,097", "NaN", 1), r"line 19: not the next row of the table"),
    (VDBENCH.replace("1.000 <       2.000", "1.000 <       2,000", 1), r"line 19: not the next row"),
    (re.sub(r"\n +0\.040 <.*", "", VDBENCH, count=1), r"line 11: not the next row of the table"),
    (VDBENCH.replace("1,097", f"{HUGE}", 1), r"line 19: a count is '9+'"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "said"), DAMAGED)
def test_damage_is_told_with_file_and_line(tmp_path: Path, content: str, said: str) -> None:
    path = put(tmp_path, content, "x.txt")
    name = detect(Source(path)).name
    unit = {"hdr-log": "us", "hdr-percentiles": "us"}.get(name)
    with pytest.raises(ConfigError, match=said) as caught:
        imported(path, unit=unit)
    assert caught.value.message.startswith(str(path)) and caught.value.hint


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("seed", [0, -1])
def test_a_file_that_is_cut_anywhere_is_read_or_refused(tmp_path: Path, name: str, seed: int) -> None:
    content = SEEDS[name][seed]
    for part in range(1, 12):
        path = put(tmp_path, content[: len(content) * part // 12], "x.txt")
        survives([path], Options(format=name, unit="us"))


@pytest.mark.parametrize("name", NEW)
def test_a_line_of_two_gigabytes_is_refused_in_little_time(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, SEEDS[name][0] * 4, "x.txt")
    os.truncate(path, 2 << 30)
    with pytest.raises(ConfigError, match=r"x\.txt(, line [0-9]+)?: (longer|more) than"):
        imported(path, unit="us", format=name)


def test_a_file_of_many_lines_is_bounded(tmp_path: Path) -> None:
    path = put(tmp_path, ETCD + f"# {'x' * 1021}\n" * (64 << 10), "x.prom")
    with pytest.raises(ConfigError, match=r"line [0-9]+: more than 64 MiB"):
        imported(path)


def test_little_text_that_holds_much_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdr_histogram, "_MOST_IN_ALL", 4 << 20)
    line = hdr(bytes(1_000_000)).splitlines()[1]
    with pytest.raises(ConfigError, match="line 5: more than 4 MiB of counts"):
        imported(put(tmp_path, f"{line}\n" * 8, "x.hlog"), unit="us", format="hdr-log")
    with pytest.raises(ConfigError, match="line 2: a histogram that is cut"):
        imported(put(tmp_path, hdr(bytes(2 << 20)), "y.hlog"), unit="us", format="hdr-log")


@pytest.mark.parametrize("name", ["hdr-log", "hdr-percentiles"])
def test_without_a_unit_nothing_is_guessed(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no unit of time in 'HdrHistogram'") as caught:
        imported(put(tmp_path, SEEDS[name][0], "x"))
    assert "--unit" in caught.value.hint


def test_a_sum_that_cannot_be_is_not_used(tmp_path: Path) -> None:
    run = imported(put(tmp_path, ETCD.replace("0.29285970899999986", "29000"), "x"))
    assert run.phases[0]["sums"] == [] and "cannot be that of its bins" in " ".join(run.section["warnings"])


def test_a_last_line_that_is_cut_is_left_out(tmp_path: Path) -> None:
    run = imported(put(tmp_path, ETCD.rstrip("\n")[:-5], "x"))
    assert "cut, left out" in run.section["warnings"][0] and run.section["rows_counted"] == 71


def test_names_are_made_safe(tmp_path: Path) -> None:
    run = imported(put(tmp_path, '@us["\x1b[31m<script>"]:\n[4, 8)   3 |@|\n', "x"))
    (phase,) = run.phases
    assert "\x1b" not in phase["name"] and len(phase["name"]) < 210


def test_many_series_are_refused(tmp_path: Path) -> None:
    text = "".join(f"@us[{n}]:\n[4, 8)   3 |@|\n\n" for n in range(600))
    with pytest.raises(ConfigError, match="more than 512"):
        imported(put(tmp_path, text, "x"))
    lines = "".join(f"[{n}, {n + 1})   3 |@|\n" for n in range(2100))
    with pytest.raises(ConfigError, match="more than 2048 different bins"):
        imported(put(tmp_path, "@us:\n" + lines, "x"))
