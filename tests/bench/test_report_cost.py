"""P3: a stored run to a finished report, against heat maps as nested lists. P4: percentiles from bins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

import reports
from kit.core.bins import bin_edges, bin_index
from kit.store import latency
from kit.store.json_file import write_json
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.summary import read_summary
from kit.store.tables import LATENCY_SCHEMA, read_latency, write_latency
from reports.analysis.analysed import described
from reports.page.report_page import render
from reports.statistics.quantiles import percentile_ns
from tests.bench.conftest import Tell, time_ratio

pytestmark = pytest.mark.bench

SECONDS = 3600
SECOND = 10**9
TIERS = {"dram": (6_800, 0.12), "l2arc": (155_000, 0.07), "disk": (5_000_000, 0.3)}


def an_hour(path: Path) -> RunDir:
    """One phase of an hour at one-second columns, 600 I/Os a second from three tiers, at both layers."""
    generator = np.random.default_rng(3)
    frames = []
    for tier, (median, sigma) in TIERS.items():
        time_ns = np.repeat(np.arange(SECONDS), 200) * SECOND
        taken_ns = (median * np.exp(sigma * generator.standard_normal(time_ns.size))).astype(np.int64)
        for layer, name, added in (("nfs-server", tier, 0), ("client", "all", 22_000)):
            lo, hi = bin_edges(bin_index(taken_ns + added))
            rows = pl.DataFrame({"time_ns": time_ns, "lo_ns": lo, "hi_ns": hi})
            rows = rows.group_by(rows.columns).agg(pl.len().cast(pl.Int64).alias("count"))
            named = {"phase": "read", "layer": layer, "host": "h", "op": "read", "tier": name}
            frames.append(rows.with_columns(pl.lit(v).alias(k) for k, v in named.items()))
    total = len(TIERS) * 200 * SECONDS
    phase = {"name": "read", "op": "read", "expected_tiers": list(TIERS), "job": "a.fio", "outstanding": 1,
             "block_bytes": 512, "start_ns": 0, "end_ns": SECONDS * SECOND, "interval_ns": SECOND,
             "client_ios": total, "server_ios": total, "lost_events": 0,
             "checks": [], "problems": []}  # fmt: skip
    run = RunDir(path)
    path.mkdir()
    write_json(
        path / "manifest.json",
        {"format": 1, "ended": True, "title": "An hour", "phases": [phase], "problems": []},
    )
    write_latency(run, pl.concat([f.select(list(LATENCY_SCHEMA)) for f in frames]))
    return run


def drawn_again(run: RunDir) -> None:
    """The page of a stored run, from its files; they have been analysed."""
    manifest = read_manifest(run)
    counts = latency.read(run, manifest.phases)
    html = render(counts, manifest, described(counts, manifest, read_summary(run)))
    run.report.write_text(html)


def naive(run: RunDir, target: Path) -> None:
    """The maps of our report as a user would draw them: nested lists, plotly's own file."""
    frame = read_latency(run)
    server = frame.filter(pl.col("layer") == "nfs-server")
    maps = [
        server,
        *(server.filter(pl.col("tier") == t) for t in TIERS),
        frame.filter(pl.col("layer") == "client"),
    ]
    parts = []
    for number, rows in enumerate(maps):
        edges = np.unique(np.concatenate([rows["lo_ns"].to_numpy(), rows["hi_ns"].to_numpy()]))
        counts = np.zeros((len(edges) - 1, SECONDS), dtype=np.int64)
        at = (np.searchsorted(edges, rows["lo_ns"].to_numpy()), rows["time_ns"].to_numpy() // SECOND)
        np.add.at(counts, at, rows["count"].to_numpy())
        heat = go.Heatmap(
            x=list(range(SECONDS + 1)),
            y=(edges / 1e3).tolist(),
            z=[[n or None for n in r] for r in counts.tolist()],
        )
        parts.append(target.with_suffix(f".{number}.html"))
        go.Figure(heat, {"yaxis": {"type": "log"}}).write_html(
            parts[-1], full_html=not number, include_plotlyjs=not number
        )
    target.write_bytes(b"".join(part.read_bytes() for part in parts))


def test_p3_report_against_nested_lists(tmp_path: Path, tell: Tell) -> None:
    run = an_hour(tmp_path / "run")
    peer = tmp_path / "naive.html"
    reports.analyse(run)
    faster = time_ratio(lambda: drawn_again(run), lambda: naive(run, peer))
    smaller = peer.stat().st_size / run.report.stat().st_size
    tell("P3", "an hour's report, size of nested lists / ours", smaller, "x", at_least=5)
    tell("P3", "an hour's report, time of nested lists / ours", faster, "x", at_least=5)
    assert run.report.stat().st_size < 8_000_000


def distributions() -> dict[str, np.ndarray]:
    generator, n = np.random.default_rng(4), 1_000_000
    return {
        "lognormal": generator.lognormal(11, 1.5, n),
        "exponential": generator.exponential(200_000, n),
        "uniform": generator.uniform(1_000, 9_000_000, n),
        "pareto": 20_000 * (1 + generator.pareto(1.5, n)),
        "three bands": np.concatenate(
            [generator.normal(m, m / 20, k) for m, k in ((6_800, n // 2), (155_000, n // 4), (5e6, n // 4))]
        ),
    }


def test_p4_percentiles_from_bins_against_the_sort(tell: Tell) -> None:
    worst = 0.0
    for name, values in distributions().items():
        exact = np.sort(np.maximum(values, 0).astype(np.int64))
        index, counts = np.unique(bin_index(exact), return_counts=True)
        lo, hi = bin_edges(index)
        bins = list(zip(lo.tolist(), hi.tolist(), counts.tolist(), strict=True))
        for q in (0.5, 0.99, 0.999):
            ours = percentile_ns(bins, q, (int(exact[0]), int(exact[-1])))
            truth = int(exact[int(np.ceil(q * exact.size)) - 1])
            assert ours is not None
            error = abs(ours - truth) / truth
            tell("P4", f"{name}, p{100 * q:g} from bins against the sort", 100 * error, "%", at_most=1.6)
            worst = max(worst, error)
    # Half a bin: this holds for any distribution.
    assert worst <= 0.016
