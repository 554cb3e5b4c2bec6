import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.core.sample_size import sample_needed
from kit.store.tables import LATENCY_SCHEMA
from reports.statistics import quantiles
from tests.reports.synthetic import latency, manifest, problems, summarise


@st.composite
def bins(draw):
    """Ascending bins, some empty, with gaps; at least one I/O."""
    edge, made = draw(st.integers(0, 1000)), []
    for gap, width, count in draw(
        st.lists(
            st.tuples(st.integers(0, 500), st.integers(1, 500), st.integers(0, 300)), min_size=1, max_size=30
        )
    ):
        made.append((edge + gap, edge + gap + width, count))
        edge += gap + width
    if not any(b[2] for b in made):
        made[-1] = (*made[-1][:2], 1)
    return made


def edges(made):
    used = [b for b in made if b[2]]
    return used[0][0], used[-1][1]


@given(bins(), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentile_has_the_right_share_below(made, q):
    n = sum(b[2] for b in made)
    value = quantiles.percentile_ns(made, q, edges(made))
    if n < math.log(0.025) / math.log(q):
        assert value is None
        return
    below = sum(c for _, hi, c in made if hi < value)
    up_to = sum(c for lo, _, c in made if lo <= value)
    assert below <= q * n * (1 + 1e-9) and up_to >= q * n * (1 - 1e-9)


@given(bins())
def test_percentiles_ascend_within_the_limits(made):
    used = [b for b in made if b[2]]
    limits = (used[0][1] - 1, max(used[-1][0], used[0][1] - 1))
    values = [quantiles.percentile_ns(made, q, limits) for q in (0.5, 0.95, 0.99)]
    values = [v for v in values if v is not None]
    assert values == sorted(values)
    assert all(limits[0] <= v <= limits[1] for v in values)


@given(bins(), st.sampled_from([0.5, 0.95, 1.0]))
def test_range_is_the_shortest_that_holds_enough(made, coverage):
    low, high = quantiles.shortest_range_ns(made, edges(made), coverage)
    used = [b for b in made if b[2]]
    wanted = coverage * sum(b[2] for b in used)
    assert sum(c for lo, hi, c in used if lo >= low and hi <= high) >= wanted
    for i, first in enumerate(used):
        for j in range(i, len(used)):
            if sum(b[2] for b in used[i : j + 1]) >= wanted:
                assert used[j][1] - first[0] >= high - low


def _binned(latencies):
    index, counts = np.unique(bin_index(np.array(latencies)), return_counts=True)
    return [tuple(map(int, b)) for b in zip(*bin_edges(index), counts, strict=True)]


@given(st.lists(st.integers(0, 10**10), min_size=400, max_size=600), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentile_is_half_a_bin_from_the_exact_one(latencies, q):
    # numpy's "inverted_cdf" is the definition that does not interpolate between two samples.
    exact = np.quantile(np.array(latencies), q, method="inverted_cdf")
    found = quantiles.percentile_ns(_binned(latencies), q, (min(latencies), max(latencies)))
    assert abs(found - exact) <= exact / 64


def _mixture(parts, generator):
    """Modes with nothing between them: of one value, of two, even, bell-shaped or with a long tail."""
    drawn = []
    for kind, at, share in parts:
        n = 1 + 20 * share
        drawn.append({
            "one value": np.full(n, at),
            "two values": generator.choice([at, at * 1.0309], n),
            "ticks": np.round(generator.lognormal(np.log(at), 0.1, n) / 1000) * 1000,
            "even": generator.uniform(at, at * 1.5, n),
            "bell": generator.normal(at, at / 50, n),
            "tail": at * (1 + generator.pareto(1.5, n)),
        }[kind])  # fmt: skip
    return np.sort(np.clip(np.concatenate(drawn), 0, 2**52).astype(np.int64))


kinds = st.sampled_from(["one value", "two values", "ticks", "even", "bell", "tail"])


@given(
    st.lists(st.tuples(kinds, st.integers(1, 10**9), st.integers(1, 50)), min_size=1, max_size=5),
    st.sampled_from([0.5, 0.95, 0.99, 0.999]),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_percentiles_of_mixtures_with_gaps(parts, q, seed, exact_limits):
    ordered = _mixture(parts, np.random.default_rng(seed))
    bins = _binned(ordered)
    limits = (int(ordered[0]), int(ordered[-1])) if exact_limits else edges(bins)
    found = quantiles.percentile_ns(bins, q, limits)
    if ordered.size < sample_needed(q):
        assert found is None
        return
    exact = int(ordered[math.ceil(q * ordered.size) - 1])
    assert abs(found - exact) <= 0.016 * exact


@pytest.mark.parametrize(("q", "at"), [(0.5, 100), (0.51, 1000)])
def test_nothing_is_interpolated_towards_a_gap(q, at):
    """Half of the I/Os at 100 ns, half at 1000: never a value between, nor the far edge of a bin."""
    bins = _binned([100] * 500 + [1000] * 500)
    assert quantiles.percentile_ns(bins, q, edges(bins)) == pytest.approx(at, rel=1 / 64)


@pytest.mark.parametrize("tier", ["dram", "l2arc", "disk", "slog", "pool"])
def test_percentiles_and_range_of_smooth_samples(synthetic, tier):
    latencies = synthetic.samples(tier, 20_000, np.random.default_rng(3))
    bins, limits = _binned(latencies), (int(latencies.min()), int(latencies.max()))
    for q in (0.5, 0.95, 0.99):
        truth = np.quantile(latencies, q)
        assert quantiles.percentile_ns(bins, q, limits) == pytest.approx(truth, rel=1 / 32)
    low, high = quantiles.shortest_range_ns(bins, limits)
    assert np.mean((latencies >= low) & (latencies <= high)) >= 0.95
    ordered, held = np.sort(latencies), math.ceil(0.95 * latencies.size)
    exact = (ordered[held - 1 :] - ordered[: ordered.size - held + 1]).min()
    # Whole bins: up to one too many at each end.
    assert exact <= high - low + 1 <= exact + 2 * high / 32


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["read", "write-slog"]),
            st.sampled_from(["nfs-server", "client"]),
            st.sampled_from(["dram", "disk", "all"]),
            st.integers(0, 10**9),
            st.integers(1, 50),
        ),
        max_size=40,
    )
)
def test_counts_and_shares_sum(listed):
    edges_of = {lat: tuple(int(e) for e in bin_edges(bin_index(lat))) for *_, lat, _ in listed}
    rows = [(0, p, la, "h", "read", t, *edges_of[lat], n) for p, la, t, lat, n in listed]
    frame = pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")
    result = summarise(frame, {"phases": []})
    assert sum(r["count"] for r in result["rows"]) == sum(n for *_, n in listed)
    for phase, layer in {(p, la) for p, la, *_ in listed}:
        shares = [r["share"] for r in result["rows"] if (r["phase"], r["layer"]) == (phase, layer)]
        assert sum(shares) == pytest.approx(1)
    for row in result["rows"]:
        assert row["min_us"] <= row["range_us"][0] < row["range_us"][1] <= row["max_us"]
    assert result["verdict"] == "unknown"


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_smallest_sample(q, n):
    assert sample_needed(q) == n
    assert quantiles.percentile_ns([(0, 10, n - 1)], q, (0, 10)) is None
    assert quantiles.percentile_ns([(0, 10, n)], q, (0, 10)) == pytest.approx(10 * q)


