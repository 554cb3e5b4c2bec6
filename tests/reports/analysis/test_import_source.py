"""The page of an imported run: what it draws, what it says, and what it leaves out."""

import re

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.importers import zpool_iostat
from kit.importers.format_detection import FORMATS
from kit.store.parts.import_source import ImportSource
from kit.store.tables import LATENCY_SCHEMA
from tests.reports.drawn import assert_plain
from tests.reports.drawn import specs as specs_of
from tests.reports.synthetic import render, summarise

SECOND = 10**9
SOURCES = {each.name: {"source": each.source.as_json()} for each in FORMATS}


def frame_of(*rows):
    """Rows of (second, layer, op, tier, lo_ns, hi_ns, count)."""
    fixed = [(t * SECOND, "import", layer, "tank", op, tier, *rest) for t, layer, op, tier, *rest in rows]
    return pl.DataFrame(fixed, schema=LATENCY_SCHEMA, orient="row")


def manifest_of(frame, kind, files=1, seconds=None):
    end = int(frame["time_ns"].max()) + SECOND if seconds is None else seconds * SECOND
    phase = {"name": "import", "title": "Imported", "op": None, "tiers": ["all"], "start_ns": 0,
             "end_ns": end, "interval_ns": SECOND, "client_ios": 0, "server_ios": 0, "lost_events": 0,
             "checks": [], "problems": [], "extremes": []}  # fmt: skip
    listed = [{"file": f"f{n}.log", "rows_read": 9, "rows_counted": 7, "left_out": {"trims": 2}}
              for n in range(files)]  # fmt: skip
    return {"format": 1, "ended": True, "run": "r", "workload": "import", "title": "Imported: import",
            "phases": [phase], "testbed": {"name": "unknown", "emulated": False},
            "clock": {"kind": "real", "dilation": 1},
            "import": {"format": kind, "origin_ns": 5, "rows_counted": 7, "warnings": ["cut short"],
                       "files": listed, **SOURCES.get(kind, {})}}  # fmt: skip


def page(frame, manifest):
    html = render(frame, manifest, summarise(frame, manifest))
    # Without that of the first screen.
    return html, specs_of(html)[1:]


def kinds(specs):
    """(op, what the figure is) of each."""
    names = {"heatmap": "map", "bar": "histogram", "scatter": "lines"}
    return [(spec["about"]["op"], names[spec["data"][0]["type"]]) for spec in specs]


def reading(html):
    """What the page says of the source, below "How to read this page"."""
    return re.search(r"How to read this page</summary>\s*<p>(.*?)</p>", html, re.DOTALL)[1]


IOSTAT = frame_of(
    (0, "vdev", "read", "all", 1 << 17, 1 << 18, 900), (0, "vdev", "read", "all", 0, 2, 1),
    (0, "vdev", "write", "all", 1 << 36, 1 << 37, 5),
)  # fmt: skip


def test_iostat_has_a_histogram_for_each_direction():
    html, specs = page(IOSTAT, manifest_of(IOSTAT, "zpool-iostat"))
    assert "; imported \\0000b7  hsp" in html
    assert kinds(specs) == [("read", "histogram"), ("write", "histogram")]
    assert specs[0]["about"]["layer"] == "vdev" and specs[0]["about"]["histogram"]
    assert specs[0]["title"] == "zpool iostat -w: vdevs, read"
    for words in ("zpool wrote 1 file (zpool iostat -w)", "what an NFS server saw", "which tier answered",
                  "when the I/Os were done", "up to 100 % wide", "One interval: the source has no times",
                  "cut short"):  # fmt: skip
        assert words in html
    for words in ("hardware of the testbed", "Accounting", 'id="testbed"', "the server was not traced",
                  "the kernel told", "on the clock of the source", "real hardware"):  # fmt: skip
        assert words not in html


def test_a_vdev_layer_with_times_is_a_heat_map_with_lines():
    rows = [(t, "vdev", "read", "all", 150_000, 153_000, 100) for t in (0, 1, 5)]
    rows += [(t, "vdev", "write", "all", 99_000, 100_000, 100) for t in (1, 2)]
    frame = frame_of(*rows)
    html, specs = page(frame, manifest_of(frame, "trace"))
    assert kinds(specs) == [("read", "map"), ("read", "lines"), ("write", "map"), ("write", "lines")]
    # A second with a write and no read was measured: it is no gap of the reads.
    for spec in specs[::2]:
        gaps = [shape for shape in spec["layout"]["shapes"] if shape.get("label")]
        assert [(gap["x0"], gap["x1"]) for gap in gaps] == [(3, 5)]
    assert "when the I/Os were done" not in html


