"""Every stage, what is proven, and each way it can end."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, MeasurementUnknown, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.held_device import PLACE, HeldDevice
from kit.precondition import checkpoint
from kit.precondition.device import Preconditioned, Target, precondition
from kit.precondition.latency_curve import CurvePoint
from tests.fakes import Answer, Command, ScriptedHost, on_device
from tests.kit.devices.facts import one_device

MIB = 1 << 20
CAPACITY = 64 * MIB
STAT = "1 0 8 0 0 0 {} 0 0 0 0 0 0 0 0 0 0\n"


class HostWithDevice(ScriptedHost):
    """A host with one device. `latency_ns`: of the host's time, from op and bytes written so far."""

    def __init__(self, latency_ns: Callable[[str, int], int] = lambda op, written: 400_000) -> None:
        super().__init__()
        self.latency_ns = latency_ns
        self.written = 7 * MIB  # from before
        self.filled = False
        self.clock_ns = 100 * 10**9
        self.boot = "boot-1"
        self.serial, self.sector_bytes = "SN1", 512
        self.lie = 0
        self.short = False
        self.fails_at: str | None = None
        self.random = random.Random(1)

    def _argument(self, argv: Sequence[str], name: str, default: str = "0") -> str:
        return next((a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")), default)

    def _fio(self, argv: Sequence[str]) -> None:
        ios = int(self._argument(argv, "io_size")) // (block := int(self._argument(argv, "bs")))
        op = "read" if "read" in self._argument(argv, "rw") else "write"
        log = self._argument(argv, "write_lat_log", "")
        spent_ns = 0
        lines = []
        for _ in range(ios if log else 0):
            latency = self.latency_ns(op, self.written) + self.random.randrange(1000)
            spent_ns += latency
            lines.append(f"{spent_ns // 1_000_000}, {latency}, {int(op == 'write')}, {block}, 0, 0")
        if log:
            self.files[f"{log}_lat.1.log"] = "\n".join(lines).encode()
        done = ios * block // (2 if self.short else 1)
        runtime_us = int(self._argument(argv, "runtime", "0us").removesuffix("us"))
        if not log:
            spent_ns = done  # a byte a nanosecond
        if runtime_us and spent_ns > runtime_us * 1000:
            spent_ns = runtime_us * 1000
            done = spent_ns // block * block
        self.clock_ns += spent_ns
        if op == "write":
            self.written += done - self.lie
            self.filled |= self._argument(argv, "size") == str(CAPACITY)
        job = {"io_bytes": done if op == "write" else 0, "runtime": max(spent_ns // 1_000_000, 1)}
        output = {"jobs": [{"jobname": "device", "write": job, "read": {}}]}
        self.files[self._argument(argv, "output")] = json.dumps(output).encode()

    def answer(self, command: Command) -> Answer:
        argv = on_device(command.argv)
        if self.fails_at and self.fails_at in " ".join(argv):
            return 1, "", "I/O error"
        if argv[0] == "fio":
            self._fio(argv)
        if argv[0] == "/usr/bin/python3":
            host = one_device("/dev/disk/by-id/x:0", "x0", CAPACITY, self.serial)
            host["devices"]["x0"]["queue"]["logical_block_size"] = str(self.sector_bytes)
            return host
        if argv[0] == "cat":
            return STAT.format(self.written // 512) if argv[1].endswith("/stat") else self.boot
        if argv[0] == "head":
            return f"now at {self.clock_ns} nsecs\n"
        if argv[0] == "blkdiscard":
            self.filled = False
        if argv[0] == "sh" and "base64" in argv[2]:
            size = 4096 * (len(argv) - 5)
            return base64.b64encode(self.random.randbytes(size) if self.filled else bytes(size)).decode()
        return ""

    def loads(self) -> list[tuple[str, ...]]:
        return [c for c in self.called("fio") if not any("lat_log" in a for a in c)]


class Case:
    def __init__(self, folder: Path) -> None:
        self.host = HostWithDevice()
        self.state = folder / "state" / "x0.json"
        self.output = io.StringIO()
        self.target = Target("x0", "log", "/dev/disk/by-id/x:0", CAPACITY)

    guard: Any = None

    def run(self, method: str = "fills", clock: Clock | None = None, **values: Any) -> Preconditioned:
        if method == "fills":
            values.setdefault("fills", 1)
        settings = Precondition.model_validate({"method": method, "ios": 400, **values})
        return precondition(
            self.host, self.target, settings, clock or Clock("virtual", 4),  # type: ignore[arg-type]
            work_dir="/run/x", state_path=self.state, progress=Progress(stream=self.output), guard=self.guard,
        )  # fmt: skip


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_fills_are_whole_sequential_and_each_with_data_of_its_own(case: Case) -> None:
    done = case.run(fills=3)
    assert done.problems == [] and done.entry["attained"] is None
    fills = [load for load in case.host.loads() if f"--io_size={CAPACITY}" in load]
    assert len(fills) == 3
    for load in fills:
        assert {"--rw=write", "--bs=131072", "--direct=1", "--refill_buffers=1"} <= set(load)
        assert f"--filename={PLACE}" in load
        assert "--allow_mounted_write=0" in load and not any("steadystate" in a for a in load)
    assert len({next(a for a in load if "randseed" in a) for load in fills}) == 3
    # Whatever the name leads to meanwhile, it is the device that was checked.
    held = tuple(HeldDevice("/dev/disk/by-id/x:0", "8:0", "1").command([]))
    writers = [c.argv for c in case.host.commands if {"fio", "blkdiscard"} & set(c.argv[8:9])]
    assert len(writers) > 10 and all(argv[:8] == held for argv in writers)
    assert [(p.stage, p.op) for p in done.points][:4] == [
        ("purge", "write"), ("purge", "read"), ("fill 1", "write"), ("fill 1", "read"),
    ]  # fmt: skip


def test_the_curve_is_in_the_experiments_time_and_by_the_counter(case: Case) -> None:
    done = case.run(fills=2)
    assert all(100_000 <= (point.p99_ns or 0) <= 100_250 for point in done.points)  # of 400 us, dilated 4
    assert all(point.iops == pytest.approx(1e9 / 100_125, rel=0.01) for point in done.points)
    writes = [point.written_bytes for point in done.points if point.op == "write"]
    assert writes[0] == 0
    measured, span = 400 * 4096, CAPACITY // 16
    assert writes[1] == CAPACITY + measured + span and writes[2] == writes[1] + measured + CAPACITY
    assert done.entry["written_bytes"] == writes[2] + measured
    # The probe came before the purge.
    assert done.entry["spent_bytes"] == done.entry["written_bytes"] + MIB


def test_reads_after_the_purge_are_of_what_was_written(case: Case) -> None:
    case.run()
    reads = [c for c in case.host.calls if "--rw=randread" in c]
    assert f"--size={CAPACITY // 16}" in reads[0] and f"--size={CAPACITY}" in reads[1]
    order = [c[0] if c[0] != "fio" else next(a for a in c if a.startswith("--rw")) for c in case.host.calls]
    assert order.index("blkdiscard") < order.index("--rw=randread")


class Guarding:
    """Takes the place of kit.devices.check.Guard: when it was asked, in the list of the host's commands."""

    claimer = 4711

    def __init__(self, host: HostWithDevice) -> None:
        self.host, self.lost = host, False

    def note(self, text: str) -> None:
        self.host.commands.append(Command((text,)))

    def before_writing(self, paths: Any = None, *, content: bool = True) -> None:
        assert paths == ["/dev/disk/by-id/x:0"] and not content
        if self.lost:
            raise SafetyRefusal("the locks were lost")
        self.note("checked")

    @contextlib.contextmanager
    def lent(self, path: str) -> Iterator[None]:
        self.note("lent")
        yield
        self.note("back")


def test_before_each_stage_the_device_is_checked_and_a_purge_has_it_alone(case: Case) -> None:
    case.guard = Guarding(case.host)
    case.run(fills=2)
    words = [c[0] for c in case.host.calls if c[0] in ("checked", "lent", "back", "blkdiscard", "fio")]
    # Of several in a row one: the probe, the purge, what is written and read after it, then two fills.
    order = [word for word, before in zip(words, ["", *words], strict=False) if word != before]
    assert order == [
        "checked", "fio", "checked", "lent", "blkdiscard", "back", "fio", "checked", "fio", "checked", "fio",
    ]  # fmt: skip
    # The claim's own process is no user of the device.
    (probe, *_) = (c for c in case.host.calls if c[0] == "/usr/bin/python3")
    assert json.loads(probe[-1])["claimer"] == 4711


def test_nothing_is_written_after_the_locks_were_lost(case: Case) -> None:
    case.guard = Guarding(case.host)
    case.guard.lost = True
    with pytest.raises(SafetyRefusal, match="locks were lost"):
        case.run()
    assert not case.host.called("fio") and not case.host.called("blkdiscard")


def test_snia_stops_when_steady(case: Case) -> None:
    done = case.run("snia")
    assert [s["stage"] for s in done.entry["stages"]] == [
        "purge", "fill 1", "fill 2", *(f"round {n}" for n in range(1, 6)),
    ]  # fmt: skip
    assert done.entry["attained"] is True and done.problems == []
    assert set(done.entry["tracked"]) == {"write p99", "write iops"}
    assert done.entry["criteria"][0]["round"] == 5 and done.entry["criteria"][0]["write p99"]["attained"]
    output = case.output.getvalue()
    assert "x0: round 5 of at most 25: " in output and "MB/s; write p99: steady, range" in output


def test_a_drift_needs_more_rounds(case: Case) -> None:
    # It rises for two capacities, then stays.
    case.host.latency_ns = lambda op, written: int(400_000 * (1 + 4 * min(written / (5 * CAPACITY), 1)))
    done = case.run("snia")
    rounds = len(done.entry["tracked"]["write p99"])
    assert done.entry["attained"] is True and 5 < rounds < 25
    assert done.entry["criteria"][-1]["round"] == rounds
    assert not done.entry["criteria"][0]["write p99"]["attained"]


def test_never_steady_is_a_problem_with_the_distance(case: Case) -> None:
    case.host.latency_ns = lambda op, written: int(400_000 * 1.2 ** (written / (CAPACITY // 4)))
    done = case.run("snia")
    assert len(done.entry["stages"]) == 3 + 25 and done.entry["attained"] is False
    [problem] = done.problems
    assert "steady state was not reached in 25 rounds (SNIA SSS PTS, over the last 5)" in problem
    assert re.search(r"write p99: not steady, range [\d.]+ % of the average \(at most 20 %\)", problem)
    assert not case.state.exists()


@pytest.mark.parametrize(("role", "tracked", "names"), [
    ("cache", ["p99"], {"read p99"}), ("data", ["iops"], {"write iops"}),
    ("log", ["iops", "p99"], {"write iops", "write p99"}),
])  # fmt: skip
def test_tracked_variables(case: Case, role: str, tracked: list[str], names: set[str]) -> None:
    case.target = Target("x0", role, "/dev/x0", CAPACITY)
    assert set(case.run("snia", tracked=tracked).entry["tracked"]) == names


def test_a_counter_below_the_intended_bytes_is_a_problem(case: Case) -> None:
    case.host.lie = 512
    problems = case.run().problems
    assert len(problems) == 2  # the span after the purge, and the fill
    assert "67108864 bytes were to be written" in problems[1]
    assert "(/sys/block/x0/stat, sectors written) has 67108352" in problems[1]


def test_somebody_elses_writes_are_a_problem(case: Case) -> None:
    case.host.lie = -3 * MIB
    assert any("fill 1" in problem for problem in case.run().problems)


def test_a_load_that_ends_early_is_a_problem(case: Case) -> None:
    case.host.short = True
    assert any("fio reports 33554432" in problem for problem in case.run().problems)


def test_data_that_compresses_is_a_problem(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case.host.random, "randbytes", lambda size: b"hsp " * (size // 4))
    assert any("it should not compress" in problem for problem in case.run().problems)


def test_a_write_error_ends_the_preconditioning(case: Case) -> None:
    case.host.fails_at = f"--io_size={CAPACITY}"
    with pytest.raises(HostError, match="I/O error"):
        case.run()
    assert case.state.exists()


# --- Resume ---------------------------------------------------------------------------------------------


def interrupt(case: Case, at: str, **values: Any) -> None:
    """Run until the load that has `at` on its command line."""
    case.host.fails_at = at
    with pytest.raises(HostError):
        case.run(**values)
    case.host.fails_at = None


def test_it_resumes_at_the_interrupted_stage(case: Case) -> None:
    interrupt(case, "--randseed=5030", method="snia")  # the third round
    before = case.host.written
    done = case.run("snia")
    assert done.entry["resumed_after"] == ["round 2"]
    stages = [stage["stage"] for stage in done.entry["stages"]]
    assert stages == ["purge", "fill 1", "fill 2", *(f"round {n}" for n in range(1, 6))]
    assert [c for c in case.host.calls if c[0] == "blkdiscard"] != []
    assert case.host.written - before == 3 * (CAPACITY // 4 + 400 * 4096)
    assert "resuming after round 2" in case.output.getvalue()
    whole = Case(case.state.parent / "whole")
    same = whole.run("snia")
    assert [(p.stage, p.op, p.written_bytes) for p in same.points] == [
        (p.stage, p.op, p.written_bytes) for p in done.points
    ]


def test_writes_of_the_interrupted_stage_are_counted(case: Case) -> None:
    interrupt(case, "--randseed=1020", fills=2)
    case.host.written += 10 * MIB
    done = case.run(fills=2)
    assert (
        done.entry["written_bytes"] == 10 * MIB + Case(case.state.parent).run(fills=2).entry["written_bytes"]
    )


def test_problems_are_kept_over_an_interruption(case: Case) -> None:
    case.host.lie = 512
    interrupt(case, "--randseed=1020", fills=2)
    case.host.lie = 0
    assert len(case.run(fills=2).problems) == 2


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: setattr(c.host, "serial", "SN2"), "it is a different device"),
        (lambda c: setattr(c.host, "filled", False), "its content compresses to 0%, so it is not that"),
        (lambda c: setattr(c.host, "written", c.host.written + 80 * MIB), "not by this preconditioning"),
        (lambda c: setattr(c.host, "written", 0), "not by this preconditioning"),
        (lambda c: edit(c.state, settings={}), "the settings have changed"),
        (lambda c: edit(c.state, stages=[]), "no fill was completed"),
    ],
)
def test_reasons_to_start_again(case: Case, change: Callable[[Case], None], why: str) -> None:
    interrupt(case, "--randseed=1020", fills=2)
    change(case)
    done = case.run(fills=2)
    assert done.entry["resumed_after"] == [] and len(done.entry["stages"]) == 3
    assert f"starting again, because {why}" in re.sub(r"because -?\d+ bytes were written since, ", "because ",
                                                      case.output.getvalue())  # fmt: skip


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", '{"format": 2}', '{"format": 1, "points": 3}'])
def test_a_damaged_state_is_no_state(case: Case, text: str) -> None:
    case.state.parent.mkdir(parents=True)
    case.state.write_text(text)
    assert len(case.run().entry["stages"]) == 2


def test_numbers_that_cannot_be_are_no_state(case: Case) -> None:
    interrupt(case, "--randseed=1020", fills=2)
    good = json.loads(case.state.read_text())
    assert checkpoint.read_state(case.state) is not None
    point = good["points"][0]
    for changes in (
        {"written_bytes": -1},
        {"spent_ns": 1.5},
        {"counter_bytes": True},
        {"points": [{**point, "ios": point["ios"] + 1}]},
        {"points": [{**point, "iops": 0}]},
        {"stages": [{}]},
    ):
        case.state.write_text(json.dumps({**good, **changes}))
        assert checkpoint.read_state(case.state) is None, changes


def test_another_boot_resumes_if_the_content_is_there(case: Case) -> None:
    interrupt(case, "--randseed=1020", fills=2)
    case.host.boot, case.host.written = "boot-2", 0
    assert case.run(fills=2).entry["resumed_after"] == ["fill 1"]


def test_a_point_survives_the_file(case: Case) -> None:
    interrupt(case, "--randseed=1020", fills=2)
    state = checkpoint.read_state(case.state)
    assert state is not None and all(isinstance(point, CurvePoint) for point in state.points)
    state.save(case.state)
    assert checkpoint.read_state(case.state) == state


# --- Budget ---------------------------------------------------------------------------------------------


def test_a_budget_of_bytes_refuses_before_anything_is_written(case: Case) -> None:
    before = case.host.written
    with pytest.raises(SafetyRefusal, match=r"writes at least \S+, and the budget allows 128MiB"):
        case.run(fills=2, budget={"write": "128MiB"})
    assert case.host.written == before and not any(c[0] == "blkdiscard" for c in case.host.calls)


def test_a_budget_of_endurance(case: Case) -> None:
    case.target = Target("x0", "log", "/dev/x0", CAPACITY, endurance_bytes=100 * CAPACITY)
    with pytest.raises(SafetyRefusal, match=r"at least \S+, 2\.\d\d% of its rated endurance"):
        case.run(fills=2, budget={"endurance": 0.01})
    done = case.run(fills=2, budget={"endurance": 0.03})
    assert 0.02 < done.entry["endurance_share"] < 0.03
    assert "of its rated endurance at most" in case.output.getvalue()


def test_it_stops_before_the_round_that_would_exceed_the_budget(case: Case) -> None:
    case.host.latency_ns = lambda op, written: int(400_000 * 1.2 ** (written / (CAPACITY // 4)))
    least = 2 * CAPACITY + CAPACITY // 16 + MIB + 5 * CAPACITY // 4 + 8 * 400 * 4096 + MIB // 8
    done = case.run("snia", budget={"write": f"{least + CAPACITY}B"})
    rounds = len(done.entry["tracked"]["write p99"])
    assert 5 < rounds < 12 and done.entry["spent_bytes"] <= least + CAPACITY
    [problem] = done.problems
    assert f"round {rounds + 1} would write 17.56 MiB more; the budget allows" in problem
    assert done.entry["attained"] is False and done.entry["stopped"]


def test_a_budget_of_time(case: Case) -> None:
    with pytest.raises(SafetyRefusal, match="takes at least"):
        case.run(fills=100, budget={"time": "100ms"})
    # Enough for the estimate, and not for the measurements beside it: the second fill ends in its middle.
    done = case.run(fills=3, budget={"time": "290ms"})
    assert 1 <= len(done.entry["stages"]) - 1 < 3
    [problem] = done.problems
    assert "preconditioning stopped: the budget of 0.29 s was spent" in problem


def test_a_device_never_filled_is_not_measured_as_aged(case: Case) -> None:
    with pytest.raises(MeasurementUnknown, match="was not filled once") as caught:
        case.run(fills=1, budget={"time": "90ms"})
    assert caught.value.exit_code == 3
    assert "raise the budget" in caught.value.hint


def test_blocks_must_suit_the_sectors(case: Case) -> None:
    case.host.sector_bytes = 4096
    with pytest.raises(ConfigError, match="read_block is 512 bytes; x0 has sectors of 4096"):
        case.run(read_block="512B")
    # That of the device, where the workload does not say it.
    assert case.run().problems == []
