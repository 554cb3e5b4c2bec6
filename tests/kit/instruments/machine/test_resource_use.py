"""kit.instruments.machine.resource_use: the program on this machine, and what becomes of its lines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.core.clock import Clock
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.instruments.base import InstrumentReport, MeasuredPhase
from kit.instruments.fault_events import FaultEvents
from kit.instruments.machine import sampler
from kit.instruments.machine.clock_offsets import ClockOffsets
from kit.instruments.machine.resource_use import ResourceUse, load_checks
from kit.instruments.machine.sampler import Sampled
from kit.store.parts.resource_use import DeviceSample, DeviceUse, ModelUse
from kit.store.phase import Check, Missing
from tests.fakes import ScriptedHost, ScriptedProcess
from tests.kit.hosts.conftest import until

MS = 1_000_000
DISKS = sorted(os.listdir("/sys/block")) if os.path.isdir("/sys/block") else []
COUNTERS = dict.fromkeys(
    (
        "host_bytes_read", "host_bytes_written", "flushes", "flash_pages_read", "flash_pages_programmed",
        "gc_pages_copied", "blocks_erased",
    ),
    5,
)  # fmt: skip
STAT = [7, 0, 16, 3, 9, 0, 80, 4, 0, 5, 7, 0, 0, 0, 0, 2, 1]


def measured(op: str = "write", dilation: int = 1, origin_ns: int = 0) -> MeasuredPhase:
    clock = Clock("virtual", dilation) if dilation > 1 else Clock()
    return MeasuredPhase({op: 512}, 1, 0, 1, {}, origin_ns, clock)


def on_this_machine(
    folder: Path,
    host: LocalHost | None = None,
    devices: dict[str, Sampled] | None = None,
    period_ns: int = 50 * MS,
) -> ResourceUse:
    host = host or LocalHost("here")
    offsets = ClockOffsets(Clocks(host), [])
    return ResourceUse([host], host, devices or {}, period_ns, folder / "read", offsets)


def missing(report: InstrumentReport) -> dict[str, str]:
    return {each.name: each.why for each in report.checks if isinstance(each, Missing)}


def row(at_ns: int, ticks: Sequence[int], stat: Any, **more: Any) -> dict[str, Any]:
    return {"at_ns": at_ns, "ticks": ticks, "devices": {"log0": stat}, "hz": 100, "cpus": 2, "pid": 1} | more


class Sender(ScriptedHost):
    """A host whose program has sent these lines and ended."""

    rows: Sequence[Any] = ()

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> ScriptedProcess:
        assert output is not None
        output.write_text("".join(json.dumps(each) + "\n" for each in self.rows))
        return super().start(argv, output)


def sent(
    folder: Path,
    rows: Sequence[Any],
    given: MeasuredPhase,
    faults: FaultEvents | None = None,
    loaded: Sequence[str] = (),
) -> InstrumentReport:
    """The report of a server that has sent `rows` of the log device log0."""
    host = Sender()
    host.rows = rows
    devices = {"log0": Sampled("/dev/log0", ["counters"], is_log=True)}
    made = ResourceUse(
        [host], host, devices, MS, folder / "w", ClockOffsets(Clocks(host), []), faults, loaded
    )
    made.begin()
    made.end()
    return made.report(given)


@pytest.mark.parametrize(
    ("idle", "busiest_s"),
    [
        # The first CPU in the first second, another in the next; a tick less each.
        (([0, 0, 0], [0, 100, 100], [100, 200, 150]), 0.99 + 0.49),
        # A CPU that was taken away: nothing is known of that second.
        (([0, 0, 0], [100, 0], [100, 100]), 0.99),
        (([7, 7], [107, 107], [207, 207]), 0.0),
        # Idle time may go back by some ticks (proc(5)).
        (([7, 7], [5, 107], [105, 207]), 0.99),
        ((), None),
    ],
)
def test_the_cpu_that_is_busiest(
    tmp_path: Path, idle: Sequence[Sequence[int]], busiest_s: float | None
) -> None:
    rows = [row(n * 1000 * MS, [0] * 10, STAT) for n in range(3)]
    rows = [each | ({"idle": idle[n]} if idle else {}) for n, each in enumerate(rows)]
    (cpu,) = sent(tmp_path, [*rows[:2], rows[2] | {"end": True}], measured("read")).entry["cpu"]
    found = cpu.samples[-1].busiest_ns
    assert found is None if busiest_s is None else found == round(busiest_s * 1000 * MS)


def waits_of(pid: int) -> int:
    """How many times the process gave its CPU away."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_the_program_samples_until_it_is_told_to_end(tmp_path: Path) -> None:
    (tmp_path / "counters").write_text(json.dumps(COUNTERS))
    argv = ["cat", os.fspath(tmp_path / "counters")]
    use = on_this_machine(tmp_path, devices={name: Sampled(f"/dev/{name}", argv) for name in DISKS[:1]})
    begun_ns = time.monotonic_ns()
    use.begin()
    (tmp_path / "counters").write_text(json.dumps(COUNTERS | {"flash_pages_programmed": 12}))
    # All but the first sample are sent at the end; before each it waits.
    pid = json.loads((tmp_path / "read-here-use.jsonl").read_text().splitlines()[0])["pid"]
    waits = waits_of(pid) + 3
    assert until(lambda: waits_of(pid) >= waits)
    use.end()
    ended_ns = time.monotonic_ns()
    report = use.report(measured(origin_ns=begun_ns))
    assert missing(report) == {} and not report.problems
    (cpu,) = report.entry["cpu"]
    assert cpu.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    at_ns = [sample.at_ns for sample in cpu.samples]
    # The begin, some that were due, and the end.
    assert len(at_ns) >= 3 and 0 < at_ns[0] < at_ns[-1] < ended_ns - begun_ns and at_ns == sorted(at_ns)
    assert cpu.host == "here" and cpu.cpus == len(
        [n for n in os.listdir("/sys/devices/system/cpu") if n[3:].isdigit()]
    )
    assert cpu.samples[0].idle_ns == cpu.samples[0].user_ns == 0
    for device in report.entry["devices"]:
        assert device.model is not None and device.model.pages_programmed == 7
        assert len(device.samples) == len(at_ns) and device.samples[0].writes == 0


