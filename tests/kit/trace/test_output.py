"""kit.trace.output: recorded bpftrace output adds up; output that does not is a problem, in words."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.trace.output import Class, Counts, Snapshot, differences, parse_trace
from kit.trace.program import MAP_KEYS

DATA = Path(__file__).parents[1] / "data"
READ = (DATA / "trace-read.json").read_text()
SLOG = (DATA / "trace-write-slog.json").read_text()


def as_now(text: str) -> str:
    """Output recorded with bpftrace's own histograms, as the program prints the same today."""
    bits = {"read": 0, "write": 512, "commit": 1024}
    lines = []
    for line in text.splitlines():
        message = json.loads(line)
        data = message.get("data")
        if message["type"] == "hist":
            message = {"type": "map", "data": {"@counts": {}}}
            for key, rows in data["@latency"].items():
                op, seen, vdev = key.split(",")
                for row in rows:
                    if row["count"]:
                        bin_key = f"{int(seen) | bits[op]},{vdev},{int(bin_index(row['min']))}"
                        message["data"]["@counts"][bin_key] = row["count"]
        elif message["type"] == "map":
            for content in data.values():
                for key in list(content):
                    op, *rest = key.split(",")
                    if op in bits:
                        new = str(bits[op]) if not rest else f"{int(rest[0]) | bits[op]},{rest[1]}"
                        content[new] = content.pop(key)
        lines.append(json.dumps(message) + "\n")
    return "".join(lines)


def as_marked(text: str, phase: int) -> str:
    """The same as a tracer prints it that runs for many phases, in the phase of that number."""
    bits = {"read": 0, "write": 512, "commit": 1024}
    trace = parse_trace(text)
    lines: list[Any] = []

    def seen(key: Class) -> int:
        return key[1] | bits[key[0]] | phase << 11 | key[2] << 32

    def say(words: str) -> None:
        lines.append({"type": "printf", "data": f"hsp-trace {words}\n"})

    def show(name: str, content: dict[str, int]) -> None:
        lines.append({"type": "map", "data": {name: content}})

    def cells(snapshot: Snapshot) -> dict[str, int]:
        return {f"{seen(of)},{n}": count for of, bins in snapshot.counts.items() for n, count in bins.items()}

    say(f"phase {phase} {trace.snapshots[0].at_ns}")
    for snapshot in trace.snapshots[1:-1]:
        say(f"at {snapshot.at_ns}")
        show("@counts", cells(snapshot))
    say(f"end {trace.snapshots[-1].at_ns}")
    totals = ((4000, trace.started), (4001, trace.done))
    sums = {f"{bits[op] | phase << 11},{n}": count for n, ops in totals for op, count in ops.items()}
    show("@counts", cells(trace.snapshots[-1]) | sums)
    highest = {f"{seen(of)},0": value for of, value in trace.highest.items()}
    show("@highest", highest | {f"{seen(of)},1": (1 << 62) - 1 - v for of, v in trace.lowest.items()})
    show("@fed", dict.fromkeys(map(str, trace.feeds_ns), 1))
    say(f"ended {phase}")
    return "".join(json.dumps(line) + "\n" for line in lines)


def total(counts: dict[Class, Counts], op: str) -> int:
    return sum(sum(bins.values()) for key, bins in counts.items() if key[0] == op)


def fio_ios(name: str, direction: str) -> int:
    jobs = json.loads((DATA / name).read_text())["jobs"]
    return sum(int(job[direction]["total_ios"]) for job in jobs)


# --- What was recorded ---


@pytest.mark.parametrize(
    ("text", "op", "fio"), [(READ, "read", "read-fio.json"), (SLOG, "write", "write-slog-fio.json")]
)
def test_recorded_output_has_no_problems_and_counts_what_fio_did(text: str, op: str, fio: str) -> None:
    trace = parse_trace(text)
    assert trace.problems == []
    assert trace.began and trace.ended and trace.lost_events == 0
    ios = fio_ios(fio, op)
    assert ios > 500
    assert trace.started == trace.done == {op: ios}
    assert total(trace.snapshots[-1].counts, op) == ios
    assert set(trace.lowest) == set(trace.highest) == set(trace.snapshots[-1].counts)
    for key, bins in trace.snapshots[-1].counts.items():
        assert bin_edges(min(bins))[0] <= trace.lowest[key] < bin_edges(min(bins))[1]
        assert bin_edges(max(bins))[0] <= trace.highest[key] < bin_edges(max(bins))[1]


@pytest.mark.parametrize("text", [READ, SLOG])
def test_output_of_today_says_the_same(text: str) -> None:
    now = as_now(text)
    assert "@latency" not in now and "read,0,0" not in now and "@counts" in now
    assert parse_trace(now) == parse_trace(text)


