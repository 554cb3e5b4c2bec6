"""A against B: what is found and what is not, on runs whose truth is known."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.store.parts.comparison import ComparedRow, Comparison
from reports.comparison import in_turn
from reports.comparison.compare import DIFFERENCE, NO_DIFFERENCE, answer, badge, others
from reports.comparison.compare import compare as compared
from reports.output import comparison_table
from reports.statistics import quantiles, student
from tests.reports import synthetic

# phase, tier, median in ns, sigma of the logarithm, I/Os of a run
LOAD = (
    ("read", "dram", 6_800, 0.12, 1700),
    ("read", "l2arc", 155_000, 0.07, 1100),
    ("read", "disk", 5_000_000, 0.30, 1500),
    ("write-slog", "slog", 152_000, 0.04, 3800),
)
# How far runs of one kind are apart, as a part of the value: all tiers of a run together (the machine),
# each tier alone (its device), how wide a tier is (its tail), and how many I/Os it gets.
MACHINE, DEVICE, WIDTH, COUNT = 0.02, 0.03, 0.08, 0.04


def interpolated(bins, limits):
    """As summary.json has them."""
    return {
        name: value and value.as_json() for name, value in quantiles.interpolated_us(bins, limits).items()
    }


def make_run(generator, shift=1.0, tiers=("dram", "l2arc", "disk", "slog"), noise=1.0):
    """The rows of a run's summary; `tiers` take `shift` times as long."""
    machine = math.exp(noise * MACHINE * generator.standard_normal())
    rows = []
    for phase, tier, median, sigma, number in LOAD:
        drawn = generator.standard_normal(3) * noise
        middle = median * machine * math.exp(DEVICE * drawn[0]) * (shift if tier in tiers else 1.0)
        wide = sigma * math.exp(WIDTH * drawn[1])
        count = max(int(number * math.exp(COUNT * drawn[2])), 1)
        latencies = (middle * np.exp(wide * generator.standard_normal(count))).astype(np.int64)
        index, held = np.unique(bin_index(latencies), return_counts=True)
        lo, hi = bin_edges(index)
        bins = list(zip(lo.tolist(), hi.tolist(), held.tolist(), strict=True))
        limits = (bins[0][0], bins[-1][1])
        row = {"phase": phase, "layer": "nfs-server", "op": phase[:5], "tier": tier, "count": count}
        row |= {"mean_us": float(latencies.mean()) / 1e3, "interpolated": interpolated(bins, limits)}
        rows.append(row)
    return rows


def make_side(generator, number, *args, **named):
    return [make_run(generator, *args, **named) for _ in range(number)]


def compare(a, b):
    """Sides of runs, each a list of rows; as programs get it."""
    return compared(*([synthetic.summary_of(rows, run="run") for rows in side] for side in (a, b))).as_json()


def found(result, figure, tier):
    return next(r for r in result["rows"] if r["figure"] == figure and r["tier"] == tier)


@pytest.mark.parametrize(
    ("runs_a", "runs_b", "cases"), [(5, 5, 60), (4, 4, 20), (3, 3, 20), (2, 2, 20), (5, 3, 20)]
)
def test_a_against_a_shows_no_difference(runs_a, runs_b, cases):
    generator = np.random.default_rng(20090608)
    shown = 0
    for _ in range(cases):
        result = compare(make_side(generator, runs_a), make_side(generator, runs_b))
        assert result["compared"] >= 15
        shown += result["conclusion"] != NO_DIFFERENCE
    assert shown <= 0.05 * cases


# What the lab's runs of one kind have, on its virtual clock: a part of the noise of machines.
VIRTUAL = 0.05


