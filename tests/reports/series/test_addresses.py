"""What a sweep of addresses says in words, and which addresses nothing had written."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.manifest import Manifest
from kit.store.series import Series
from reports.series.addresses import address_sentences
from reports.series.sentences import answer, sentences
from reports.series.view import places_of
from reports.series.written import never_written
from tests.reports import addresses

GIB = 1 << 30


def said(series: Series) -> list[str]:
    return [text for axis in series.axes for text in address_sentences(series, axis)]


def test_a_disk_has_outer_to_inner_with_its_uncertainty() -> None:
    (text,) = said(addresses.series({("read", "100"): addresses.DISK}, rotating=True))
    begin = "read: outer : inner 1.871, 116 to 62 MB/s from 0 % to 90 % of the device (by a line 1.86"
    assert text.startswith(begin) and ", 95 %: 1.7" in text
    text = said(addresses.series({("read", "100"): addresses.DISK}, rounds=3))[0]
    assert text.startswith("read: first : last 1.871"), "no disk, as far as is known"


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([160, 161, 160, 161, 160, 161, 160, 161, 160, 161], "flat within 5 %"),
        ([160, 150, 163, 156, 148, 166, 151, 160, 154, 159], "no trend is shown"),
        ([160, 158, 157, 154, 153, 151, 150, 147, 146, 144], "first : last 1.111"),
        (
            [160, 160, 160],
            "from 0 % to 20 % of the device, too few places to tell whether it is flat (3 places",
        ),
    ],
)
def test_a_profile_is_judged_by_all_its_places(rates: list[float], words: str) -> None:
    places = addresses.ADDRESSES[: len(rates)]
    (text,) = said(addresses.series({("read", "100"): rates}, addresses=places))
    assert text.startswith("read: ") and words in text, text


def test_a_filled_ssd_is_flat_and_the_rest_was_never_written() -> None:
    texts = [text.partition(" (")[0] for text in said(addresses.half_filled())]
    assert texts == [
        "read, filled 100 %: 160 MB/s at each address from 0 % to 90 % of the device, flat within 5 %",
        "read, filled 50 %: 160 to 161 MB/s from 0 % to 40 % of the device, flat within 5 %",
        "read, filled 50 %: never-written 50 %, 60 %, 70 %, 80 %, 90 %: 211 MB/s, 1.32 times what is filled: "
        "no flash was read.",
        "write: 70 MB/s at each address from 0 % to 90 % of the device, flat within 5 %",
    ]


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (addresses.half_filled(),
         "read, filled 100 %: 160 MB/s at each address from 0 % to 90 % of the device, flat within 5 %."),
        (addresses.series({("read", "100"): addresses.DISK}, rotating=True),
         "read: outer : inner 1.871, 116 to 62 MB/s from 0 % to 90 % of the device."),
    ],
)  # fmt: skip
def test_the_headline_is_short_and_its_uncertainty_stands_below(series: Series, words: str) -> None:
    assert answer(series, [], None) == words
    assert any(text.startswith(f"{words[:-1]} (") and "95 %" in text for text in said(series))


def test_a_ratio_for_each_place_is_left_out() -> None:
    series = addresses.half_filled()
    assert list(sentences(series, series.axis("address"))) == said(series)
    assert any("100 to 50" in text for text in sentences(series, series.axis("filled")))


def test_what_is_excluded_says_nothing() -> None:
    series = addresses.series({("read", "100"): addresses.DISK})
    cells = tuple(cell.model_copy(update={"excluded": "bound by CPU"}) for cell in series.cells)
    assert said(series.model_copy(update={"cells": cells})) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["0", "10", "20"], ([0, 10, 20], True)),
        (["0", "1", "10"], ([0, 1, 10], True)),
        (["1", "2", "3"], ([1, 2, 3], True)),
        (["512", "4k", "128k"], ([512, 4096, 131072], False)),
        (["1", "2"], ([1, 2], False)),
        (["0", "1"], None),
        (["mirror", "stripe"], None),
    ],
)
def test_where_values_stand(values: list[str], expected: Any) -> None:
    assert places_of(values) == expected


# --- Never written --------------------------------------------------------------------------------------


def phase(name: str, op: str, first: int, end: int) -> dict[str, Any]:
    counts = {"client_ios": 1, "server_ios": None, "lost_events": None}
    return {**counts, "name": name, "op": op, "interval_ns": 1, "start_ns": 0, "end_ns": 1,
            "target": "device:cache", "spans": {"ssd": [first, end]}}  # fmt: skip


def unwritten(*phases: dict[str, Any], **entry: Any) -> list[float]:
    value = {
        "phases": phases, "testbed": {"devices": [{"name": "ssd", "size_bytes": 10 * GIB}]},
        "precondition": {"devices": [{"device": "ssd", **entry}]},
    }  # fmt: skip
    manifest = Manifest.from_json(value, "manifest.json")
    return [never_written(manifest, each) for each in manifest.phases]


def test_reads_behind_the_fill_meet_nothing() -> None:
    reads = [phase(f"read-{n}", "read", n * GIB, (n + 1) * GIB) for n in (0, 4, 5, 9)]
    assert unwritten(*reads, filled_bytes=5 * GIB) == [0, 0, 1, 1]
    assert unwritten(*reads, filled_bytes=int(4.5 * GIB)) == [0, 0.5, 1, 1]
    assert unwritten(*reads) == [0, 0, 0, 0], "a device that is filled as a whole"


def test_what_a_phase_before_wrote_counts_as_written() -> None:
    read = phase("read", "read", 8 * GIB, 10 * GIB)
    write = phase("write", "write", 9 * GIB, 10 * GIB)
    again = {**read, "name": "read-again"}
    assert unwritten(read, write, again, filled_bytes=5 * GIB) == [1, 0, 0.5]


def test_a_run_without_spans_says_nothing() -> None:
    old = phase("read", "read", 8 * GIB, 9 * GIB)
    del old["spans"]
    assert unwritten(old, filled_bytes=5 * GIB) == [0]
    assert unwritten(phase("read", "read", 8 * GIB, 9 * GIB), filled_bytes="half") == [0]