def test_no_io_has_no_range():
    with pytest.raises(ValueError):
        quantiles.shortest_range_ns([(0, 1, 0)], (0, 1))


def test_valid_run(synthetic):
    frame = synthetic.latency()
    result = summarise(frame, synthetic.manifest(frame))
    assert result["verdict"] == "valid", result["reasons"]
    assert len(result["reasons"]) == 1
    json.dumps(result, allow_nan=False)
    for layer in ("nfs-server", "client"):
        stored = frame.filter(pl.col("layer") == layer)["count"].sum()
        assert sum(r["count"] for r in result["rows"] if r["layer"] == layer) == stored
    shares = [r["share"] for r in result["rows"] if r["layer"] == "nfs-server" and r["phase"] == "read"]
    assert sum(shares) == pytest.approx(1)
    assert all(r["published"] is None for r in result["rows"] if r["layer"] != "nfs-server")
    disk = next(r for r in result["rows"] if r["tier"] == "disk")
    assert disk["published"] == {
        "reference": "sun-7410-2009",
        "range_us": [1900, 9700],
        "inside": True,
    }
    assert disk["p99_us"] is not None
    assert result["accounting"]["client_ios"] == result["accounting"]["server_ios"] > 0


def test_exact_extremes(synthetic):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    key = {"layer": "nfs-server", "host": "lab", "op": "read", "tier": "l2arc"}
    manifest["phases"][0]["extremes"] = [
        {**key, "min_ns": 141930, "max_ns": 147000},
        {**key, "host": "other", "min_ns": 142000, "max_ns": 147100},
    ]
    row = next(r for r in summarise(frame, manifest)["rows"] if r["tier"] == "l2arc")
    assert (row["min_us"], row["max_us"]) == (141.93, 147.1)
    assert row["range_us"] == [141.93, 147.1]
    assert row["min_us"] <= row["p50_us"] <= row["p95_us"] <= row["p99_us"] <= row["max_us"]


