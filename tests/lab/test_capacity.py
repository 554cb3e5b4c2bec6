"""An open loop on an emulated device that serves one command at a time: it is an M/D/1 queue, which is known.

A p99 of some thousand I/Os is a few percent from that of all that could be: so each phase is held against the
queue with the very starts that it had (drawn again from its seed), and that against the formula in
tests/test_queues.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.lab.guest import open_host
from kit.lab.image.image import Image
from kit.store.summary import Summary
from reports.features.capacity.judge import sentences
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.test_faults import start_run, wait_for
from tests.queues import Floats, highest, lindley, md1_above

PROTECTS = ("kit/capacity", "kit/load/programs/force_load.c", "kit/run/capacity.py")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

SERVICE_S, DILATION, STALL_S = 0.002, 4, 0.2
_TESTBED = """\
name = "one-at-a-time"
[server]
host = "lab"
trace = "none"
[[client]]
host = "lab"
[lab]
clock = "virtual"
dilation = 4
memory = "2GiB"
[[device]]
name = "log0"
role = "log"
size = "64MiB"
preset = "ssd-2009-write"
set = { serial = "2ms", command = "0ns", command_spread = "0ns", read = "1us", read_spread = "0ns", \
channel_per_s = "16GB", link_per_s = "16GB" }
"""
_HEAD = 'format = 1\nname = "open"\ntitle = "Open loops"\nprecondition = "none"\n'
_PHASE = """\
[[phase]]
name = "{name}"
title = "{name}"
target = "device:log"
open = {{ op = "read", block = "4KiB", threads = {threads}{rate} }}
duration = "{duration}"
interval = "500ms"
"""
_RATES = {"quiet": (150, "20s"), "busy": (300, "10s"), "stall": (200, "20s")}
_TELL = ["/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket", "log0"]


def files(folder: Path, text: str) -> tuple[str, ...]:
    folder.joinpath("one.toml").write_text(_TESTBED)
    folder.joinpath("open.toml").write_text(_HEAD + text)
    return str(folder / "open.toml"), "--testbed", str(folder / "one.toml"), "--json"


@pytest.fixture(scope="module")
def done(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two rates, and one with a stall of 200 ms in the middle, by a single thread."""
    folder = tmp_path_factory.mktemp("open")
    text = "".join(
        _PHASE.format(name=name, threads=1 if name == "stall" else 64, rate=f", rate = {rate}", duration=long)
        for name, (rate, long) in _RATES.items()
    )
    process, state = start_run(*files(folder, text), results=folder)
    counts = folder / "open" / "latest" / "raw" / "stall-log0-counts.1.jsonl"
    journal = folder / "open" / "latest" / "journal.jsonl"
    wait_for(lambda: journal.exists() and '"phase quiet"' in journal.read_text(), 600, "the first phase")
    # Logged in before: a login may take longer than what is left of the phase.
    with open_host(state(), 1) as guest:
        wait_for(
            lambda: counts.exists() and counts.read_text().count("\n") > 5, 600, "the middle of the stall"
        )
        guest.run([*_TELL, "stall", str(int(STALL_S * 1e9))])
    return finish(process, folder, "open")


def starts_s(done: Finished, phase: str) -> Floats:
    """The intended starts, drawn again: xorshift64* (Vigna 2016), and -log of a uniform number."""
    number = list(_RATES).index(phase)
    lines = (done.run / "raw" / "commands.jsonl").read_text().splitlines()
    calls = [json.loads(line).get("argv", []) for line in lines]
    words = [argv[argv.index("open") :] for argv in calls if "open" in argv][number]
    _, *_, seed, _, _, duration_ns, gap_ns, _ = words
    state, at, mask, starts = int(seed) * 2 + 1, 0.0, 2**64 - 1, []
    while True:
        state ^= state >> 12
        state = state ^ state << 25 & mask
        state ^= state >> 27
        at -= math.log(((state * 0x2545F4914F6CDD1D & mask) >> 11) * 2.0**-53 + 2.0**-54) * int(gap_ns)
        if at >= int(duration_ns):
            return np.array(starts) / DILATION / 1e9
        starts.append(at)


def stalled(starts: Floats, at_s: float) -> Floats:
    """The times in the queue. An I/O under way is not held up: its end is settled when it is submitted."""
    free, times = 0.0, []
    for start in starts.tolist():
        begin = max(start, free)
        free = begin + SERVICE_S
        if at_s <= begin < at_s + STALL_S:
            free = max(free, at_s + STALL_S)
        times.append(free - start)
    return np.array(times)


def rank_us(times: Floats, q: float) -> float:
    return float(np.sort(times)[math.ceil(q * len(times)) - 1] * 1e6)


def point(done: Finished, phase: str) -> dict[str, Any]:
    (row,) = (row for row in done.summary["capacity"] if row["phase"] == phase)
    (found,) = row["points"]
    return dict(found)


@pytest.mark.parametrize("phase", ["quiet", "busy"])
def test_latencies_of_each_rate_are_those_of_the_queue(done: Finished, phase: str) -> None:
    assert done.code == 0, done.stderr
    found, starts = point(done, phase), starts_s(done, phase)
    times = lindley(starts, SERVICE_S)
    assert found["ios"] == len(starts) > 2500, "every start that was due is counted"
    assert found["p50_us"] == pytest.approx(rank_us(times, 0.5), rel=0.03)
    assert found["p99_us"] == pytest.approx(rank_us(times, 0.99), rel=0.03)
    # Threads enough: each I/O starts when it should, and waits in the device.
    assert found["actual_p99_us"] == pytest.approx(found["p99_us"], rel=0.03)
    assert found["late_p99_us"] < 0.05 * SERVICE_S * 1e6


def test_a_stall_is_in_all_that_should_have_started_meanwhile(done: Finished) -> None:
    (phase,) = (phase for phase in done.manifest["phases"] if phase["name"] == "stall")
    (fault,) = (event for event in phase["events"] if event["kind"] == "fault")
    begin_ns = phase["clients"][0]["first_ns"] + phase["open"]["actual"]["min_ns"]
    found, starts = point(done, "stall"), starts_s(done, "stall")
    times, quiet = stalled(starts, (fault["time_ns"] - begin_ns) / 1e9), lindley(starts, SERVICE_S)
    assert found["ios"] == len(starts) > 3700
    expected_us = rank_us(times, 0.999)
    assert expected_us > 2 * rank_us(quiet, 0.999), "without the stall it is far less"
    assert found["p999_us"] == pytest.approx(expected_us, rel=0.05)
    # One I/O alone was under way: a closed loop would have seen no more of it.
    assert found["actual_p999_us"] < 1.1 * SERVICE_S * 1e6


@pytest.mark.long
def test_the_capacity_that_is_found_is_that_of_the_formula(image: Image, tmp_path: Path) -> None:
    text = '[capacity]\np99_max = "8ms"\nrate_min = 100\nios = 2000\n'
    text += _PHASE.format(name="reads", threads=64, rate="", duration="10s")
    run = finish(hsp("run", *files(tmp_path, text), results=tmp_path), tmp_path, "open")
    assert run.code == 0, run.stderr
    (row,) = run.summary["capacity"]
    true = highest(lambda rate: md1_above(rate, 8e-3 / SERVICE_S), 0.99) / SERVICE_S
    assert row["end"] == "found" and 0.8 * true < row["rate_per_s"] <= true < row["broken_per_s"]
    words = f"Up to {row['rate_per_s']:,.0f} random reads of 4 KiB a second keep p99 within 8 ms"
    assert any(words in line for line in sentences(Summary.from_json(run.summary, "summary.json").capacity))