def test_nothing_goes_on_after_a_phase_that_failed(tmp_path: Path) -> None:
    use = on_this_machine(tmp_path)
    use.begin()
    (sent_to,) = tmp_path.glob("read-*-use.jsonl")
    pid = json.loads(sent_to.read_text().splitlines()[0])["pid"]
    assert Path(f"/proc/{pid}").exists()
    use.abandon()
    assert not Path(f"/proc/{pid}").exists()
    use.abandon()


def test_a_busy_machine_is_seen(tmp_path: Path) -> None:
    use = on_this_machine(tmp_path)
    use.begin()
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spin], check=True)
    use.end()
    (cpu,) = use.report(measured()).entry["cpu"]
    # A tick is 10 ms.
    assert cpu.samples[-1].user_ns + cpu.samples[-1].system_ns >= 100 * MS


def test_a_partition_is_sampled_as_its_disk(tmp_path: Path) -> None:
    parts = [n for n in os.listdir("/sys/class/block") if os.path.exists(f"/sys/class/block/{n}/partition")]
    if not parts:
        pytest.skip("this machine has no partitions")
    disk = Path(os.path.realpath(f"/sys/class/block/{parts[0]}")).parent.name
    use = on_this_machine(tmp_path, devices={"a": Sampled(f"/dev/{parts[0]}"), "b": Sampled(f"/dev/{disk}")})
    use.begin()
    lines = (tmp_path / "read-here-use.jsonl").read_text().splitlines()
    use.end()
    found = json.loads(lines[0])["devices"]
    assert isinstance(found["a"], list) and found["a"][0] == pytest.approx(found["b"][0], rel=0.01)