def _with_sums(synthetic, frame):
    """The manifest of `frame` with the sums of latencies that all are 1 ns above the lower edges of bins."""
    manifest = synthetic.manifest(frame)
    key = ["phase", "layer", "host", "op", "tier"]
    summed = frame.group_by(key).agg(
        pl.col("count").sum().alias("ios"), ((pl.col("lo_ns") + 1) * pl.col("count")).sum().alias("sum_ns")
    )
    for phase in manifest["phases"]:
        mine = summed.filter(pl.col("phase") == phase["name"]).drop("phase")
        phase["sums"] = mine.to_dicts()
    return manifest


def test_means_of_exact_sums(synthetic):
    frame = synthetic.latency()
    result = summarise(frame, _with_sums(synthetic, frame))
    row = next(r for r in result["rows"] if r["tier"] == "l2arc")
    assert row["mean_us"] == pytest.approx((139_265 * 50 + 143_361 * 5) / 55 / 1000, rel=1e-12)
    assert result["verdict"] == "valid" and all(row["mean_us"] for row in result["rows"])
    without = summarise(frame, synthetic.manifest(frame))
    assert {row["mean_us"] for row in without["rows"]} == {None} and without["verdict"] == "valid"


def test_a_mean_is_of_all_hosts_or_none(synthetic):
    frame = synthetic.latency()
    frame = pl.concat([frame, frame.with_columns(pl.lit("other").alias("host"))])
    manifest = _with_sums(synthetic, frame)
    mine = manifest["phases"][0]["sums"]
    both = next(r for r in summarise(frame, manifest)["rows"] if r["tier"] == "l2arc")
    assert both["mean_us"] == pytest.approx((139_265 * 50 + 143_361 * 5) / 55 / 1000, rel=1e-12)
    manifest["phases"][0]["sums"] = [s for s in mine if s["host"] != "other"]
    result = summarise(frame, manifest)
    assert next(r for r in result["rows"] if r["tier"] == "l2arc")["mean_us"] is None
    assert not [reason for reason in result["reasons"] if "sums" in reason]


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [("ios", 1, "they are of 661 I/Os, the counts of 660"), ("sum_ns", 10**9, "ns are not in the")],
)
def test_sums_of_other_ios_give_no_mean(synthetic, key, more, words):
    frame = synthetic.latency()
    manifest = _with_sums(synthetic, frame)
    of_tier = next(s for s in manifest["phases"][0]["sums"] if s["tier"] == "l2arc")
    of_tier[key] += more
    result = summarise(frame, manifest)
    assert next(r for r in result["rows"] if r["tier"] == "l2arc")["mean_us"] is None
    assert result["verdict"] == "unknown"
    assert any(
        r.startswith("The sums of read nfs-server read l2arc") and words in r for r in result["reasons"]
    )


def test_extremes_of_some_hosts_alone_are_not_those_of_the_row(synthetic):
    frame = synthetic.latency()
    frame = pl.concat([frame, frame.with_columns(pl.lit("other").alias("host"))])
    manifest = synthetic.manifest(frame)
    key = {"layer": "nfs-server", "host": "lab", "op": "read", "tier": "l2arc"}
    manifest["phases"][0]["extremes"] = [{**key, "min_ns": 141930, "max_ns": 147000}]
    row = next(r for r in summarise(frame, manifest)["rows"] if r["tier"] == "l2arc")
    assert (row["min_us"], row["max_us"]) == (139.264, 147.456)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, "ghost", "nfs-server", "lab", "read", "dram", 64, 66, 9)], "9 I/Os are of phase ghost"),
        ([(0, "read", "client", "lab/client0", "read", "all", 64, 66, 1)], "I/Os of the clients"),
        ([(0, "read", "nfs-server", "lab", "read", "dram", 64, 66, 1)], "I/Os of the server"),
        ([(0, "read", "nfs-server", "lab", "read", "dram", 4100, 4200, 1)], "the bins overlap"),
    ],
)
def test_more_io_than_the_manifest_has(synthetic, rows, words):
    frame = synthetic.latency()
    extra = pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")
    result = summarise(pl.concat([frame, extra]), synthetic.manifest(frame))
    assert result["verdict"] == "unknown"
    assert words in " ".join(result["reasons"])


def test_a_run_without_client_rows_is_complete(synthetic):
    frame = synthetic.latency().filter(pl.col("layer") != "client")
    assert summarise(frame, synthetic.manifest(frame))["verdict"] == "valid"


def _set(*path_and_value):
    *path, last, value = path_and_value

    def change(manifest):
        for key in path:
            manifest = manifest[key]
        manifest[last] = value

    return change


