"""The figure of the first screen: phases side by side, this run's ranges inside the published ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from kit.store.summary import Summary
from reports.analysis.headline import HeadlineRow, headline
from reports.figures import event_marks, heat_map, hero
from reports.figures.figure import Figure
from reports.figures.heat_map import TimeSpan
from reports.figures.hero import Panel
from tests.reports import drawn, synthetic

READ = synthetic.parsed(synthetic.manifest()).phases[0]
HOSTILE = "</script><b>%{x}</b><img src=x onerror=alert(1)>" + "w" * 200


def parts() -> tuple[list[Panel], tuple[HeadlineRow, ...]]:
    frame, manifest = synthetic.realistic(), synthetic.manifest(synthetic.realistic(), 60)
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary.json")
    panels = [
        Panel(str(phase.title), heat_map.grid(
            frame.filter((pl.col("phase") == phase.name) & (pl.col("layer") == "nfs-server")),
            TimeSpan.of(phase),
        ))
        for phase in synthetic.parsed(manifest).phases
    ]  # fmt: skip
    return panels, headline(frame, synthetic.parsed(manifest), summary).lines


def line(
    tier: str, p50_us: float | None, range_us: tuple[float, float], published: Any = None, **row: Any
) -> HeadlineRow:
    span = published and {"reference": "r", "range_us": published, "inside": True}
    values = {"tier": tier, "p50_us": p50_us, "range_us": range_us, "published": span, "count": 9, **row}
    return HeadlineRow(
        synthetic.summary_of([values]).rows[0], "read", tier, 0.987 if published else None, None
    )


def opened(figure: Figure) -> Figure:
    """The figure; plotly's classes refuse what Plotly does not know, of its narrow form, too."""
    plotly = go.Figure(data=figure.spec["data"], layout=figure.spec["layout"])
    plotly.update_layout(figure.narrow)
    return figure


def bars(figure: Figure) -> list[tuple[float, float, float]]:
    """Place, from and to (us) of each bar."""
    made = [trace for trace in figure.data if trace["type"] == "bar"]
    return [(bar["x"][0], bar["base"][0] * 1e6, (bar["base"][0] + bar["y"][0]) * 1e6) for bar in made]


def test_bars_that_meet_have_places_of_their_own() -> None:
    ranges = [(100.0, 200.0), (150.0, 300.0), (190.0, 250.0), (400.0, 500.0)]
    lines = [
        line(tier, 150, span) for tier, span in zip(("l2arc", "slog", "disk", "dram"), ranges, strict=True)
    ]
    found = bars(opened(hero.hero([], lines, "2009")))
    assert [place for place, _, _ in found] == [0, 1, 2, 0]
    for (a, *one), (b, *other) in itertools.combinations(found, 2):
        assert a != b or one[0] > other[1] or other[0] > one[1]


def test_one_tier_of_several_phases_is_one_bar_with_all_medians() -> None:
    lines = [line("slog", 150, (100.0, 200.0)), replace(line("slog", 180, (120.0, 300.0)), phase="other")]
    figure = opened(hero.hero([], lines, "2009"))
    [(place, low, high)] = bars(figure)
    assert (place, low, high) == (0, pytest.approx(100), pytest.approx(300))
    [text] = [each["text"] for each in words(figure)]
    assert "p50 150 to 180 µs" in text and "100 to 300 µs; 2 phases" in text


def test_a_limit_that_does_not_hold_is_a_line_in_its_panel() -> None:
    panels, lines = parts()
    panels[1] = replace(panels[1], limits=[(150.0, "p99")])
    layout = opened(hero.hero(panels, lines, "2009")).layout
    [limit] = [shape for shape in layout["shapes"] if shape["type"] == "line"]
    assert (limit["xref"], limit["y0"], limit["y1"]) == ("x2 domain", 150e-6, 150e-6)
    # On the line its name would lie on cells.
    titles = [each["text"].replace("<br>", " ") for each in layout["annotations"]]
    assert "label" not in limit
    assert [text for text in titles if text.endswith("(limit p99 150\N{NO-BREAK SPACE}µs)")]


