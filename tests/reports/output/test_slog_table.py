"""The text of `hsp slog`, and its row."""

from __future__ import annotations

import json

import pytest

from kit.core.errors import ConfigError
from kit.store.printed.slog import SlogTest
from reports.features.slog.write_cache import judge
from reports.output import slog_table
from tests.reports.slog import slog_test


def lines(test: SlogTest) -> list[str]:
    return list(slog_table.text(test, judge(test), 80))


@pytest.fixture
def volatile() -> SlogTest:
    return slog_test("write back", lambda size: 20 + size / 1000, lambda _: 800)


def test_a_row_to_share_says_nothing_of_whose_it_is(volatile: SlogTest) -> None:
    row = slog_table.row(volatile, judge(volatile))
    assert row["model"] == "ACME 1" and row["firmware"] == "F7"
    assert row["power_loss_protection"] == "not-protected"
    assert row["write_flush_512_p999_us"] == pytest.approx(820.5, rel=0.02)
    assert row["write_flush_8388608_p99_us"] is None
    assert row["forces_per_s_4096_4"] == pytest.approx(4854, rel=0.01)
    assert not any(secret in json.dumps(row) for secret in ("S3CR3T", "secret-host", "log0"))


def test_the_state_is_said(volatile: SlogTest) -> None:
    aged = {"kind": "aged", "filled_bytes": 2 << 30, "aged_in": "r1"}
    for state, words in (
        ({"kind": "as-found"}, "as it was found"),
        ({"kind": "fresh", "purge": "blkdiscard"}, "fresh: purged with blkdiscard"),
        (aged, "aged: 2 times its capacity was written (in run r1)"),
    ):
        test = SlogTest.from_json({**volatile.as_json(), "state": state}, "x")
        assert lines(test)[0] == f"ACME 1, firmware F7, 1 GiB, {words}"


def test_what_is_stored_is_read_again(volatile: SlogTest) -> None:
    stored = json.loads(json.dumps(volatile.as_json()))
    assert SlogTest.from_json(stored, "x") == volatile
    with pytest.raises(ConfigError, match="format"):
        SlogTest.from_json({**stored, "format": 2}, "x")
    with pytest.raises(ConfigError, match=r"forces\[0\]"):
        SlogTest.from_json({**stored, "forces": [{}]}, "x")


def test_names_of_a_hostile_host_are_inert(volatile: SlogTest) -> None:
    device = {**volatile.device.as_json(), "model": "\x1b[31mred", "firmware": "a\nb", "write_cache": "\x07"}
    test = SlogTest.from_json({**volatile.as_json(), "device": device, "kernel": "\x1b]0;t\x07"}, "x")
    assert all(line.isprintable() for line in lines(test))


def test_several_devices_stand_side_by_side(volatile: SlogTest) -> None:
    """Of 16 threads there is no test here; names of the host are inert."""
    fast = slog_test("write through", lambda size: 20, lambda _: 0, name="fast\x1b[2J")
    found = list(slog_table.side_by_side([(test, judge(test)) for test in (fast, volatile)], 100))
    assert not any("\x1b" in line for line in found)
    first, second = (next(line.split() for line in found if f" {name}" in line) for name in ("fast", "log0"))
    assert float(first[-8]) == pytest.approx(20, rel=0.03)
    assert float(second[-8]) == pytest.approx(824, rel=0.03)
    assert second[-1] == "-" and found[-1].endswith(judge(volatile).sentence)
