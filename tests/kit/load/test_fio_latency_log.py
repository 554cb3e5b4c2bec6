"""fio's latency log: each line of an own run is an I/O, and the fast parser agrees with the exact one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import MeasurementUnknown
from kit.load import fio_latency_log as parser

KIT_DATA = Path(__file__).parents[1] / "data"
LOG = (KIT_DATA / "read-fio_lat.log").read_bytes()


def test_recorded_log() -> None:
    log = parser.parse_latency_log(LOG)
    assert len(log.latency_ns) == len(LOG.splitlines()) == 400
    assert (log.end_ns[0], log.latency_ns[0], log.direction[0]) == (99_737_000_000, 142_289, 0)
    writes = parser.parse_latency_log((KIT_DATA / "write-slog-fio_lat.log").read_bytes())
    assert len(writes.direction) == 815 and set(writes.direction.tolist()) == {1}


def test_an_empty_log_has_no_ios() -> None:
    assert parser.parse_latency_log(b"").latency_ns.shape == (0,)


rows = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(0, parser.MAX_LATENCY_NS - 1), st.integers(0, 1))
)


@given(rows)
def test_every_line_of_a_log_is_an_io(given_rows: list[tuple[int, int, int]]) -> None:
    text = "".join(f"{stamp}, {latency}, {direction}, 512, 0\n" for stamp, latency, direction in given_rows)
    log = parser.parse_latency_log(text.encode())
    assert log.end_ns.tolist() == [stamp * 1_000_000 for stamp, _, _ in given_rows]
    assert log.latency_ns.tolist() == [latency for _, latency, _ in given_rows]
    assert log.direction.tolist() == [direction for _, _, direction in given_rows]


@pytest.mark.parametrize(
    "line",
    [
        "99737, 142289", "99737", "", "hello", "a, b, c", "1.5, 2, 0, 512, 0", "1, nan, 0, 512, 0",
        "1, 2, 2, 512, 0", "1, 2, -1, 512, 0", "-1, 2, 0, 512, 0", "1, -2, 0, 512, 0", "1, 2, read, 512",
        "1 2 0 512 0", ", , , ,",
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [1, 7, 401])
def test_a_bad_line_is_named(line: str, number: int) -> None:
    lines = LOG.decode().splitlines()
    lines.insert(number - 1, line)
    with pytest.raises(MeasurementUnknown, match=rf"latency log, line {number}\b") as caught:
        parser.parse_latency_log(("\n".join(lines) + "\n").encode())
    assert repr(line) in caught.value.message


@pytest.mark.parametrize("line", [f"{2**70}, 5, 0", f"5, {2**70}, 0", f"{2**63 // 1_000_000 + 1}, 5, 0"])
def test_numbers_beyond_64_bits_are_impossible(line: str) -> None:
    with pytest.raises(MeasurementUnknown, match="line 1"):
        parser.parse_latency_log(f"{line}, 512, 0\n".encode())


number = st.integers(-1, 2**64) | st.integers(0, 10**6)


odd = st.sampled_from(
    ["", " ", "0x1f", "0x", "0xg", "1x2", "0x1x", "a", "1.0", "nan", "+5", "1e3", "\t7", "7 ", "  7", "\r",
     "\u0663", "00000000000000000007", "0x" + "f" * 16, "0x" + "f" * 17, "1\n2", "0x\n1"]
)  # fmt: skip


field = st.one_of(number.map(str), number.map(hex), odd)


comma = st.sampled_from([",", ", "])


@given(
    st.lists(st.tuples(*[st.integers(0, 10**n) for n in (9, 16, 0, 5, 17, 3, 19)]), min_size=1, max_size=6),
    st.integers(4, 7),
    comma,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), field, comma), max_size=2),
)
def test_the_fast_parser_agrees_with_the_exact_one(
    rows: list[tuple[int, ...]],
    columns: int,
    between: str,
    end: str,
    hexadecimal: bool,
    changes: list[tuple[int, int, str, str]],
) -> None:
    texts = [[str(v) for v in row[:columns]] for row in rows]
    if hexadecimal and columns > 4:
        for row, text in zip(rows, texts, strict=True):
            text[4] = f"0x{row[4]:04x}"
    data = "".join(between.join(text) + end for text in texts)
    for row, column, what, other in changes:
        texts[row % len(texts)][column % columns] = what
        data = "".join((other if n == row else between).join(text) + end for n, text in enumerate(texts))
    fast = parser.fast_rows(data.encode(), columns)
    try:
        slow = parser.exact_rows(data.encode(), columns)
    except parser.BadLine:
        assert fast is None
        return
    if fast is None:
        # What fio writes must not be slow.
        assert changes or any(row[3] == 0 for row in rows) or max(max(r) for r in rows) >= 10**16
        return
    for a, b in ((fast.time_ms, slow.time_ms), (fast.latency_ns, slow.latency_ns)):
        assert np.array_equal(a, b)
    assert np.array_equal(fast.direction, slow.direction)