@pytest.mark.parametrize("text", [READ, SLOG])
@pytest.mark.parametrize("phase", [1, 7, 2047])
def test_output_with_marks_says_the_same(text: str, phase: int) -> None:
    marked = as_marked(text, phase)
    assert "hsp-trace begins" not in marked and "@done" not in marked and "@lowest" not in marked
    assert parse_trace(marked) == replace(parse_trace(text), phase=phase)


MARKED = as_marked(READ, 2)


def test_requests_of_another_phase_are_nobodys_and_hurt_nothing() -> None:
    """One that ends when its phase has long ended; its class, counts and extremes are of its own phase."""
    lines = []
    for message in map(json.loads, MARKED.splitlines()):
        if "@counts" in (message.get("data") or {}):
            message["data"]["@counts"] |= {"2048,480": 1, "2048,4001": 1, "2561,77": 3}
        if "@highest" in (message.get("data") or {}):
            message["data"]["@highest"] |= {"2048,0": 10**12, "2048,1": (1 << 62) - 2}
        lines.append(json.dumps(message) + "\n")
    assert parse_trace("".join(lines)) == parse_trace(MARKED)


@pytest.mark.parametrize("marker", ["hsp-trace phase", "hsp-trace end ", "hsp-trace ended"])
def test_a_phase_without_one_of_its_marks(marker: str) -> None:
    assert parse_trace(without(MARKED, marker)).problems


@pytest.mark.parametrize("kept", range(MARKED.count("\n")))
def test_a_phase_that_stops_anywhere_is_a_problem(kept: int) -> None:
    assert parse_trace("".join(MARKED.splitlines(keepends=True)[:kept])).problems


def test_two_phases_are_not_one() -> None:
    problems = parse_trace(MARKED + as_marked(SLOG, 3)).problems
    assert any("is damaged" in problem and "phase 3" in problem for problem in problems)
    assert parse_trace(MARKED.replace("ended 2", "ended 3")).problems


@pytest.mark.parametrize(
    ("old", "new"), [("4000", "3999"), (",4001", ",4002"), ("hsp-trace ended 2", "hsp-trace ended x")]
)
def test_a_phase_with_a_line_that_is_none(old: str, new: str) -> None:
    assert old in MARKED
    assert parse_trace(MARKED.replace(old, new)).problems


def test_requests_of_a_phase_that_began_and_did_not_end_in_it() -> None:
    text = edited(MARKED, "@counts", '"4096,4000": 3456', '"4096,4000": 3457')
    assert parse_trace(text).problems == ["the tracer saw 3457 read requests start and 3456 end"]


def test_a_map_that_is_full_is_a_problem() -> None:
    full = {f"{2048 * (n // 1000 + 3)},{n % 1000}": 1 for n in range(MAP_KEYS)}
    line = json.dumps({"type": "map", "data": {"@counts": full}})
    lines = MARKED.splitlines()
    lines.insert(4, line)
    assert any("line 5, is damaged" in problem for problem in parse_trace("\n".join(lines)).problems)


def test_recorded_values() -> None:
    trace = parse_trace(READ)
    assert trace.snapshots[0] == Snapshot(96811785955, {})  # a moment without a request
    assert trace.lowest["read", 2, 0] == 141930
    assert trace.highest["read", 17, 0] == 10096480
    moments = [snapshot.at_ns for snapshot in trace.snapshots]
    assert len(moments) == READ.count("hsp-trace at") + 1
    assert moments == sorted(moments)


@pytest.mark.parametrize("text", [READ, SLOG])
def test_differences_of_recorded_output_sum_to_its_last_snapshot(text: str) -> None:
    trace = parse_trace(text)
    summed: Counter[tuple[Class, int]] = Counter()
    for change in differences(trace.snapshots):
        for key, bins in change.counts.items():
            summed.update({(key, index): count for index, count in bins.items()})
    assert summed == {
        (key, index): count
        for key, bins in trace.snapshots[-1].counts.items()
        for index, count in bins.items()
    }


# --- What is damaged ---


def edited(text: str, marker: str, old: str, new: str) -> str:
    """`text` with one replacement in the last line that holds `marker`."""
    lines = text.splitlines(keepends=True)
    at = max(index for index, line in enumerate(lines) if marker in line)
    assert old in lines[at]
    lines[at] = lines[at].replace(old, new, 1)
    return "".join(lines)


def without(text: str, *markers: str) -> str:
    return "".join(
        line for line in text.splitlines(keepends=True) if not any(marker in line for marker in markers)
    )


END = READ[: READ.index("hsp-trace end")].count("\n")
LINES = READ.count("\n")


