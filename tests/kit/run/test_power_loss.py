"""What was promised against what is there, without a pool."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.remote import power_loss_records as records
from kit.run.power.records import Acknowledged, RecordLayout, gone, judge, parse_acknowledged, parse_found

RUN, SLOTS = 77, 4
LAYOUT = RecordLayout("file", RUN, 3, (512, 1024), direct=False, slots=SLOTS)
Contents = list[list[list[int]]]


def told(*numbers: int, worker: int = 0, at_ns: int = 10) -> list[Acknowledged]:
    return [Acknowledged(worker, number, at_ns) for number in numbers]


def there(*numbers: int, worker: int = 0) -> Contents:
    """What the reader finds if the records of `worker` were written in this order."""
    found: Contents = [[[records.NOTHING] for _ in range(SLOTS)] for _ in LAYOUT.sizes]
    for number in numbers:
        found[worker][number % SLOTS] = [records.WHOLE, LAYOUT.tag, worker, number]
    return found


def test_only_what_was_acknowledged_before_the_power_went_was_promised() -> None:
    acknowledged = [*told(1, at_ns=10), *told(2, at_ns=20), *told(3, at_ns=30)]
    assert judge(LAYOUT, acknowledged, there(1, 2), 25).lost == 0
    moment = judge(LAYOUT, acknowledged, there(1), 25)
    assert (moment.acknowledged, moment.lost, moment.first_lost, moment.first_worker) == (2, 1, 2, 0)
    # Where writes ended with the power, all of the list counts.
    assert judge(LAYOUT, acknowledged, there(1, 2)).lost == 1


def test_the_write_under_way_may_be_there_or_not_and_no_other() -> None:
    assert judge(LAYOUT, told(1), there(1, 2)).lost == 0
    # It goes over the first record, which was acknowledged.
    assert judge(LAYOUT, told(1, 2, 3, 4), there(1, 2, 3, 4, 5)).as_json()["lost"] == 0
    ahead = judge(LAYOUT, told(1, 2, 3, 4), there(1, 2, 3, 4, 6))
    assert (ahead.foreign, ahead.lost) == (1, 0), "no worker has written it yet"
    # Each worker has one.
    both = [*told(1, 2), *told(1, worker=1)]
    found = there(1, 2, 3)
    found[1] = there(1, 2, worker=1)[1]
    assert (
        sum(judge(LAYOUT, both, found).model_dump(include={"lost", "torn", "old", "foreign"}).values()) == 0
    )


@pytest.mark.parametrize(("written", "looked_at"), [(3, 3), (10, 4), (11, 3), (0, 0)])
def test_only_the_newest_record_of_a_slot_can_be_looked_for(written: int, looked_at: int) -> None:
    """Write 11, under way, has replaced record 7."""
    acknowledged = [told(n, at_ns=10 * n)[0] for n in range(1, min(written, 10) + 1)]
    moment = judge(LAYOUT, acknowledged, there(*range(1, written + 1)))
    assert (moment.acknowledged, moment.looked_at, moment.lost) == (len(acknowledged), looked_at, 0)
    assert moment.after_ns == max(0, 10 * (len(acknowledged) - 1))
    assert moment.written_bytes == 512 * len(acknowledged)
    unread = judge(LAYOUT, acknowledged, gone(LAYOUT))
    assert unread.gone == unread.looked_at == min(4, len(acknowledged))


def test_a_part_of_the_write_under_way_is_no_loss_and_of_another_one_is() -> None:
    found = there(1, 2, 3, 4)
    found[0][1] = [records.TORN]
    moment = judge(LAYOUT, told(1, 2, 3, 4), found)
    assert (moment.torn, moment.in_flight_torn) == (0, 1)
    moment = judge(LAYOUT, told(1, 2, 3), found)
    assert (moment.torn, moment.in_flight_torn, moment.first_lost) == (1, 0, 1)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ([records.NOTHING], "lost"),
        ([records.TORN], "torn"),
        ([records.WHOLE, LAYOUT.tag, 0, 2], "old"),
        ([records.WHOLE, LAYOUT.tag - 1, 0, 6], "old"),
        ([records.WHOLE, LAYOUT.tag + 1, 0, 6], "foreign"),
        ([records.FOREIGN], "foreign"),
        ([records.UNREADABLE], "gone"),
    ],
)
def test_each_class_is_counted_apart(content: list[int], kind: str) -> None:
    found = there(1, 2, 3, 4, 5, 6, 7)
    found[0][2] = content
    moment = judge(LAYOUT, told(1, 2, 3, 4, 5, 6, 7), found)
    counts = {name: getattr(moment, name) for name in ("lost", "torn", "old", "foreign", "gone")}
    assert counts == {**dict.fromkeys(counts, 0), kind: 1}
    assert moment.first_lost == 6


def test_a_record_without_an_acknowledgement_may_be_anything() -> None:
    found = there(1)
    found[0][3], found[1][0] = [records.FOREIGN], [records.UNREADABLE]
    assert judge(LAYOUT, told(1), found).first_lost is None


def raw(number: int, size: int = 1024, tag: int = LAYOUT.tag, worker: int = 1) -> bytes:
    return bytes(records.record(tag, worker, size, number))


def content(found: bytes, slot: int = 1) -> list[int]:
    return list(records.content_of(found, LAYOUT.tag, 1, slot, SLOTS))


@given(st.integers(1, 2**63), st.integers(0, 1023), st.integers(1, 255))
def test_a_record_with_a_wrong_byte_is_not_whole(number: int, position: int, flip: int) -> None:
    number = number - number % SLOTS + 1
    damaged = bytearray(raw(number))
    assert content(bytes(damaged)) == [records.WHOLE, LAYOUT.tag, 1, number]
    damaged[position] ^= flip
    assert content(bytes(damaged))[0] in (records.TORN, records.FOREIGN)


def test_what_is_in_a_slot() -> None:
    assert content(bytes(1024)) == [records.NOTHING]
    assert content(raw(1)[:512] + raw(5)[512:]) == [records.TORN]
    assert content(raw(1)[:512] + bytes(512)) == [records.TORN]
    assert content(bytes(512) + raw(1)[512:]) == [records.TORN]
    assert content(b"\x5a" * 1024) == [records.FOREIGN]
    # Whole, but of another slot, worker, or run.
    assert content(raw(2)) == [records.FOREIGN]
    assert content(raw(1, worker=0)) == [records.FOREIGN]
    assert content(raw(1, tag=(RUN + 1) << 16)) == [records.FOREIGN]
    assert content(raw(1, tag=RUN << 16))[0] == records.WHOLE


def test_records_cannot_be_compressed() -> None:
    import zlib

    text = b"".join(raw(number, 4096) for number in range(1, 9))
    assert len(zlib.compress(text, 9)) > 0.98 * len(text)


def write_and_stop(tmp_path: Path, layout: RecordLayout, count: int) -> list[Acknowledged]:
    """The writer's list, when it has so many lines of each worker: the scheduler may favour one."""
    log = tmp_path / "log"
    Path(layout.path).touch()
    writer = subprocess.Popen([sys.executable, "-I", records.__file__, "write", layout.text(), str(log)])
    end = time.monotonic() + 60
    while time.monotonic() < end:
        written = Counter(each.worker for each in parse_acknowledged(log.read_text() if log.exists() else ""))
        if all(written[worker] >= count for worker in range(len(layout.sizes))):
            break
        time.sleep(0.01)
    writer.send_signal(signal.SIGINT)
    assert writer.wait(60) == 0
    return parse_acknowledged(log.read_text())


