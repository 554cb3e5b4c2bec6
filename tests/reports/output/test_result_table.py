"""reports.output.result_table: what a person reads in the terminal."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.core.text import encoded
from kit.store.summary import Summary
from reports.analysis.headline import headline
from reports.output.result_table import result_lines
from tests.reports import synthetic

Json = dict[str, Any]


def lines_of(
    manifest: Json | None = None, frame: pl.DataFrame | None = None, width: int = 80, *findings: str
) -> list[str]:
    """The lines of a run, the synthetic one if there is none."""
    frame = synthetic.latency() if frame is None else frame
    manifest = manifest or synthetic.manifest()
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary")
    shown = headline(frame, synthetic.parsed(manifest), summary)
    return list(result_lines(summary, shown, width, findings))


def test_without_utf8_a_microsecond_is_us() -> None:
    text = "\n".join(lines_of())
    for encoding in ("ascii", "latin-1", "cp437"):
        shown = encoded(text, encoding).decode(encoding)
        assert "141 us" in shown and "128-260 us" in shown and shown.isascii()
    assert encoded(text, "UTF-8").decode() == text == encoded(text, "utf8").decode()
