"""kit.run.warmup: each gate by itself keeps the L2ARC from being called warm."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.fio_job import read_job
from kit.config.workload import Warmup, Workload, read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.core.errors import HostError, MeasurementUnknown
from kit.hosts.clock_offset import Clocks
from kit.run import warmup
from kit.setup.bench import Bench, Storage
from kit.setup.site import Site, SiteClient
from kit.sizes.tier_sizes import Tiers
from kit.store.run_directory import RunDir
from kit.trace.support import TracingSupport
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.pool import CreatedPool
from tests.fakes import ScriptedHost

MIB = 1 << 20
GATE = Warmup.model_validate(
    {
        "job": "x.fio",
        "duration": "1s",
        "l2arc_min": "32MiB",
        "feed_max": "2MiB",
        "windows": 2,
        "window": "1s",
        "deadline": "5s",
    }
)
WORKLOAD = read_workload(WORKLOADS / "top-speeds.toml").model_copy(update={"warmup": GATE})
FILE = "working-set"
JOB = read_job(WORKLOADS / "top-speeds-read.fio")


def with_gate(gate: Warmup) -> Workload:
    return WORKLOAD.model_copy(update={"warmup": gate})


def arc(size: int = 32 * MIB, written: int = 0, **values: int) -> dict[str, int]:
    trouble = {"l2_abort_lowmem": 3, "l2_io_error": 0, "l2_cksum_bad": 0}
    return {"l2_size": size, "l2_write_bytes": written, **trouble, **values}


def test_an_open_gate() -> None:
    gate = warmup.judge([arc(written=5), arc(written=5 + 2 * MIB), arc(written=5 + 3 * MIB)], GATE)
    assert gate.problems == ()
    assert gate.l2arc_bytes == 32 * MIB
    assert gate.fed_bytes == (2 * MIB, MIB)
    assert gate.trouble == {"l2_abort_lowmem": 0, "l2_io_error": 0, "l2_cksum_bad": 0}
    assert gate.as_json()["fed_bytes"] == [2 * MIB, MIB]


def test_too_little_in_the_l2arc() -> None:
    gate = warmup.judge([arc(), arc(), arc(size=32 * MIB - 1)], GATE)
    [problem] = gate.problems
    assert "is not warm: it holds 33554431B, asked for 32MiB" in problem


def test_only_the_last_size_counts() -> None:
    assert warmup.judge([arc(size=0), arc(size=5), arc()], GATE).problems == ()
    assert warmup.judge([arc(), arc(), arc(size=0)], GATE).problems != ()


@pytest.mark.parametrize("fed", [(2 * MIB + 1, 0), (0, 2 * MIB + 1)])
def test_still_filling_in_any_window(fed: tuple[int, int]) -> None:
    gate = warmup.judge([arc(), arc(written=fed[0]), arc(written=sum(fed))], GATE)
    [problem] = gate.problems
    assert "still filling: 2097153B in a window, at most 2MiB" in problem


@pytest.mark.parametrize("name", ["l2_abort_lowmem", "l2_io_error", "l2_cksum_bad"])
@pytest.mark.parametrize("at", [1, 2])
def test_trouble_in_any_window(name: str, at: int) -> None:
    seen = [arc(), arc(), arc()]
    for reading in seen[at:]:
        reading[name] += 4
    assert warmup.judge(seen, GATE).problems == (f"the L2ARC is in trouble: arcstats {name} rose by 4",)


def test_trouble_before_the_windows_does_not_count() -> None:
    assert warmup.judge([arc(l2_io_error=7)] * 3, GATE).problems == ()


def test_each_problem_is_told() -> None:
    gate = warmup.judge([arc(), arc(size=0, written=9 * MIB, l2_io_error=1, l2_cksum_bad=2)], GATE)
    assert len(gate.problems) == 4


# --- The whole warm-up, on a server that plays readings ---


ARCSTATS = "cat /proc/spl/kstat/zfs/arcstats"


def machine_with(readings: list[dict[str, int]], fio: int = 0) -> ScriptedHost:
    """A server and client whose arcstats are these, one after the other; `fio`: its exit code."""
    texts = ["".join(f"{name} 4 {value}\n" for name, value in reading.items()) for reading in readings]
    return ScriptedHost({ARCSTATS: texts}, default=lambda command: fio if command.started else "")


def bench(machine: ScriptedHost, clock: Clock, *, server: bool = True) -> Bench:
    storage = Storage(
        machine, ZfsVersion(2, 3), TracingSupport("full", None, "0.23"), CreatedPool("p", 1, "r"), "p/bench",
        "/pool/data", objset=54, log_devices=(),
    )  # fmt: skip
    return Bench(
        site=Site((SiteClient(machine, "", ""),), clock, emulated=True, seed=1),
        run_dir=RunDir(Path("/nowhere")),
        work_dir="/w",
        mount_point="/m",
        mount="/m/data",
        mounted=(),
        size_bytes=72 * MIB,
        run_origin_ns=0,
        clocks=Clocks(machine),
        storage=storage if server else None,
    )


def test_it_waits_for_all_windows_even_if_the_first_is_good() -> None:
    machine = machine_with([arc()])
    gate = warmup.warm_up(bench(machine, Clock("virtual", 4)), WORKLOAD, JOB)
    assert gate and gate.problems == () and len(gate.fed_bytes) == 2
    assert machine.called("sleep") == [("sleep", "4.000")] * 2  # of the host's time
    assert any(b"=4000000us" in content for content in machine.files.values())


def test_it_goes_on_until_the_last_windows_are_quiet() -> None:
    machine = machine_with([arc(written=written * MIB) for written in (0, 9, 10, 11, 12)])
    gate = warmup.warm_up(bench(machine, Clock()), WORKLOAD, JOB)
    assert gate and gate.problems == () and gate.fed_bytes == (MIB, MIB)
    assert len(machine.called("sleep")) == 3


def test_it_gives_up_at_its_deadline_and_says_what_is_short() -> None:
    machine = machine_with([arc(size=0)])
    gate = warmup.warm_up(bench(machine, Clock()), WORKLOAD, JOB)
    assert len(machine.called("sleep")) == 5
    assert gate and gate.problems and "not warm" in gate.problems[0]


def test_a_load_that_fails_makes_it_unknown() -> None:
    with pytest.raises(MeasurementUnknown, match="the warm-up load failed"):
        warmup.warm_up(bench(machine_with([arc()], fio=1), Clock()), WORKLOAD, JOB)


def test_the_begin_of_the_file_is_read_before_the_load() -> None:
    machine = machine_with([arc()])
    gate = GATE.model_copy(update={"read_first": 24 * MIB})
    warmup.warm_up(bench(machine, Clock()), with_gate(gate), JOB)
    reads = [at for at, command in enumerate(machine.calls) if command[0] == "dd"]
    load = next(at for at, command in enumerate(machine.calls) if command[0] == "env" or "fio" in command)
    assert len(reads) == 1 and reads[0] < load
    assert {f"if=/pool/data/{FILE}", "of=/dev/null", "iflag=count_bytes", f"count={24 * MIB}"} <= set(
        machine.calls[reads[0]]
    )


def test_without_read_first_nothing_is_read_before_the_load() -> None:
    machine = machine_with([arc()])
    warmup.warm_up(bench(machine, Clock()), WORKLOAD, JOB)
    assert not [command for command in machine.calls if command[0] == "dd"]


@pytest.mark.parametrize(
    ("duration_s", "log", "without"),
    [(900, "every-io", False), (901, "every-io", True), (1, "histograms", True)],
)
def test_a_long_warm_up_or_one_of_histograms_has_no_log_of_every_io(
    duration_s: int, log: str, without: bool
) -> None:
    first, *others = WORKLOAD.phase
    phases = (*others, first.model_copy(update={"log": log}))
    long = GATE.model_copy(update={"duration": duration_s * 10**9})
    workload = WORKLOAD.model_copy(update={"warmup": long, "phase": phases})
    machine = machine_with([arc()])
    machine.answers["head"] = "now at 5 nsecs\n"
    warmup.warm_up(bench(machine, Clock()), workload, JOB)
    (job,) = (text.decode() for path, text in machine.files.items() if path.endswith("job.fio"))
    assert ("write_lat_log=" in job) is not without


def test_an_appliance_is_read_past_the_clients_cache_and_has_no_gate() -> None:
    machine = machine_with([arc()])
    machine.answers["find"] = "d 1777 3 rw\nf 666 75497472 rw\n"
    gate = GATE.model_copy(update={"read_first": 24 * MIB})
    assert warmup.warm_up(bench(machine, Clock(), server=False), with_gate(gate), JOB) is None
    (read,) = [command for command in machine.calls if command[0] == "dd"]
    assert {f"if=/m/data/{FILE}", "iflag=count_bytes,direct"} <= set(read)
    assert not machine.called("sleep")


def test_of_an_appliance_nothing_is_read_through_a_link() -> None:
    machine = machine_with([arc()])
    machine.answers["find"] = "d 1777 3 rw\nl 777 8 -\n"
    gate = GATE.model_copy(update={"read_first": 24 * MIB})
    with pytest.raises(HostError, match="is a symbolic link"):
        warmup.warm_up(bench(machine, Clock(), server=False), with_gate(gate), JOB)
    assert not [command for command in machine.calls if command[0] == "dd"]


def test_without_a_phase_that_asks_for_the_l2arc_there_is_no_gate() -> None:
    machine = machine_with([arc(size=0)])
    phases = tuple(phase for phase in WORKLOAD.phase if "l2arc" not in phase.tiers)
    workload = WORKLOAD.model_copy(update={"phase": phases})
    assert warmup.warm_up(bench(machine, Clock()), workload, JOB) is None
    assert not machine.called("sleep")


def test_what_to_change_names_the_key_and_what_the_plan_expects() -> None:
    gate = warmup.judge([arc(), arc(size=0)], GATE)
    text = warmup.advice(gate, GATE, Tiers(20 * MIB, 22 * MIB, 30 * MIB))
    assert "warmup.l2arc_min" in text and "warmup.feed_max" not in text
    assert "dram 20 MiB, l2arc 22 MiB, disk 30 MiB" in text and "--despite-warm-up" in text
    gate = warmup.judge([arc(), arc(written=9 * MIB, l2_io_error=1)], GATE)
    text = warmup.advice(gate, GATE, None)
    assert "warmup.feed_max" in text and "dmesg" in text and "warmup.l2arc_min" not in text


def test_the_gate_has_the_parts_of_the_arc_for_the_manifest() -> None:
    gate = warmup.judge([arc(), arc(data_size=7, hits=3)], GATE)
    assert gate.as_json()["arc"] == {"data_size": 7}
