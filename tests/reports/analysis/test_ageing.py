import json

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

import reports
from kit.core.clock import Clock
from kit.core.errors import ConfigError
from kit.precondition.latency_curve import frame, point
from kit.store.tables import read_ageing, write_ageing
from reports.analysis import ageing
from reports.comparison import comparability
from reports.figures import ageing as ageing_figures
from reports.figures import palette
from tests.reports import drawn

CAPACITY = 1 << 30
STAGES = [("purge", 0.0), ("fill 1", 1.1), ("fill 2", 2.2), ("round 1", 2.5)]


def aged(device="log0", ios=4000, stages=STAGES):
    generator = np.random.default_rng(3)
    points = []
    for number, (stage, written) in enumerate(stages):
        for op, median in (("write", 90_000), ("read", 120_000)):
            slow = 1 + number * (op == "write")
            values = (median * slow * np.exp(0.1 * generator.standard_normal(ios))).astype(np.int64)
            points.append(point(stage, op, 4096, int(written * CAPACITY), values, Clock()))
    return frame(device, "log", CAPACITY, points)


def entry(**values):
    steady = {"window": [1, 1, 1, 1, 1], "range_share": 0.05, "range_limit": 0.2, "fit_share": 0.031,
              "fit_limit": 0.1, "attained": True}  # fmt: skip
    return {
        "device": "log0", "role": "log", "method": "snia", "purge": {"method": "blkdiscard"},
        "intended_bytes": 1 << 30, "proven_bytes": 1 << 30, "written_bytes": 3 << 30, "attained": True,
        "criteria": [{"round": 5, "write p99": steady}], "stopped": None, **values,
    }  # fmt: skip


def report(synthetic, tmp_path, rows=None, **precondition):
    manifest = synthetic.manifest()
    manifest["precondition"] = {"method": "snia", "fresh": False, "devices": [entry()], **precondition}
    run = synthetic.write(tmp_path / "run", manifest, synthetic.latency())
    if rows is not None:
        write_ageing(run, rows)
    summary = reports.analyse(run).summary.as_json()
    return run.report.read_text("utf-8"), summary


def test_the_curve_has_each_point_in_order_and_sees_it_grow_slower():
    rows = [row for row in ageing.curve(aged()) if row.op == "write"]
    assert [row.stage for row in rows] == [stage for stage, _ in STAGES]
    assert [row.written for row in rows] == pytest.approx([w for _, w in STAGES], abs=1e-6)
    for number, row in enumerate(rows):
        assert row.us["p50"] == pytest.approx(90 * (number + 1), rel=0.04)
        assert row.us["p50"] < row.us["p99"] < row.us["p99.9"]
        assert row.ios == 4000


def test_percentiles_are_within_a_bin_of_the_exact_ones():
    generator = np.random.default_rng(5)
    values = generator.lognormal(12, 0.5, 5000).astype(np.int64)
    rows = ageing.curve(frame("d", "log", 10, [point("purge", "write", 512, 0, values, Clock())]))
    for name, q in ageing.QUANTILES.items():
        exact = float(np.quantile(values, q)) / 1e3
        assert rows[0].us[name] == pytest.approx(exact, rel=0.04)


def test_a_percentile_that_too_few_ios_bear_is_withheld():
    row = ageing.curve(aged(ios=400))[0]
    assert row.us["p99"] is not None and row.us["p99.9"] is None


def test_the_page_has_curve_and_maps_side_by_side(synthetic, tmp_path):
    html, summary = report(synthetic, tmp_path, aged())
    curve, _, maps = (figure for figure in drawn.specs(html) if "log0" in figure["title"])
    assert [curve["title"], maps["title"]] == [
        "log0: latency as it ages",
        "log0: sync writes, fresh and aged",
    ]
    assert [t["name"] for t in curve["data"]] == [
        f"{op} {name}" for op in ("read", "write") for name in ("p50", "p99", "p99.9")
    ]
    assert {t["xaxis"] for t in curve["data"]} == {"x", "x2"}
    fresh, old = drawn.heat_maps(maps)
    assert (fresh["xaxis"], old["xaxis"]) == ("x", "x2")
    assert (fresh["zmin"], fresh["zmax"]) == (old["zmin"], old["zmax"])
    assert [drawn.typed(t["customdata"]).sum() for t in (fresh, old)] == [4000, 4000]
    layout = maps["layout"]
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"]
    names = [a["text"] for a in layout["annotations"]]
    assert names == ["fresh: after the purge", "aged: after round 1, 2.5 times its capacity"]
    # What is saved as CSV has every I/O.
    head, *cells = maps["csv"]
    assert sum(cell[head.index("count")] for cell in cells) == 2 * 4000
    assert "Proven by its counter" in html and "blkdiscard" in html and "attained" in html
    assert "3.1 % (at most 10 %)" in html
    assert summary["precondition"]["devices"][0]["attained"] is True


