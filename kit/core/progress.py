"""Progress on standard error.

On a terminal a step shows a spinner, the seconds so far and, if known, a bar; it ends as one
line with a check mark. Only lines that have changed are written again, so a typescript stays small.
In a pipe or a log a step is one line, written when it ends, and one each half minute while it goes on.
Standard output is for results only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TextIO, cast

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment, Segments
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kit.core.errors import error_text
from kit.core.output import MessageStream
from kit.core.terminal import TERMINAL
from kit.core.text import safe_text

_REFRESH_PER_SECOND = 4
_BAR_WIDTH = 24
_LONG_S = 30.0
# What cannot be drawn ends no step: the cleanup of a run is one.
_HARMLESS = suppress(Exception)
_Lines = list[list[Segment]]


class _ChangedLines(Live):
    """A live display that writes only lines that differ from those on the screen, if it has as many."""

    _shown: _Lines | None = None
    _width = 0

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        *above, _ = processed = super().process_renderables(renderables)
        if not self.console.is_interactive:
            return processed
        with self._lock:
            before, width = self._shown, self.console.width
            # As rich does it, which notes how many lines there are.
            lines = self.console.render_lines(self._live_render, pad=False, new_lines=False)
            same = before is not None and (len(before), self._width) == (len(lines), width)
            self._shown, self._width = lines, width
            # Of a refresh alone: whatever is printed above it moves all lines.
            if same and before and all(isinstance(each, Control) for each in renderables):
                return [*renderables, Segments(_rewritten(before, lines))]
            return [*above, Segments(_joined(lines))]


def _joined(lines: _Lines) -> Iterable[Segment]:
    for number, line in enumerate(lines):
        if number:
            yield Segment.line()
        yield from line


def _rewritten(before: _Lines, lines: _Lines) -> Iterable[Segment]:
    """From the last line, where the cursor is, to each changed one and back."""
    for number, (old, new) in enumerate(zip(before, lines, strict=True)):
        if old == new:
            continue
        up = len(lines) - 1 - number
        moves = ((ControlType.CURSOR_UP, up),) if up else ()
        yield Control(ControlType.CARRIAGE_RETURN, *moves, (ControlType.ERASE_IN_LINE, 2)).segment
        yield from new
        if up:
            yield Control(ControlType.CARRIAGE_RETURN, (ControlType.CURSOR_DOWN, up)).segment


class _Below:
    """A view that may fail: then it is left out, and its error stands there."""

    def __init__(self, view: RenderableType) -> None:
        self._view, self._failure = view, ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments: list[Segment] = []
        try:
            if not self._failure:
                segments = list(console.render(self._view, options))
        except Exception as error:
            self._failure = f"the view failed: {error_text(error)}"
        if self._failure:
            yield Text(safe_text(self._failure))
        yield from segments


class Progress:
    """Steps and notes on standard error; with `quiet` (-q), only steps that fail."""

    def __init__(self, quiet: bool | None = None, *, stream: TextIO | None = None) -> None:
        self._quiet = TERMINAL.quiet if quiet is None else quiet
        self._console = Console(
            file=cast(IO[str], MessageStream(stream)),
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
            no_color=True if TERMINAL.color == "never" else None,
        )
        self._terminal = self._console.is_terminal and os.environ.get("TERM", "") not in ("", "dumb")
        self._unicode = self._console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if self._unicode else "line")
        self._steps: list[tuple[str, float]] = []
        self._fraction: float | None = None
        self._detail = ""
        self._live: _ChangedLines | None = None
        self._number, self._total = 0, 0
        self._ended: threading.Event | None = None
        self._below: RenderableType | None = None

    def show_below(self, view: RenderableType) -> None:
        """Draw `view` below each open step; on a terminal only. It is asked anew at each drawing."""
        self._below = _Below(view)

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
        text, fraction = safe_text(text), None
        if self._total:
            self._number += 1
            # A repeated step does not raise the total.
            number = min(self._number, self._total)
            text, fraction = f"[{number}/{self._total}] {text}", (number - 1) / self._total
        started = self._begin(text, fraction)
        outcome = "failed after "
        try:
            with self.numbered(0):
                yield
            outcome = ""
        except KeyboardInterrupt:
            outcome = "interrupted after "
            raise
        finally:
            self._end(text, started, outcome)

    def update(self, fraction: float) -> None:
        """Set the part of the innermost open step that is done, 0 to 1."""
        self._fraction = min(max(fraction, 0.0), 1.0)

    def detail(self, text: str) -> None:
        """Set what the innermost open step does now."""
        self._detail = safe_text(text)

    def _go_on_telling(self, ended: threading.Event) -> None:
        """Without a terminal: that the innermost open step goes on, and what it does."""
        while not ended.wait(_LONG_S):
            # The last step may end meanwhile.
            with suppress(IndexError):
                step, started = self._steps[-1]
                done = "" if self._fraction is None else f", {self._fraction:.0%}"
                self.note(f"{step}: {time.monotonic() - started:.0f} s{done}  {self._detail}".rstrip())

    def note(self, text: str) -> None:
        """Print text, which may be several lines."""
        if not self._quiet:
            with _HARMLESS:
                self._console.print(Text("\n".join(map(safe_text, text.splitlines()))))

    def _begin(self, text: str, fraction: float | None) -> float:
        started = time.monotonic()
        self._steps.append((text, started))
        self._fraction, self._detail = fraction, ""
        if not self._quiet and not self._terminal and self._ended is None:
            self._ended = threading.Event()
            threading.Thread(target=self._go_on_telling, args=[self._ended], daemon=True).start()
        if self._terminal and not self._quiet and self._live is None:
            self._live = _ChangedLines(
                console=self._console,
                refresh_per_second=_REFRESH_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=self._drawn,
                vertical_overflow="crop",
            )
            with _HARMLESS:
                self._live.start()
        return started

    def _drawn(self) -> RenderableType:
        return self._innermost() if self._below is None else Group(self._innermost(), self._below)

    def _innermost(self) -> Spinner | Table | Text:
        """The innermost open step as rich draws it: spinner, text, seconds so far, bar."""
        if not self._steps:
            return Text("")
        text, started = self._steps[-1]
        self._spinner.text = Text(f"{text}  {time.monotonic() - started:.0f} s  {self._detail}".rstrip())
        if self._fraction is None:
            return self._spinner
        row = Table.grid(padding=(0, 1))
        row.add_row(self._spinner, ProgressBar(1.0, self._fraction, _BAR_WIDTH), f"{self._fraction:.0%}")
        return row

    def _end(self, text: str, started: float, failure: str) -> None:
        """`failure`: empty, or such as "failed after "."""
        if (text, started) in self._steps:
            self._steps.remove((text, started))
            self._fraction, self._detail = None, ""
        if self._ended is not None and not self._steps:
            self._ended.set()
            self._ended = None
        if self._live is not None and not self._steps:
            live, self._live = self._live, None
            with _HARMLESS:
                live.stop()
        if self._quiet and not failure:
            return
        line = f"{text}: {failure}{time.monotonic() - started:.1f} s"
        right, wrong = ("✓", "✗") if self._unicode else ("ok", "!!")
        mark, style = (wrong, "red") if failure else (right, "green")
        with _HARMLESS:
            self._console.print(Text.assemble((mark, style), " ", line) if self._terminal else Text(line))
