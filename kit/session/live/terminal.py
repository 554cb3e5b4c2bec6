"""`--live`: a scrolling heat map and a line per tier on the terminal, below the step that is under way."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kit.core.bins import bin_edges
from kit.core.errors import error_text
from kit.core.text import commas, safe_text
from kit.core.units import format_latency
from kit.session.live.counts import LiveCounts
from kit.session.live.run_reader import PhaseSoFar, RunReader
from kit.store.labels import op_name, tier_name
from kit.store.run_directory import RunDir
from reports.figures.palette import HUES

_POLL_S = 0.5
# Two rows an octave; what is rarer than a hundredth of the most has the colour of the rarest.
_ROWS_PER_OCTAVE, _DECADES, _MOST_ROWS, _LABEL = 2, 2.0, 18, 9
# Of terminals without colour: a letter a tier, small for few I/Os.
_LETTERS = {"dram": "A", "l2arc": "C", "special": "V", "disk": "D", "slog": "S", "pool": "P"}
_FEW = 0.5
_LEVELS = 8


def why_off(*, quiet: bool, json_output: bool) -> str:
    """Why `--live` shows nothing here; "" if it can."""
    if json_output:
        return "--json"
    if quiet:
        return "--quiet"
    if not sys.stderr.isatty():
        return "stderr is no terminal"
    if os.environ.get("TERM", "") in ("", "dumb"):
        return "TERM is dumb"
    return "CI is set" if os.environ.get("CI", "") not in ("", "0", "false") else ""


class LiveView:
    """A rich renderable of the phase that is measured; empty before the first."""

    def __init__(self, run_dir: RunDir) -> None:
        self._reader, self._next_s = RunReader(run_dir), 0.0
        self._failure = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        made = None
        if not self._failure:
            # A view that fails must not end the run, whatever a host or a file says.
            try:
                made = self._drawn(console, options)
            except Exception as error:
                self._failure = f"live view: {error_text(error)}"
        if self._failure:
            yield Text(safe_text(self._failure))
        elif made is not None:
            yield made

    def _drawn(self, console: Console, options: ConsoleOptions) -> Group | None:
        phase = self._reader.phase
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _POLL_S
            phase = self._reader.poll()
        if phase is None or phase.counts.last < 0:
            return None
        return drawn(phase, console, options.max_width, options.size.height)


def drawn(phase: PhaseSoFar, console: Console, width: int, height: int) -> Group:
    """The phase as `width` columns of text, and fewer lines than `height`."""
    counts, about = phase.counts, phase.about
    lines = counts.lines(ended=phase.ended)
    done_s, all_s = min(counts.measured_ns, about.duration_ns) / 1e9, about.duration_ns / 1e9
    rate = sum(line.per_s for line in lines if line.op != "commit")
    state = "ended" if phase.ended else f"{commas(rate)} I/O/s"
    title = Text(safe_text(f"{about.phase}: {done_s:.1f} of {all_s:.1f} s, {state}"), no_wrap=True)
    rows = max(4, min(_MOST_ROWS, height - len(lines) - 6))
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_row("", "share", "I/O/s", "p50", "p99", style=Style(dim=True))
    for line in lines:
        letter = f"{_letter(line.tier)} " if _is_plain(console) and line.op != "commit" else ""
        name = f"{letter}{tier_name(line.tier)}, {op_name(line.op)}"
        share = "" if line.op == "commit" else f"{line.share:.1%}"
        style = Style() if _is_plain(console) else Style(color=_hue(line.tier, 1.0))
        times = (_time(line.p50_ns), _time(line.p99_ns))
        table.add_row(Text(safe_text(name), style=style), share, commas(line.per_s), *times)
    problems = [Text(safe_text(each), no_wrap=True) for each in phase.problems[:2]]
    return Group(title, *_map(counts, console, width, rows), table, *problems)


def _time(value_ns: float | None) -> str:
    return "n too small" if value_ns is None else format_latency(value_ns / 1e3)


def _map(counts: LiveCounts, console: Console, width: int, most_rows: int) -> list[Text]:
    """The newest columns, one letter each; the slowest row first."""
    shown = max(min(width - _LABEL - 1, 160), 8)
    newest = counts.last // counts.merged
    columns = [_rows_of(counts.columns.get(n, {})) for n in range(max(0, newest - shown + 1), newest + 1)]
    used = Counter[int]()
    for column in columns:
        for (row, _), count in column.items():
            used[row] += count
    if not used:
        return [Text("no I/O yet")]
    top = max(used)
    low = max(min(used), top - most_rows + 1)
    most = max(max(column.values(), default=1) for column in columns)
    lines = []
    for row in range(top, low - 1, -1):
        label = format_latency(_edge_ns(row) / 1e3) if row % _ROWS_PER_OCTAVE == 0 or row == top else ""
        if row == low > min(used):
            label = f"<= {format_latency(_edge_ns(row + 1) / 1e3)}"
        line = Text(f"{label:>{_LABEL}} ", no_wrap=True)
        cells = (_cell(_in_row(column, row, low), most, console) for column in columns)
        # Neighbours that are alike share their codes: each would have 20 bytes of its own.
        for (_, style), alike in itertools.groupby(cells):
            line.append("".join(letter for letter, _ in alike), style)
        lines.append(line)
    seconds = len(columns) * counts.merged * counts.interval_ns / 1e9
    each_s = counts.merged * counts.interval_ns / 1e9
    lines.append(Text(f"{'':>{_LABEL}} the last {seconds:.3g} s, {each_s:.3g} s a column",
                      style=Style(dim=True), no_wrap=True))  # fmt: skip
    return lines


def _rows_of(column: Mapping[tuple[str, str], Mapping[int, int]]) -> Counter[tuple[int, str]]:
    """I/Os by row (half octaves of latency) and tier."""
    made = Counter[tuple[int, str]]()
    for (_, tier), bins in column.items():
        low = bin_edges(list(bins))[0]
        rows = np.floor(np.log2(np.maximum(low, 1)) * _ROWS_PER_OCTAVE + 1e-9).astype(int)
        for row, count in zip(rows.tolist(), bins.values(), strict=True):
            made[(row, tier)] += count
    return made


def _in_row(column: Mapping[tuple[int, str], int], row: int, low: int) -> Counter[str]:
    """I/Os by tier. What is faster than the lowest row, `low`, is counted there."""
    here = Counter[str]()
    for (at, tier), count in column.items():
        if at == row or (row == low and at < low):
            here[tier] += count
    return here


def _edge_ns(row: int) -> float:
    return float(2.0 ** (row / _ROWS_PER_OCTAVE))


def _cell(here: Mapping[str, int], most: int, console: Console) -> tuple[str, Style]:
    """The tier with the most I/Os: its hue, lighter where there are more, or without colour its letter."""
    total = sum(here.values())
    if not total:
        return " ", Style()
    part = max(0.0, 1 + np.log10(total / most) / _DECADES)
    tier = max(here, key=lambda each: here[each])
    if _is_plain(console):
        return _letter(tier) if part >= _FEW else _letter(tier).lower(), Style()
    return " ", Style(bgcolor=_hue(tier, round(part * _LEVELS) / _LEVELS))


def _is_plain(console: Console) -> bool:
    return console.no_color or console.color_system is None


def _letter(tier: str) -> str:
    return _LETTERS.get(tier, "O")


def _hue(tier: str, part: float) -> str:
    """A tier's colour on a dark page, from few I/Os (0) to many (1), as in the report."""
    few, many = HUES["dark"]["classic"].get(tier, HUES["dark"]["other"])
    mixed = (round(int(few[k : k + 2], 16) * (1 - part) + int(many[k : k + 2], 16) * part) for k in (1, 3, 5))
    return "#" + "".join(f"{value:02x}" for value in mixed)
