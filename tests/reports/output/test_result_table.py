"""reports.output.result_table: what a person reads in the terminal."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from kit.core.text import encoded
from kit.store.summary import Summary
from reports.analysis.headline import headline
from reports.output.result_table import result_lines
from tests.reports import synthetic

Json = dict[str, Any]
DASH = "\N{EN DASH}"


def lines_of(
    manifest: Json | None = None, frame: pl.DataFrame | None = None, width: int = 80, *findings: str
) -> list[str]:
    """The lines of a run, the synthetic one if there is none."""
    frame = synthetic.latency() if frame is None else frame
    manifest = manifest or synthetic.manifest()
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary")
    shown = headline(frame, synthetic.parsed(manifest), summary)
    return list(result_lines(summary, shown, width, findings))


@pytest.mark.parametrize("width", [*range(36, 101, 4), 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Nor is a figure cut, or torn from its unit."""
    long = "random reads of a working set that is larger than the cache device and the memory together"
    manifest = synthetic.manifest()
    manifest["phases"][0]["title"] = long
    manifest["problems"] = ["the server rebooted while the working set was being written to the pool"]
    frame = synthetic.latency().with_columns(pl.col("tier").replace("disk", "indirect"))
    lines = lines_of(manifest, frame, width, "a finding that is longer than a narrow terminal is wide")
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert " ".join(text.split()).count(long) == 1
    for figure in ("141 µs", f"128{DASH}260 µs", "36x SLOG", "5.05 ms"):
        assert figure in text, figure


def test_many_phases() -> None:
    manifest, frames = synthetic.manifest(), []
    phase = manifest["phases"][0]
    manifest["phases"] = [{**phase, "name": f"p{n}", "title": f"phase {n}"} for n in range(60)]
    read = synthetic.latency().filter(pl.col("phase") == "read")
    frames = [read.with_columns(pl.lit(f"p{n}").alias("phase")) for n in range(60)]
    lines = lines_of(manifest, pl.concat(frames))
    assert [line for line in lines if line.startswith("phase ")] == [f"phase {n}" for n in range(60)]
    assert len([line for line in lines if line.startswith(" DRAM (ARC)")]) == 60


def test_without_utf8_a_microsecond_is_us() -> None:
    text = "\n".join(lines_of())
    for encoding in ("ascii", "latin-1", "cp437"):
        shown = encoded(text, encoding).decode(encoding)
        assert "141 us" in shown and "128-260 us" in shown and shown.isascii()
    assert encoded(text, "UTF-8").decode() == text == encoded(text, "utf8").decode()