@pytest.mark.parametrize("tiers", [("dram", "l2arc", "disk", "slog"), ("l2arc",)])
@pytest.mark.parametrize(("runs", "shift", "noise"), [(5, 1.35, 1.0), (10, 1.2, 1.0), (5, 1.02, VIRTUAL)])
def test_what_is_slower_is_found(tiers, runs, shift, noise):
    """p50 scatters by 3.6 %, and by a twentieth of that; tests/truth/compare.py has the smallest shifts."""
    generator = np.random.default_rng(7)
    cases = 20
    hits = 0
    for _ in range(cases):
        a = make_side(generator, runs, noise=noise)
        row = found(compare(a, make_side(generator, runs, shift, tiers, noise)), "p50", "l2arc")
        assert row["ratio"] == pytest.approx(shift, rel=0.12 * noise)
        hits += row["words"] == DIFFERENCE and row["ratio"] > 1
    assert hits >= 0.9 * cases


def test_as_alike_as_on_a_virtual_clock_shows_no_difference():
    generator = np.random.default_rng(17)
    cases = 60
    shown = sum(
        compare(*(make_side(generator, 5, noise=VIRTUAL) for _ in "AB"))["different"] > 0
        for _ in range(cases)
    )
    assert shown <= 0.05 * cases


@pytest.mark.parametrize("spread", [0.0005, 0.002, 0.02])
def test_one_bin_tells_no_percentile_but_its_mean(spread):
    """Latencies in one bin, and a shift within it: only the mean sees it; p50 states no difference."""
    generator = np.random.default_rng(19)

    def run(middle_ns):
        drawn = generator.normal(middle_ns, spread * 1000, 2000).clip(135_200, 139_200).astype(np.int64)
        index, held = np.unique(bin_index(drawn), return_counts=True)
        bins = list(zip(*(edge.tolist() for edge in bin_edges(index)), held.tolist(), strict=True))
        mean_us = float(drawn.mean()) / 1e3
        values = interpolated(bins, (bins[0][0], bins[-1][1]))
        return [{"tier": "slog", "count": 2000, "mean_us": mean_us, "interpolated": values}]

    result = compare([run(136_500) for _ in range(5)], [run(137_865) for _ in range(5)])
    assert found(result, "mean", "slog")["words"] == DIFFERENCE
    assert found(result, "mean", "slog")["ratio"] == pytest.approx(1.01, abs=0.001)
    assert found(result, "p50", "slog")["words"] == NO_DIFFERENCE


def test_a_run_without_sums():
    generator = np.random.default_rng(2)
    a, b = make_side(generator, 5), make_side(generator, 5)
    del b[2][1]["mean_us"]
    result = compare(a, b)
    assert found(result, "mean", "l2arc")["withheld"] == "B: 1 of 5 runs have no sum of latencies"
    for run in [*a, *b]:
        for row in run:
            row["mean_us"] = None
    assert "mean" not in {row["figure"] for row in compare(a, b)["rows"]}


def test_intervals_hold_the_truth_together():
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(30):
        result = compare(make_side(generator, 5), make_side(generator, 5, 1.2))
        spans = [r["interval"] for r in result["rows"] if r["interval"] and r["figure"] == "p50"]
        held += all(low <= 1.2 <= high for low, high in spans)
    assert held >= 0.9 * 30


@pytest.mark.parametrize(("runs_a", "runs_b"), [(1, 1), (1, 5), (5, 1)])
def test_one_run_on_a_side_is_no_statement(runs_a, runs_b):
    generator = np.random.default_rng(1)
    result = compare(make_side(generator, runs_a), make_side(generator, runs_b, 3.0))
    assert "too few to compare" in result["conclusion"] and result["different"] == 0
    assert {r["words"] for r in result["rows"]} <= {"no statement", "withheld"}
    assert all(r["interval"] is None for r in result["rows"])
    assert found(result, "p50", "disk")["ratio"] == pytest.approx(3, rel=0.2)
    # Nor does any interval hold.
    text = " ".join(comparison_table.plain(Comparison.from_json(result, "result"), 200))
    assert "One run on a side: no interval." in text and "confidence" not in text


def test_scatter_is_shared_where_there_are_figures_to_share_it():
    generator = np.random.default_rng(3)
    many = compare(make_side(generator, 3), make_side(generator, 3))
    (a, b) = ([[rows[0]] for rows in make_side(generator, 3)] for _ in "AB")
    few = compare([[{**row, "interpolated": {}} for row in rows] for rows in a], b)
    assert "shared between figures" in many["method"] and "shared" not in few["method"]


