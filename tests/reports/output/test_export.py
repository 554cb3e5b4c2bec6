import csv
import io
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kit.core.errors import ConfigError
from kit.core.text import csv_text
from kit.store.tables import LATENCY_SCHEMA
from reports.output.export import chosen, exported
from tests.reports import synthetic

pytestmark = pytest.mark.any_python

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "  =cmd|' /C calc'!A0", "\uff1d1", "a\x1b[2Jb",
           "a\nb", 'q"u,o\\te', "\u202ereversed", "\u2028x", "é", ""]  # fmt: skip


def frame_of(names):
    rows = [(n * 10, name, "client", name, "read", "all", 64, 66, n + 1) for n, name in enumerate(names)]
    return synthetic.table(rows)


def families(text):
    return {f.name: f for f in text_string_to_metric_families(text)}


def assert_inert(text):
    assert not text.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert not text.lstrip().startswith(("=", "+", "-", "@", "\uff1d"))
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


def test_csv_has_every_count():
    frame = synthetic.latency()
    back = pl.read_csv(exported(frame, "csv", None), schema=LATENCY_SCHEMA)
    assert back.equals(frame)


def test_parquet_has_every_count():
    frame = synthetic.latency()
    assert pl.read_parquet(exported(frame, "parquet", None)).equals(frame)


def test_hostile_names_in_csv():
    listed = list(csv.DictReader(io.StringIO(exported(frame_of(HOSTILE), "csv", None).decode(), newline="")))
    assert len(listed) == len(HOSTILE)
    for row in listed:
        assert_inert(row["phase"])
        assert_inert(row["host"])


@given(st.text())
def test_no_text_acts(text):
    assert_inert(csv_text(text))


def test_openmetrics_is_a_cumulative_histogram_in_seconds():
    frame = synthetic.latency()
    text = exported(frame, "openmetrics", synthetic.summary_of(run="r")).decode()
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    by_name = families(text)
    assert by_name["hsp_run_info"].samples[0].labels == {"run": "r", "verdict": "valid"}
    family = by_name["hsp_latency_seconds"]
    assert (family.type, family.unit) == ("histogram", "seconds")
    disk = [(s.labels["le"], s.value) for s in family.samples if s.labels["tier"] == "disk"]
    # The edges of all tiers of the phase, so that they can be summed.
    assert disk[-5:] == [
        ("0.005111808", 360), ("0.005132288", 360), ("0.00524288", 396), ("0.00526336", 396), ("+Inf", 396)
    ]  # fmt: skip
    assert {value for _, value in disk[:-5]} == {0}
    last = [s.value for s in family.samples if s.labels["le"] == "+Inf"]
    assert sum(last) == frame["count"].sum()


def test_openmetrics_of_hostile_names_parses():
    frame = frame_of(HOSTILE)
    summary = synthetic.summary_of(run=HOSTILE[8], workload='"} 1\n# EOF')
    text = exported(frame, "openmetrics", summary).decode()
    samples = families(text)["hsp_latency_seconds"].samples
    assert sum(s.value for s in samples if s.labels["le"] == "+Inf") == frame["count"].sum()
    assert 'q"u,o\\te' in {s.labels["host"] for s in samples}
    assert "\x1b" not in text


@given(st.lists(st.text(max_size=8), max_size=8), st.text())
def test_openmetrics_parses_whatever_the_names(names, run):
    frame = frame_of(names)
    by_name = families(exported(frame, "openmetrics", synthetic.summary_of(run=run)).decode())
    samples = by_name["hsp_latency_seconds"].samples
    assert sum(s.value for s in samples if s.labels["le"] == "+Inf") == frame["count"].sum()


def test_nothing_to_export():
    empty = frame_of([])
    assert list(families(exported(empty, "openmetrics", None).decode())) == ["hsp_latency_seconds"]
    assert exported(empty, "csv", None).decode().splitlines() == [",".join(LATENCY_SCHEMA)]
    assert pl.read_parquet(exported(empty, "parquet", None)).schema == pl.Schema(LATENCY_SCHEMA)


def test_phase_and_layer_are_chosen():
    frame = synthetic.latency()
    mine = chosen(frame, ["read"], ["client"])
    assert set(mine["phase"]) == {"read"} and set(mine["layer"]) == {"client"}
    assert chosen(frame, [], []).equals(frame)
    with pytest.raises(ConfigError, match="no phase nope"):
        chosen(frame, ["read", "nope"], [])


def hsp(*options):
    argv = [sys.executable, "-m", "kit.cli", *map(str, options)]
    return subprocess.run(argv, capture_output=True, timeout=60)


def test_command_writes_the_file(tmp_path, hsp_here):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    target = tmp_path / "out.csv"
    done = hsp("show", run.path, "--format", "csv", "--phase", "read", "-o", target)
    assert done.returncode == 0 and done.stdout == b""
    assert pl.read_csv(target)["phase"].unique().to_list() == ["read"]
    done = hsp_here("show", str(run.path), "--format", "openmetrics", "--totals")
    assert done.returncode == 0 and families(done.stdout)["hsp_latency_seconds"]
    done = hsp_here("show", str(run.path), "--format", "csv", "--phase", "a\x1b[2Jb")
    assert done.returncode == 2 and "\x1b" not in done.stderr and "it has: read" in done.stderr
    assert hsp_here("show", str(tmp_path / "none"), "--format", "csv").returncode == 2
    assert hsp_here("show", str(run.path), "--format", "xml").returncode == 2


def test_command_writes_percentiles_of_each_interval(tmp_path, hsp_here):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    done = hsp("show", run.path, "--format", "csv", "--percentiles", "--layer", "client")
    assert done.returncode == 0
    rows = pl.read_csv(io.BytesIO(done.stdout))
    counted = synthetic.latency().filter(pl.col("layer") == "client")
    assert rows["ios"].sum() == counted["count"].sum()
    assert rows.height == counted.select("phase", "op", "time_ns").n_unique()
    target = tmp_path / "out.parquet"
    words = ["--format", "parquet", "--percentiles", "-o", str(target)]
    assert hsp_here("show", str(run.path), *words).returncode == 0
    assert "p99_ns" in pl.read_parquet(target).columns
    refused = hsp_here("show", str(run.path), "--format", "openmetrics", "--percentiles")
    assert refused.returncode == 2 and "--percentiles has no effect on OpenMetrics" in refused.stderr
