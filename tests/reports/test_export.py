import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

import reports
from kit.cli.main import app
from kit.errors import ConfigError
from kit.store import LATENCY_SCHEMA
from reports.export import chosen, export, inert

ATTACK = '=cmd|"/c calc"!A1\x1b]0;hit\x07\n\\'


def hostile(synthetic):
    frame = synthetic.latency()
    return frame.with_columns(pl.when(pl.col("phase") == "read").then(pl.lit(ATTACK)).otherwise("phase").alias("phase"))


def test_csv_has_every_count(synthetic):
    frame = synthetic.latency()
    assert pl.read_csv(export(frame, "csv"), schema=LATENCY_SCHEMA).equals(frame)
    assert export(frame.clear(), "csv").decode().strip() == ",".join(LATENCY_SCHEMA)


def test_parquet_is_the_same_frame(synthetic):
    frame = hostile(synthetic)
    assert pl.read_parquet(io.BytesIO(export(frame, "parquet"))).equals(frame)


@given(st.text())
def test_no_cell_acts(text):
    cell = inert(text)
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in cell)


def test_hostile_names_in_csv(synthetic):
    rows = list(csv.DictReader(io.StringIO(export(hostile(synthetic), "csv").decode())))
    assert len(rows) == synthetic.latency().height
    assert {r["phase"][:5] for r in rows} == {"'=cmd", "write"}


def test_openmetrics_is_cumulative_in_seconds(synthetic):
    frame = hostile(synthetic)
    summary = {"run": ATTACK, "workload": "w", "verdict": "valid"}
    text = export(frame, "openmetrics", summary).decode()
    assert "\x1b" not in text and text.endswith("# EOF\n")
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert families["hsp_latency_seconds"].unit == "seconds"
    samples = families["hsp_latency_seconds"].samples
    disk = [s for s in samples if s.labels["tier"] == "disk"]
    assert [(s.labels["le"], s.value) for s in disk] == [
        ("0.005111808", 360), ("0.00524288", 396), ("+Inf", 396)
    ]  # fmt: skip
    total = sum(s.value for s in samples if s.labels["le"] == "+Inf")
    assert total == frame["count"].sum()


def test_openmetrics_of_nothing(synthetic):
    text = export(synthetic.latency().clear(), "openmetrics").decode()
    assert [f.samples for f in text_string_to_metric_families(text)] == [[]]


def test_choice_of_phase_and_layer(synthetic):
    frame = synthetic.latency()
    assert set(chosen(frame, ["read"], ["client"])["tier"]) == {"all"}
    assert chosen(frame, [], []).equals(frame)
    with pytest.raises(ConfigError, match="no phase sleep"):
        chosen(frame, ["read", "sleep"], [])
    with pytest.raises(ConfigError, match="no format"):
        export(frame, "xlsx")


def test_the_command(synthetic, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    reports.analyse(run)
    runner, target = CliRunner(), tmp_path / "out.parquet"
    result = runner.invoke(app, ["export", str(run.path), "--format", "openmetrics", "--layer", "client"])
    assert result.exit_code == 0 and 'layer="client"' in result.stdout and "nfs-server" not in result.stdout
    result = runner.invoke(app, ["export", str(run.path), "--format", "parquet", "-o", str(target)])
    assert result.exit_code == 0 and pl.read_parquet(target).height == synthetic.latency().height
    assert runner.invoke(app, ["export", str(run.path), "--format", "xlsx"]).exit_code == 2
    missing = runner.invoke(app, ["export", str(tmp_path / "no"), "--format", "csv"])
    assert isinstance(missing.exception, ConfigError)
