"""Trends of synthetic points with a known truth: order, marks, change points, checks, refusals."""

import re
import xml.etree.ElementTree as ET

import pytest

from kit.core.errors import ConfigError
from kit.core.text import NO_BREAK
from reports.figures.runs.trend import figures
from reports.output import trend_table
from reports.page import trend_page
from reports.trend.analyse import trend_of
from reports.trend.as_json import as_json
from reports.trend.check_history import Stand
from reports.trend.recorded_changes import version_labels
from reports.trend.sentences import headline, remarks, sentences, statement
from reports.trend.slower_limit import gate, reasons
from tests.reports.trend.points import DEVICE, P50, RATE, VERSIONS, firmware, point


def test_a_slower_firmware_is_found_between_its_runs_and_so_is_its_repair():
    trend = trend_of(VERSIONS[::-1])
    assert [point.run for point in trend.points] == [f"run{n}" for n in range(1, 10)]
    for line in trend.lines:
        slower, faster = line.changes
        assert (slower.at, slower.worse, slower.mended) == (3, True, True)
        assert (faster.at, faster.worse) == (6, False)
        truth = 1.33 if line.key != RATE else 1 / 1.33
        assert slower.interval[0] <= truth <= slower.interval[1]
        assert [str(mark) for mark in slower.marks] == ["firmware of log0 1.0 \N{RIGHTWARDS ARROW} 1.1"]
    told = sentences(trend)
    text = next(each for each in told if "read: p50 of reads, disk, at the NFS server rose by 3" in each)
    assert text.startswith("Between run3 and run4 (firmware of log0 1.0") and "brings it back" in text
    assert "95 %" in text
    arrow = "\N{RIGHTWARDS ARROW}"
    assert headline(trend) == (
        "Now, as far as these runs show, all 3 figures that moved are back at the past level; p50 of reads "
        f"from disk was 31.7 % higher from 2026-11-04 (firmware of log0 1.0 {arrow} 1.1) until 2026-11-07 "
        f"(firmware of log0 1.1 {arrow} 1.2)."
    )


def test_the_ratio_of_the_higher_ring_stands_above():
    (drawn,) = (figure for layer, figure in figures(trend_of(VERSIONS)) if layer == "nfs-server")
    rings = [trace for trace in drawn.data if trace.get("mode") == "markers+text"]
    first = {trace["textposition"][0]: trace["y"][0] for trace in rings if trace["yaxis"] == "y"}
    assert len(first) == 2 and first["top right"] > first["bottom right"]


def test_a_change_where_nothing_was_recorded_and_a_mark_without_a_change_are_both_said():
    kernel = {"versions.kernel": "6.13"}
    points = [
        *(point(n) for n in (1, 2, 3)), *(point(n, 1.5) for n in (4, 5, 6)),
        *(point(n, 1.5, settings=kernel) for n in (7, 8, 9)),
    ]  # fmt: skip
    told = sentences(trend_of(points))
    moved = [each for each in told if each.startswith("Between run3 and run4 (nothing recorded changed): ")]
    assert len(moved) == 3
    quiet = [each for each in told if each.startswith("kernel 6.12")]
    assert len(quiet) == 1 and "between run6 and run7: no change found" in quiet[0]
    assert "would have been found in nine of ten cases" in quiet[0]


def test_too_few_runs_claim_nothing_and_say_so():
    three = [point(1), point(4, 1.3, settings=firmware("1.1")), point(7, settings=firmware("1.2"))]
    trend = trend_of(three)
    assert all(line.changes is None for line in trend.lines) and gate(trend, 0.1).outcome == "open"
    assert headline(trend) == "3 runs are too few to tell whether any of 3 figures moved."
    told = " ".join(sentences(trend))
    assert "it cannot be told whether a figure moved there" in told and "at least twice" in told
    low, high = trend.lines[0].now_to_past.range
    assert low < 0.8 and high > 1.3
    assert 'skipped="3"' in trend_table.junit(trend, gate(trend, 0.1)).decode()


