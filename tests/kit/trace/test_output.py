"""kit.trace.output: recorded output of the tracer is consistent; inconsistent output is a problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.instruments import request_split
from kit.trace.output import Class, Counts, Snapshot, differences, parse_trace
from kit.trace.support import MAP_KEYS
from kit.trace.tier import Vdevs

DATA = Path(__file__).parents[1] / "data"
# Phases 2 and 3 of a tracer.
READ = (DATA / "trace-read.json").read_text()
SLOG = (DATA / "trace-write-slog.json").read_text()


def edited(text: str, marker: str, old: str, new: str) -> str:
    """`text` with one replacement in the last line that holds `marker`."""
    before, line, after = split_at_last(text, marker)
    assert old in line
    return before + line.replace(old, new, 1) + after


def split_at_last(text: str, marker: str) -> tuple[str, str, str]:
    """What is before the last line that holds `marker`, this line, and what is after it."""
    lines = text.splitlines(keepends=True)
    at = max(index for index, line in enumerate(lines) if marker in line)
    return "".join(lines[:at]), lines[at], "".join(lines[at + 1 :])


# --- Recorded output ---


@pytest.mark.parametrize(
    ("text", "op", "fio"), [(READ, "read", "read-fio.json"), (SLOG, "write", "write-slog-fio.json")]
)
def test_recorded_output_has_no_problems_and_counts_the_ios_of_fio(text: str, op: str, fio: str) -> None:
    trace = parse_trace(text)
    assert trace.problems == []
    assert trace.phase and trace.ended and trace.lost_events == 0
    ios = sum(job[op]["total_ios"] for job in json.loads((DATA / fio).read_text())["jobs"])
    assert ios > 500
    assert trace.started == trace.done == {op: ios}
    counts = trace.snapshots[-1].counts
    assert sum(sum(bins.values()) for key, bins in counts.items() if key[0] == op) == ios
    assert set(trace.lowest) == set(trace.highest) == set(counts)
    for key, bins in counts.items():
        assert bin_edges(min(bins))[0] <= trace.lowest[key] < bin_edges(min(bins))[1]
        assert bin_edges(max(bins))[0] <= trace.highest[key] < bin_edges(max(bins))[1]


def test_requests_of_another_phase_are_ignored() -> None:
    """A request may end after its phase; its class, counts and extremes belong to that phase."""
    lines = []
    for message in map(json.loads, READ.splitlines()):
        if "@counts" in (message.get("data") or {}):
            message["data"]["@counts"] |= {"2048,480": 1, "2048,4001": 1, "2561,77": 3}
        if "@highest" in (message.get("data") or {}):
            message["data"]["@highest"] |= {"2048,0": 10**12, "2048,1": (1 << 62) - 2}
        lines.append(json.dumps(message) + "\n")
    assert parse_trace("".join(lines)) == parse_trace(READ)


@pytest.mark.parametrize("marker", ["hsp-trace phase", "hsp-trace end ", "hsp-trace ended"])
def test_a_phase_without_one_of_its_lines_is_a_problem(marker: str) -> None:
    text = "".join(line for line in READ.splitlines(keepends=True) if marker not in line)
    assert text != READ and parse_trace(text).problems


@pytest.mark.parametrize("kept", range(READ.count("\n")))
def test_output_that_stops_at_any_line_is_a_problem(kept: int) -> None:
    assert parse_trace("".join(READ.splitlines(keepends=True)[:kept])).problems


def test_a_second_phase_is_a_problem() -> None:
    problems = parse_trace(READ + SLOG).problems
    assert any("is damaged" in problem and "phase 3" in problem for problem in problems)
    assert parse_trace(READ.replace("ended 2", "ended 3")).problems


@pytest.mark.parametrize(
    ("old", "new"), [("4000", "3999"), (",4001", ",4002"), ("hsp-trace ended 2", "hsp-trace ended x")]
)
def test_an_invalid_line_is_a_problem(old: str, new: str) -> None:
    assert old in READ
    assert parse_trace(READ.replace(old, new)).problems


@pytest.mark.parametrize(
    ("kind", "count", "problem"),
    [
        (4000, "3455", "the tracer saw 3,455 read requests start and 3,456 end"),
        (4000, "3457", "the tracer saw 3,457 read requests start and 3,456 end"),
        (4000, '3456, "5120,4000": 1', "the tracer saw 1 commit requests start and 0 end"),
        (4001, '3456, "4608,4001": 1', "the tracer's histograms hold 0 of 1 write requests: a map was full"),
    ],
)
def test_requests_that_only_start_or_only_end_are_a_problem(kind: int, count: str, problem: str) -> None:
    text = edited(READ, "@counts", f'"4096,{kind}": 3456', f'"4096,{kind}": {count}')
    assert parse_trace(text).problems == [problem]


def test_ends_are_those_that_were_counted_where_the_program_does_not_count_them_itself() -> None:
    lines = []
    for message in map(json.loads, READ.splitlines()):
        if "@counts" in (message.get("data") or {}):
            message["data"]["@counts"].pop("4096,4001", None)
        lines.append(json.dumps(message) + "\n")
    trace = parse_trace("".join(lines))
    assert (trace.problems, trace.started, trace.done) == ([], {"read": 3456}, {"read": 3456})
    text = edited("".join(lines), "@counts", '"4096,4000": 3456', '"4096,4000": 3460')
    assert parse_trace(text).problems == ["the tracer saw 3,460 read requests start and 3,456 end"]


def test_recorded_values() -> None:
    trace = parse_trace(READ)
    assert trace.snapshots[0] == Snapshot(96811785955, {})  # the begin of the phase
    assert trace.lowest["read", 2, 0] == 141930
    assert trace.highest["read", 17, 0] == 10096480
    moments = [snapshot.at_ns for snapshot in trace.snapshots]
    assert len(moments) == READ.count("hsp-trace at") + 2
    assert moments == sorted(moments)


@pytest.mark.parametrize("text", [READ, SLOG])
def test_differences_of_recorded_output_sum_to_its_last_snapshot(text: str) -> None:
    snapshots = parse_trace(text).snapshots
    assert cumulated([change.counts for change in differences(snapshots)])[-1].counts == snapshots[-1].counts


# --- Damaged output ---


@given(st.integers(0, len(READ.rstrip()) - 1))
def test_output_cut_within_a_line_is_a_problem(length: int) -> None:
    text = READ[:length]
    if not text.endswith("\n") and not READ[length:].startswith("\n"):
        assert parse_trace(text).problems


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "map", "data": {"@counts": {"4096',
        "bpftrace: out of memory",
        "[]",
        "5",
        '"map"',
        "null",
        '{"data": {}}',
        '{"type": "map"}',
        '{"type": "map", "data": {"@counts": {"4096": 5}}}',
        '{"type": "map", "data": {"@counts": {"4096,0,480": 5}}}',
        '{"type": "map", "data": {"@counts": {"4096,x": 5}}}',
        '{"type": "map", "data": {"@counts": {"4096,480": -5}}}',
        '{"type": "map", "data": {"@counts": {"4096,480": true}}}',
        '{"type": "map", "data": {"@counts": {"4096,480": 1.5}}}',
        '{"type": "map", "data": {"@counts": {"4096,480": "many"}}}',
        '{"type": "map", "data": {"@counts": {"4096,1856": 5}}}',
        '{"type": "map", "data": {"@counts": {"4096,-1": 5}}}',
        '{"type": "map", "data": {"@counts": {"5632,480": 5}}}',  # a write and a commit
        f'{{"type": "map", "data": {{"@counts": {{"{(1 << 56) + 4096},480": 5}}}}}}',
        '{"type": "map", "data": {"@counts": 5}}',
        '{"type": "map", "data": {"@highest": {"4096": 5}}}',
        '{"type": "map", "data": {"@highest": {"4096,2": 5}}}',
        '{"type": "map", "data": {"@highest": {"4096,0": -5}}}',
        '{"type": "map", "data": {"@fed": {"x": 1}}}',
        '{"type": "printf"}',
        '{"type": "printf", "data": "hsp-trace ended 2\\n"}',
        '{"type": "lost_events", "data": {}}',
        '{"type": "lost_events", "data": {"events": 1e999}}',
        '{"type": "map", "data": {"@counts": {"1180591620717411303424,480": 1, "4096,480": 1e999}}}',
        pytest.param("[" * 200_000, id="deep"),
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    lines = READ.splitlines()
    lines.insert(4, line)
    problems = parse_trace("\n".join(lines)).problems
    assert any("line 5, is damaged" in problem and line[:20] in problem for problem in problems)


@pytest.mark.parametrize("line", READ.splitlines(keepends=True)[1:3])
def test_a_line_before_the_begin_of_the_phase_is_a_problem(line: str) -> None:
    assert any("line 1, is damaged" in problem for problem in parse_trace(line + READ).problems)


def test_a_map_of_the_maximum_size_is_a_problem_with_numbers() -> None:
    lines = READ.splitlines()
    lines.insert(
        4, json.dumps({"type": "map", "data": {"@counts": {f"6144,{n}": 1 for n in range(MAP_KEYS)}}})
    )
    assert parse_trace("\n".join(lines)).problems == [
        "a map of the tracer was full: 65536 of 65536 keys; new ones were not counted"
    ]
    keys = parse_trace(READ).map_keys
    assert 0 < keys < 1000 and parse_trace(READ, keys + 1).problems == []
    assert parse_trace(READ, keys).problems == [
        f"a map of the tracer was full: {keys} of {keys} keys; new ones were not counted"
    ]


def test_a_full_map_is_a_problem() -> None:
    """bpftrace drops new keys of a full map, so the histograms hold fewer requests than ended."""
    before, line, after = split_at_last(READ, "@counts")
    message = json.loads(line)
    counts = message["data"]["@counts"]
    dropped = [key for key in counts if key.startswith("4097,")]
    lost = sum(counts.pop(key) for key in dropped)
    assert lost > 100
    assert parse_trace(f"{before}{json.dumps(message)}\n{after}").problems == [
        f"the tracer's histograms hold {3456 - lost:,} of 3,456 read requests: a map was full"
    ]


def test_a_phase_whose_last_counts_are_missing_is_a_problem() -> None:
    before, _, after = split_at_last(READ, '"@counts"')
    trace = parse_trace(before + after)
    assert trace.ended and trace.complete
    assert "the tracer's last counts are missing" in trace.problems


def test_an_error_that_the_tracer_reports_is_a_problem() -> None:
    text = READ + '{"type": "helper_error", "data": {"msg": "Bad address", "helper": "probe_read_kernel"}}\n'
    [problem] = parse_trace(text).problems
    assert "Bad address" in problem


def test_lost_events_are_counted_and_a_problem() -> None:
    trace = parse_trace(READ + 2 * '{"type": "lost_events", "data": {"events": 3}}\n')
    assert (trace.lost_events, trace.problems) == (6, ["the tracer lost 6 events"])


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
                ["@counts", "@highest", "@fed", "4096,0", "4608,9", "2048,4000", "4096", "events"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(["map", "printf", "lost_events", "helper_error", "x", 5, None]), json_values)
def test_no_message_raises(kind: Any, data: Any) -> None:
    line = json.dumps({"type": kind, "data": data})
    parse_trace(READ + line + "\n")  # no exception, whatever it holds
    assert parse_trace(line).problems


# --- Sums ---


def with_sums(text: str, change_ns: int = 0, left_out: str = "") -> tuple[str, dict[str, int]]:
    """`text` with a sum of each class in every map, of latencies in the middle of their bins; by key."""
    lines, sums = [], {}
    for message in map(json.loads, text.splitlines()):
        counts = (message.get("data") or {}).get("@counts") if message["type"] == "map" else None
        if counts:
            sums = {}
            for key, count in list(counts.items()):
                seen, index = key.split(",")
                if int(index) < 4000:
                    low, high = bin_edges(int(index))
                    sums[seen] = sums.get(seen, 0) + count * int(low + high) // 2
            counts |= {f"{seen},4002": value + change_ns for seen, value in sums.items() if seen != left_out}
        lines.append(json.dumps(message) + "\n")
    return "".join(lines), sums


def test_log_blocks_are_summed_by_vdev_and_those_of_commits_are_known() -> None:
    vdev, phase = 3 << 32, parse_trace(SLOG).phase << 11
    assert parse_trace(SLOG).commit_blocks == 0
    # Older output has no operation.
    for kinds, of_commits in (((0,), 0), ((512,), 0), ((512, 1024), 7)):
        counts = {f"{phase | vdev | kind},4003": 7 for kind in kinds}
        lines = []
        for line in SLOG.splitlines(keepends=True):
            message = json.loads(line)
            if message["type"] == "map" and "@counts" in message["data"]:
                message["data"]["@counts"] |= counts
                line = json.dumps(message) + "\n"
            lines.append(line)
        trace = parse_trace("".join(lines))
        assert (trace.log_blocks, trace.commit_blocks) == ({3: 7 * len(kinds)}, of_commits)
        assert trace.problems == []


def test_output_without_sums_is_older_and_no_problem() -> None:
    assert parse_trace(READ).sums == {} and parse_trace(READ).problems == []


def test_each_class_has_its_sum() -> None:
    text, sums = with_sums(READ)
    trace = parse_trace(text)
    assert trace.problems == [] and sorted(trace.sums.values()) == sorted(sums.values())
    assert trace.sums.keys() == trace.snapshots[-1].counts.keys()
    assert trace.snapshots == parse_trace(READ).snapshots and trace.done == parse_trace(READ).done


@pytest.mark.parametrize("change_ns", [10**12, 10**15])
def test_a_sum_that_cannot_be_that_of_the_counts_is_a_problem(change_ns: int) -> None:
    problems = parse_trace(with_sums(READ, change_ns)[0]).problems
    assert problems and all("the tracer's sum of the latencies of" in problem for problem in problems)


def test_a_class_without_its_sum_is_a_problem() -> None:
    [problem] = parse_trace(with_sums(READ, left_out="4097")[0]).problems
    assert problem.startswith("the tracer's sum of the latencies of ('read', 1, 0) is None ns")


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
def test_differences_are_the_increments(steps: list[dict[Class, Counts]]) -> None:
    intervals = list(differences(cumulated(steps)))
    assert [snapshot.at_ns for snapshot in intervals] == list(range(len(steps)))
    assert [{key: bins for key, bins in snapshot.counts.items() if bins} for snapshot in intervals] == steps


@given(changes.filter(bool))
def test_an_interval_without_counts_changes_nothing(steps: list[dict[Class, Counts]]) -> None:
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
        {KEY: {1: 5}},  # a bin is missing
        {KEY: {}},
        {OTHER: {1: 1}},
    ],
)
def test_counts_that_go_back_are_an_error(after: dict[Class, Counts]) -> None:
    with pytest.raises(ValueError, match="went back"):
        list(differences([Snapshot(0, {KEY: {1: 5, 2: 7}}), Snapshot(1, after)]))


# --- Phases that are split ---


def split_text(parts: dict[int, int], sum_ns: int = 100_000, unjoined: int = 0) -> str:
    """A phase with one class of writes, two requests of `sum_ns` together, and these parts."""
    seen = 1 << 11 | 512 | 64 | 128 | 1 << 32
    index = int(bin_index(sum_ns // 2))
    entries = {4000: 0, 4002: sum_ns, index: 2, **parts, **({4020: unjoined} if unjoined else {})}
    counts = {f"{seen},{number}": value for number, value in entries.items() if value}
    counts[f"{1 << 11 | 512},4000"] = 2
    lines = [
        {"type": "printf", "data": "hsp-trace phase 1 10\n"},
        {"type": "printf", "data": "hsp-trace end 2000\n"},
        {"type": "map", "data": {"@counts": counts}},
        {
            "type": "map",
            "data": {"@highest": {f"{seen},0": sum_ns // 2, f"{seen},1": (1 << 62) - 1 - sum_ns // 2}},
        },
        {"type": "printf", "data": "hsp-trace ended 1\n"},
    ]
    return "\n".join(map(json.dumps, lines))


def test_the_parts_of_a_class_add_up_to_its_sum() -> None:
    trace = parse_trace(split_text({4010: 20_000, 4014: 70_000, 4015: 10_000}, unjoined=1))
    assert trace.problems == []
    [(key, parts)] = trace.parts.items()
    assert parts == {"nfs": 20_000, "log_write": 70_000, "flush": 10_000}
    assert trace.unjoined == {key: 1} and key == ("write", 192, 1)


def test_parts_that_do_not_add_up_are_a_problem() -> None:
    [problem] = parse_trace(split_text({4010: 20_000, 4014: 70_000})).problems
    assert "90000 ns, its latencies 100000 ns" in problem


def test_rows_are_of_tiers_and_with_sync_disabled_a_commit_is_software() -> None:
    trace = parse_trace(split_text({4010: 20_000, 4019: 80_000}, unjoined=2))
    [row] = request_split.rows_of(trace, Vdevs(frozenset({1})))
    assert (row.op, row.tier, row.ios, row.unjoined, row.sum_ns) == ("write", "slog", 2, 2, 100_000)
    assert row.parts == {"nfs": 20_000, "unknown": 80_000}
    [row] = request_split.rows_of(trace, Vdevs(None))
    assert row.unjoined == 0 and row.parts == {"nfs": 20_000, "zil": 80_000}
