"""Progress on standard error.

On a terminal a step shows a spinner, the seconds so far and, if known, a bar; it ends as one
line with a check mark. In a pipe or a log a step is exactly one line, written when it ends.
Standard output is for results only.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_REFRESH_PER_SECOND = 8
_BAR_WIDTH = 24


class _Running:
    """The innermost open step as rich draws it: spinner, text, seconds so far, bar."""

    def __init__(self, unicode: bool) -> None:
        self._spinner = Spinner("dots" if unicode else "line")
        self.steps: list[tuple[str, float]] = []
        self.fraction: float | None = None

    def __rich__(self) -> Spinner | Table | Text:
        if not self.steps:
            return Text("")
        text, started = self.steps[-1]
        self._spinner.text = Text(f"{text}  {time.monotonic() - started:.0f} s")
        if self.fraction is None:
            return self._spinner
        row = Table.grid(padding=(0, 1))
        row.add_row(self._spinner, ProgressBar(1.0, self.fraction, _BAR_WIDTH), f"{self.fraction:.0%}")
        return row


class Progress:
    """Steps and notes on standard error; with `quiet`, only steps that fail."""

    def __init__(self, quiet: bool = False, *, stream: TextIO | None = None) -> None:
        self._quiet = quiet
        self._console = Console(
            file=sys.stderr if stream is None else stream,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )
        self._terminal = self._console.is_terminal and os.environ.get("TERM", "") not in ("", "dumb")
        self._unicode = self._console.encoding.lower().startswith("utf")
        self._running = _Running(self._unicode)
        self._live: Live | None = None
        self._number, self._total = 0, 0

    @contextmanager
    def numbered(self, total: int) -> Iterator[None]:
        """Number the steps of this block [1/total], [2/total]...; steps inside them have no number."""
        outer = self._number, self._total
        self._number, self._total = 0, total
        try:
            yield
        finally:
            self._number, self._total = outer

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` while the block runs."""
        started = time.monotonic()
        if self._total:
            self._number += 1
            # A repeated step does not raise the total.
            number = min(self._number, self._total)
            text = f"[{number}/{self._total}] {text}"
            self._begin(text, started)
            self.update((number - 1) / self._total)
        else:
            self._begin(text, started)
        try:
            with self.numbered(0):
                yield
        except BaseException:
            self._end(text, started, failed=True)
            raise
        self._end(text, started, failed=False)

    def update(self, fraction: float) -> None:
        """Set the part of the innermost open step that is done, 0 to 1; shown on a terminal only."""
        self._running.fraction = min(max(fraction, 0.0), 1.0)

    def note(self, text: str) -> None:
        """Print one line."""
        if not self._quiet:
            self._console.print(Text(text))

    def _begin(self, text: str, started: float) -> None:
        self._running.steps.append((text, started))
        self._running.fraction = None
        if self._terminal and not self._quiet and self._live is None:
            self._live = Live(
                self._running,
                console=self._console,
                refresh_per_second=_REFRESH_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _end(self, text: str, started: float, *, failed: bool) -> None:
        if (text, started) in self._running.steps:
            self._running.steps.remove((text, started))
            self._running.fraction = None
        if self._live is not None and not self._running.steps:
            self._live.stop()
            self._live = None
        if failed or not self._quiet:
            self._console.print(self._ended(text, time.monotonic() - started, failed))

    def _ended(self, text: str, seconds: float, failed: bool) -> Text:
        line = f"{text}: failed after {seconds:.1f} s" if failed else f"{text}: {seconds:.1f} s"
        if not self._terminal:
            return Text(line)
        ok, failure = ("✓", "✗") if self._unicode else ("ok", "!!")
        mark, style = (failure, "red") if failed else (ok, "green")
        return Text.assemble((mark, style), " ", line)
