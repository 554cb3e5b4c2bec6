"""`python -m tests.figures [RUN]`: the figures of the documents that come from a run of `hsp demo`, anew.

Runs the demo, or takes the stored RUN of one; writes STORED, and from it the tables between
`<!-- figures: NAME -->` and `<!-- figures end -->` in README.md and docs.
tests/docs/test_figures.py compares them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import reports
from kit.core.units import commas, format_latency, format_latency_range
from kit.session.reproducing.claims import claims
from kit.store.run_directory import RunDir
from reports.published.share import share_inside
from reports.statistics import band_detection

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "kit" / "session" / "reproducing" / "figures.json"
_MARKED = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- figures end -->)", re.DOTALL)
_NAMES = {
    "dram": "random read | DRAM (ARC)",
    "l2arc": "random read | L2ARC",
    "disk": "random read | disk",
    "slog": "O_DSYNC write | SLOG",
    "pool": "O_DSYNC write | pool disk (no SLOG)",
}
# By place, as in docs/decisions/0022-modes-in-the-lab.md.
_MODES = (
    "the block is in the dbuf cache: no `arc_read`, no `dbuf_create`",
    "the block is in the ARC alone: `dbuf_create` and `arc_read`",
    "as before, and nfsd frees pages: 10,200 to 10,400 instructions more (2.6 µs)",
)
Figures = Mapping[str, Any]


def measured(run: RunDir) -> dict[str, Any]:
    """The figures of a run of the main job on the lab. Raises SystemExit for another run."""
    stored, _ = reports.stored_run(run)
    manifest, summary = stored.manifest, stored.summary
    if manifest.workload != "top-speeds" or not manifest.testbed.emulated or summary.verdict != "valid":
        sys.exit(f"{run.path}: not a valid run of hsp demo")
    bins = stored.latency.bins
    return {
        "command": "python -m tests.figures",
        "measured_with": "hsp demo",
        "hsp": manifest.versions["hsp"],
        "date": manifest.started_utc[:10] if manifest.started_utc else "",
        "run": manifest.run,
        "rows": [
            {
                "tier": row.tier, "ios": row.count, "p50_us": row.p50_us, "range_us": row.range_us,
                "published_us": row.published.range_us,
                "inside": round(share_inside(bins, row, row.published.range_us) or 0.0, 4),
            }
            for row in summary.main_rows
            if row.published
        ],
        "dram_modes": _modes(bins),
    }  # fmt: skip


def _modes(bins: pl.DataFrame) -> list[dict[str, float]]:
    """Place (us) and part of the reads of each mode of reads from DRAM with 1 % of them."""
    mine = (pl.col("layer") == "nfs-server") & (pl.col("tier") == "dram") & (pl.col("op") == "read")
    sums = bins.filter(mine).group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns")
    found = band_detection.find(sums.rows()).bands
    return [
        {"us": round(each.modes_ns[0] / 1e3, 2), "share": round(each.share, 3)}
        for each in found
        if each.share >= 0.01
    ]


def _tiers(figures: Figures) -> str:
    lines = [
        "| op, 512 B | answered by | I/Os | p50 (±1.6 %) | 95 % within | published | share inside |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in figures["rows"]:
        p50, inside = format_latency(row["p50_us"]), f"{row['inside']:.0%}".replace("%", " %")
        lines.append(
            f"| {_NAMES[row['tier']]} | {commas(row['ios'])} | {p50} | {_range(row['range_us'])} "
            f"| {_range(row['published_us'])} | {inside} |"
        )
    return "\n".join([*lines, "", _stamp(figures)])


def _range(range_us: tuple[float, float]) -> str:
    return format_latency_range(*range_us).replace(" to ", "\N{EN DASH}")


def _stamp(figures: Figures) -> str:
    return (
        f"Run {figures['run']} of `{figures['measured_with']}`, hsp {figures['hsp']}, {figures['date']}. "
        f"`{figures['command']}` makes these figures anew."
    )


def _dram_modes(figures: Figures) -> str:
    modes = figures["dram_modes"]
    lines = ["| mode | reads | what is different |", "|---|---|---|"]
    for mode, words in zip(modes, _MODES, strict=len(modes) == len(_MODES)):
        lines.append(f"| {format_latency(mode['us'])} | {mode['share'] * 100:.2g} % | {words} |")
    return "\n".join([*lines, "", _stamp(figures)])


def _claims(_: Figures) -> str:
    parts = []
    for each in claims():
        parts += [f"### {each.name}", textwrap.fill(each.head, 110), each.table().markdown().rstrip()]
    return "\n\n".join(parts)


TABLES: Mapping[str, Callable[[Figures], str]] = {
    "tiers": _tiers, "dram-modes": _dram_modes, "claims": _claims,
}  # fmt: skip


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, figures: Figures) -> str:
    """`text` with its marked tables as `figures` have them."""
    return _MARKED.sub(lambda found: f"{found[1]}{TABLES[found[2]](figures)}\n{found[3]}", text)


def _demo(results: Path) -> RunDir:
    subprocess.run([sys.executable, "-m", "kit.cli", "demo", "--results", results], cwd=ROOT, check=True)
    return RunDir((results / "top-speeds" / "latest").resolve())


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.figures")
    parser.add_argument("run", nargs="?", type=Path, help="a stored run of hsp demo; without it one is made")
    given: Path | None = parser.parse_args(words).run
    with tempfile.TemporaryDirectory() as results:
        figures = measured(RunDir(given.resolve()) if given else _demo(Path(results)))
    STORED.write_text(json.dumps(figures, indent=1) + "\n")
    for path in documents():
        text = path.read_text()
        if (made := filled(text, figures)) != text:
            path.write_text(made)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