def test_a_program_that_is_lost_is_missing_with_numbers_and_no_problem(tmp_path: Path) -> None:
    use = on_this_machine(tmp_path)
    use.begin()
    pid = json.loads((tmp_path / "read-here-use.jsonl").read_text().splitlines()[0])["pid"]
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: not os.path.exists(f"/proc/{pid}/exe"))
    use.end()
    report = use.report(measured())
    assert report.entry == {"cpu": (), "devices": (), "caches": ()} and report.problems == []
    (why,) = missing(report).values()
    assert "samples arrived, and not the last" in why and not why.startswith("0")
    assert [*missing(report)] == ["resource use of here"]


def test_a_host_without_python_is_missing(tmp_path: Path) -> None:
    use = on_this_machine(tmp_path, LocalHost("here", env={"PATH": os.fspath(tmp_path)}))
    use.begin()
    use.end()
    report = use.report(measured())
    assert report.entry["cpu"] == () and "ended with 127" in missing(report)["resource use of here"]


def test_a_device_that_is_not_there_is_missing_and_the_cpus_are_not(tmp_path: Path) -> None:
    use = on_this_machine(tmp_path, devices={"gone": Sampled("/dev/hsp-gone")})
    use.begin()
    use.end()
    report = use.report(measured())
    assert len(report.entry["cpu"]) == 1 and report.entry["devices"] == ()
    why = missing(report)["resource use of the device gone"]
    # A slow machine is in time for more samples than the first and the last.
    assert re.search(r"^([0-9]+) of \1 samples have no numbers", why) and "hsp-gone" in why


def test_counters_that_cannot_be_read_are_missing(tmp_path: Path) -> None:
    if not DISKS:
        pytest.skip("this machine has no block device")
    use = on_this_machine(tmp_path, devices={"log0": Sampled(f"/dev/{DISKS[0]}", ["false"])})
    use.begin()
    use.end()
    report = use.report(measured())
    assert report.entry["devices"] == ()
    assert "the counters of its model" in missing(report)["resource use of the device log0"]


def test_what_an_interrupted_run_left_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "read-here-use.jsonl").write_text('{"pid": 1}\n')
    use = on_this_machine(tmp_path)
    use.begin()
    use.end()
    assert missing(use.report(measured())) == {}


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = sampler.PROGRAM.read_text()
    assert program.count("LOOK_S = 10.0") == 1
    (tmp_path / "program").write_text(program.replace("LOOK_S = 10.0", "LOOK_S = 0.05"))
    argv = sampler.command(3600 * 10**9, {})
    shell = subprocess.Popen(
        ["sh", "-c", '"$@" <program >out & until test -s out; do sleep 0.05; done', "sh", *argv], cwd=tmp_path
    )
    shell.wait()
    pid = json.loads((tmp_path / "out").read_text())["pid"]
    assert until(lambda: not os.path.exists(f"/proc/{pid}/exe"))


def quiet_rows(
    written: int, quiet: tuple[list[str], list[str]] = (["log0"], ["log0"])
) -> list[dict[str, Any]]:
    """Of a device that the kernel says to have got 3 sectors, and its model `written` bytes."""
    later = [*STAT[:6], STAT[6] + 3, *STAT[7:]]
    counters = COUNTERS | {"host_bytes_written": 5 + written}
    ticks = [0] * 8
    return [
        row(0, ticks, STAT, counters={"log0": COUNTERS}, quiet=quiet[0]),
        row(9, ticks, later, counters={"log0": counters}, quiet=quiet[1], end=True),
    ]


@pytest.mark.parametrize("written", [1536, 1024])
def test_bytes_of_the_kernel_are_those_of_the_model(tmp_path: Path, written: int) -> None:
    (check,) = sent(tmp_path, quiet_rows(written), measured()).checks
    assert isinstance(check, Check)
    assert (check.name, check.expected, check.found, check.tolerance) == (
        "bytes written to log0",
        1536,
        written,
        0,
    )
    assert check.ok is (written == 1536)