def test_a_fault_and_its_limit_of_recovery_are_marked() -> None:
    panels, lines = parts()
    begin_s, end_s, by_s = 20, 25, 40
    action = {
        "kind": "fault", "what": "fail", "text": "data1 fails", "at_ns": 0, "begin_ns": begin_s * 10**9,
        "end_ns": end_s * 10**9, "times": 1, "recover_within_ns": (by_s - end_s) * 10**9,
    }  # fmt: skip
    manifest = synthetic.manifest(synthetic.realistic(), 60)
    manifest["phases"][0] |= {"start_ns": 0, "schedule": {"actions": [action]}}
    faults = tuple(event_marks.faults_of(synthetic.parsed(manifest).phases[0]))
    grid = replace(panels[0].stored, start_ns=0, end_ns=60 * 10**9)
    made = opened(hero.hero([replace(panels[0], stored=grid, events=faults), *panels[1:]], lines, "2009"))
    fault, limit = (trace for trace in made.data if trace.get("name") in ("fault", "recovery limit"))
    assert fault["x"] == [begin_s, begin_s, end_s, end_s, None] and fault["xaxis"] == "x"
    assert limit["x"] == [by_s, by_s, None]
    titles = [each["text"].replace("<br>", " ") for each in made.layout["annotations"]]
    assert any(text.endswith("(frame: fault; dashed: recovery limit)") for text in titles)
    # Of a fault that ends before it begins only the limit is left, and looks the same.
    damaged = [faults[0].model_copy(update={"end_ns": 1}), faults[1]]
    alone = opened(hero.hero([replace(panels[0], stored=grid, events=damaged)], lines, "2009"))
    [same] = (trace for trace in alone.data if trace.get("name") in ("fault", "recovery limit"))
    assert same["line"] == limit["line"]
    # Without times there is nowhere to put them.
    still = hero.hero([replace(panels[0], stored=grid, events=faults)], lines, "2009", timed=False)
    assert not [trace for trace in still.data if trace.get("name") == "fault"]


def domains(figure: Figure) -> list[list[float]]:
    axes = [key for key in figure.layout if key.startswith("xaxis")]
    return [figure.layout[key]["domain"] for key in axes]


def words(figure: Figure) -> list[dict[str, Any]]:
    """The blocks of text beside the bars, from below."""
    beside = [each for each in figure.layout["annotations"] if each["yanchor"] == "middle"]
    return sorted(beside, key=lambda each: float(each["y"]))


def assert_apart(figure: Figure, least_px: float) -> None:
    heights = np.array([each["y"] for each in words(figure)]) * (470 - 60 - 44)
    assert (np.diff(heights) >= least_px - 1e-6).all()
    assert heights[0] >= least_px / 2 - 1e-6 and heights[-1] <= 366 - least_px / 2 + 1e-6


def test_phases_and_ranges_on_one_axis() -> None:
    panels, lines = parts()
    figure = opened(hero.hero(panels, lines, "2009"))
    maps = drawn.heat_maps(figure.spec)
    assert {trace["yaxis"] for trace in maps} == {"y"}
    assert [trace["name"] for trace in maps] == [line.name for line in lines]
    assert [trace["xaxis"] for trace in maps] == ["x", "x", "x", "x2", "x3"]
    bars = [trace for trace in figure.data if trace["type"] == "bar"]
    assert [(bar["base"][0], bar["base"][0] + bar["y"][0]) for bar in bars] == [
        pytest.approx([edge / 1e6 for edge in line.row.range_us]) for line in lines
    ]
    assert {bar["xaxis"] for bar in bars} == {"x4"}
    boxes = [shape for shape in figure.layout["shapes"] if shape["line"].get("dash") == "dot"]
    assert len(boxes) == 5 and all(box["y0"] < box["y1"] for box in boxes)
    texts = "\n".join(each["text"] for each in words(figure))
    for text in (
        "DRAM (ARC)",
        "SSD cache (L2ARC)",
        "log SSD (SLOG)",
        "disk",
        "p50 ",
        "95 % of I/Os: ",
        "2009: ",
        "inside",
    ):
        assert text in texts
    assert_apart(figure, 52)
    low, high = figure.layout["yaxis"]["range"]
    for shape in boxes:
        assert low <= np.log10(shape["y0"]) < np.log10(shape["y1"]) <= high
    head, *table = figure.csv
    assert len(table) == 5 and all(len(row) == len(head) for row in table)


def test_one_phase_and_none() -> None:
    panels, lines = parts()
    one = opened(hero.hero(panels[:1], lines[:3], "2009"))
    assert len(drawn.heat_maps(one.spec)) == 3 and len(domains(one)) == 2
    none = opened(hero.hero([], [], ""))
    assert not drawn.heat_maps(none.spec) and not words(none)
    low, high = none.layout["yaxis"]["range"]
    assert np.isfinite([low, high]).all() and low < high
    empty = Panel("empty", heat_map.grid(synthetic.latency()[:0], TimeSpan.of(READ)))
    assert not drawn.heat_maps(opened(hero.hero([empty], [], "")).spec)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 40])
