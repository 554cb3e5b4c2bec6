"""reports.devices.stripes: arrays beside what their drives do alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from kit.store.parts.resource_use import DeviceSample, DeviceUse
from kit.store.phase import ArrayOf, ClientRow, Phase
from kit.store.tables import LATENCY_SCHEMA
from reports.devices import together
from reports.devices.stripes import Stripes, sentences, stripes_of
from reports.figures import busy
from reports.figures.runs import stripes as figures
from reports.statistics import worst_of
from reports.statistics.worst_of import Floats
from tests.reports import synthetic

CHUNK, MS = 512 << 10, 1_000_000
NO_LATENCY = pl.DataFrame(schema=LATENCY_SCHEMA)


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the time; tests/reports/statistics holds the whole number against truths."""
    monkeypatch.setattr(worst_of, "DRAWS", 1000)
    monkeypatch.setattr(worst_of, "_REPLICATES", 50)


def phase(name: str, latencies: Sequence[float] | Floats, **given: Any) -> Phase:
    """Of a load with these latencies (ms) in their order; of one drive but with an `array`."""
    times = [int(each * MS) for each in latencies]
    hosts = given.pop("hosts", ("array" if given.get("array") else name.removeprefix("alone-"),))
    clients = tuple(
        ClientRow(host=host, ios=len(times), first_ns=0, last_ns=sum(times), skew_ns=0, clock_offset_ns=0,
                  clock_error_ns=0)
        for host in hosts
    )  # fmt: skip
    values = {
        "name": name, "op": "write", "target": "device:data", "job": "chunks.fio", "is_random": True,
        "block_bytes": CHUNK, "outstanding": 1, "interval_ns": MS, "client_ios": len(times),
        "server_ios": None, "lost_events": None, "start_ns": 0, "end_ns": sum(times),
        "in_order_ns": tuple(times), "clients": clients,
    } | given  # fmt: skip
    return Phase.model_validate(values)


def array(latencies: Sequence[float] | Floats, drives: int, **given: Any) -> Phase:
    of = ArrayOf(level=given.pop("level", "raid0"), chunk_bytes=CHUNK, members=names(drives))
    name = f"array-{drives}-{given.get('outstanding', 1)}"
    values = {"array": of, "target": "array", "block_bytes": CHUNK * drives} | given
    return phase(name, latencies, **values)


def names(drives: int) -> tuple[str, ...]:
    return tuple(f"ssd{number}" for number in range(drives))


def drive(seed: int, count: int = 1000) -> Floats:
    return np.random.default_rng(seed).gamma(4.0, 0.5, count)


def alone(drives: int) -> list[Phase]:
    return [phase(f"alone-ssd{number}", drive(number)) for number in range(drives)]


def lock_step(drives: int) -> Floats:
    """Stripes of drives of which nothing goes on while they wait."""
    return np.maximum.reduce([drive(100 + number) for number in range(drives)])


def found_of(phases: Sequence[Phase]) -> Stripes:
    found = stripes_of(NO_LATENCY, phases)
    assert found is not None
    return found


def test_arrays_of_independent_requests_are_held_by_the_bracket() -> None:
    phases = [*alone(4), *(array(lock_step(drives), drives) for drives in range(1, 5))]
    found = found_of(phases)
    assert [each.number for each in found.lock_step()] == [1, 2, 3, 4] and found.drives == names(4)
    assert all(each.holds for each in found.arrays)
    last = found.scale(4)
    assert (
        last.low < last.single < last.run < last.whole < last.high
        and last.whole <= last.mean * 1.01
        and last.slowest <= last.mean
    )
    assert found.arrays[3].bytes_per_s == pytest.approx(last.single, rel=0.05)
    assert found.arrays[3].p50_ns == pytest.approx(last.p50_ns, rel=0.1)
    # 2 ms a chunk.
    assert found.scale(1).mean == pytest.approx(CHUNK / 2e-3, rel=0.05)
    text = " ".join(sentences(NO_LATENCY, phases))
    assert "A stripe over 4 drives, one request at a time: " in text and "% (± " in text
    assert "4 times the mean drive alone is " in text
    assert "Arrays of 2 to 4 drives are in the range that is expected of them." in text
    assert "A stripe over 32 drives like these would lose " in text
    assert "as expected of drives that wait for each other at each request." in text
    # 4 times 512 MB/s is more than 1 GB/s; both rates have one unit.
    first = next(iter(sentences(NO_LATENCY, phases)))
    assert len(set(re.findall(r"[kMGT]?B/s", first))) == 1


@pytest.mark.parametrize(
    ("latency", "ends"),
    [
        (lambda: sum(drive(n) for n in range(4)) / 4, "as expected of drives that catch up with each other."),
        (lambda: lock_step(4) * 0.85, "within the range expected of its drives."),
    ],
)
def test_a_stripe_is_called_what_its_drives_do(latency: Callable[[], Floats], ends: str) -> None:
    first = next(iter(sentences(NO_LATENCY, [*alone(4), array(latency(), 4)])))
    assert first.endswith(ends), first


