"""kit.observe.observe: the sample of blocks of an observation, as it is stored."""

from __future__ import annotations

from pathlib import Path

from kit.core.clock import Clock
from kit.observe import observe
from kit.observe.counters import Around
from kit.observe.observe import Looked
from kit.observe.served import Served
from kit.setup.record import RunRecord
from kit.store import manifest as stored_manifest
from kit.store import tables
from kit.store.manifest import Manifest
from kit.store.run_directory import RunDir
from kit.trace.output import parse_trace
from tests.kit.trace.test_keys import SEEN, line, mixed, output, sampled

HOME, PLAIN = 5, 6
KNOWN = Served({HOME: "tank/home", PLAIN: "plain"}, {"tank": frozenset({1}), "plain": frozenset()})

# Files whose first block is in the sample, and is not.
IN = next(file for file in range(999) if sampled((file, 0, 512, 0), 12, 8))
OUT = next(file for file in range(999) if not sampled((file, 0, 512, 0), 12, 8))


def stored(folder: Path, lines: list[str]) -> RunRecord:
    testbed = stored_manifest.Testbed(emulated=False)
    record = RunRecord(Manifest(started_utc="2026-01-01T00:00:00Z", testbed=testbed))
    trace = parse_trace(output(lines), observed=True)
    counters = (None, None)
    looked = Looked(trace, Around(counters, counters), KNOWN, (), 10**9, (), (), ())
    observe._store_keys(looked, RunDir(folder), Clock(), 8, record)
    return record


def test_each_dataset_has_the_tiers_of_its_pool_and_what_is_not_of_zfs_is_left_out(tmp_path: Path) -> None:
    write = SEEN | 512 | 192 | 1 << 32
    places = (HOME, PLAIN, (1 << 17) - 1)
    seen = [write | (place & 0x3FF) << 22 | place >> 10 << 56 for place in places]
    lines = [line(6 + number, each, IN, 0, 512, 12, 99999) for number, each in enumerate(seen)]
    record = stored(tmp_path, lines)
    assert record.manifest.problems == () and record.manifest.notes == ()
    columns = ("phase", "dataset", "time_ns", "key", "tier", "one_in")
    assert tables.read_keys(RunDir(tmp_path)).select(columns).rows() == [
        ("", "tank/home", 1, mixed(IN), "slog", 8),
        ("", "plain", 2, mixed(IN), "pool", 8),
    ]


def test_a_request_that_should_not_be_in_it_is_a_problem_and_nothing_is_stored(tmp_path: Path) -> None:
    record = stored(tmp_path, [line(6, SEEN | HOME << 22, OUT, 0, 512, 12, 99999)])
    [problem] = record.manifest.problems
    assert problem.code == "tier-tracer" and "has no sampled block" in problem.text
    assert not (tmp_path / "keys.parquet").exists()