@pytest.mark.parametrize("kept", range(END + 1))
def test_output_that_stops_before_its_end_is_a_problem(kept: int) -> None:
    trace = parse_trace("".join(READ.splitlines(keepends=True)[:kept]))
    said = "the tracer never began" if kept < 2 else "the tracer died before its end"
    assert any(said in problem for problem in trace.problems)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(
            kept,
        )
        for kept in range(END + 1, LINES)
    ],
)
def test_output_that_stops_within_its_end_is_a_problem(kept: int) -> None:
    assert parse_trace("".join(READ.splitlines(keepends=True)[:kept])).problems


@given(st.integers(0, len(READ.rstrip()) - 1))
def test_output_cut_within_a_line_is_a_problem(length: int) -> None:
    text = READ[:length]
    if not text.endswith("\n") and not READ[length:].startswith("\n"):
        assert parse_trace(text).problems


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "hist", "data": {"@latency": {"read,0',
        "bpftrace: out of memory",
        "[]",
        "5",
        '"hist"',
        "null",
        '{"data": {}}',
        '{"type": "hist"}',
        '{"type": "hist", "data": {}}',
        '{"type": "hist", "data": {"@latency": {"read,0": []}}}',
        '{"type": "hist", "data": {"@latency": {"read,x,0": []}}}',
        '{"type": "hist", "data": {"@latency": {"read,0,0": [{"min": 32, "max": 32}]}}}',
        '{"type": "hist", "data": {"@latency": {"read,0,0": [{"min": 32, "max": 32, "count": -1}]}}}',
        '{"type": "hist", "data": {"@latency": {"read,0,0": [{"min": -5, "max": 32, "count": 1}]}}}',
        '{"type": "hist", "data": {"@latency": {"read,0,0": [{"min": 32, "max": 32, "count": "1"}]}}}',
        '{"type": "map", "data": {"@counts": {"1,0": 5}}}',
        '{"type": "map", "data": {"@counts": {"1,0,480": -5}}}',
        '{"type": "map", "data": {"@counts": {"1,0,480": true}}}',
        '{"type": "map", "data": {"@counts": {"1,0,480": 1.5}}}',
        '{"type": "map", "data": {"@counts": {"1,0,1856": 5}}}',
        '{"type": "map", "data": {"@counts": {"1,0,-1": 5}}}',
        '{"type": "map", "data": {"@counts": {"1536,0,480": 5}}}',
        '{"type": "map", "data": {"@counts": 5}}',
        '{"type": "map", "data": {"@started": {"7": 5}}}',
        '{"type": "map", "data": {"@done": 5}}',
        '{"type": "map", "data": {"@done": {"read": "many"}}}',
        '{"type": "map", "data": {"@lowest": {"read": 5}}}',
        '{"type": "printf"}',
        '{"type": "lost_events", "data": {}}',
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    lines = READ.splitlines()
    lines.insert(4, line)
    problems = parse_trace("\n".join(lines)).problems
    assert any("line 5, is damaged" in problem and line[:20] in problem for problem in problems)


@pytest.mark.parametrize(
    ("first", "last"),
    [(4096, 4159), (4097, 4224), (4096, 8191), (4096, 4224), (0, 1)],  # 4, 6 and 0 bits, shifted
)
def test_buckets_that_are_not_ours_are_a_problem(first: int, last: int) -> None:
    line = json.dumps(
        {"type": "hist", "data": {"@latency": {"read,0,0": [{"min": first, "max": last, "count": 1}]}}}
    )
    lines = READ.splitlines()
    lines.insert(4, line)
    assert any("line 5, is damaged" in problem for problem in parse_trace("\n".join(lines)).problems)


def test_a_histogram_before_its_time_is_a_problem() -> None:
    for early in (
        '{"type": "hist", "data": {"@latency": {}}}\n',
        '{"type": "map", "data": {"@counts": {}}}\n',
    ):
        assert any("line 1, is damaged" in problem for problem in parse_trace(early + READ).problems)


def test_a_full_map_is_a_problem() -> None:
    """bpftrace leaves out what a full map has no room for: the histograms hold less than was done."""
    hist = json.loads(READ.splitlines()[END + 1])
    lost = sum(row["count"] for row in hist["data"]["@latency"].pop("read,1,0"))
    lines = READ.splitlines()
    lines[END + 1] = json.dumps(hist)
    assert lost > 100
    assert parse_trace("\n".join(lines)).problems == [
        f"the tracer's histograms hold {3456 - lost} of 3456 read requests: a map was full"
    ]


@pytest.mark.parametrize("started", [3455, 3457])
def test_requests_that_began_and_did_not_end_are_a_problem(started: int) -> None:
    problems = parse_trace(edited(READ, "@started", "3456", str(started))).problems
    assert problems == [f"the tracer saw {started} read requests start and 3456 end"]


def test_an_op_that_was_never_done_is_a_problem() -> None:
    text = edited(READ, "@started", '"read": 3456', '"read": 3456, "commit": 1')
    assert parse_trace(text).problems == ["the tracer saw 1 commit requests start and 0 end"]


def test_requests_done_that_were_never_started_are_noticed() -> None:
    text = edited(READ, "@done", '"read": 3456', '"read": 3456, "write": 1')
    assert parse_trace(text).problems != []


def test_what_the_tracer_reports_is_a_problem() -> None:
    text = READ + '{"type": "helper_error", "data": {"msg": "Bad address", "helper": "probe_read_kernel"}}\n'
    [problem] = parse_trace(text).problems
    assert "Bad address" in problem


LOST = '{"type": "lost_events", "data": {"events": 3}}\n'


def test_lost_events_are_counted() -> None:
    assert parse_trace(READ + LOST + LOST).lost_events == 6


def test_lost_events_are_a_problem() -> None:
    assert parse_trace(READ + LOST).problems


def test_no_output_at_all() -> None:
    assert parse_trace("").problems == ["the tracer never began"]


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert parse_trace(text).problems


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "@latency",
                    "@counts",
                    "@done",
                    "@lowest",
                    "read,0,0",
                    "512,0,9",
                    "read",
                    "min",
                    "count",
                    "events",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(["hist", "map", "printf", "lost_events", "helper_error", "x", 5, None]), json_values)
def test_no_message_raises(kind: Any, data: Any) -> None:
    line = json.dumps({"type": kind, "data": data})
    parse_trace(READ + line + "\n")  # no exception, whatever it holds
    assert parse_trace(line).problems


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "lost_events", "data": {"events": 1e999}}',
        '{"type": "hist", "data": {"@latency": {"read,0,0": [{"min": 1180591620717411303424, "count": 1}]}}}',
        "[" * 200_000,
    ],
    ids=["infinite", "beyond 64 bits", "deep"],
)
def test_no_number_and_no_depth_raises(line: str) -> None:
    lines = READ.splitlines()
    lines.insert(4, line)
    assert any("line 5, is damaged" in problem for problem in parse_trace("\n".join(lines)).problems)