def test_an_array_that_its_drives_do_not_explain_is_named() -> None:
    """One of which each stripe takes twice as long as the slowest of its drives."""
    phases = [*alone(3), array(lock_step(2), 2), array(lock_step(3) * 2, 3)]
    assert [each.holds for each in found_of(phases).lock_step()] == [True, False]
    (text,) = [
        each for each in sentences(NO_LATENCY, phases) if "Arrays of 3 drives are not in the range" in each
    ]
    assert "or their slow times do not meet by chance" in text


def test_a_base_that_is_measured_twice_counts_once() -> None:
    slow = array(lock_step(3) * 2, 3)
    for arrays in ([slow], [slow, slow]):
        (text,) = [each for each in sentences(NO_LATENCY, [*alone(3), *arrays]) if "not in the range" in each]
        assert "Arrays of 3 drives" in text
    queued = [array(drive(n) * 4, n, outstanding=4) for n in (1, 2)]
    phases = [*alone(2), array(drive(7), 1), array(drive(7) * 3, 1), array(lock_step(2), 2), *queued]
    (text,) = [text for text in sentences(NO_LATENCY, phases) if text.startswith("With 4 requests")]
    rates = {
        number: [each.bytes_per_s for each in found_of(phases).lock_step() if each.number == number]
        for number in (1, 2)
    }
    assert len(rates[1]) == 2
    assert text.endswith(f"with one request at a time it is {rates[2][0] / np.mean(rates[1]):.2f} times.")


def test_arrays_that_are_left_out_are_named() -> None:
    phases = [*alone(3), array(lock_step(2), 2), array(lock_step(3)[:90], 3)]
    found = found_of(phases)
    assert [each.number for each in found.arrays] == [2]
    assert list(sentences(NO_LATENCY, phases))[-1] == (
        "Not compared with the drives alone: array-3-1 (fewer than 100 requests)."
    )
    other = array(lock_step(2), 2).model_copy(
        update={
            "name": "others",
            "array": ArrayOf(level="raid0", chunk_bytes=CHUNK, members=("ssd2", "ssd0")),
        }
    )
    phases = [*alone(3), array(lock_step(3), 3), other]
    assert list(sentences(NO_LATENCY, phases))[-1] == (
        "Not compared with the drives alone: others (another load than array-3-1)."
    )


def test_drives_that_lose_nothing_do_not_gain() -> None:
    even = [phase(f"alone-ssd{number}", drive(0)) for number in range(3)]
    said = sentences(NO_LATENCY, [*even, array(lock_step(3), 3)])
    (text,) = [text for text in said if text.startswith("A stripe over 32 drives like these would lose ")]
    assert " 0.0 % if they catch up: " in text and " with a range of 0.0 to " in text


def test_one_stall_does_not_turn_the_bracket_over() -> None:
    stalled = drive(1)
    stalled[500] = 1e5
    phases = [phase("alone-ssd0", drive(0)), phase("alone-ssd1", stalled), array(lock_step(2), 2)]
    for scale in found_of(phases).scales:
        assert 0 < scale.low <= scale.single and scale.whole <= scale.high


def together_and_alone(op: str, alone_name: str) -> pl.DataFrame:
    """Of each of three drives an I/O every 2 ms in its phase alone, and every 4 ms in `together`."""
    rows = [
        {"phase": name, "layer": "device", "host": f"ssd{n}", "op": op, "tier": "all",
         "time_ns": number * every * MS, "lo_ns": 2 * MS, "hi_ns": 2 * MS + 10, "count": 1}
        for n in range(3)
        for name, every in ((f"{alone_name}{n}", 2), ("together", 4))
        for number in range(1000)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA)


def test_only_the_bus_of_the_same_operation_is_asked_about() -> None:
    latency = together_and_alone("read", "alone-read-")
    alone_read = [
        phase(f"alone-read-{n}", drive(n), op="read", hosts=(f"ssd{n}",), in_order_ns=()) for n in range(3)
    ]
    both = phase("together", drive(1) * 2, op="read", hosts=names(3), in_order_ns=())
    phases = [*alone(3), *alone_read, both, array(lock_step(3), 3)]
    assert together.limited(latency, phases) == ["together"]
    found = stripes_of(latency, phases)
    assert found is not None and found.limited == ()


def test_queued_stripes_are_beside_one_drive_with_as_many() -> None:
    """Of N drives that do not wait for one another, the rate is N times that of one."""
    queued = [array(drive(n) * 4, n, outstanding=4) for n in (1, 2, 3)]
    phases = [*alone(3), *(array(lock_step(n), n) for n in (1, 2, 3)), *queued]
    found = found_of(phases)
    assert [each.holds for each in found.queued()[4]] == [None] * 3
    # Little's law: four on their way, each four times as long.
    assert found.queued()[4][0].bytes_per_s == pytest.approx(found.scale(1).mean, rel=0.05)
    (text,) = [text for text in sentences(NO_LATENCY, phases) if text.startswith("With 4 requests")]
    assert "times one drive with 4; with one request at a time it is 2." in text