def used(kernel_bytes: int, model_bytes: int | None) -> DeviceUse:
    """Of a device that was only written to."""
    sample = DeviceSample(
        at_ns=0, reads=0, read_bytes=0, read_ns=0, writes=1, written_bytes=kernel_bytes, write_ns=0,
        in_flight=0, busy_ns=0, queue_ns=0,
    )  # fmt: skip
    counted = {"flushes": 0, "pages_read": 0, "pages_programmed": 0, "pages_copied": 0, "blocks_erased": 0}
    model = None if model_bytes is None else ModelUse(read_bytes=0, written_bytes=model_bytes, **counted)
    return DeviceUse(device="log0", samples=(sample,), model=model)


@pytest.mark.parametrize(
    ("device", "wrong"),
    [
        (used(3 * 512, 3 * 512), []),
        (used(3 * 512, None), []),
        (used(4 * 512, 3 * 512), ["/sys/block/*/stat"]),
        (used(3 * 512, 0), ["counters of the model"]),
    ],
)
def test_fios_bytes_are_those_of_the_device_that_it_loads(device: DeviceUse, wrong: list[str]) -> None:
    given = replace(measured(), block_bytes={"write": 512}, client_ios={"log0": {"read": 0, "write": 3}})
    checks = list(load_checks(device, given, faulty=False))
    assert len(checks) == (4 if device.model else 2)
    failed = [check.source for check in checks if not check.ok]
    assert len(failed) == len(wrong) and all(
        words in source for words, source in zip(wrong, failed, strict=True)
    )
    assert not list(load_checks(device, given, faulty=True))


def test_a_loaded_device_that_was_not_sampled_is_a_problem(tmp_path: Path) -> None:
    report = sent(tmp_path, [], measured(), loaded=("log0",))
    assert report.problems == ["nothing counted the I/Os of log0"]


class Faulty:
    def crashes(self) -> int:
        return 0

    def faults(self) -> list[tuple[int, str]]:
        return [(1, "log0 error 0 9 write")]


@pytest.mark.parametrize("why", ["a read phase", "an I/O on its way", "a fault"])
def test_they_need_not_be_equal(tmp_path: Path, why: str) -> None:
    rows = quiet_rows(0, (["log0"], [])) if why == "an I/O on its way" else quiet_rows(0)
    faults = FaultEvents(Faulty()) if why == "a fault" else None
    if faults:
        faults.end()
    report = sent(tmp_path, rows, measured("read" if why == "a read phase" else "write"), faults)
    assert report.checks == [] and len(report.entry["devices"]) == 1


def test_times_are_of_the_experiment(tmp_path: Path) -> None:
    later = [*STAT[:9], STAT[9] + 400, STAT[10] + 800, *STAT[11:15], STAT[15] + 2, STAT[16] + 40]
    rows = [row(4000, [100] * 8, STAT), row(8000, [100, 102, 104, 140, 110, 106, 108, 100], later, end=True)]
    report = sent(tmp_path, rows, measured(dilation=4, origin_ns=4000))
    (cpu,), (device,) = report.entry["cpu"], report.entry["devices"]
    last, used = cpu.samples[-1], device.samples[-1]
    # 10 ms a tick, slowed down four times.
    assert (last.at_ns, last.idle_ns, last.user_ns) == (1000, 125 * MS, 5 * MS)
    assert (last.system_ns, last.softirq_ns) == (10 * MS, 35 * MS)
    assert (used.busy_ns, used.queue_ns, used.flushes, used.flush_ns) == (100 * MS, 200 * MS, 2, 10 * MS)
    assert device.model is None


def test_an_old_kernel_counts_no_flushes(tmp_path: Path) -> None:
    rows = [row(0, [0] * 8, STAT[:11]), row(1, [0] * 8, STAT[:11], end=True)]
    (device,) = sent(tmp_path, rows, measured()).entry["devices"]
    assert device.samples[0].flushes is None and device.samples[0].discards is None


