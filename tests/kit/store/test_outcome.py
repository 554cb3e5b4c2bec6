"""An outcome says one thing: it holds, it does not, or it was not judged, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import ConfigError
from kit.store.checks.outcome import Outcome, Tally


@pytest.mark.parametrize(("changes", "problem"), [
    ({"makes": "invalid"}, "holds is true, makes is invalid"),
    ({"known": {"check": "LOST-EVENTS", "reason": "r"}}, "known is LOST-EVENTS"),
    ({"open": "not known"}, "open is not known, and holds is True"),
    ({"open": "perhaps", "holds": None}, "open"), ({"holds": "yes"}, "holds"), ({"id": 3}, "id"),
])  # fmt: skip
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Outcome.from_json({"id": "LOST-EVENTS", "holds": True, **changes}, "summary.json")


def test_the_list_of_ids_says_what_a_run_is() -> None:
    made = [
        Outcome.failed(id_, "x") for id_ in ("LOST-EVENTS", "IMPACT", "EXPECT:a:read:dram:min_count", "NEW")
    ]
    assert [each.makes for each in made] == ["unknown", "invalid", "invalid", "unknown"]


def test_one_count() -> None:
    outcomes = [
        Outcome.ok("LOST-EVENTS"), Outcome.failed("NFS-CALLS", "open", "read"),
        Outcome.absent("TRIM", "not available", "why", "read"), Outcome.absent("IMPACT", "not asked for"),
        Outcome.unknown("FAULT-UNJUDGED", "too few"), Outcome.unknown("APPLIANCE", "by nature"),
        Outcome.ok("EXPECT:a:read:dram:min_count", "a"),
        Outcome.failed("EXPECT:a:read:dram:p99_us_max", "slow", "a"),
        Outcome.absent("EXPECT:b:read:dram:min_count", "not available", "not traced", "b"),
    ]  # fmt: skip
    assert Tally.of(outcomes) == Tally(made=5, hold=2, unavailable=1, asked=2, met=1, unjudged=1)
    assert Tally.of(outcomes).words == "2 of 5 checks hold, 1 of 2 expectations among them"
    assert Tally.of([Outcome.ok("LOST-EVENTS")]).words == "1 of 1 checks hold"