def test_versions_with_several_runs_are_told_how_many_would_tell():
    """Not to measure each version twice, which they have been."""
    points = [*(point(n) for n in (1, 2)), *(point(n, 1.3, settings=firmware("1.1")) for n in (3, 4))]
    told = " ".join(sentences(trend_of(points)))
    assert "2 of 3 figures have too few runs to tell: about " in told and "twice." not in told
    needed = int(re.search(r"about (\d+) runs would tell a change to twice or half", told)[1])
    assert needed > 4
    # So it is: with as many nothing is left open.
    whole = trend_of([point(n) for n in range(1, needed + 1)])
    assert len(whole.judged) == 3
    two = " ".join(sentences(trend_of(points[:2])))
    assert "have too few runs to tell: about " in two


def test_without_two_runs_of_one_setting_no_number_of_runs_is_told():
    """How they scatter is not known: that 100 would not tell is not, either."""
    cache = f"{DEVICE}settings.write_cache"
    changed = ({cache: "write back"}, {cache: "write through"}, firmware("1.1"))
    told = " ".join(sentences(trend_of([point(n, settings=each) for n, each in enumerate(changed, 1)])))
    assert "too few runs to tell: measure each version and setting at least twice." in told


def test_runs_that_scatter_by_far_would_never_tell():
    told = " ".join(sentences(trend_of([point(1), point(2, 300.0), point(3, 0.01)])))
    assert "as they scatter, 100 runs would not tell a change to twice or half" in told


def test_two_runs_that_are_apart_are_both_named():
    for other in (1.5, 1 / 1.5):
        points = [point(n, {3: 1.5, 8: other}.get(n, 1.0)) for n in range(1, 11)]
        trend = trend_of(points)
        (line,) = [line for line in trend.lines if line.key == P50]
        assert [at for at, _ in line.odd] == [2, 7] and not line.moved
        told = " ".join(sentences(trend))
        assert "run3 is apart in" in told and "run8 is apart in" in told


def test_two_runs_side_by_side_may_be_a_level_and_are_not_taken_out():
    points = [point(n, 1.5 if n in (9, 10) else 1.0) for n in range(1, 11)]
    (line,) = [line for line in trend_of(points).lines if line.key == P50]
    assert not line.odd and [change.at for change in line.changes] == [8]


def test_unknown_runs_are_shown_and_not_used():
    points = [*VERSIONS[:3], point(30, 9.0, trusted=False)]
    trend = trend_of(points)
    assert all(line.used == (0, 1, 2) and line.values[3] for line in trend.lines)
    assert not any(line.changes for line in trend.lines)
    assert "Left out (result unknown): run30." in sentences(trend)


def test_a_rate_that_falls_is_worse_and_a_latency_that_falls_is_not():
    fast = trend_of([*(point(n, 1.5) for n in (1, 2, 3)), *(point(n) for n in (4, 5, 6))])
    assert [change.worse for line in fast.lines for change in line.changes] == [False] * 3
    slow = trend_of([*(point(n) for n in (1, 2, 3)), *(point(n, 1.5) for n in (4, 5, 6))])
    assert [change.worse for line in slow.lines for change in line.changes] == [True] * 3
    assert len(gate(slow, 0.1).of("fails")) == 3 and gate(slow, 0.7).outcome == "holds"
    assert gate(fast, 0.1).outcome == "holds"
    # One that a later firmware mended no longer counts.
    assert gate(trend_of(VERSIONS), 0.1).outcome == "holds"


@pytest.mark.parametrize("key", ["phases.read.duration", "workload", f"{DEVICE}size_bytes", "nfs.transport"])
def test_runs_that_measured_something_else_are_refused_with_key_and_values(key):
    other = point(2, settings={key: 4711})
    with pytest.raises(ConfigError) as refused:
        trend_of([point(1), other])
    assert (
        key in refused.value.message and "4711" in refused.value.message and "run2" in refused.value.message
    )
    assert "--across" in refused.value.hint
    trend = trend_of([point(1), other], across=[key])
    assert [mark.what for mark in trend.marks] == [key]