BROKEN: dict[str, Callable[[], list[Any]]] = {
    "a list": lambda: [[1], {"end": True}],
    "fewer numbers": lambda: [row(0, [0] * 8, STAT), row(1, [0] * 8, STAT[:4], end=True)],
    "text": lambda: [row(0, ["x"] * 8, STAT), row(1, [0] * 8, STAT, end=True)],
    "a counter that went back": lambda: [row(0, [0] * 8, STAT), row(1, [0] * 8, [0] * 17, end=True)],
    "no time": lambda: [{**row(0, [0] * 8, STAT), "at_ns": None}, row(1, [0] * 8, STAT, end=True)],
}


@pytest.mark.parametrize("kind", BROKEN)
def test_lines_that_cannot_be_are_missing(tmp_path: Path, kind: str) -> None:
    report = sent(tmp_path, BROKEN[kind](), measured())
    assert missing(report) and report.problems == []


def test_caches_are_sampled_where_they_get_warm(tmp_path: Path) -> None:
    arc = dict.fromkeys(sampler.ARCSTATS, 7)
    rows = [row(n * MS, [0] * 10, STAT, arc={**arc, "l2_write_bytes": 7 + n}) for n in range(3)]
    host = Sender()
    host.rows = [*rows[:2], rows[2] | {"end": True}]
    use = ResourceUse([host], host, {}, MS, tmp_path / "w", ClockOffsets(Clocks(host), []), of_caches=True)
    use.begin()
    use.end()
    report = use.report(measured("read"))
    assert [each.fed_bytes for each in report.entry["caches"]] == [0, 1, 2]
    assert {each.arc_bytes for each in report.entry["caches"]} == {7} and not missing(report)
    assert json.loads(host.commands[0].argv[-1])["arcstats"] == [*sampler.ARCSTATS]


def test_arcstats_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    host = Sender()
    host.rows = [
        row(0, [0] * 10, STAT, arc="no such file"),
        row(MS, [0] * 10, STAT, arc="no such file", end=True),
    ]
    use = ResourceUse([host], host, {}, MS, tmp_path / "w", ClockOffsets(Clocks(host), []), of_caches=True)
    use.begin()
    use.end()
    report = use.report(measured("read"))
    assert report.entry["caches"] == ()
    assert missing(report) == {
        "resource use of ARC and L2ARC": "2 of 2 samples have no numbers: no such file"
    }


def test_times_of_a_device_go_on_where_the_kernel_begins_anew(tmp_path: Path) -> None:
    """It prints 32 bits of milliseconds: the sum of 32 I/Os at a time is there after a day and a half."""
    near = (1 << 32) - 5
    stats = [[*STAT], [*STAT], [*STAT]]
    for stat, (busy, queue) in zip(stats, [(7, near), (9, 3), (11, 8)], strict=True):
        stat[9:11] = [busy, queue]
    rows = [row(n * 1000 * MS, [0] * 10, stat) for n, stat in enumerate(stats)]
    report = sent(tmp_path, [*rows[:2], rows[2] | {"end": True}], measured("read"))
    (device,) = report.entry["devices"]
    assert [each.queue_ns // MS for each in device.samples] == [0, 8, 13]
    assert [each.busy_ns // MS for each in device.samples] == [0, 2, 4]
    assert missing(report) == {}


def test_time_of_waiting_for_io_may_go_back(tmp_path: Path) -> None:
    """proc(5) says so of iowait: the CPUs idled for no time, not for less."""
    ticks = [[0, 0, 0, 50, 9, 0, 0, 0, 0, 0], [100, 0, 0, 50, 7, 0, 0, 0, 0, 0]]
    rows = [row(n * 1000 * MS, each, STAT) for n, each in enumerate(ticks)]
    report = sent(tmp_path, [rows[0], rows[1] | {"end": True}], measured("read"))
    (cpu,) = report.entry["cpu"]
    assert cpu.samples[-1].idle_ns == 0 and missing(report) == {}
