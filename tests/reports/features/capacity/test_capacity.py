"""What a run says of an open loop and of a search."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.bins import bin_index
from kit.store.load.open_loop import CapacityRow, CapacitySearch, CapacityStep, OpenLoop
from kit.store.manifest import Manifest
from kit.store.parts.forces import Latencies
from reports.features.capacity.judge import FEATURE, describe, sentence, sentences
from reports.features.capacity.section import curve
from tests.truth.made_up import phase_of

LIMIT_NS = 1_000_000


def latencies(us: int, ios: int) -> Latencies:
    """All of one length, but for one I/O in fifty that takes ten times as long."""
    slow = ios // 50
    bins = {int(bin_index(us * 1000)): ios - slow, int(bin_index(us * 10_000)): slow}
    return Latencies(
        sum_ns=us * 1000 * (ios - slow) + us * 10_000 * slow, min_ns=us * 1000, max_ns=us * 10_000,
        bins=tuple(sorted(bins.items())),
    )  # fmt: skip


def load_of(rate: float, us: int, above: int = 0, unstarted: int = 0, actual_us: int = 0) -> OpenLoop:
    ios = 5000 - unstarted
    return OpenLoop(
        op="write", block_bytes=4096, threads=64, rate_per_s=rate, elapsed_ns=10**9, limit_ns=LIMIT_NS,
        due=5000, unstarted=unstarted, above=above, slow=above, batches=((5000, above, above),),
        intended=latencies(us, ios), actual=latencies(actual_us or us, ios), late=latencies(1, ios),
    )  # fmt: skip


def row_of(load: OpenLoop, found: CapacitySearch | None = None) -> CapacityRow:
    phase = phase_of("writes", 0, 10**9, 10**8).model_copy(update={"open": load, "capacity": found})
    manifest = Manifest.from_json({"phases": [phase.as_json()]}, "test")
    (row,) = describe(manifest)
    return row


def step_of(rate: float, us: int, judged: Any, purpose: Any = "ramp", **more: int) -> CapacityStep:
    return CapacityStep(purpose=purpose, judged=judged, low=0.0, high=0.1, load=load_of(rate, us, **more))


STEPS = (
    step_of(800, 50, "keeps"), step_of(1600, 500, "breaks", above=4000), step_of(100, 20, "keeps"),
    step_of(800, 60, "keeps", "confirm"),
)  # fmt: skip


def search_of(**keys: Any) -> CapacitySearch:
    return CapacitySearch(**{"p99_max_ns": LIMIT_NS, "steps": STEPS, **keys})


FOUND = {"end": "found", "rate_per_s": 800.0, "broken_per_s": 1600.0}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (FOUND, "up to 800 O_DSYNC writes of 4 KiB a second keep p99 within 1 ms; 1,600 a second do not"),
        ({"end": "beyond", "rate_per_s": 800.0}, "writes: 800 O_DSYNC writes of 4 KiB a second keep p99"),
        ({"end": "below"}, "even 100 O_DSYNC writes of 4 KiB a second do not keep p99 within 1 ms: p99 is"),
        ({"end": "unknown", "why": "it is late", "rate_per_s": 100.0}, "not known: it is late. 100 a second"),
    ],
)  # fmt: skip
def test_the_sentence_is_the_answer(keys: dict[str, Any], said: str) -> None:
    row = row_of(load_of(800, 60), search_of(**keys))
    assert said in sentence(row)


def test_rates_are_in_order_with_the_confirmation_last_and_a_knee() -> None:
    row = row_of(load_of(800, 60), search_of(**FOUND))
    assert [(each.rate_per_s, each.confirms) for each in row.points] == [
        (100, False), (800, False), (800, True), (1600, False),
    ]  # fmt: skip
    assert row.points[0].p99_us == pytest.approx(200, rel=0.04)
    assert row.knee_per_s == 800, "p99 is 500 there, and was 200"
    unknown = row_of(load_of(800, 60), search_of(end="unknown", why="it is not the same all the time"))
    assert unknown.points == row.points and unknown.knee_per_s is None
    figure = curve(row, "Writes")
    assert [trace["name"] for trace in figure.data][:4] == ["p50", "p99", "p99.9", "p50, actual start"]
    assert figure.data[1]["x"] == [100, 800, 1600], "one point a rate, that of the confirmation"
    assert figure.data[1]["y"][1] == pytest.approx(600e-6, rel=0.04)
    assert "Knee: from 800" in figure.caption and len(figure.layout["shapes"]) == 3


def test_what_never_started_has_no_percentile() -> None:
    row = row_of(load_of(800, 60, above=100, unstarted=100))
    (point,) = row.points
    assert point.p99_us is None and point.p50_us and point.actual_p99_us
    assert "never started" in sentence(row) and row.end is None


def test_one_rate_says_what_a_closed_loop_would_not_see() -> None:
    assert "as closed loops measure, 598 µs" in sentence(row_of(load_of(800, 90, actual_us=60)))
    assert "as closed loops" not in sentence(row_of(load_of(800, 60)))


def test_an_unknown_capacity_makes_the_run_unknown() -> None:
    outcomes = {}
    for name, keys in (("found", FOUND), ("unknown", {"end": "unknown", "why": "late"})):
        phase = phase_of("writes", 0, 10**9, 10**8).model_copy(
            update={"open": load_of(800, 60), "capacity": search_of(**keys)}
        )
        manifest = Manifest.from_json({"phases": [phase.as_json()]}, "test")
        (outcomes[name],) = FEATURE.judge(manifest, None, ()).outcomes  # type: ignore[arg-type]
    assert (outcomes["found"].holds, outcomes["unknown"].makes) == (True, "unknown")


def test_the_phase_is_named_where_another_has_the_same_ios() -> None:
    row = row_of(load_of(800, 60), search_of(**FOUND))
    assert [text.split(" ")[0] for text in sentences([row])] == ["Up"]
    assert [text.split(" ")[0] for text in sentences([row, row])] == ["writes:", "writes:"]