def test_every_recorded_kind_of_change_is_a_mark():
    changed = {
        "versions.hsp": "0.2.0", "versions.kernel": "6.13", "versions.zfs": "2.4", "versions.server": "13.1",
        f"{DEVICE}settings.firmware": "1.1", f"{DEVICE}settings.driver": "megaraid",
        f"{DEVICE}settings.write_cache": "write through", f"{DEVICE}settings.scheduler": "bfq",
        f"{DEVICE}parameters.ssd.read": 5, "clock.kind": "virtual", "clock.dilation": 8,
        "host.hpssacli show": "off", "nfs.version": "4.2", "machines.server.zfs.zfs_nocacheflush": "1",
    }  # fmt: skip
    before = {key: "old" for key in changed}
    names = {"hpssacli show": "accelerator"}
    first, second = point(1, settings=before, names=names), point(2, settings=changed, names=names)
    found = [mark.what for mark in trend_of([first, second]).marks]
    assert sorted(found) == sorted([
        "hsp", "kernel", "OpenZFS", "version of the server", "firmware of log0", "driver of log0",
        "write cache of log0", "scheduler of log0", "model of log0", "clock", "dilation of the clock",
        "NFS version", "accelerator", "zfs_nocacheflush of the server",
    ])  # fmt: skip


def test_by_version_runs_of_one_version_stand_together():
    late = point(20, 1.33, settings=firmware("1.1"), failed=True)
    trend = trend_of([*VERSIONS, late], "version")
    assert trend.labels == ("1.0",) * 3 + ("1.1",) * 4 + ("1.2",) * 3
    assert trend.points[6].run == "run20"
    assert {change.at for line in trend.lines for change in line.changes} == {3, 7}
    assert trend.checks[0].words == "new at 1.1, mended at 1.2"
    # Again within a version: the run is told.
    again = trend_of([*VERSIONS, point(21, 1.33, settings=firmware("1.2"), failed=True)], "version")
    assert again.checks[0].words == "new at 1.1, mended at 1.2, failed again at 1.2 (run21)"


def test_of_one_version_it_is_said_once_and_runs_stand_by_time():
    one = trend_of([*VERSIONS[:2], point(3, failed=True)], "version")
    assert one.by == "time" and one.labels == tuple(each.started_utc for each in one.points)
    assert one.checks[0].words == "new at run3"
    assert [each for each in remarks(one) if "one version" in each] == [remarks(one)[0]]
    assert not any("one version" in each for each in remarks(trend_of(VERSIONS, "version")))


def test_checks_have_a_history_over_the_runs():
    trend = trend_of(VERSIONS)
    (check,) = trend.checks
    assert check.words == "new at run4, mended at run7" and not check.failing
    (failing,) = trend_of(VERSIONS[:6]).checks
    assert failing.words == "new at run4" and failing.failing
    (first,) = trend_of(VERSIONS[3:]).checks
    assert first.words == "failed since run4, the first, mended at run7"


def test_a_known_failure_is_no_failure_and_a_new_one_is():
    known = {"outcomes": {"EXPECT:a": Stand("known", "slow [known: see 12]"), "SUMS:read": Stand("met")}}
    new = {"outcomes": {"EXPECT:a": Stand("known", "slow"), "SUMS:read": Stand("failed", "open")}}
    trend = trend_of([point(1), point(2, **known), point(3, **new)])
    first, second = trend.checks
    assert (first.words, first.failing, first.known) == (
        "known since run2, the first that tells",
        False,
        True,
    )
    assert (second.words, second.failing) == ("new at run3", True)
    root = ET.fromstring(trend_table.junit(trend, None))
    kinds = {case.get("name"): [part.tag for part in case] for case in root.iter("testcase")}
    assert kinds["EXPECT:a"] == ["skipped"] and kinds["SUMS:read"] == ["failure"]


