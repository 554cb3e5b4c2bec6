"""Known failures: the verdict stays, and the exit code is 0 while nothing is new."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import date
from typing import Any

import pytest

from kit.session.presentation import code_of
from kit.store.checks.known_failures import Known, names_something
from kit.store.checks.outcome import Outcome
from kit.store.summary import Summary
from reports.output.junit import junit
from reports.verdict.known_failures import excused, states_of
from tests.reports import synthetic

SLOW = "EXPECT:read:read:dram:p99_us_max"
ENTRY = {"check": SLOW, "reason": "firmware 1.2 stalls", "issue": "https://example.org/7"}


def summary(known: list[dict[str, Any]], *, slow: bool = True, problem: str = "", lost: int = 0) -> Summary:
    manifest = synthetic.manifest()
    manifest["expect"][0]["p99_us_max"] = 1.0 if slow else 100.0
    manifest["known"] = known
    manifest["phases"][0]["lost_events"] = lost
    if problem:
        manifest["problems"] = [{"code": problem, "text": "it was so"}]
    return Summary.from_json(synthetic.summarise(synthetic.latency(), manifest), "summary")


def outcomes(value: Summary) -> dict[str, str]:
    suite = ET.fromstring(junit(value))[0]
    return {str(case.get("name")): case[0].tag for case in suite if len(case)}


def test_a_known_failure_is_no_red_and_a_new_one_is() -> None:
    known = summary([ENTRY])
    assert (known.verdict, known.is_known, code_of(known)) == ("invalid", True, 0)
    assert "[known: firmware 1.2 stalls (https://example.org/7)]" in known.shown_reasons[0]
    assert outcomes(known) == {"verdict": "skipped", SLOW: "skipped"}
    new = summary([{**ENTRY, "check": "EXPECT:read:read:l2arc:*"}])
    assert (new.is_known, code_of(new)) == (False, 1)
    assert outcomes(new)[SLOW] == "failure"


def test_an_unknown_run_stays_unknown_though_its_reasons_are_known() -> None:
    manifest_known = [{**ENTRY, "check": "THERMAL"}, {**ENTRY, "check": "HOST-HEALTH"}]
    known = summary(manifest_known, slow=False, problem="host-health")
    assert (known.verdict, known.is_known, code_of(known)) == ("unknown", True, 0)
    half = summary(manifest_known, slow=False, problem="host-health", lost=3)
    assert (half.verdict, half.is_known, code_of(half)) == ("unknown", False, 3)
    assert outcomes(half)["LOST-EVENTS"] == "error" and outcomes(half)["HOST-HEALTH"] == "skipped"


def test_one_phase_can_be_named() -> None:
    assert summary([{**ENTRY, "check": "LOST-EVENTS:read"}], slow=False, lost=1).is_known
    assert not summary([{**ENTRY, "check": "LOST-EVENTS:write-pool"}], slow=False, lost=1).is_known


@pytest.mark.parametrize("check", ["*", "NOT-ENDED", "NOT-*"])
def test_a_run_without_an_end_is_never_excused(check: str) -> None:
    manifest = {**synthetic.manifest(), "ended": False, "known": [{**ENTRY, "check": check}]}
    value = Summary.from_json(synthetic.summarise(synthetic.latency(), manifest), "summary")
    assert not value.is_known and code_of(value) == 3 and not value.causes[0].known


def test_an_entry_is_over_after_its_day() -> None:
    failed = Outcome.failed(SLOW, "slow", "read")
    entry = Known(check=SLOW, reason="why", until="2026-11-25")
    for day, state in ((24, "known"), (25, "known"), (26, "over")):
        today = date(2026, 11, day)
        (marked,) = excused([failed], [entry], today)
        (after,) = states_of([entry], [marked], ["read"], today)
        assert (marked.known is not None) == (state == "known") and after.state == state
    value = summary([{**ENTRY, "until": "2020-01-01"}])
    assert code_of(value) == 1 and "counts again" in value.shown_reasons[-1]


def test_an_entry_that_passes_is_to_be_removed() -> None:
    value = summary([ENTRY], slow=False)
    assert value.verdict == "valid" and value.known_notes == (
        f"{SLOW}: passes now: remove it from [[known]].",
    )
    assert outcomes(value) == {f"known: {SLOW}": "skipped"}


@pytest.mark.parametrize(("check", "state"), [
    ("IMPACT", "open"), ("POWER-*", "open"), ("THERMAL", "open"),
    ("LOST-EVENTS:read", "passes"),
])  # fmt: skip
def test_an_entry_of_a_check_that_was_not_made_stays(check: str, state: str) -> None:
    value = summary([{**ENTRY, "check": check}], slow=False)
    assert [each.state for each in value.known] == [state]
    assert ("could not be judged" in value.known_notes[0]) == (state == "open")


@pytest.mark.parametrize("check", ["*", "?*", "*-*", "[A-Z]*", "*:*", "*:read", "*d", "*[!x]*"])
def test_an_entry_of_nearly_every_check_excuses_nothing(check: str) -> None:
    """A stranger's run could excuse itself."""
    for lost, slow, code in ((3, False, 3), (0, True, 1)):
        value = summary([{**ENTRY, "check": check}], slow=slow, lost=lost)
        assert not value.is_known and code_of(value) == code


@pytest.mark.parametrize(("check", "is_there"), [
    (SLOW, True), ("EXPECT:read:*", True), ("THERMAL", True), ("THERMAL:read", True), ("TIER*", True),
    ("THERMAL:write", False), ("EXPECT:read:read:dram:p95_us_max", False), ("NO-SUCH", False),
    ("NOT-ENDED", False), ("thermal", False),
])  # fmt: skip
def test_an_entry_names_a_check_of_the_run(check: str, is_there: bool) -> None:
    wish = {"phase": "read", "op": "read", "tier": "dram", "p99_us_max": 5.0}
    assert names_something(Known(check=check, reason="r"), ["read"], [wish]) is is_there


@pytest.mark.parametrize(
    ("check", "known"),
    [("EXPECT:read:read:dram:min_count", True), ("FEW-IOS:read", True), ("FEW-IOS:write-slog", False)],
)
def test_an_entry_of_an_expectation_is_of_its_too_few_ios(check: str, known: bool) -> None:
    manifest = synthetic.manifest()
    manifest["expect"][0]["min_count"] = 10**6
    manifest["known"] = [{**ENTRY, "check": check}]
    found = Summary.from_json(synthetic.summarise(synthetic.latency(), manifest), "summary")
    assert (found.verdict, found.is_known, code_of(found)) == ("unknown", known, 0 if known else 3)