def test_panels_do_not_overlap_and_those_left_out_are_counted(number: int) -> None:
    panels, lines = parts()
    many = [Panel(f"phase {n} " * 9, panels[n % 3].stored) for n in range(number)]
    figure = opened(hero.hero(many, lines, "2009"))
    placed = domains(figure)
    shown = min(number, 4)
    assert len(placed) == shown + 1 and placed == sorted(placed)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(placed)) and placed[-1][1] < 1
    assert ("First 4 of" in figure.caption) is (number > 4)
    narrow = [figure.narrow[key]["domain"] for key in figure.narrow if key.startswith("xaxis")]
    assert len(narrow) == len(placed) and all(a[1] < b[0] for a, b in itertools.pairwise(narrow))
    # A title ends before the next panel begins: letters of about six pixels on 1240.
    titles = [each for each in figure.layout["annotations"] if each["yanchor"] == "bottom"]
    for title, (begin, end) in zip(titles[:shown], placed[:shown], strict=True):
        rows = title["text"].split("<br>")
        assert len(rows) <= 3 and max(map(len, rows)) <= (end - begin) * 190 + 1


def test_phases_of_very_different_length_each_have_room() -> None:
    panels, lines = parts()
    frame = synthetic.latency().filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    long = heat_map.grid(frame, replace(TimeSpan.of(READ), end_ns=3600 * synthetic.SECOND))
    figure = hero.hero([panels[0], Panel("an hour", long)], lines, "2009")
    short, hour, _ = (end - begin for begin, end in domains(figure))
    assert hour / 2 <= short * 1.0001 < hour


def test_words_at_the_same_height_are_moved_apart() -> None:
    tiers = ["dram", "l2arc", "disk", "slog", "pool"]
    for p50_us in (5.0, 500.0, 50_000.0):
        lines = [line(tier, p50_us, (p50_us * 0.9, p50_us * 1.1), (1, 90_000)) for tier in tiers]
        assert_apart(opened(hero.hero([], lines, "2009")), 52)
    spread = [line("dram", 1.0, (1, 2)), *(line(tier, 9e4, (8e4, 9.1e4)) for tier in tiers[1:])]
    assert_apart(hero.hero([], spread, "2009"), 52)


def test_more_tiers_than_there_is_room_for_are_counted() -> None:
    lines = [line(f"t{n}", 10.0 + n, (9.0 + n, 12.0 + n)) for n in range(300)]
    figure = opened(hero.hero([], lines, "2009"))
    assert_apart(figure, 50)
    assert len(words(figure)) == 7 and "293 more tiers below" in figure.caption
    # The table that is saved has all.
    assert len(figure.csv) == 301


def test_a_tier_with_too_few_ios_or_nothing_published() -> None:
    lines = [
        line("dram", None, (4.0, 6.0)),
        line("disk", None, (0.0, 0.0)),
        line("l2arc", 150.0, (140, 160), (0, 200)),
    ]
    figure = opened(hero.hero([], lines, ""))
    texts = [each["text"] for each in words(figure)]
    assert any("9 I/Os" in text for text in texts) and sum(text.count("<br>") for text in texts) == 4
    for bar in (trace for trace in figure.data if trace["type"] == "bar"):
        assert np.isfinite(bar["base"] + bar["y"]).all()
    low, high = figure.layout["yaxis"]["range"]
    assert np.isfinite([low, high]).all() and low < high


def test_titles_and_tiers_are_no_markup() -> None:
    panels, _ = parts()
    lines = [HeadlineRow(line(HOSTILE, 5.0, (4, 6), (1, 9), op=HOSTILE).row, HOSTILE, HOSTILE, 0.5, None)]
    figure = opened(hero.hero([Panel(HOSTILE, panels[0].stored)], lines, HOSTILE))
    drawn.assert_plain(figure.spec)
    assert max(len(each["text"]) for each in figure.layout["annotations"]) < 400


def test_a_tier_that_has_no_bar_has_its_name() -> None:
    _, lines = parts()
    frame = synthetic.table([(5, "read", "nfs-server", "h", "read", "indirect", 1 << 22, 1 << 23, 2)])
    rare = Panel("rare", heat_map.grid(frame, TimeSpan.of(READ)))
    (trace,) = drawn.heat_maps(hero.hero([rare], lines, "2009").spec)
    assert trace["name"] == "disk, metadata first" and trace["hovertemplate"].startswith(trace["name"])


def test_phases_whose_tiers_are_unknown_are_named_beside_their_bars() -> None:
    lines = [replace(line("all", us, (us - 5, us + 5)), phase=f"at {us}") for us in (100, 900)]
    texts = [each["text"] for each in words(opened(hero.hero([], lines, "2009")))]
    assert [text.split(",")[0] for text in texts] == ["<b>at 100</b>", "<b>at 900</b>"]
