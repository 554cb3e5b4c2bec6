import json
import re

import polars as pl
import pytest

import reports
from kit.core.errors import ConfigError
from kit.store.summary import read_summary
from reports.page import filters
from tests.reports import synthetic
from tests.reports.synthetic import render, summarise


def drawn(tmp_path, manifest, frame):
    run = synthetic.write(tmp_path / "run", manifest, frame)
    reports.analyse(run)
    return run.report.read_text("utf-8")


def test_analyse_writes_what_it_returns(tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    returned = reports.analyse(run)
    assert read_summary(run) == returned.summary
    assert run.report.is_file()


def test_page_stands_alone(tmp_path):
    html = drawn(tmp_path, synthetic.manifest(), synthetic.latency())
    assert "default-src 'none'" in html and "unsafe-eval" not in html
    assert not re.search(r"<(script|img|iframe|link)[^>]+(src|href)=[\"']?https?:", html)
    blocks = re.findall(r'<script type="application/json" id="(figure-\d+)-data">(.*?)</script>', html, re.S)
    # summary, and per phase: one logarithmic, its percentiles, one per tier, one of the clients
    assert len(blocks) == 1 + 3 * 3 + 5
    for name, text in blocks:
        json.loads(text)
        assert f'id="{name}"' in html
    order = ["Verdict: valid", "What you are looking at", 'id="ranges"', 'class="plot"', 'id="phases"',
             'id="accounting"', 'id="testbed"', 'id="settings"']  # fmt: skip
    places = [html.index(word) for word in order]
    assert places == sorted(places)
    assert html.count('id="plotly-code"') == 1
    assert "less than a pixel" in html
    assert "Closed loop, 1 outstanding" in html
    assert "not what your hardware does" in html
    for word in ("arcstats", "zfs_arc_max", "recordsize", "vers=3", "null_blk", "2.3.9", "Brendan Gregg"):
        assert word in html
    assert " - verdict unknown" not in html


@pytest.mark.parametrize("seed", [0, 7, (1 << 63) - 1, None])
def test_a_seed_can_be_read_off_the_page(tmp_path, seed):
    html = drawn(tmp_path, {**synthetic.manifest(), "seed": seed}, synthetic.latency())
    assert (f"random numbers from <code>--seed {seed}</code>" in html) is (seed is not None)
    assert ("random numbers from" in html) is (seed is not None)


@pytest.mark.parametrize("seed", ["<b>", [1], {"x": 1}, -1, 1 << 63, True])
def test_a_damaged_seed_is_refused(tmp_path, seed):
    with pytest.raises(ConfigError, match="seed"):
        drawn(tmp_path, {**synthetic.manifest(), "seed": seed}, synthetic.latency())


def test_unknown_marks_every_map(tmp_path):
    manifest = synthetic.manifest()
    manifest["problems"] = ["the server rebooted"]
    html = drawn(tmp_path, manifest, synthetic.latency())
    assert html.count(" - verdict unknown") == 3 * 3 + 5
    assert "the server rebooted" in html


def test_withheld_percentiles_say_so(tmp_path):
    frame = synthetic.latency(1)
    html = drawn(tmp_path, synthetic.manifest(frame, 1), frame)
    assert "n too small" in html


@pytest.mark.parametrize("missing", ["testbed", "versions", "tunables", "pool", "mount", "clock", "expect"])
def test_a_manifest_that_lacks_something_is_drawn(missing):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    del manifest[missing]
    verdict = "unknown" if missing in ("testbed", "clock") else "valid"
    assert f"Verdict: {verdict}" in render(frame, manifest, summarise(frame, manifest))


@pytest.mark.parametrize("phases", [[3], [{}], [{"name": "read"}], {"name": "read"}, 7])
def test_a_damaged_manifest_is_not_a_traceback(phases):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    result = summarise(frame, manifest)
    manifest["phases"] = phases
    for read in (lambda: summarise(frame, manifest), lambda: render(frame, manifest, result)):
        with pytest.raises(ConfigError, match="phases") as caught:
            read()
        assert "damaged" in caught.value.hint


def test_merged_columns_are_told():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    html = render(frame, manifest, summarise(frame, manifest))
    assert "stored intervals" not in html
    manifest["phases"][0]["interval_ns"] = 1_000_000
    html = render(frame, manifest, summarise(frame, manifest))
    assert "A column is 3 ms, the sum of 3 stored intervals" in html


def test_an_unexpected_tier_has_its_map():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["phases"][0]["expected_tiers"] = ["dram", "slog"]
    html = render(frame, manifest, summarise(frame, manifest))
    for tier in ("dram", "l2arc", "disk"):
        assert f"Only I/Os from {tier}" in html
    assert "No I/O from: slog" in html


def test_a_server_that_was_not_traced():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    frame = frame.filter(pl.col("layer") == "client")
    html = render(frame, manifest, summarise(frame, manifest))
    assert "the server was not traced" in html and "as the kernel told" not in html


def test_a_long_run_stays_small():
    # 2000 columns in each phase: as many as a heat map has.
    frame = synthetic.realistic(2000, 60).with_columns(pl.col("time_ns") // 20)
    frame = frame.with_columns(pl.col("time_ns") + (pl.col("phase") != "read") * 95 * synthetic.SECOND)
    manifest = synthetic.manifest(frame, 100)
    for phase in manifest["phases"]:
        phase["interval_ns"] = synthetic.SECOND // 20
    html = render(frame, manifest, summarise(frame, manifest))
    assert "A column is 50 ms; a row" in html
    assert len(html.encode()) < 4_000_000


def test_foreign_text_is_escaped():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    attack = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"
    manifest["title"] = manifest["phases"][0]["title"] = attack
    manifest["versions"][attack] = attack
    html = render(frame, manifest, summarise(frame, manifest))
    assert "<img src=x" not in html
    assert "{{ 7*7 }}" in html


@pytest.mark.parametrize(("value", "text"), [(None, "n too small"), (5012.8, "5.01 ms"), (0.5, "0.5 µs")])
def test_microseconds_for_people(value, text):
    assert filters.us(value) == text


def test_the_load_is_told_with_each_figure():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    for number, phase in enumerate(manifest["phases"]):
        phase["outstanding"] = number + 3
    html = render(frame, manifest, summarise(frame, manifest))
    specs = [json.loads(t) for t in re.findall(r'id="figure-\d+-data">(.*?)</script>', html, re.S)]
    loads = [spec["load"] for spec in specs if "load" in spec]
    assert len(loads) == 14
    assert set(loads) == {f"Closed loop, {n} outstanding" for n in (3, 4, 5)}
    ranges = next(spec for spec in specs if "figure" in spec)
    assert "3 outstanding" in ranges["figure"]["layout"]["title"]["text"]
