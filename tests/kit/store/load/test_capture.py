"""kit.store.load.capture: what is stored comes back, what cannot be is refused, places keep their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.store.load import capture
from kit.store.load.capture import PART_BYTES, SCHEMA, Capture, capture_of
from tests.captures import Row, capture_file, raw_file

WHERE = Path("capture.parquet")
GOOD: Row = (5, 0, 0, 4096, 512, "read", False)
ABOUT = '{"format": 1, "lost": 0, "left_out": 0}'
kinds = st.sampled_from([("read", False), ("write", True), ("write", False)])
requests = st.builds(
    lambda time, client, file, offset, length, kind: (time, client, file, offset, length, *kind),
    st.integers(0, 10**15), st.integers(0, 9), st.integers(0, 3),
    st.one_of(st.integers(0, 5 << 20), st.integers(0, (1 << 63) - 1 - (16 << 20))),
    st.integers(1, 3 << 20), kinds,
)  # fmt: skip


def frame_of(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(rows, SCHEMA, orient="row")  # type: ignore[arg-type]


def made(*rows: Row) -> Capture:
    return Capture(frame_of(*rows).sort("time_ns", maintain_order=True), 0, 0, "")


def test_what_is_written_is_read_by_time(tmp_path: Path) -> None:
    rows: list[Row] = [(9, 1, 0, 0, 4096, "write", True), GOOD, (12, 0, 0, 0, 0, "commit", False)]
    path = capture_file(tmp_path / "capture.parquet", rows, lost=3, left_out=4)
    found = capture_of(path.read_bytes(), path)
    assert found.rows.rows() == [rows[1], rows[0], rows[2]]
    assert (found.lost, found.left_out, found.span_ns, found.unforced) == (3, 4, 4, (0, 1))
    assert found.operations == {"read", "write"} and found.largest == {"read": 512, "write": 4096}
    assert found.text == "2 captured I/Os of 2 clients for 1 file"


@given(st.lists(requests, min_size=1, max_size=30))
def test_places_overlap_as_the_captured_ones_do_and_nothing_is_outside(rows: list[Row]) -> None:
    found = made(*rows)
    places, size_bytes = found.placed
    moving = found.moving.rows()
    most = sum(length // PART_BYTES + 2 for _, _, _, _, length, *_ in moving)
    assert size_bytes % PART_BYTES == 0 and 0 < size_bytes <= most * PART_BYTES
    for (_, _, file, offset, length, *_), place in zip(moving, places.tolist(), strict=True):
        assert 0 <= place and place + length <= size_bytes and place % PART_BYTES == offset % PART_BYTES
        for (_, _, other_file, other, other_length, *_), there in zip(moving, places.tolist(), strict=True):
            overlaps = file == other_file and offset < other + other_length and other < offset + length
            assert overlaps == (place < there + other_length and there < place + length)
            if overlaps or (file == other_file and other == offset + length):
                assert there - place == other - offset


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not a readable Parquet file"),
        (b"PAR1" + bytes(500) + b"PAR1", "not a readable Parquet file"),
        (raw_file(frame_of(GOOD), None), "not a capture"),
        (raw_file(frame_of(GOOD), "[" * 100_000), "not a capture"),
        (raw_file(frame_of(GOOD), "[1]"), "not a capture"),
        (raw_file(frame_of(GOOD), '{"format": 2, "lost": 0, "left_out": 0}'), "format '2', 1 is read here"),
        (raw_file(frame_of(GOOD), '{"format": 1, "lost": -1, "left_out": 0}'), "not numbers from 0"),
        (raw_file(frame_of(GOOD), '{"format": 1, "lost": true, "left_out": 0}'), "not numbers from 0"),
        (raw_file(frame_of(), ABOUT), "0 rows"),
        (raw_file(frame_of(GOOD).drop("offset_bytes"), ABOUT), "no column offset_bytes"),
        (raw_file(frame_of(GOOD).with_columns(file=pl.lit("tank")), ABOUT), "a column is not of its type"),
        (raw_file(frame_of(GOOD).with_columns(stable=pl.lit(None)), ABOUT), "1 rows are impossible"),
        (raw_file(frame_of((5, 0, 0, 0, 0, "commit", False)), ABOUT), "no read and no write"),
    ],
)  # fmt: skip
def test_what_is_no_capture_is_refused(content: bytes, text: str) -> None:
    with pytest.raises(ConfigError, match=r"capture\.parquet") as caught:
        capture_of(content, WHERE)
    assert text in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"time_ns": -1}, {"time_ns": 1 << 62}, {"client": -1}, {"client": 1 << 20}, {"file": -1},
        {"file": 1 << 40},
        {"offset_bytes": -4096}, {"offset_bytes": (1 << 63) - 1}, {"length_bytes": 0}, {"length_bytes": -1},
        {"length_bytes": (16 << 20) + 1}, {"op": "trim"}, {"op": "commit"},
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    values = dict(zip(SCHEMA, GOOD, strict=True)) | change
    content = raw_file(frame_of(GOOD, tuple(values.values())), ABOUT)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="1 rows are impossible"):
        capture_of(content, WHERE)


def test_more_rows_and_bytes_than_a_capture_has_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    content = raw_file(frame_of(*[GOOD] * 11), ABOUT)
    monkeypatch.setattr(capture, "MOST_ROWS", 10)
    with pytest.raises(ConfigError, match="11 rows: a capture has 1 to 10"):
        capture_of(content, WHERE)
    monkeypatch.setattr(capture, "MOST_BYTES", 10)
    with pytest.raises(ConfigError, match="larger than 10 B"):
        capture_of(content, WHERE)


@given(st.data())
def test_a_damaged_file_is_refused_or_read_whole(data: st.DataObject) -> None:
    content = bytearray(raw_file(frame_of(*[GOOD] * 20), ABOUT))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        assert capture_of(bytes(content), WHERE).rows.height == 20
    except ConfigError as error:
        assert "capture.parquet" in error.message
