"""What was promised against what is there, without a pool."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kit.remote import power_loss_records
from kit.run import power_loss

SLOTS = power_loss._SLOTS


def found(*numbers: int) -> list[int]:
    slots = [0] * SLOTS
    for number in numbers:
        slots[number % SLOTS] = number
    return slots


def test_only_what_was_acknowledged_before_the_power_went_was_promised() -> None:
    acknowledged = [(1, 10), (2, 20), (3, 30)]
    assert power_loss.judge(acknowledged, found(1, 2), 25).lost == 0
    moment = power_loss.judge(acknowledged, found(1), 25)
    assert (moment.acknowledged, moment.lost, moment.first_lost) == (2, 1, 2)


def test_a_write_that_was_not_acknowledged_may_be_there() -> None:
    assert power_loss.judge([(1, 10)], found(1, 2), 15).lost == 0
    later = [(number, number) for number in range(1, SLOTS + 2)]
    # Slot 1 was written twice; the second time nobody had been told of it.
    assert power_loss.judge(later[:-1], found(*range(1, SLOTS + 2)), SLOTS + 10).lost == 0


def test_an_older_record_in_a_slot_is_a_loss() -> None:
    acknowledged = [(1, 10), (1 + SLOTS, 20)]
    moment = power_loss.judge(acknowledged, found(1), 25)
    assert (moment.lost, moment.first_lost) == (1, 1 + SLOTS)


def test_a_file_that_is_gone_or_short_lost_everything() -> None:
    assert power_loss.judge([(1, 1), (2, 2)], [], 5).lost == 2


@given(st.integers(min_value=1, max_value=2**64 - 1), st.integers(0, 511), st.integers(1, 255))
def test_a_record_with_a_wrong_byte_is_none(number: int, position: int, flip: int) -> None:
    raw = bytearray(power_loss_records.record(number))
    assert power_loss_records.number_of(bytes(raw)) == number
    raw[position] ^= flip
    assert power_loss_records.number_of(bytes(raw)) == 0


def test_the_writer_writes_until_it_is_told_to_stop_and_says_what_was_acknowledged(tmp_path: Path) -> None:
    helper, file, log = power_loss_records.__file__, tmp_path / "file", tmp_path / "log"
    writer = subprocess.Popen([sys.executable, "-I", helper, "write", file, "64", log])
    end = time.monotonic() + 60
    while len(log.read_text().splitlines() if log.exists() else []) < 100 and time.monotonic() < end:
        time.sleep(0.01)
    writer.send_signal(signal.SIGINT)
    assert writer.wait(60) == 0
    acknowledged = power_loss._parse_log(log.read_text())
    assert [number for number, _ in acknowledged] == list(range(1, len(acknowledged) + 1))
    assert len(acknowledged) >= 100
    there = subprocess.run(
        [sys.executable, "-I", helper, "read", file, "64"], capture_output=True, check=True
    ).stdout
    assert sorted(json.loads(there)) == list(range(len(acknowledged) - 63, len(acknowledged) + 1))