EXTREME = {"layer": "nfs-server", "host": "lab", "op": "read", "tier": "dram", "min_ns": 1, "max_ns": 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("problems", problems("the server rebooted", "twice")), "the server rebooted"),
        (_set("phases", 0, "problems", problems("fio was killed")), "fio was killed"),
        (_set("phases", 1, "checks", 0, "ok", False), "tolerance 10"),
        (_set("phases", 0, "client_ios", 7), "issued 7"),
        (_set("phases", 0, "lost_events", 3), "3 trace events"),
        (_set("phases", 0, "server_ios", 0), "no I/O"),
        (_set("phases", 0, "name", "other"), "no I/O"),
        (_set("phases", 2, "server_ios", None), "write-pool: the manifest lacks the server's I/Os"),
        (_set("phases", 2, "lost_events", None), "write-pool: the manifest lacks the server's I/Os"),
        (_set("phases", 0, "extremes", [EXTREME]), "The extremes of read"),
        (_set("phases", []), "no phases"),
        (_set("reference", "nobody"), "no reference 'nobody'"),
    ],
)
def test_unknown(synthetic, change, words):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    change(manifest)
    result = summarise(frame, manifest)
    assert result["verdict"] == "unknown"
    assert words in " ".join(result["reasons"])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_set("phases", 1, "checks", 0, "ok", "yes"), r'phases\[1\]\.checks\[0\]\.ok: .*, not "yes"'),
        (_set("phases", 2, "checks", 0, {}), r"phases\[2\]\.checks\[0\]\.name: field required"),
        (_set("phases", 0, "extremes", [{}]), r"phases\[0\]\.extremes\[0\]\.layer"),
        (_set("phases", 0, "name", ["read"]), r"phases\[0\]\.name"),
        (_set("phases", [3]), r"phases\[0\]"),
        (_set("phases", 0, "events", [{"time_ns": "soon", "kind": "txg"}]), r"events\[0\]\.time_ns"),
        (_set("expect", [{}]), r"expect\[0\]\.phase"),
        (_set("problems", 3), r"problems: .*, not 3"),
    ],
)
def test_what_is_damaged_is_refused(synthetic, change, place):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    change(manifest)
    with pytest.raises(ConfigError, match=place) as caught:
        summarise(frame, manifest)
    assert caught.value.exit_code == 2 and "damaged" in caught.value.hint


@pytest.mark.parametrize(("ended", "verdict"), [(False, "unknown"), (True, "valid"), (None, "unknown")])
def test_a_run_that_was_killed_after_a_phase_is_no_whole_one(synthetic, ended, verdict):
    """It is stored after each phase; only what says that it has ended has."""
    frame = synthetic.realistic(20, 60, 1)
    manifest = synthetic.manifest(frame, 20)
    manifest["ended"] = ended
    if ended is None:
        del manifest["ended"]
    told = summarise(frame, manifest)
    assert told["verdict"] == verdict
    assert any("has not ended" in reason for reason in told["reasons"]) is (not ended)


def test_all_problems_are_kept(synthetic):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    manifest["problems"] = synthetic.problems(*(f"problem {n}" for n in range(500)))
    texts = {each["text"] for each in manifest["problems"]}
    assert texts <= set(summarise(frame, manifest)["reasons"])


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"tier": "pool", "min_count": 1, "inside": False}, "0 reads (pool), at least 1 expected"),
        ({"tier": "pool", "min_count": 0, "inside": True}, "no I/O that could be inside"),
    ],
)
def test_invalid(synthetic, wish, words):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    manifest["expect"].append({"phase": "read", "op": "read", **wish})
    result = summarise(frame, manifest)
    assert result["verdict"] == "invalid"
    assert words in " ".join(result["reasons"])
    assert result["expect"][-1]["ok"] is False


def test_outside_the_published_range(synthetic):
    frame = synthetic.latency().with_columns(
        [
            pl.when(pl.col("tier") == "slog").then(pl.col(c) * 2).otherwise(pl.col(c))
            for c in ("lo_ns", "hi_ns")
        ]
    )
    result = summarise(frame, synthetic.manifest(frame))
    assert result["verdict"] == "invalid"
    assert "published 137 to 181 µs" in result["reasons"][0]


@pytest.mark.parametrize("measured", ["all", "no I/O", "no phase"])
def test_a_run_that_measured_nothing_says_so_and_not_what_its_latencies_mean(measured):
    found = {"host": "nas", "check": "load", "state": "warn", "found": "5", "meaning": "Slow.", "remedy": ""}
    whole, frame = manifest() | {"findings": [found]}, latency()
    if measured != "all":
        frame = frame.clear()
        none = {"client_ios": 0, "server_ios": 0}
        whole["phases"] = [phase | none for phase in whole["phases"]] if measured == "no I/O" else []
    made = summarise(frame, whole)
    assert ("nas: load: 5. Slow." in made["notes"]) == (measured == "all")
    said = " ".join(made["reasons"])
    assert "the phase is from" not in said and ("has no I/O" in said) == (measured == "no I/O")