def test_swapped_sides_give_the_inverse():
    generator = np.random.default_rng(5)
    a, b = make_side(generator, 5), make_side(generator, 5, 1.1)
    one, other = compare(a, b), compare(b, a)
    for x, y in zip(one["rows"], other["rows"], strict=True):
        assert x["words"] == y["words"]
        if x["interval"]:
            assert x["ratio"] == pytest.approx(1 / y["ratio"])
            assert x["interval"] == pytest.approx([1 / y["interval"][1], 1 / y["interval"][0]])


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(5)), st.permutations(range(5)))
def test_the_order_of_runs_is_nothing(order_a, order_b):
    generator = np.random.default_rng(9)
    a, b = make_side(generator, 5), make_side(generator, 5, 1.15)
    one, other = compare(a, b), compare([a[n] for n in order_a], [b[n] for n in order_b])
    for x, y in zip(one["rows"], other["rows"], strict=True):
        assert x["words"] == y["words"]
        assert x["ratio"] == (y["ratio"] if x["ratio"] is None else pytest.approx(y["ratio"]))
        assert x["interval"] == (y["interval"] if x["interval"] is None else pytest.approx(y["interval"]))


@settings(max_examples=8, deadline=None)
@given(st.floats(0.01, 1000))
def test_the_unit_of_latency_is_nothing(factor):
    generator = np.random.default_rng(9)
    sides = [make_side(generator, 4), make_side(generator, 4, 1.15)]
    before = compare(*sides)
    for side in sides:
        for run in side:
            for row in run:
                row["mean_us"] *= factor
                for value in filter(None, row["interpolated"].values()):
                    value["us"] *= factor
                    value["error_us"] *= factor
    for x, y in zip(before["rows"], compare(*sides)["rows"], strict=True):
        if x["figure"] != "share" and x["interval"] and 0.001 / (y["a"] or 1) < 0.03:
            assert y["ratio"] == pytest.approx(x["ratio"])


def test_what_is_too_small_is_withheld():
    generator = np.random.default_rng(2)
    a, b = make_side(generator, 5), make_side(generator, 5)
    b[2][1]["interpolated"]["p99"] = None
    b[2][1]["count"] = 300
    result = compare(a, b)
    row = found(result, "p99", "l2arc")
    assert row["words"] == "withheld" and "300 I/Os" in row["withheld"] and "368" in row["withheld"]
    assert found(result, "p99.9", "dram")["withheld"]
    assert found(result, "share", "slog")["withheld"] == "only tier"
    assert found(result, "p50", "l2arc")["words"] == NO_DIFFERENCE


def test_a_tier_that_one_side_lacks():
    generator = np.random.default_rng(2)
    a, b = make_side(generator, 5), make_side(generator, 5)
    for run in b:
        del run[1]
    result = compare(a, b)
    assert found(result, "p50", "l2arc")["withheld"] == "B: no I/O in 5 of 5 runs: missing there"
    share = found(result, "share", "l2arc")
    assert share["words"] == DIFFERENCE
    # Counted: none. Known of it: less than the share of a few I/Os.
    (_, high) = share["interval"]
    assert (share["b"], share["ratio"]) == (0, 0) and 1 / 4300 < high * share["a"] < 0.01
    there = compare(b, a)
    share = found(there, "share", "l2arc")
    assert share["words"] == DIFFERENCE and (share["a"], share["ratio"], share["interval"]) == (0, None, None)
    parsed = Comparison.from_json(there, "comparison")
    assert answer(parsed) == "A has no reads from the SSD cache (read), which are 26.2 % of the I/Os of B"
    assert " 0 %" in "\n".join(comparison_table.plain(parsed, 110))


def test_a_tier_that_one_run_lacks():
    generator = np.random.default_rng(2)
    a, b = make_side(generator, 5), make_side(generator, 5)
    del b[0][1]
    share = found(compare(a, b), "share", "l2arc")
    counted = [[row["count"] for row in run if row["op"] == "read"] for run in b[1:]]
    assert share["b"] == pytest.approx(sum(n[1] / sum(n) for n in counted) / 5)
    assert share["ratio"] is None and share["interval"] is None


