"""Bands against labels: confusion, warnings, published ranges."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.latency import Latency
from kit.store.parts.bands import PhaseBands
from kit.store.summary import Reference, Summary
from kit.store.tables import LATENCY_SCHEMA
from reports.analysis import band_labels, band_table
from reports.published import references
from reports.published.ranges import Beside
from tests.reports import synthetic
from tests.reports.synthetic import summarise

SUN = references.load("sun-7410-2009")


def frame(listed, layer="nfs-server"):
    rows = [(0, "read", layer, "h", "read", tier, lo, hi, n) for tier, lo, hi, n in listed]
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")


THREE = [("dram", 6144, 6272, 1000), ("l2arc", 139264, 143360, 800), ("disk", 4980736, 5111808, 600)]


def described(listed, layer="nfs-server", reference=SUN):
    latency, manifest = Latency.of(frame(listed, layer)), synthetic.parsed(synthetic.manifest())
    shown = {"read": Beside(reference.ranges_us if reference else {})}
    (entry,) = band_table.describe(latency, manifest, reference, shown)
    return entry


def test_each_tier_is_a_band():
    entry = described(THREE)
    assert [b.tier for b in entry.bands] == ["dram", "l2arc", "disk"]
    assert entry.separable and entry.reason is None
    assert entry.kernel.tiers == {"dram": (1000, 0, 0), "l2arc": (0, 800, 0), "disk": (0, 0, 600)}
    assert (entry.kernel.judged, entry.kernel.share_right) == (2400, 1.0)
    assert entry.kernel.warnings == ()
    published = [(each.tier, each.inside) for band in entry.bands for each in band.published]
    assert published == [("dram", True), ("l2arc", True), ("disk", True)]


def test_a_tail_inside_another_band_is_warned_of():
    entry = described([*THREE, ("l2arc", 5111808, 5242880, 12)])
    assert entry.kernel.right == 2400 and entry.kernel.judged == 2412
    (warning,) = entry.kernel.warnings
    assert "12 of 812 I/Os of l2arc (1.48%)" in warning and "band of disk" in warning and "p99 " in warning


def test_warnings_in_plain_words_come_from_the_stored_counts():
    stray = [("l2arc", 5111808, 5242880, 12), ("disk", 139264, 143360, 20)]
    entry = PhaseBands.from_json(described([*THREE, *stray]).as_json(), "bands")
    assert [each.sentence() for each in band_labels.misplaced(entry)] == [
        "20 of 620 I/Os of disk (3.23 %) lie in the band of SSD cache (L2ARC), 29.5 to 844 µs.",
        "12 of 812 I/Os of SSD cache (L2ARC) (1.48 %) lie in the band of disk, 0.844 to 5.24 ms; "
        "the p99 is there or above.",
    ]
    # summary.json keeps its words.
    assert entry.kernel.warnings == (
        "20 of 620 I/Os of disk (3.23%) lie inside a band of l2arc (29.54-843.8 us).",
        "12 of 812 I/Os of l2arc (1.48%) lie inside a band of disk (843.8-5243 us): "
        "its p99 is there or beyond.",
    )
    assert band_labels.misplaced(described([("all", 1000, 2000, 50)], "client")) == []


def test_what_waited_for_another_is_shown_and_not_judged():
    entry = described([*THREE, ("indirect", 5111808, 5242880, 300), ("shared", 139264, 143360, 5)])
    assert entry.kernel.tiers["indirect"] == (0, 0, 300)
    assert entry.kernel.judged == 2400 and entry.kernel.warnings == ()


def test_tiers_in_one_band_are_told():
    entry = described([("l2arc", 139264, 143360, 900), ("disk", 143360, 147456, 100)])
    assert entry.reason == "one mode" and entry.kernel.share_right == 0.9
    assert "100 of 100 I/Os of disk" in entry.kernel.warnings[0]


def test_a_layer_without_labels():
    entry = described([("all", lo, hi, n) for _, lo, hi, n in THREE], "client")
    assert entry.kernel is None and len(entry.bands) == 3
    assert [b.tier for b in entry.bands] == [None] * 3
    assert entry.published.share_right is None
    assert [r.count for r in entry.published.ranges] == [1000, 800, 600]


def test_borders_from_published_ranges():
    published = described([*THREE, ("dram", 40960, 43008, 10)]).published
    # Half way, in the logarithm, from 10 to 128 us and from 260 to 1900 us.
    assert published.borders_us == pytest.approx([35.777, 702.85], rel=1e-4)
    assert published.outside == 10
    assert published.share_right == pytest.approx(2400 / 2410)


def test_published_ranges_that_overlap_have_no_borders():
    spans = (("dram", [0, 10]), ("disk", [5, 20]))
    ranges = [{"op": "read", "tier": tier, "range_us": span} for tier, span in spans]
    reference = Reference.from_json({"name": "x", "title": "x", "source": "x", "ranges": ranges}, "x")
    published = described(THREE, reference=reference).published
    assert published.borders_us is None and published.share_right is None
    assert described(THREE, reference=None).published is None


def test_bins_that_overlap_are_a_reason():
    entry = described([("dram", 6144, 6272, 100), ("l2arc", 6200, 7000, 100)])
    assert entry.bands == () and "overlap" in entry.reason


@given(st.dictionaries(
    st.sampled_from(["dram", "l2arc", "disk", "shared"]),
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 99)), min_size=1, max_size=20), min_size=1,
), st.lists(st.integers(1, 500), max_size=5, unique=True).map(sorted))  # fmt: skip
def test_the_matrix_holds_every_io(by_tier, borders):
    bins = {t: [(lo, lo + 1, n) for lo, n in listed] for t, listed in by_tier.items()}
    table = band_labels.matrix(bins, borders)
    for tier, row in table.items():
        assert len(row) == len(borders) + 1 and sum(row) == sum(n for _, n in by_tier[tier])
    owners = band_labels.owners_of(table)
    assert "shared" not in owners and len(owners) == len(borders) + 1


def test_bands_of_a_whole_run(synthetic):
    latency = synthetic.realistic()
    result = Summary.from_json(summarise(latency, synthetic.manifest(latency, 60)), "summary")
    assert [(b.phase, b.layer, len(b.bands)) for b in result.bands] == [
        ("read", "nfs-server", 3), ("read", "client", 3),
        ("write-slog", "nfs-server", 1), ("write-slog", "client", 1),
        ("write-pool", "nfs-server", 1), ("write-pool", "client", 1),
    ]  # fmt: skip
    for entry in result.bands:
        assert entry.count == sum(b.count for b in entry.bands)
        if entry.kernel:
            assert entry.kernel.share_right >= 0.999
    assert result.reference.name == "sun-7410-2009"
    assert all("p999_us" in row.model_fields_set for row in result.rows)
