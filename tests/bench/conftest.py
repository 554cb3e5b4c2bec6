"""One table of all benches at the end, and the same as bench.json (in HSP_BENCH_OUT, if that is set)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROWS = pytest.StashKey[list[dict[str, Any]]]()
Tell = Callable[..., None]


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """tell(row, what, value, unit, at_least=... or at_most=...): a line of the table."""
    rows = request.config.stash.setdefault(ROWS, [])

    def add(
        row: str,
        what: str,
        value: float,
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        reached = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        rows.append({"row": row, "what": what, "value": value, "unit": unit, "at_least": at_least,
                     "at_most": at_most, "reached": reached})  # fmt: skip
        print("\n" + line(rows[-1]), flush=True)

    return add


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    wanted = [f"{word} {row[key]:g}" for word, key in (("at least", "at_least"), ("at most", "at_most"))
              if row[key] is not None]  # fmt: skip
    reached = "" if not wanted else "reached" if row["reached"] else "NOT REACHED"
    told = f"{row['row']:3} {row['what']:68} {row['value']:9.2f} {row['unit']:4} "
    return f"{told} {', '.join(wanted):13} {reached}".rstrip()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = sorted(config.stash.get(ROWS, []), key=lambda row: str(row["row"]))
    if not rows:
        return
    terminalreporter.section("bench")
    for row in rows:
        terminalreporter.write_line(line(row))
    if folder := os.environ.get("HSP_BENCH_OUT"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / "bench.json"
        path.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
        terminalreporter.write_line(f"written: {path}")