def test_runs_that_agree_to_the_digit():
    generator = np.random.default_rng(2)
    run = make_run(generator)
    same = json.loads(json.dumps(run))
    assert compare([run] * 5, [same] * 5)["conclusion"] == NO_DIFFERENCE
    for row in same:
        row["interpolated"]["p50"]["us"] += row["interpolated"]["p50"]["error_us"] * 1.9
    same[1]["interpolated"]["p50"]["us"] *= 1.3
    result = compare([run] * 5, [same] * 5)
    # Less than both errors of the interpolation is none, however sure it is.
    assert found(result, "p50", "dram")["words"] == NO_DIFFERENCE
    assert found(result, "p50", "l2arc")["words"] == DIFFERENCE


def test_nothing_in_common():
    result = compare([[], []], [[], []])
    assert result["rows"] == [] and "nothing" in result["conclusion"]


@pytest.mark.parametrize(
    ("alpha", "freedom", "value"),
    # Tables of Student's t.
    [(0.05, 1, 12.7062), (0.05, 2, 4.30265), (0.05, 8, 2.30600), (0.001, 3, 12.9240), (0.001, 30, 3.6460),
     (0.05, 200, 1.97190), (0.002, 5, 5.89343)],
)  # fmt: skip
def test_critical_values_of_t(alpha, freedom, value):
    assert student.t_critical(alpha, freedom) == pytest.approx(value, rel=1e-4)


@given(st.floats(1e-5, 0.5), st.floats(1, 199))
def test_critical_values_fall_with_freedom(alpha, freedom):
    assert student.t_critical(alpha, freedom) >= student.t_critical(alpha, freedom + 1) * (1 - 1e-6)


@pytest.mark.parametrize(("alpha", "freedom"), [(0, 3), (1, 3), (0.05, 0)])
def test_critical_values_that_are_none(alpha, freedom):
    with pytest.raises(ValueError):
        student.t_critical(alpha, freedom)


def test_pairs_cancel_what_both_phases_of_a_run_share():
    generator = np.random.default_rng(4)
    a = make_side(generator, 6, noise=0.05)
    b = json.loads(json.dumps(a))
    for n, (one, other) in enumerate(zip(a, b, strict=True)):
        for row, factor in [(row, 1.3**n) for row in one] + [(row, 1.3**n * 1.1) for row in other]:
            row["mean_us"] *= factor * generator.uniform(0.999, 1.001)
    sides = [[synthetic.summary_of(rows, run="run") for rows in side] for side in (a, b)]
    (alone, together) = (
        next(row for row in compared(*sides, pairs=pairs).rows if row.figure == "mean")
        for pairs in (False, True)
    )
    assert (alone.words, together.words) == (NO_DIFFERENCE, DIFFERENCE)
    assert together.ratio == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        ("AABB", "All runs of B were measured after those of A"),
        ("BBBAAA", "All runs of A were measured after those of B"),
        ("AABBBA", "not measured in turn"),
        ("AAAABABBBB", "not measured in turn"),
        ("ABBA", None),
        ("ABAB", None),
        ("ABBAABBAAB", None),
        ("BABBBABBABBBB", None),
        ("", "is not known"),
    ],
)
def test_sides_that_were_not_measured_in_turn_are_told(letters, words):
    a, b = ([f"2026-11-21T05:{n:02d}:00Z" for n, each in enumerate(letters) if each == x] for x in "AB")
    said = in_turn.not_in_turn(a or [None], b or [None])
    assert said is None if words is None else words in said
    same = in_turn.not_in_turn(["2026-11-21T05:00:00Z"] * 2, ["2026-11-21T05:00:00Z"] * 2)
    assert same and "not known" in same


