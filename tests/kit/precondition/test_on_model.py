"""Preconditioning of drives that age: the C models in this process are behind the scripted host.

What a guest alone shows (fio, counters and content of a block device, use by others) is in
tests/lab/test_precondition.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from kit.config.device_model import find_preset
from kit.core.bins import bin_edges
from kit.core.errors import MeasurementUnknown, SafetyRefusal
from kit.precondition.device import Preconditioned
from tests.fakes import Answer, Command
from tests.kit.emulation.model_library import ModelDevice, Op, requests
from tests.kit.precondition.test_device import CAPACITY, MIB, Case, HostWithDevice, on_device

DILATION = 4


class HostWithModel(HostWithDevice):
    """fio's loads go to the model, one request after another. The host's clock is the model's, dilated."""

    def __init__(self, device: ModelDevice) -> None:
        super().__init__()
        self.device, self.now_ns = device, 0
        self.places = np.random.default_rng(1)

    def _number(self, argv: Sequence[str], name: str) -> int:
        return int(self._argument(argv, name))

    def _requests(self, argv: Sequence[str]) -> np.ndarray:
        """Of a load; with O_DSYNC a flush follows each write."""
        pattern, size = self._argument(argv, "rw"), self._number(argv, "bs")
        count, sectors = self._number(argv, "io_size") // size, size // 512
        slots = self._number(argv, "size") // size
        order = self.places.integers(0, slots, count) if "rand" in pattern else np.arange(count) % slots
        flushes = "--sync=dsync" in argv
        batch = requests(count * (1 + flushes))
        batch["op"] = Op.FLUSH
        first = batch[:: 1 + flushes]
        first["op"] = Op.READ if "read" in pattern else Op.WRITE
        first["sector"] = self._number(argv, "offset") // 512 + order * sectors
        first["sectors"] = sectors
        batch["arrival_ns"][0] = self.now_ns
        return batch

    def _fio(self, argv: Sequence[str]) -> None:
        batch, size = self._requests(argv), self._number(argv, "bs")
        step, is_write = 1 + ("--sync=dsync" in argv), "write" in self._argument(argv, "rw")
        answers = self.device.submit_many(batch, closed_loop=True)
        assert not answers["error"].any()
        ends_ns = answers["done_ns"][step - 1 :: step].astype(np.int64)
        latencies_ns = (ends_ns - batch["arrival_ns"][::step].astype(np.int64)) * DILATION
        spent_ns = (ends_ns - self.now_ns) * DILATION
        limit_ns = int(self._argument(argv, "runtime", "0us").removesuffix("us")) * 1000
        done = int(np.searchsorted(spent_ns, limit_ns)) if limit_ns else len(spent_ns)
        if log := self._argument(argv, "write_lat_log", ""):
            rows = zip(spent_ns.tolist(), latencies_ns.tolist(), strict=True)
            lines = (f"{end // 1_000_000}, {taken}, {int(is_write)}, {size}, 0, 0" for end, taken in rows)
            self.files[f"{log}_lat.1.log"] = "\n".join(lines).encode()
        self.now_ns = int(ends_ns[-1])
        host_ns = min(int(spent_ns[-1]), limit_ns or int(spent_ns[-1]))
        self.clock_ns += host_ns
        moved = done * size if is_write else 0
        self.written += moved
        self.filled |= is_write and self._argument(argv, "size") == str(CAPACITY)
        job = {"io_bytes": moved, "runtime": max(host_ns // 1_000_000, 1)}
        output = {"jobs": [{"jobname": "device", "write": job, "read": {}}]}
        self.files[self._argument(argv, "output")] = json.dumps(output).encode()

    def answer(self, command: Command) -> Answer:
        if on_device(command.argv)[0] == "blkdiscard":
            self.now_ns, error = self.device.submit(self.now_ns, Op.DISCARD, 0, self.device.sectors)
            assert not error and self.device.counters()["flash_pages_mapped"] == 0
        return super().answer(command)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[str], Case]]:
    """drive(preset): a case whose device is of that preset."""
    with ExitStack() as stack:

        def of(preset: str) -> Case:
            case = Case(tmp_path)
            case.host = HostWithModel(stack.enter_context(ModelDevice(find_preset(preset), CAPACITY)))
            return case

        yield of


def p99_ns(outcome: Preconditioned, stages: str) -> int:
    """Of all sync writes after stages of that name together, from their bins."""
    bins: Counter[int] = Counter()
    for point in outcome.points:
        if point.op == "write" and point.stage.startswith(stages):
            for _, index, count in point.cells:
                bins[index] += count
    every = np.repeat(np.array(sorted(bins)), [bins[index] for index in sorted(bins)])
    return int(bin_edges(every[int(0.99 * every.size)])[0])


def test_a_consumer_ssd_ages_and_a_purge_makes_it_fresh_again(drive: Callable[[str], Case]) -> None:
    consumer = drive("nvme-consumer")
    aged = consumer.run(fills=3, ios=6000)
    again = consumer.run(fills=1, ios=6000)
    fresh, old, second = p99_ns(aged, "purge"), p99_ns(aged, "fill"), p99_ns(again, "purge")
    assert old >= 2 * fresh
    assert second == pytest.approx(fresh, rel=0.1)
    assert aged.problems == again.problems == []
    assert aged.entry["proven_bytes"] == aged.entry["intended_bytes"]
    assert aged.entry["spent_bytes"] > 3 * CAPACITY


@pytest.mark.parametrize("preset", ["nvme-consumer", "ssd-2009-write"])
def test_rounds_end_when_the_drive_is_steady(drive: Callable[[str], Case], preset: str) -> None:
    case = drive(preset)
    done = case.run("snia", round_size="2MiB")
    stages = [stage["stage"] for stage in done.entry["stages"]]
    assert stages[:4] == ["purge", "fill 1", "fill 2", "round 1"] and len(stages) >= 8
    assert done.entry["attained"] is True and done.problems == []
    assert all(len(values) == len(stages) - 3 for values in done.entry["tracked"].values())
    assert done.entry["criteria"][-1]["write p99"]["attained"]
    told = case.output.getvalue()
    assert "round 5 of at most 25" in told and "write iops: steady, range" in told


def test_a_time_budget_ends_a_fill_in_its_middle(drive: Callable[[str], Case]) -> None:
    case = drive("ssd-2009-write")
    with pytest.raises(SafetyRefusal, match="takes at least"):
        case.run(fills=100, budget={"time": "1us"})
    before = case.host.written
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kit.precondition.budget.refuse_beyond_time", lambda *_: None)
        with pytest.raises(MeasurementUnknown, match=r"not filled once .* the budget of 0\.3 s was spent$"):
            case.run(fills=1, budget={"time": "300ms"})
    # After what the probe and the purge's stage write.
    of_fill = case.host.written - before - (MIB + 400 * 4096 + CAPACITY // 16)
    assert 0 < of_fill < CAPACITY
