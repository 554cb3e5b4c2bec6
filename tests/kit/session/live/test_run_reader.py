import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.session.live import counts, growing_file
from kit.session.live.counts import LiveCounts
from kit.session.live.run_reader import RunReader
from kit.store.latency import MAX_COLUMNS
from kit.store.under_way import path_in
from tests.kit.session.live.rig import DATA, READ, SECOND, WHOLE, going_on

WRITES = (DATA / "trace-write-slog.json").read_text()


def test_a_trace_that_grows_in_pieces_gives_what_the_whole_gives(tmp_path):
    run, journal = going_on(tmp_path)
    reader, path, seen = RunReader(run), run.raw / "read-trace.json", []
    assert reader.poll().counts.last == -1
    # 97 divides no line: most pieces end inside one.
    for end in range(97, len(READ) + 97, 97):
        path.write_text(READ[:end])
        phase = reader.poll()
        seen.append(phase.counts.last)
        assert phase.problems == []
        if end < len(READ):
            assert not phase.ended
    assert phase.ended and phase.counts.totals == WHOLE
    assert seen == sorted(seen) and len(set(seen)) > 4
    lines = phase.counts.lines()
    assert sum(line.ios for line in lines) == sum(sum(bins.values()) for bins in WHOLE.values())
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert phase.counts.frame()["count"].sum() == sum(line.ios for line in lines)
    journal.close()


def test_of_an_observed_server_each_file_system_has_its_own_log(tmp_path):
    places = tuple({"number": n, "log_vdevs": logs} for n, logs in ((45, (1,)), (46, ()), (47, None)))
    for place, expected in ((45, {("write", "slog")}), (46, {("write", "pool")}), (48, set())):
        run, journal = going_on(tmp_path / str(place), places=places, log_vdevs=None)
        # The recorded trace as of requests to this file system (place_of_request.bt).
        moved = re.sub(r'"(\d+),(\d+)"', lambda k, at=place: f'"{int(k[1]) | at << 22},{k[2]}"', WRITES)
        (run.raw / "read-trace.json").write_text(moved)
        phase = RunReader(run).poll()
        assert phase.ended and set(phase.counts.totals) == expected and not phase.problems
        journal.close()


def test_a_run_goes_on_while_its_journal_is_locked(tmp_path):
    run, journal = going_on(tmp_path)
    assert RunReader(run).state() == "running"
    journal.close()
    assert RunReader(run).state() == "killed"
    run.report.write_text("report")
    assert RunReader(run).state() == "finished"


def test_nothing_is_followed_out_of_the_run(tmp_path):
    run, journal = going_on(tmp_path)
    (tmp_path / "other").write_text(READ)
    (run.raw / "read-trace.json").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="a link"):
        RunReader(run).poll()
    about = json.loads(path_in(run).read_text())
    path_in(run).write_text(json.dumps({**about, "trace": "../other"}))
    with pytest.raises(ConfigError, match="trace"):
        RunReader(run).poll()
    journal.close()


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(growing_file, "MOST_LINE_BYTES", 1 << 20)
    run, journal = going_on(tmp_path)
    (run.raw / "read-trace.json").write_bytes(b"x" * (5 << 20))
    with pytest.raises(ConfigError, match="a line has more than 1 MiB"):
        for _ in range(3):
            RunReader(run).poll()
    journal.close()


def test_damage_is_told_and_the_rest_is_read(tmp_path):
    run, journal = going_on(tmp_path)
    first, *rest = READ.splitlines(keepends=True)
    (run.raw / "read-trace.json").write_text(first + "{damage\n" * 100 + "".join(rest))
    phase = RunReader(run).poll()
    assert phase.counts.totals == WHOLE
    assert len(phase.problems) == 5 and "line 2, is damaged" in phase.problems[0]
    journal.close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_hostile_lines_end_in_no_other_error(tmp_path_factory, data):
    run, journal = going_on(tmp_path_factory.mktemp("hostile"))
    number = st.integers(-1, 1 << 70)
    key = st.builds("{},{}".format, number, number)
    line = st.one_of(
        st.text(max_size=40),
        st.builds(lambda n: {"type": "printf", "data": f"hsp-trace at {n}\n"}, number),
        st.builds(lambda n: {"type": "printf", "data": f"hsp-trace phase 2 {n}\n"}, number),
        st.builds(lambda c: {"type": "map", "data": {"@counts": c}}, st.dictionaries(key, number)),
    )
    lines = data.draw(st.lists(line.map(json.dumps), max_size=12))
    (run.raw / "read-trace.json").write_text("\n".join([*READ.splitlines()[:4], *lines, ""]))
    phase = RunReader(run).poll()
    phase.counts.lines()
    assert len(phase.counts.columns) <= counts.MOST_COLUMNS <= MAX_COLUMNS
    journal.close()


def test_clients_are_read_where_there_is_no_tracer(tmp_path):
    run, journal = going_on(tmp_path, trace=None, log_vdevs=None, clients=("a.jsonl", "b.jsonl"), dilation=1)
    row = {
        "from_ns": 0,
        "asked_ns": SECOND,
        "to_ns": SECOND,
        "read": {"bins": {"1000": 7}, "min": 1, "max": 2},
    }
    later = {**row, "from_ns": SECOND, "asked_ns": 2 * SECOND, "to_ns": 2 * SECOND}
    from kit.load.fio_bins import index_of, midpoint

    for each in (row, later):
        each["read"] = {**each["read"], "bins": {str(midpoint(index_of(100_000))): 7}}
    for name in ("a.jsonl", "b.jsonl"):
        (run.raw / name).write_text(f"{json.dumps(row)}\n{json.dumps(later)}\n{{torn")
    phase = RunReader(run).poll()
    (line,) = phase.counts.lines()
    assert (line.op, line.tier, line.ios, line.per_s) == ("read", "all", 28, 14.0)
    assert phase.counts.last == 1 and not phase.problems
    journal.close()


@given(
    st.lists(st.tuples(st.integers(0, 1 << 60), st.integers(0, 900), st.integers(1, 1 << 40)), max_size=40)
)
def test_columns_are_bounded_and_lose_no_count(rows):
    held = LiveCounts(SECOND)
    for interval, index, count in rows:
        held.add(interval, ("read", "dram"), {index: count})
    assert len(held.columns) <= counts.MOST_COLUMNS
    kept = sum(n for groups in held.columns.values() for bins in groups.values() for n in bins.values())
    assert kept == sum(count for _, _, count in rows)