def test_a_run_without_is_as_before(synthetic, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    assert "precondition" not in reports.analyse(run).summary.as_json()
    html = run.report.read_text("utf-8")
    assert "Preconditioning and ageing" not in html
    assert not [figure for figure in drawn.specs(html) if "aged" in figure["title"]]
    assert read_ageing(run).height == 0


def test_fresh_devices_are_told(synthetic, tmp_path):
    html, _ = report(synthetic, tmp_path, method="none", fresh=True, devices=[])
    assert "<b>fresh</b> devices answer faster" in html
    html, _ = report(synthetic, tmp_path, fresh=True)
    assert "those that were not are <b>fresh</b>" in html


def test_plotly_knows_every_word_of_the_figures():
    figures = ageing_figures.figures(aged())
    assert len(figures) == 3
    for figure in figures:
        plotly = go.Figure(data=figure.spec["data"], layout=figure.spec["layout"])
        plotly.update_layout(figure.narrow)
    # Without the page's script the hue is that of the tier, too.
    for figure, hue in zip(figures[1:], ("l2arc", "slog"), strict=True):
        assert {str(t["colorscale"]) for t in drawn.heat_maps(figure.spec)} == {str(palette.scale(hue))}


def test_the_caption_has_the_cells_of_both_maps():
    few, many = (aged(ios=n, stages=[stage]) for n, stage in ((300, STAGES[0]), (40_000, STAGES[1])))
    rows = pl.concat([few, many.with_columns(point=pl.col("point") + few["point"].max() + 1)])
    captions = [figure.caption for figure in ageing_figures.figures(rows)[1:]]
    for caption in captions:
        fresh, _, old = caption.partition(" Aged: ")
        assert "300 I/Os fresh, 40,000 aged" in fresh and "Cell: " in fresh and "Cell: " in old


def test_one_point_alone_has_no_pair_of_maps():
    figures = ageing_figures.figures(aged(stages=STAGES[:1]))
    assert [figure.title for figure in figures] == ["log0: latency as it ages"]


def test_what_was_not_attained_is_told(synthetic, tmp_path):
    html, _ = report(synthetic, tmp_path, devices=[entry(attained=False, stopped="the budget & more")])
    assert "not attained: the budget &amp; more" in html
    html, _ = report(synthetic, tmp_path, devices=[entry(attained=None, criteria=[])])
    assert "not asked for" in html


def test_hostile_names_are_inert(synthetic, tmp_path):
    evil = "<img src=x onerror=alert(1)></script>"
    html, _ = report(synthetic, tmp_path, aged(device=evil), devices=[entry(device=evil)])
    assert "<img src=x" not in html and "onerror=alert(1)>" not in html
    figures = drawn.specs(html)
    assert any("img src=x" in figure["title"] for figure in figures)
    for figure in figures:
        assert "<img" not in json.dumps([figure["title"], figure["data"], figure["layout"]])


@pytest.mark.parametrize("precondition", [{"devices": [{"criteria": [3]}]}, {"devices": 7}])
def test_a_damaged_manifest_is_an_error_of_the_kit(synthetic, tmp_path, precondition):
    with pytest.raises(ConfigError, match="damaged"):
        report(synthetic, tmp_path, **precondition)


def test_a_damaged_table_is_an_error_of_the_kit(synthetic, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    aged().with_columns(pl.lit(-1).alias("count").cast(pl.Int64)).write_parquet(run.path / "ageing.parquet")
    with pytest.raises(ConfigError, match="impossible"):
        reports.analyse(run)
    assert not (run.path / "summary.json").exists() and not run.report.exists()


def test_aged_and_fresh_runs_are_not_alike(synthetic):
    manifest = synthetic.manifest()
    plan = {"workload": {"precondition": {"method": "snia", "roles": None, "budget": {"write": 5}}}}
    none = {"workload": {"precondition": {"method": "none", "budget": {}}}}
    a, b = (comparability.settings(synthetic.parsed(manifest), each) for each in (plan, none))
    assert a["precondition.method"] == "snia" and not any("budget" in key for key in a)
    with pytest.raises(ConfigError, match=r"precondition\.method"):
        comparability.check([("a", a)], [("b", b)], [])
    assert comparability.check([("a", a)], [("b", b)], ["precondition.method"]) == {
        "precondition.method": ("snia", "none")
    }


def test_problems_of_preconditioning_make_the_verdict_unknown(synthetic, tmp_path):
    manifest = synthetic.manifest()
    manifest["problems"] = synthetic.problems("log0: steady state was not reached in 25 rounds")

    run = synthetic.write(tmp_path / "run", manifest, synthetic.latency())
    summary = reports.analyse(run).summary.as_json()
    assert summary["verdict"] == "unknown"
    assert any("steady state was not reached" in reason for reason in summary["reasons"])


def test_a_device_aged_in_an_earlier_run_says_so(synthetic, tmp_path):
    aged_in = {"run": "20260101T000000Z-<b>abc", "utc": "2026-01-01T00:00:00Z", "compressed_share": 0.99}
    html, _ = report(synthetic, tmp_path, devices=[entry(aged_in=aged_in)])
    assert "log0 was aged in the run 20260101T000000Z-&lt;b&gt;abc (2026-01-01T00:00:00Z)" in html
    html, _ = report(synthetic, tmp_path, devices=[entry()])
    assert "was aged in the run" not in html


@pytest.mark.parametrize("aged_in", [7, "x", [1], {"run": [1]}, {}])
def test_a_damaged_word_about_ageing_still_draws(synthetic, tmp_path, aged_in):
    html, _ = report(synthetic, tmp_path, devices=[entry(aged_in=aged_in)])
    assert "Preconditioning and ageing" in html
