"""kit.trace.keys: the sample of blocks has all requests for its blocks; what cannot be is a problem."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.trace import keys, request_lines, support
from kit.trace.output import Trace, classes_of_keys, parse_trace
from kit.zfs.openzfs_version import ZfsVersion
from tests.sampling import share_error

MASK = (1 << 64) - 1
SEEN = 1 << 11
Request = tuple[int, int, int, int]
"""File (its hash), offset, length, size of the file."""


def mixed(value: int) -> int:
    """As mix_key.bt, in whole numbers."""
    value = ((value ^ value >> 27) * 0x3C79AC492BA7B653) & MASK
    value = ((value ^ value >> 33) * 0x1C69B3F74AC4AE35) & MASK
    return value ^ value >> 27


def sampled(request: Request, shift: int, one_in: int) -> list[int]:
    """Keys of the blocks of a request that are in the sample."""
    file, offset, length, _ = request
    blocks = range(offset >> shift, (offset + length - 1 >> shift) + 1)
    return [key for block in blocks if (key := mixed(file ^ block)) >> 1 <= (1 << 63) // one_in - 1]


def line(*values: int | str) -> str:
    text = " ".join(each if isinstance(each, str) else f"{each:x}" for each in values)
    return json.dumps({"type": "printf", "data": f"hsp-trace key {text}\n"})


def output(lines: Iterable[str], printed: int | None = None, left_out: int = 0, ios: int = 1) -> str:
    """Of phase 1, with these lines in it."""
    lines = [*lines]
    counts = {
        f"{SEEN},4000": ios, f"{SEEN},480": ios, f"{SEEN},4030": len(lines) if printed is None else printed,
    }  # fmt: skip
    counts |= {f"{SEEN},4031": left_out} if left_out else {}
    told = [
        '{"type": "printf", "data": "hsp-trace phase 1 5\\n"}', *lines,
        '{"type": "printf", "data": "hsp-trace end 70\\n"}',
        json.dumps({"type": "map", "data": {"@counts": counts}}),
        '{"type": "printf", "data": "hsp-trace ended 1\\n"}',
    ]  # fmt: skip
    return "\n".join(told) + "\n"


def lines_of(trace: Trace) -> list[np.ndarray]:
    return list(trace.keys.of(np.array(list(classes_of_keys(trace)), np.uint64)))


requests = st.tuples(
    st.integers(0, MASK), st.integers(0, 1 << 24), st.integers(1, 1 << 20), st.integers(0, 1 << 26)
)


@given(st.lists(requests, max_size=20), st.integers(12, 20), st.integers(1, 100))
def test_the_reader_finds_the_blocks_that_the_program_has_chosen(
    asked: list[Request], shift: int, one_in: int
) -> None:
    lines, expected = [], Counter[tuple[int, int]]()
    for number, request in enumerate(asked):
        file, offset, length, size = request
        if chosen := sampled(request, shift, one_in):
            lines.append(line(number + 6, SEEN, file, offset, length, shift, size))
        # A block behind the end of the file is none.
        first = mixed(file)
        behind = {mixed(file ^ block) for block in range(max(size, 1) + (1 << shift) - 1 >> shift, 1 << 15)}
        block_bytes = min(max(-(-size // 512), 1) * 512, 1 << shift)
        expected.update((key, block_bytes) for key in chosen if key not in behind or key == first)
    trace = parse_trace(output(lines))
    assert trace.problems == []
    found = Counter[tuple[int, int]]()
    for some in lines_of(trace):
        blocks = keys.blocks_of(some, one_in)
        found.update(zip(blocks.key.tolist(), blocks.block_bytes.tolist(), strict=True))
    assert found == expected


@given(st.lists(st.integers(0, MASK), min_size=1))
def test_the_hash_is_that_of_the_program(values: list[int]) -> None:
    text = re.sub(r"\(uint64\)", "", (support.HERE / "mix_key.bt").read_text())
    constants = re.findall(r"0x[0-9a-f]{16}", text)
    assert constants == ["0x3c79ac492ba7b653", "0x1c69b3f74ac4ae35"]
    # bpftrace takes no larger ones.
    assert all(int(each, 16) < 1 << 63 for each in constants)
    assert keys.mix(np.array(values, np.uint64)).tolist() == [mixed(value) for value in values]


@pytest.mark.parametrize("one_in", [1, 2, 64, 1 << 20])
def test_the_program_has_the_limits_of_the_reader(one_in: int) -> None:
    text = support.program(ZfsVersion(2, 3), one_in=one_in).text
    assert f"<= (uint64){support.last_key(one_in)})" in text and f"< {support.MOST_LINES})" in text
    assert not re.search(r"LAST_KEY|MOST_LINES|KEYS", text)
    assert text.count(f"$tried < {keys.MOST_BLOCKS}") == 2 and f"> {keys.MOST_BLOCKS} ?" in text
    maps = set(re.findall(r"@\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))
    assert maps == set(re.findall(r"(?<=clear\()@\w+", text))
    for number in keys.Sample.counted_by:
        assert f"@counts[$seen, (uint64){number}] = sum((uint64)1);" in text
    printed = re.search(r'printf\("(hsp-trace key.*?)\\n"', text)
    assert printed and printed[1].count("%llx") == keys.Sample.pattern.groups


def test_without_it_the_program_is_as_before() -> None:
    usual = support.program(ZfsVersion(2, 3)).text
    lines = iter(support.program(ZfsVersion(2, 3), one_in=8).text.splitlines())
    assert all(each in lines for each in usual.splitlines())
    assert "$offset" not in usual and "@lines" not in usual


def test_all_blocks_have_the_same_chance() -> None:
    """Blocks of one file, files of one block, and every 4096th: the share is 1 in k within five errors."""
    numbers = np.arange(1 << 18, dtype=np.uint64)
    file = keys.mix(np.array([77], np.uint64))
    for values in (file ^ numbers, keys.mix(numbers), file ^ (numbers << np.uint64(12))):
        key = keys.mix(values)
        assert len(np.unique(key)) == len(numbers)
        for one_in in (2, 64, 1000):
            chosen = int(((key >> np.uint64(1)) <= np.uint64(support.last_key(one_in))).sum())
            error = share_error(np.ones(len(numbers), np.int64), one_in)
            assert abs(chosen / len(numbers) - 1 / one_in) < 5 * error


def test_the_error_of_the_share_is_that_of_many_samples() -> None:
    """Of blocks that are asked for unlike often; 1,000 files, each with hashes of its own."""
    asked, one_in = np.array([1] * 900 + [10] * 90 + [100] * 10), 8
    shares = []
    for file in range(1000):
        key = keys.mix(keys.mix(np.array([file], np.uint64)) ^ np.arange(1000, dtype=np.uint64))
        chosen = (key >> np.uint64(1)) <= np.uint64(support.last_key(one_in))
        shares.append(asked[chosen].sum() / asked.sum())
    error = share_error(asked, one_in)
    assert abs(np.mean(shares) - 1 / one_in) < 5 * error / np.sqrt(1000)
    assert np.std(shares) == pytest.approx(error, rel=0.15)
    assert share_error(asked, 1) == 0


GOOD = (6, SEEN, 7, 0, 512, 12, 4096)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 1 << 62), (1, SEEN | 512 | 1024), (1, 1 << 63), (1, 1 << 22 | SEEN), (3, (1 << 63) - 1), (4, 0),
        (4, 1 << 25), (5, 11), (5, 25), (5, 64), (6, 1 << 63), (0, "-1"), (2, "g"), (2, "f" * 17), (3, "1.5"),
        (4, ""), (6, "1 2"), (1, "٣"),
    ],
)  # fmt: skip
def test_an_impossible_line_is_a_problem(at: int, value: int | str) -> None:
    values: list[int | str] = [*GOOD]
    values[at] = value
    trace = parse_trace(output([line(*GOOD), line(*values)], printed=2))
    assert trace.problems and trace.keys.lines == 1


def test_a_line_without_a_chosen_block_is_refused() -> None:
    file = next(file for file in range(99) if not sampled((file, 0, 512, 512), 12, 64))
    for length, shift, refused in ((512, 12, True), (5 << 20, 12, False)):
        trace = parse_trace(output([line(6, SEEN, file, 0, length, shift, 8 << 20)]))
        [lines] = lines_of(trace)
        if refused:
            with pytest.raises(ValueError, match="no sampled block"):
                keys.blocks_of(lines, 64)
        else:
            # The program has not looked at all of them.
            assert len(keys.blocks_of(lines, 64).key) == len(sampled((file, 0, length, 0), shift, 64))


def test_lost_lines_are_a_problem_and_those_that_were_left_out_are_none() -> None:
    lines = [line(*GOOD)] * 5
    [lost] = parse_trace(output(lines, printed=1007)).problems
    assert lost.startswith("1,002 of 1,007 sampled requests were lost: ")
    [more] = parse_trace(output(lines, printed=3)).problems
    assert "were not counted" in more
    trace = parse_trace(output(lines, left_out=70))
    assert (trace.problems, trace.keys.printed, trace.keys.left_out) == ([], 5, 70)


def test_lines_come_at_any_time_and_those_of_other_phases_are_ignored() -> None:
    before = [line(4, SEEN, *GOOD[2:]), line(3, 2 << 11, *GOOD[2:])]
    text = "\n".join(before) + "\n" + output([line(*GOOD)], printed=2)
    trace = parse_trace(text)
    assert trace.problems == [] and trace.keys.lines == 3
    [lines] = lines_of(trace)
    # By the begin of the request.
    assert lines[:, 0].tolist() == [4, 6]


def test_more_lines_than_the_program_prints_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_lines, "MOST_LINES", 3)
    trace = parse_trace(output([line(*GOOD)] * 50))
    assert trace.keys.lines == 6
    assert trace.problems == [
        "44 of 50 sampled requests were lost: keys.parquet does not have all requests for its blocks"
    ]
