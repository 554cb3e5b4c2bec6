"""The buyer's sheet beside what the buyer has: a drive is replaced for a gain, or a need that is not met."""

import math

import pytest

from reports.sheet.evidence import ServedLatency
from reports.sheet.facts import DriveFacts
from reports.sheet.speedup import changes
from reports.statistics.ratios import Realisation
from tests.reports import candidates
from tests.reports.candidates import FRESH, column, several

pytestmark = pytest.mark.slow

LIMIT = 'today = "a"\nsync_write_p99 = "900us"'
BUDGET = 'today = "a"\nbudget = "900 EUR"'
NO_AGE, FEW = {"precondition": FRESH}, {"ios": 300}


@pytest.mark.parametrize(
    ("text", "drives", "changes", "decision", "words"),
    [
        # Slower in what decides.
        (BUDGET, {"a": {}, "b": {"write": 600.0, "read": 900.0}}, {}, "worse", "the L2ARC 8."),
        (LIMIT, {"a": {}, "b": {"tail": 3}}, {}, "worse", "Do not buy it: against what you have (a)"),
        # What today costs is paid.
        (BUDGET.replace("900", "100"), {"a": {}, "b": {"price": "9 EUR", "write": 90.0}}, {}, "worse", ""),
        ('budget = "900 EUR"', {"b": {"write": 16e3, "read": 9e3}}, {}, "worse", "the same pool without"),
        # Faster in one figure and slower in another.
        (BUDGET, {"a": {}, "b": {"write": 20.0, "read": 900.0}}, {}, "worse",
         "shorter, but p99 of reads from the L2ARC 8."),
        (BUDGET, {"a": {"tail": 20}, "b": {"write": 90.0}}, {}, "worse",
         "shorter, but median of synchronous writes 1.5"),
        (f'{BUDGET}\nsync_write_p99 = "99us"', {"a": {"write": 160.0}, "b": {"read": 900.0}}, {}, "buy",
         "times longer; what you have (a) does not meet: synchronous write, p99. "),
        # Neither is known.
        (BUDGET, {"a": {}, "b": {"tail": 20}}, FEW, "cannot-tell", "at least 368 synchronous writes"),
        (BUDGET, {"a": {}, "b": {"tail": 20, "write": 40.0}}, FEW, "cannot-tell", "at least 368"),
        (BUDGET, {"a": {}, "b": {"write": 20.0}}, NO_AGE, "cannot-tell", "What would tell: aged drives."),
        (BUDGET, {"a": {}, "b": {"read": None}}, {}, "cannot-tell", "a run of both with reads"),
        (BUDGET, {"a": {}, "b": {"write": 64.5}}, {}, "cannot-tell", "three runs of each (`--rep"),
        # What has no log device today is compared with the pool's disks.
        (BUDGET, {"a": {"write": None}, "b": {}}, {}, "buy", "synchronous writes 13"),
        (BUDGET, {"a": {}, "b": {"write": None, "read": 50.0}}, {}, "worse", "but p99 of synchronous"),
        (f'{BUDGET}\nsync_write_p99 = "99us"', {"a": {"write": None}, "b": {"read": 900.0}}, {}, "buy",
         "does not meet: synchronous write, p99. "),
    ],
)  # fmt: skip
def test_today_is_replaced_for_a_gain_or_a_need_that_it_does_not_meet(
    tmp_path, monkeypatch, text, drives, changes, decision, words
):
    changes = {**changes}
    monkeypatch.setattr(candidates, "IOS", changes.pop("ios", 8000))
    sheet = several(tmp_path, text, changes, **drives)
    found = column(sheet, "b")
    assert (found.decision, words in found.sentence) == (decision, True), found.sentence
    advice = {
        "buy": "Buy b (TLC): it meets",
        "worse": f"Buy none of them{': keep what you have (a)' if 'a' in drives else ''}.",
        "cannot-tell": "No candidate can be advised yet: the change for clients is not known of b.",
    }[decision]
    assert sheet.advice.startswith(advice) and sheet.choice == ("b" if decision == "buy" else None)


def test_of_several_the_sheet_says_what_is_slower_than_today(tmp_path):
    """Those that tie are as bad; of those that have what today lacks it names what is lost."""
    sheet = several(tmp_path, BUDGET, {}, a={"write": 20.0}, b={}, c={})
    assert (
        sheet.advice.startswith("Buy none of them: keep what you have (a). This is from 1 run of each")
        and sheet.choice is None
    )
    text, slow = f'{BUDGET}\nread_p99 = "200us"', {"write": 600.0, "price": "45 EUR"}
    sheet = several(tmp_path / "more", text, {}, a={"read": 400.0}, b=slow, c={"price": "46 EUR"})
    assert "the cheapest of 2" in sheet.advice
    assert "Against what you have (a), b: p99 of synchronous writes 10.0 times longer." in sheet.advice


@pytest.mark.parametrize("slow", ["mine", "other"])
def test_a_cpu_that_was_the_limit_is_no_loss_of_the_drive(slow):
    def of(us, bound):
        known = {name: (Realisation(math.log(us), 0.02),) for name in ("p50", "p99")}
        return ServedLatency("w", 4000, 1, (1.0,), None, known, cpu_bound=bound)

    sides = {"mine": (of(90.0, True), of(60.0, False)), "other": (of(60.0, False), of(90.0, True))}[slow]
    facts = DriveFacts(None, None, {}, {"log": sides[0], "cache": None}, {}, {})
    (found,) = changes(facts, {"log": sides[1], "cache": None}, 0.05)
    assert not found.differs and found.same is None and "no CPU" in found.tells


def test_a_withheld_p99_is_not_the_same(tmp_path, monkeypatch):
    """Today one write in fifty takes 20 times as long, which 300 I/Os do not show at p99."""
    monkeypatch.setattr(candidates, "IOS", 300)
    sheet = several(tmp_path, 'today = "a"\nbudget = "900 EUR"', {}, a={"tail": 20}, b={})
    found = column(sheet, "b")
    assert found.decision == "cannot-tell" and "whether clients would see a change" in found.sentence
    assert "Buy none" not in sheet.advice


def test_what_today_lacks_is_a_reason_to_buy(tmp_path):
    """As fast as today, whose model loses writes."""
    drives = {"a": {"model": "liar"}, "b": {}}
    text = 'today = "a"\nlog_size = "60MB"\nsame_within = 0.06'
    assert column(several(tmp_path, text, {}, **drives), "b").decision == "no-change"
    drives["a"]["endurance_bytes"] = 10**12
    text += '\nyears = 5\nwritten_per_day = "10GB"'
    found = column(several(tmp_path / "more", text, {}, **drives), "b")
    assert found.decision == "buy" and "as fast, and has not: log device, years" in found.sentence