def test_text_of_a_comparison_is_inert():
    generator = np.random.default_rng(2)
    a, b = make_side(generator, 2), make_side(generator, 2)
    attack = "x|y<script>\n`\x1b[31m"
    for run in [*a, *b]:
        for row in run:
            row["phase"] = attack
    result = compare(a, b)
    result["across"] = {"versions.zfs": [attack, "2|3"]}
    typed = Comparison.from_json(result, "x")
    text = comparison_table.markdown(typed)
    assert "\x1b" not in text and "<script" not in text.replace("\\<", "")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == 2 + len(result["rows"])
    assert {line.replace("\\|", "").count("|") for line in table} == {11}
    assert result["conclusion"] in comparison_table.plain(typed, 80)


@pytest.mark.parametrize(
    ("runs", "shift", "begins"),
    [
        (5, 1.35, "B's synchronous writes (write-slog) take 3"),
        (5, 0.7, "B's synchronous writes (write-slog) take "),
        (5, 1.0, "A against B: no difference shown"),
        (1, 1.35, "A against B: 1 run each: too few to compare"),
    ],
)
def test_the_answer_has_direction_size_and_range_or_says_nothing(runs, shift, begins):
    generator = np.random.default_rng(11)
    sides = [make_side(generator, runs, by, ("slog",), VIRTUAL) for by in (1.0, shift)]
    text = answer(Comparison.from_json(compare(*sides), "comparison"))
    assert text.startswith(begins)
    if runs > 1 and shift != 1:
        assert f" % {'longer' if shift > 1 else 'less'} (" in text and text.endswith(" %) at p50")


def figure(name, ratio, words=DIFFERENCE, interval=None):
    return ComparedRow(
        phase="read", layer="client", op="read", tier="all", figure=name, a=1.0, b=ratio, ratio=ratio,
        interval=interval, words=words, withheld=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("differ", "says"),
    [
        ([("p50", 1.2), ("p99", 1.1)], "B slower in 2 of 9 figures"),
        ([("mean", 0.8)], "B faster in 1 of 9 figures"),
        (
            [("p50", 1.2), ("p99", 0.9), ("share", 2.0)],
            "B slower in 1, faster in 1 and different in 1 of 9 figures",
        ),
        # More I/Os a second are faster.
        ([("ios_per_s", 1.2)], "B faster in 1 of 9 figures"),
        ([("share", 0.0)], "B different in 1 of 9 figures"),
        ([], NO_DIFFERENCE),
    ],
)
def test_the_badge_has_the_direction(differ, says):
    assert badge([figure(*each) for each in differ], 9) == says


def test_figures_without_a_difference_say_how_large_it_may_be():
    rows = [
        figure("p50", 1.0, NO_DIFFERENCE, (0.97, 1.02)), figure("p99", 1.01, NO_DIFFERENCE, (0.99, 1.045)),
        figure("mean", 1.5, DIFFERENCE, (1.4, 1.6)),
    ]  # fmt: skip
    result = compare(make_side(np.random.default_rng(7), 3), make_side(np.random.default_rng(8), 3))
    result = Comparison.from_json(result, "comparison").model_copy(
        update={"rows": tuple(rows), "compared": 3}
    )
    assert others(result) == (
        "In 2 other figures no difference is shown; changes from -3 to +4.5 % are not excluded (97.5 % "
        "confidence, all together)."
    )
    wide = result.model_copy(update={"rows": (rows[0], figure("p99.9", 1.0, NO_DIFFERENCE, (0.001, 900)))})
    assert others(wide.model_copy(update={"compared": 2})) == (
        "In 2 figures no difference is shown; changes of 1 from -3 to +2 % are not excluded; 1 may have "
        "changed by any factor (97.5 % confidence, all together)."
    )
    assert others(result.model_copy(update={"rows": (rows[2],)})) == ""


def test_the_first_sentence_names_what_tells_the_sides_apart():
    generator = np.random.default_rng(7)
    sides = make_side(generator, 3), [make_run(generator, 1.5) for _ in range(3)]
    result = Comparison.from_json(compare(*sides), "comparison")
    for across, end in (
        ({"versions.zfs": ("2.3.9", "2.4.0")}, " (A: zfs 2.3.9, B: zfs 2.4.0)"),
        ({"load": ("a", "b")}, ""),
    ):
        said = answer(result.model_copy(update={"across": across}))
        assert said == answer(result) + end and said.startswith("B's ")