# --- Differences ---

classes = st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 3), st.just(0))
changes = st.lists(
    st.dictionaries(
        classes, st.dictionaries(st.integers(0, 5), st.integers(1, 100), min_size=1, max_size=3), max_size=3
    ),
    max_size=6,
)


def cumulated(steps: list[dict[Class, Counts]]) -> list[Snapshot]:
    so_far: dict[Class, Counts] = {}
    snapshots = []
    for at, step in enumerate(steps):
        for key, bins in step.items():
            mine = so_far.setdefault(key, {})
            for index, count in bins.items():
                mine[index] = mine.get(index, 0) + count
        snapshots.append(Snapshot(at, {key: dict(bins) for key, bins in so_far.items()}))
    return snapshots


@given(changes)
def test_differences_give_back_what_was_added(steps: list[dict[Class, Counts]]) -> None:
    found = list(differences(cumulated(steps)))
    assert [snapshot.at_ns for snapshot in found] == list(range(len(steps)))
    assert [{key: bins for key, bins in snapshot.counts.items() if bins} for snapshot in found] == steps


@given(changes.filter(bool))
def test_a_moment_without_histogram_changes_nothing(steps: list[dict[Class, Counts]]) -> None:
    snapshots = cumulated(steps)
    quiet = [*snapshots, Snapshot(99, {}), Snapshot(100, snapshots[-1].counts)]
    *_, first, second = differences(quiet)
    assert not first.counts
    assert not any(second.counts.values())


KEY = ("read", 0, 0)
OTHER = ("read", 1, 0)


@pytest.mark.parametrize(
    "after",
    [
        {KEY: {1: 4, 2: 7}},
        {KEY: {1: 5}},  # a bin that was there is gone
        {KEY: {}},
        pytest.param(
            {OTHER: {1: 1}},
        ),
    ],
)
def test_counts_that_go_back_are_an_error(after: dict[Class, Counts]) -> None:
    with pytest.raises(ValueError, match="went back"):
        list(differences([Snapshot(0, {KEY: {1: 5, 2: 7}}), Snapshot(1, after)]))


def test_a_phase_whose_last_counts_are_missing_is_a_problem() -> None:
    lines = MARKED.splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if '"@counts"' in line)
    assert parse_trace(MARKED).problems == []
    trace = parse_trace("".join(lines[:last] + lines[last + 1 :]))
    assert trace.ended and trace.totalled
    assert "the tracer's last counts are missing" in trace.problems