def test_junit_has_a_case_for_each_figure_and_check():
    slow = trend_of(VERSIONS[:6])
    root = ET.fromstring(trend_table.junit(slow, gate(slow, 0.1)))
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == [
        "nfs-server read/disk p50", "nfs-server read/disk p99", "client read/all ios_per_s", "expect read"
    ]  # fmt: skip
    mended = trend_of(VERSIONS)
    mended = ET.fromstring(trend_table.junit(mended, gate(mended, 0.1)))
    assert [case for case in mended.iter("testcase") if case.find("failure") is not None] == []


def test_one_run_a_run_twice_and_a_run_without_a_time_are_refused():
    for points, words in (
        ([point(1)], "two runs"), ([point(1), point(1)], "the same run"),
        ([point(1), point(2, started_utc="yesterday")], "no time"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            trend_of(points)


def test_json_and_page_say_the_same():
    trend = trend_of(VERSIONS)
    value = as_json(trend, gate(trend, 0.1))
    assert value["headline"] == headline(trend) and len(value["figures"]) == 3
    assert value["gate"]["outcome"] == "holds" and value["gate"]["reasons"] == []
    assert {each["gate"] for each in value["figures"]} == {"holds"}
    first = value["figures"][0]["changes"][0]
    assert (
        first["between"] == ["run3", "run4"] and first["interval"][0] < first["ratio"] < first["interval"][1]
    )
    html = trend_page.render(trend, gate(trend, 0.1))
    assert headline(trend) in html.replace(NO_BREAK, " ") and value["gate"]["verdict"] in html


def test_foreign_text_is_escaped_on_the_page_and_made_safe_on_the_terminal():
    attack = "</script><script>window.hit=1</script>\x1b[2J"
    points = [point(1), point(2, run=attack, settings=firmware(attack), failed=True)]
    trend = trend_of(points)
    html = trend_page.render(trend)
    assert "<script>window.hit" not in html
    assert "\x1b" not in "\n".join(trend_table.plain(trend, 80)) + trend_table.markdown(trend)


def test_all_runs_that_are_unlike_the_first_are_named():
    other = [point(n, settings={"workload": "other"}) for n in range(2, 10)]
    with pytest.raises(ConfigError) as refused:
        trend_of([point(1), *other, point(10)])
    assert "run1 (A) and results/w/run2 (B)" in refused.value.message
    assert (
        "also results/w/run3, results/w/run4, results/w/run5, results/w/run6, results/w/run7 and 2 more"
        in refused.value.message
    )


def test_a_change_that_no_run_could_show_has_no_number():
    texts = [statement(line) for line in trend_of([point(n) for n in (1, 2, 3)]).lines]
    assert all(text.startswith("too few runs to tell") and "e+" not in text for text in texts)


def test_it_says_what_was_measured() -> None:
    """Foreign text in each form has no markup and no control characters."""
    found = trend_of([point(n, title="Reads <b>\x1b[31m") for n in (1, 2)])
    assert found.title == "Reads <b>\x1b[31m" == as_json(found)["title"]
    (first, *_) = trend_table.plain(found, 80)
    assert first.startswith("Reads <b>") and "\x1b" not in first
    page = trend_page.render(found)
    assert "Reads &lt;b&gt;" in page and "Reads <b>" not in page
    assert "\n\n**2 runs are too few" in trend_table.markdown(found)
    assert trend_of([point(1), point(2)]).title == ""


def test_a_setting_that_is_called_as_a_firmware_is_none():
    points = [
        point(number, settings={"host.fw": version}, names={"fw": "firmware of the switch"})
        for number, version in ((1, "1"), (2, "2"))
    ]
    assert version_labels(points) == ["firmware of the switch 1", "firmware of the switch 2"]
    assert version_labels([point(1), point(2, settings=firmware("1.1"))]) == ["1.0", "1.1"]


def runs_of(factors):
    return trend_of([point(number, factor) for number, factor in enumerate(factors, 1)])


@pytest.mark.parametrize(("factors", "outcome", "moved"), [
    ([1.02**n for n in range(12)], "fails", "slower"),
    ([1.0] * 12, "holds", ""),
    ([1.0] * 5 + [1.08] * 5 + [1.166] * 5, "fails", "slower"),
    ([1.0] * 4 + [1.3] * 4 + [1.0] * 4, "holds", "back"),
    ([1.0] * 4 + [0.7] * 4 + [0.85] * 4, "fails", "slower"),
    ([1.0] * 9 + [1.5], "open", ""),
    ([1.0] * 5 + [1.5] + [1.0] * 5, "holds", ""),
    ([1.02**-n for n in range(12)], "holds", "faster"),
    ([1.0, 1.3], "open", ""),
])  # fmt: skip
def test_the_gate_holds_now_against_the_past_and_everything_says_the_same(factors, outcome, moved):
    trend = runs_of(factors)
    found = gate(trend, 0.1)
    assert found.outcome == outcome, list(reasons(trend, found))
    assert [line.moved for line in trend.lines] == [moved] * 3
    value, page = as_json(trend, found), trend_page.render(trend, found)
    assert {each["gate"] for each in value["figures"]} == {outcome} and value["gate"]["verdict"] in page
    text = " ".join(" ".join(trend_table.plain(trend, 80)).split())
    for shown in (value["headline"], *value["sentences"]):
        assert shown.split(": ", 1)[-1] in text
    # What a line says of itself has the ratio that the headline counts by.
    for line in trend.lines:
        if moved in ("slower", "faster"):
            low, high = line.now_to_past.range
            assert not low <= 1 <= high and f" 3 are {moved}: " in value["headline"]


def test_a_slope_is_said_with_its_size_and_how_long():
    trend = runs_of([1.02**n for n in range(12)])
    text = next(each for each in sentences(trend) if "p50" in each)
    assert text.startswith("From run1 to run12, run by run: ") and " a run, over 12 runs to 1.2" in text
    slope = as_json(trend)["figures"][0]["slope"]
    assert slope["interval"][0] <= 1.02 <= slope["interval"][1] and slope["runs"] == 12
    assert " a run" in statement(trend.lines[0]) and ": slower run by run (p50 " in headline(trend)


def test_a_run_that_is_apart_is_named_and_what_would_tell():
    trend = runs_of([1.0] * 9 + [1.5])
    assert [at for line in trend.lines for at, _ in line.odd] == [9] * 3
    (text,) = (each for each in sentences(trend) if each.startswith("run10 is apart in "))
    assert "another run tells whether a new level begins" in text
    assert all("another run tells" in each for each in reasons(trend, gate(trend, 0.1)))
    few = runs_of([1.0, 1.05, 0.96, 1.02, 0.94, 1.04])
    assert all("runs would tell" in each for each in reasons(few, gate(few, 0.1)))


def test_imports_stand_where_they_were_imported():
    told = "Imports stand where they were imported; when they were measured is not known."
    assert told in sentences(trend_of([point(n, imported=True) for n in (1, 2, 3)]))
    assert told not in sentences(trend_of([point(n) for n in (1, 2, 3)]))


def test_a_gate_can_be_asked_for_one_figure():
    trend = runs_of([1.0] * 6 + [1.5] * 6)
    assert [line.key[4] for line, _ in gate(trend, 0.1, ["read:disk:p99"]).held] == ["p99"]
    assert len(gate(trend, 0.1, ["read:p50", "read:ios_per_s"]).held) == 2
    junit = ET.fromstring(trend_table.junit(trend, gate(trend, 0.1, ["read:p50"])))
    assert [case.get("name") for case in junit.iter("testcase")][:1] == ["nfs-server read/disk p50"]
    with pytest.raises(ConfigError, match="read:disk:p50, read:disk:p99, read:all:ios_per_s"):
        gate(trend, 0.1, ["read:slog:p50"])


def test_runs_that_wander_are_no_steps():
    percents = (0, 2, 3, 5, 4, 7, 6, 3, 2, 0, -3, -4, -5, -2, -1, 2, 1, 4, 6, 5, 3, 0, -2, -4)
    trend = runs_of([1 + each / 100 for each in percents])
    assert {line.best.kind for line in trend.lines} == {"dependence"}
    assert any("neighbouring runs look alike (lag-1" in each for each in sentences(trend))
    assert as_json(trend)["figures"][0]["lag1"] > 0.5
