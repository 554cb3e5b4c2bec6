"""What has arrived of a phase is stored although the phase could not do so, and parts are one phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.config.fio_job import read_job
from kit.config.tables.phase_table import Phase
from kit.core.clock import Clock
from kit.core.errors import ConfigError
from kit.load.phase_load import LoadSpec, output_of
from kit.run import parts
from kit.run.parts import BegunClient, BegunPart
from kit.store import json_file
from kit.store.phase import Phase as StoredPhase
from kit.store.run_directory import RunDir

SECOND = 10**9
PHASE = Phase.model_validate(
    {
        "name": "read", "title": "t", "job": "read.fio", "tiers": ("dram",), "duration": "10s",
        "interval": "1s", "log": "histograms", "resumable": True,
    }
)  # fmt: skip
# Of 1 µs, as json+ calls it; the tracer's bin of it.
KEY, BIN = "1004", 162


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    (tmp_path / "raw").mkdir()
    return RunDir(tmp_path)


def lines_of_tracer(seconds: list[int], first_s: int) -> str:
    """Ten requests a second, cumulative, at these times."""
    messages: list[Any] = [{"type": "printf", "data": f"hsp-trace phase 1 {first_s * SECOND}\n"}]
    for number, second in enumerate(seconds, 1):
        counts = {f"{1 << 11},{BIN}": 10 * number}
        messages += [
            {"type": "printf", "data": f"hsp-trace at {second * SECOND}\n"},
            {"type": "map", "data": {"@counts": counts}},
        ]
    return "".join(json.dumps(each) + "\n" for each in messages)


def arrive(run_dir: RunDir, number: int, seconds: int, origin_s: int, rest: str = "") -> None:
    """A part of so many intervals, whose controller was killed."""
    begun = BegunPart(
        number=number, run_origin_ns=0, interval_ns=SECOND, clock="real", dilation=1,
        window_ms=1000, server="nas", trace=parts.trace_name("read", number), log_vdevs=(), op="read",
        block_bytes=512, outstanding=1, expected_tiers=("dram",),
        clients=(BegunClient(host="c", file=f"read-c-counts.{number}.jsonl", offset_ns=0, error_ns=5),),
    )  # fmt: skip
    json_file.write_json(parts.begun_path(run_dir, "read", number), begun.as_json())
    first = 100 + origin_s
    rows = [
        {
            "from_ns": (first + n) * SECOND, "asked_ns": (first + n + 1) * SECOND,
            "to_ns": (first + n + 1) * SECOND + 1000, "read": {"bins": {KEY: 10}, "min": 1003, "max": 1005},
        }
        for n in range(seconds)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run_dir.raw / f"read-c-counts.{number}.jsonl").write_text(text + rest)
    trace = lines_of_tracer([first + n + 1 for n in range(seconds)], first)
    (run_dir.raw / parts.trace_name("read", number)).write_text(trace + rest)


def restored(run_dir: RunDir, stored: StoredPhase | None = None) -> parts.Partial | None:
    return parts.restored(run_dir, PHASE, stored, parts.pl.DataFrame(schema=parts.LATENCY_SCHEMA))


def test_all_whole_intervals_are_stored(run_dir: RunDir) -> None:
    arrive(run_dir, 1, 4, 0, rest='{"from_ns":1')
    partial = restored(run_dir)
    assert partial is not None
    entry = partial.entry
    assert (entry.client_ios, entry.server_ios, partial.left_ns) == (40, 40, 6 * SECOND - 2003)
    assert dict(partial.latency.group_by("layer").agg(parts.pl.col("count").sum()).iter_rows()) == {
        "client": 40, "nfs-server": 40,
    }  # fmt: skip
    assert [(part.number, part.end, part.client_ios) for part in entry.parts] == [(1, "lost", 40)]
    (problem,) = entry.problems
    assert problem.code == "interrupted" and problem.text.startswith("4 s of 10 s were measured")


def test_parts_are_one_phase_with_a_mark_between_them(run_dir: RunDir) -> None:
    arrive(run_dir, 1, 4, 0)
    arrive(run_dir, 2, 6, 50)
    partial = restored(run_dir)
    assert partial is not None and partial.left_ns == 0
    entry = partial.entry
    assert (entry.client_ios, entry.server_ios, entry.problems) == (100, 100, ())
    assert [(event.kind, event.time_ns < event.end_ns) for event in entry.events if event.end_ns] == [
        ("gap", True)
    ]
    assert [row.ios for row in entry.clients] == [100]
    (read,) = (extreme for extreme in entry.extremes if extreme.layer == "client")
    assert (read.min_ns, read.max_ns) == (1003, 1005)


def test_stored_parts_are_not_read_again(run_dir: RunDir) -> None:
    arrive(run_dir, 1, 4, 0)
    first = restored(run_dir)
    assert first is not None
    (run_dir.raw / "read-c-counts.1.jsonl").unlink()
    arrive(run_dir, 2, 3, 50)
    both = restored(run_dir, first.entry)
    assert both is not None
    assert (both.entry.client_ios, both.left_ns) == (70, 3 * SECOND - 4006)
    assert len(both.entry.problems) == 1


def test_a_part_without_an_io_is_none(run_dir: RunDir) -> None:
    arrive(run_dir, 1, 0, 0)
    assert restored(run_dir) is None


def test_a_part_that_never_began_is_none_and_has_its_number(run_dir: RunDir) -> None:
    """The controller was killed after it had started the tracer."""
    (run_dir.raw / parts.trace_name("read", 1)).write_text("")
    assert restored(run_dir) is None
    assert parts.next_number(run_dir, "read") == 2


@pytest.mark.parametrize("damage", ["{}\n", '{"from_ns": -1}\n'])
def test_damage_is_refused(run_dir: RunDir, damage: str) -> None:
    arrive(run_dir, 1, 2, 0)
    with (run_dir.raw / "read-c-counts.1.jsonl").open("a") as file:
        file.write(damage)
    with pytest.raises(ConfigError, match="line 3"):
        restored(run_dir)


def test_every_client_has_a_file_of_its_own(run_dir: RunDir) -> None:
    """A testbed may name an address and a port, or a user: the run failed after its load had begun."""
    names = ("127.0.0.1:2222", "127.0.0.1-2222", "[fe80::1%eth0]:22", "root@nas", "lab/client0", "nas~1")
    job = read_job(Path(__file__).parents[3] / "workloads" / "top-speeds-read.fio")
    spec = LoadSpec("read", job, "/run/x", 1, Clock(), histograms_ns=SECOND, raw=run_dir.raw)
    files = [output_of(spec, name) for name in names]
    assert len(set(files)) == len(names) and {path.parent for path in files} == {run_dir.raw}
    for name, path in zip(names, files, strict=True):
        client = BegunClient(host=name, file=path.name, offset_ns=0, error_ns=5)
        assert client.file == path.name
        path.touch()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", ""])
def test_files_of_another_place_are_not_read(run_dir: RunDir, name: str) -> None:
    arrive(run_dir, 1, 2, 0)
    path = parts.begun_path(run_dir, "read", 1)
    begun = json.loads(path.read_text())
    begun["clients"][0]["file"] = name
    path.write_text(json.dumps(begun))
    with pytest.raises(ConfigError):
        restored(run_dir)