def read_back(layout: RecordLayout) -> Contents:
    argv = [sys.executable, "-I", records.__file__, "read", layout.text()]
    text = subprocess.run(argv, capture_output=True, check=True, text=True).stdout
    return [[list(each) for each in slots] for slots in parse_found(text, layout)]


def test_workers_write_until_they_are_told_to_stop_and_all_is_there(tmp_path: Path) -> None:
    layout = replace(LAYOUT, path=str(tmp_path / "file"), sizes=(512, 4096, 1024))
    acknowledged = write_and_stop(tmp_path, layout, 20)
    for worker in range(3):
        numbers = [each.number for each in acknowledged if each.worker == worker]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > SLOTS
    moment = judge(layout, acknowledged, read_back(layout))
    assert (moment.acknowledged, moment.first_lost) == (len(acknowledged), None)
    assert Path(layout.path).stat().st_size == layout.bytes_


def zero(file: bytearray, place: int) -> None:
    file[place : place + 512] = bytes(512)


def damage(file: bytearray, place: int) -> None:
    file[place + 600] ^= 1


def overwrite(file: bytearray, place: int) -> None:
    file[place : place + 1024] = b"\xa5" * 1024


@pytest.mark.parametrize(("change", "kind"), [(zero, "torn"), (damage, "torn"), (overwrite, "foreign")])
def test_damage_to_the_file_is_found_by_its_class(
    tmp_path: Path, change: Callable[[bytearray, int], None], kind: str
) -> None:
    layout = replace(LAYOUT, path=str(tmp_path / "file"), sizes=(1024,), slots=64)
    acknowledged = write_and_stop(tmp_path, layout, 20)
    file = bytearray(Path(layout.path).read_bytes())
    change(file, 3 * 1024)
    Path(layout.path).write_bytes(file)
    assert getattr(judge(layout, acknowledged, read_back(layout)), kind) == 1


def test_a_file_that_is_gone_lost_everything(tmp_path: Path) -> None:
    layout = replace(LAYOUT, path=str(tmp_path / "none"))
    assert judge(layout, told(1, 2), read_back(layout)).gone == 2
    writer = [sys.executable, "-I", records.__file__, "write", layout.text(), str(tmp_path / "log")]
    assert subprocess.run(writer, capture_output=True, check=False).returncode
    assert not Path(layout.path).exists(), "the path of a device that is gone must not become a file"


def test_a_list_that_is_cut_short_ends_with_its_last_whole_line() -> None:
    assert parse_acknowledged("0 1 5\n1 1 6\n0 2") == [Acknowledged(0, 1, 5), Acknowledged(1, 1, 6)]
    with pytest.raises(HostError, match="damaged"):
        parse_acknowledged("0 x 5\n")


@pytest.mark.parametrize(
    "text", ["", "[]", "[[], []]", "[[[0], [0], [0], [0]]]", "{}", '[["a"], [[0]]]', "3"]
)
def test_an_answer_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(HostError, match="damaged"):
        parse_found(text, LAYOUT)
    assert json.loads(LAYOUT.text())["tag"] == RUN << 16 | 3