@pytest.mark.parametrize(
    "phases",
    [
        alone(3),
        [array(lock_step(3), 3)],
        [*alone(2), array(lock_step(3), 3)],
        [*alone(3), array(lock_step(3), 3, level="raid5")],
        [*alone(3), array(lock_step(3), 3, block_bytes=CHUNK)],
        [phase(f"alone-ssd{n}", drive(n, 50)) for n in range(3)] + [array(lock_step(3), 3)],
        [*(each.model_copy(update={"op": "read"}) for each in alone(3)), array(lock_step(3), 3)],
    ],
    ids=["no array", "no drive alone", "a drive missing", "parity", "no whole stripes", "few", "other op"],
)  # fmt: skip
def test_what_cannot_be_compared_says_nothing(phases: list[Phase]) -> None:
    assert stripes_of(NO_LATENCY, phases) is None and not list(sentences(NO_LATENCY, phases))


def test_drives_that_share_a_bus_say_nothing_about_arrays() -> None:
    """Together they are half as fast as alone."""
    drives, latency = alone(3), together_and_alone("write", "alone-ssd")
    both = phase("together", drive(1) * 2, hosts=names(3), in_order_ns=())
    phases = [*drives, both, array(lock_step(3), 3)]
    (text,) = sentences(latency, phases)
    assert text.startswith("Stripes: together was slower than the drives alone")
    assert "arrays are not compared with the drives" in text


def test_the_figure_has_what_was_measured_and_what_is_predicted() -> None:
    phases = [*alone(3), *(array(lock_step(n), n) for n in (1, 2, 3))]
    figure = figures.by_number(found_of(phases))
    (measured,) = [trace for trace in figure.data if trace["name"].startswith("measured, one request")]
    assert measured["x"] == [1, 2, 3] and measured["y"][2] < measured["y"][0]
    predicted = [
        trace
        for trace in figure.data
        if trace["name"].startswith("expected if drives wait") or "catch up" in trace["name"]
    ]
    assert [trace["x"][-1] for trace in predicted] == [32, 32]
    band = next(trace for trace in figure.data if trace.get("fill") == "tonexty")
    assert band["y"][6] < band["y"][2] < 1
    assert len(figure.csv) == 1 + 32 and len({len(row) for row in figure.csv}) == 1
    assert figure.spec["data"]


def test_the_page_says_of_each_array_whether_the_bracket_holds_it() -> None:
    manifest, frame = synthetic.manifest(), synthetic.latency()
    arrays = [array(lock_step(n), n) for n in (1, 2)] + [array(lock_step(3) * 2, 3)]
    manifest["phases"] += [each.model_dump(mode="json") for each in (*alone(3), *arrays)]
    html = synthetic.render(frame, manifest, synthetic.summarise(frame, manifest))
    table = html.partition("Stripes by number of drives, MB/s")[2].partition("</table>")[0]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in table.split("<tr>")[2:]]
    assert [(row[0], row[9]) for row in rows] == [("1", "holds"), ("2", "holds"), ("3", "does not hold")]
    last = found_of([*alone(3), *arrays]).scale(3)
    assert rows[2][6:9] == [f"{v / 1e6:.1f}" for v in (last.single, last.whole)] + [
        f"{last.low / 1e6:.1f} to {last.high / 1e6:.1f}"
    ]


def test_the_strip_shows_who_is_busy_when() -> None:
    def used(name: str, busy_ms: Sequence[int]) -> DeviceUse:
        zero = {"reads": 0, "read_bytes": 0, "read_ns": 0, "writes": 0, "written_bytes": 0, "write_ns": 0}
        samples = tuple(
            DeviceSample(at_ns=number * 10 * MS, busy_ns=sum(busy_ms[:number]) * MS, queue_ns=0, in_flight=0,
                         **zero)
            for number in range(len(busy_ms) + 1)
        )  # fmt: skip
        return DeviceUse(device=name, samples=samples)

    of = array(lock_step(2), 2).model_copy(update={"devices": (used("ssd0", (10, 1)), used("ssd1", (2, 10)))})
    figure = busy.strip(of, "array")
    assert figure is not None
    assert figure.data[0]["y"] == ["ssd1", "ssd0"] and figure.data[0]["z"] == [[0.2, 1.0], [1.0, 0.1]]
    assert (
        "ssd0 55 %, ssd1 60 %" in figure.caption
        and "The busiest, of 2 samples: ssd0 1, ssd1 1" in figure.caption
    )
    assert busy.strip(alone(1)[0], "alone") is None
