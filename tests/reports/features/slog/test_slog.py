"""A run of the phases of `hsp slog`: its sentence, its tables, and the result that is made of it again."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import ConfigError
from kit.store.printed.slog import SlogState, SlogTest
from kit.store.summary import Summary
from reports.devices.slog import slog_tests
from reports.features.slog.judge import FEATURE
from reports.features.slog.rows import identity, state
from reports.features.slog.write_cache import judge
from tests.reports import slog, synthetic


@pytest.fixture
def volatile() -> SlogTest:
    return slog.slog_test("write back", lambda size: 20 + size / 1000, lambda _: 800)


def of_run(made: dict[str, Any]) -> list[SlogTest]:
    return [*slog_tests(synthetic.parsed(made))]


def test_a_run_has_the_result_of_its_device(volatile: SlogTest) -> None:
    assert of_run(slog.manifest_of(volatile)) == [volatile]
    unnamed = {"model": "", "serial": "", "transport": ""}
    emulated = slog.slog_test("write back", lambda _: 20, lambda _: 800, emulated="TLC", **unnamed)
    assert of_run(slog.manifest_of(emulated)) == [emulated]


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        ({"method": "purge", "purge": {"method": "blkdiscard"}}, {"kind": "fresh", "purge": "blkdiscard"}),
        (
            {"method": "fills", "proven_bytes": 2 << 30},
            {"kind": "aged", "filled_bytes": 2 << 30, "aged_in": None},
        ),
        (
            {"method": "snia", "proven_bytes": 3 << 30, "aged_in": {"run": "r0"}},
            {"kind": "aged", "filled_bytes": 3 << 30, "aged_in": "r0"},
        ),
        ({"device": "cache0"}, {"kind": "as-found"}),
    ],
)
def test_its_state_is_what_the_run_did_before(
    volatile: SlogTest, entry: dict[str, Any], state: dict[str, Any]
) -> None:
    made = slog.manifest_of(volatile) | {"precondition": {"devices": [{"device": "log0", **entry}]}}
    assert of_run(made)[0].state.as_json() == state


@pytest.mark.parametrize("devices", ["log0", [1, "log0"], [{"device": "log0", "aged_in": 3, "purge": []}]])
def test_a_damaged_state_is_no_traceback(volatile: SlogTest, devices: Any) -> None:
    [test] = of_run(slog.manifest_of(volatile) | {"precondition": {"devices": devices}})
    assert test.state.kind in ("as-found", "aged")
    with pytest.raises(ConfigError, match=r"filled_bytes"):
        entry = {"device": "log0", "proven_bytes": "many"}
        of_run(slog.manifest_of(volatile) | {"precondition": {"devices": [entry]}})


def test_a_device_without_commands_that_write_nothing_is_not_judged() -> None:
    test = slog.slog_test("write back", lambda _: 20, lambda _: 800, idle_us=None, read_us=None)
    assert of_run(slog.manifest_of(test)) == []


def test_the_sentence_is_the_answer_and_the_page_has_the_tables(volatile: SlogTest) -> None:
    made, frame = slog.manifest_of(volatile), slog.latency_of(volatile)
    summary = synthetic.summarise(frame, made)
    cache = judge(volatile)
    assert summary["slog"] == [
        {"device": "log0", "code": "not-protected", "sentence": cache.sentence, "why": cache.why}
    ]
    # A sentence for each phase would say the table again; commands that write nothing are no forced writes.
    assert not any("records/s" in note for note in summary["notes"])
    assert {row["method"] for row in summary["forces"]} == {"fdatasync", "open_datasync", "open_sync"}
    assert [*FEATURE.lines(Summary.from_json(summary, "summary"))] == [f"{cache.why}."]
    page = synthetic.render(frame, made, summary)
    assert "As a log device" in page and page.count(cache.sentence) >= 2
    # Which device it is, on the first screen.
    assert f"{identity(volatile)}, as it was found. One write at a time." in page
    assert '<th scope="row">4 KiB</th>' in page and "FLUSH with nothing to write: p50" in page


def test_an_aged_device_without_a_size_is_no_traceback(volatile: SlogTest) -> None:
    device = volatile.device.model_copy(update={"size_bytes": 0})
    aged = SlogState(kind="aged", filled_bytes=1 << 30)
    assert state(volatile.model_copy(update={"device": device, "state": aged})).startswith("aged: ")


def test_names_of_a_hostile_run_are_escaped() -> None:
    test = slog.slog_test("write back", lambda _: 20, lambda _: 800, name="<b>log0</b>")
    made, frame = slog.manifest_of(test), slog.latency_of(test)
    assert "<b>log0" not in synthetic.render(frame, made, synthetic.summarise(frame, made))