@pytest.mark.parametrize(
    ("layer", "tier", "says", "says_not"),
    [
        ("nfs-server", "l2arc", "measured at the NFS server", "which tier answered"),
        ("nfs-server", "all", "which tier answered", "what an NFS server saw"),
        ("client", "all", "what an NFS server saw", "The same I/Os"),
    ],
)
def test_what_cannot_be_known_is_said(layer, tier, says, says_not):
    frame = frame_of((0, layer, "read", tier, 150_000, 153_000, 9), (1, layer, "read", tier, 1000, 1020, 9))
    html, specs = page(frame, manifest_of(frame, "fio-log"))
    told = reading(html)
    assert says in told and says_not not in told
    # A map, one of each tier that is known; nine I/Os are too few for percentiles over time.
    assert [kind for _, kind in kinds(specs)].count("map") == (2 if layer == "nfs-server" else 1)
    assert 'id="verdict">Imported' in html


@pytest.mark.parametrize(
    ("kind", "files", "title"),
    [
        ("fio-log", 1, "Imported fio latency logs: f0.log"),
        ("fio-hist", 5, "Imported fio histogram logs: f0.log, f1.log, f2.log and 2 more"),
        ("made-up", 1, "Imported import: f0.log"),
    ],
)
def test_the_title_says_what_the_files_are(kind, files, title):
    frame = frame_of((0, "client", "read", "all", 150_000, 153_000, 9))
    html, _ = page(frame, manifest_of(frame, kind, files))
    assert f"<h1>{title}</h1>" in html and f"<title>{title}</title>" in html


@pytest.mark.parametrize(
    ("counts", "histogram", "said"),
    [
        ("since-load", True, "a sum since the pool was loaded"),
        ("intervals", True, "a sum over intervals"),
        ("timed", False, "interval by interval"),
    ],
)
def test_iostat_with_times_has_a_heat_map(counts, histogram, said):
    later = frame_of((1, "vdev", "read", "all", 1 << 17, 1 << 18, 9)) if counts == "timed" else IOSTAT[:0]
    frame = pl.concat([IOSTAT, later])
    manifest = manifest_of(frame, "zpool-iostat")
    manifest["import"] |= {"counts": counts, "source": zpool_iostat.SOURCES[counts].as_json()}
    html, specs = page(frame, manifest)
    assert {kind == "histogram" for _, kind in kinds(specs) if kind != "lines"} == {histogram}
    assert said in html and ("when the I/Os were done" in html) == histogram


def test_the_words_of_a_format_that_the_report_does_not_know():
    manifest = manifest_of(IOSTAT, "made-up")
    source = ImportSource(files="made-up logs", program="a maker", latency="as it was made up", timed=False)
    manifest["import"]["source"] = source.as_json()
    html, specs = page(IOSTAT, manifest)
    for words in ("<h1>Imported made-up logs: f0.log</h1>", "a maker wrote 1 file (made-up logs)",
                  "Latency: as it was made up", "when the I/Os were done"):  # fmt: skip
        assert words in html
    assert {spec["title"].split(":")[0] for spec in specs} == {"made-up logs"}


def test_foreign_names_are_inert():
    attack = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"
    frame = IOSTAT.with_columns(pl.lit(attack).alias("host"))
    manifest = manifest_of(frame, "zpool-iostat")
    manifest["import"]["files"] = [{"file": attack, "rows_read": 1, "left_out": {attack: 1}}]
    manifest["import"]["warnings"] = [attack]
    manifest["import"]["source"] = {"files": attack, "program": attack, "latency": attack, "timed": True}
    html, specs = page(frame, manifest)
    assert "<img src=x" not in html and "{{ 7*7 }}" in html
    for spec in specs:
        assert_plain(spec)


@pytest.mark.parametrize(
    "damage",
    [
        {"files": 7},
        {"files": [3]},
        {"warnings": 7},
        {"files": [{"left_out": 3}]},
        {"format": ["x"]},
        {"format": None},
        {"counts": ["x"]},
        {"counts": "timed"},
        {"source": 7},
        {"source": {"files": ["x"]}},
    ],
)
def test_a_damaged_import_is_not_a_traceback(damage):
    manifest = manifest_of(IOSTAT, "zpool-iostat")
    manifest["import"] |= damage
    try:
        html, _ = page(IOSTAT, manifest)
    except ConfigError as error:
        assert "manifest.json: import." in error.message and "damaged" in error.hint
    else:
        assert 'id="verdict">Imported' in html


def test_each_tier_of_an_imported_trace_has_its_map():
    frame = frame_of(*((t, "nfs-server", "read", tier, lo, lo + 2000, 9) for t in (0, 1)
                       for tier, lo in (("dram", 6000), ("disk", 5_000_000))))  # fmt: skip
    html, specs = page(frame, manifest_of(frame, "bpftrace"))
    linear = [spec for spec in specs if spec["layout"]["yaxis"]["type"] == "linear"]
    assert [spec["about"]["tier"] for spec in linear] == ["dram", "disk"]
    assert "which tier answered" not in reading(html)
