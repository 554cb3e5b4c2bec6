"""Findings of what a stranger has stored: no text acts, nothing impossible is taken, nothing raises."""

import copy
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from reports.analysis.findings import MOST
from tests.reports import synthetic
from tests.reports.analysis.test_findings import PLAIN, POOL, SECOND, UNTIMED, kinds, of, with_one

ATTACK = "<img src=x onerror=alert(1)>\x1b[31m\u202e&amp;{{7*7}}"


def test_no_text_of_the_run_is_markup(calm):
    """Only tables whose names are checked are read from files; these have not been."""
    frame = with_one(calm, 3, 400).with_columns(
        tier=pl.col("tier").replace("pool", ATTACK), op=pl.col("op").replace("write", ATTACK)
    )
    manifest = synthetic.manifest(with_one(calm, 3, 400))
    manifest["phases"][2] |= {
        "title": ATTACK, "job": ATTACK,
        "events": [{"time_ns": POOL + 3 * SECOND, "end_ns": None, "kind": ATTACK, "text": ATTACK}],
    }  # fmt: skip
    listed = of(frame, manifest)
    assert {"missing", "outlier"} <= set(kinds(listed))
    assert all(PLAIN.fullmatch(each.text) and len(each.text) <= 400 for each in listed)


BAND = {
    "from_us": 1.0, "to_us": 2.0, "count": 4, "share": 1.0, "share_interval": [0.9, 1.0],
    "range_us": [1.0, 2.0], "modes_us": [1.5], "overlap": 0.0, "separable": True, "tier": "l2arc",
    "published": [],
}  # fmt: skip


def strangers(calm, tiers, **band):
    """A summary with an entry of bands that the kit has not made."""
    kernel = {
        "tiers": tiers, "owners": ["l2arc"], "judged": 4, "right": 0, "share_right": 0.0, "warnings": [],
    }  # fmt: skip
    entry = {
        "phase": "read", "layer": "nfs-server", "op": "read", "count": 4, "overlap_limit": 0.02,
        "separable": True, "reason": None, "borders_us": [], "bands": [{**BAND, **band}], "kernel": kernel,
        "published": None,
    }  # fmt: skip
    summary = synthetic.summarise(calm, synthetic.manifest(calm))
    summary["bands"] = [entry, *copy.deepcopy(summary["bands"])]
    return summary


@pytest.mark.parametrize(
    ("tiers", "band"),
    [({}, {}), ({"disk": [4]}, {"from_us": 9.0, "to_us": 2.0}), ({"disk": [4, 4]}, {}), ({"disk": [0]}, {})],
)
def test_bands_of_a_strangers_summary(calm, tiers, band):
    assert len(of(calm, None, strangers(calm, tiers, **band))) <= 1


@pytest.mark.parametrize(
    ("tiers", "band"),
    [
        ([], {}), ({"disk": 4}, {}), ({"disk": ["x"]}, {}), ({"disk": [10**400]}, {}), ({"disk": [-4]}, {}),
        ({}, {"to_us": "2"}), ({}, {"tier": []}),
    ],
)  # fmt: skip
def test_bands_of_other_types_are_refused(calm, tiers, band):
    with pytest.raises(ConfigError, match=r"bands\[0\]"):
        of(calm, None, strangers(calm, tiers, **band))


EDGES = st.integers(0, 2**40)
ROWS = st.tuples(
    st.integers(-(2**40), 2**42),
    st.sampled_from(["read", "write-slog", "write-pool", "gone"]),
    st.sampled_from(["nfs-server", "client"]),
    st.just("lab"),
    st.sampled_from(["read", "write", "commit"]),
    st.sampled_from(["dram", "l2arc", "disk", "slog", "pool", "all", "shared"]),
    EDGES,
    st.integers(1, 2**40),
    st.sampled_from([0, 1, 40, 10_000, 2**40]),
)


@settings(deadline=None, max_examples=30)
@given(st.lists(ROWS, max_size=40), st.integers(0, 2**32), st.booleans())
def test_nothing_raises_and_all_findings_are_in_their_phase(rows, seed, timed):
    frame = synthetic.table([(*row[:7], row[6] + row[7], row[8]) for row in rows])
    manifest = synthetic.manifest()
    generator = np.random.default_rng(seed)
    for phase in manifest["phases"]:
        begin, end = sorted(int(value) for value in generator.integers(-(2**42), 2**42, 2))
        phase["events"] = [
            {"time_ns": end, "end_ns": begin, "kind": "txg"},
            {"time_ns": begin, "kind": "fault"},
        ]
    if not timed:
        manifest["import"] = UNTIMED
    summary = synthetic.summarise(frame, manifest)
    listed = of(frame, manifest, summary)
    assert len(listed) <= MOST
    for each in listed:
        assert 0 <= each.from_s <= each.to_s
        assert each.low_us <= each.high_us
        assert (
            PLAIN.fullmatch(each.text) and each.text.endswith(".") and not re.search(r"\de[+-]\d", each.text)
        )
