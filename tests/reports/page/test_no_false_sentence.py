"""The main job's page has no sentence that a review of the kit's conclusions found to be false."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tests.reports import synthetic
from tests.reports.candidates import use

SECOND = synthetic.SECOND
# Each was said of data that does not show it.
FALSE = [
    "which sends FLUSH", r"in the lab they are hits", r"overlap, not proof", r"would save at most",
    r"All [\d,]+ acknowledged writes survived", r"takes? 200 µs or longer to program",
    "FLUSH waits for the medium", "without those of the dbuf cache", "by the number of I/Os",
    "Nothing else used the server",
    "They share something", "The SSDs answer in", "differ by more than", "No change is shown",
]  # fmt: skip
SERVER, CLIENT = ("nfs-server", "lab", "dram", 0), ("client", "lab/client0", "all", 20480)
Manifest = dict[str, Any]


def _with(rows: list[synthetic.Row]) -> pl.DataFrame:
    return pl.concat([synthetic.latency(), synthetic.table(rows)])


def _as_it_is() -> tuple[pl.DataFrame, Manifest]:
    return synthetic.latency(), synthetic.manifest()


def _dram_moved() -> tuple[pl.DataFrame, Manifest]:
    """Reads from DRAM at 5 us, 60 us and 900 us, where the lab's have other places."""
    rows = [
        (at * SECOND, "read", layer, host, "read", tier, low + more, high + more, count)
        for at in range(12)
        for layer, host, tier, more in (SERVER, CLIENT)
        for low, high, count in ((4992, 5120, 60), (59392, 60416, 30), (884736, 901120, 10))
    ]  # fmt: skip
    frame = synthetic.latency().filter((pl.col("tier") != "dram") & (pl.col("phase") != "read"))
    frame = pl.concat([frame, synthetic.table(rows)])
    return frame, synthetic.manifest(frame)


def _no_flush() -> tuple[pl.DataFrame, Manifest]:
    """The log device's cache is volatile, and no FLUSH reached it."""
    manifest = synthetic.manifest()
    log = {"name": "log-x", "role": "log", "settings": {"write_cache": "write back"}}
    manifest["testbed"]["devices"].append(log)
    (device, _) = use("x", 100 * SECOND, 1200)
    device["samples"] = [{**each, "flushes": 0} for each in device["samples"]]
    manifest["phases"][1]["devices"] = [device]
    return synthetic.latency(), manifest


def _most_overlap() -> tuple[pl.DataFrame, Manifest]:
    """One read of 451 ms, and feeds of the L2ARC in most of the phase."""
    low, high = 448_790_528, 457_179_136
    frame = _with([
        (4 * SECOND, "read", "nfs-server", "lab", "read", "dram", low, high, 1),
        (4 * SECOND, "read", "client", "lab/client0", "read", "all", low, high, 1),
    ])  # fmt: skip
    manifest = synthetic.manifest(frame)
    feeds = [(at * SECOND, int((at + 0.8) * SECOND)) for at in range(12)]
    manifest["phases"][0]["events"] = [
        {"time_ns": begin, "end_ns": end, "kind": "l2arc-feed", "text": ""} for begin, end in feeds
    ]
    return frame, manifest


def _unlike_loads() -> tuple[pl.DataFrame, Manifest]:
    """512 B to the log device, 128 KiB to the pool."""
    manifest = synthetic.manifest()
    manifest["phases"][2] |= {"block_bytes": 128 << 10, "checks": []}
    return synthetic.latency(), manifest


@pytest.mark.parametrize(
    ("made", "said", "unsaid"),
    [
        (_as_it_is, "Median latency of", ""),
        (_dram_moved, "have 3 modes", "docs/decisions/0022"),
        (_no_flush, "log-x got 0 FLUSH commands for", "can be used"),
        (_most_overlap, "times the p99", "while there was"),
        (_unlike_loads, "Median latency of reads", "of writes: log SSD"),
    ],
)
def test_the_page_says_no_more_than_its_data(
    made: Callable[[], tuple[pl.DataFrame, Manifest]], said: str, unsaid: str
) -> None:
    frame, manifest = made()
    page = synthetic.render(frame, manifest, synthetic.summarise(frame, manifest))
    text = html.unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL))
    text = " ".join(text.split())
    assert said in text, text[:3000]
    assert not unsaid or unsaid not in text
    for sentence in FALSE:
        assert not re.search(sentence, text), sentence


def test_each_sentence_would_be_found() -> None:
    """The patterns are those of the sentences that were on pages before."""
    said = (
        "log0: its write cache is volatile for the kernel, which sends FLUSH; All 60,000 acknowledged writes "
        "survived 20 power losses; The SSDs answer in 162 to 178 µs"
    )  # fmt: skip
    assert sum(bool(re.search(sentence, said)) for sentence in FALSE) == 3
