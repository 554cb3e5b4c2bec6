"""kit.core.progress on a terminal, in a pipe, and quiet."""

from __future__ import annotations

import io
import re
import threading

import pytest
from rich.console import Console, ConsoleOptions, RenderResult

from kit.core.progress import Progress
from tests.kit.hosts.conftest import until

pytestmark = pytest.mark.any_python

SECONDS = r"\d+\.\d s"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Computed:
    """Lines that are asked for at each drawing."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines


def on_terminal() -> tuple[Progress, Terminal]:
    stream = Terminal()
    return Progress(stream=stream), stream


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_step_off_a_terminal_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.step("compiling OpenZFS modules"):
        assert capsys.readouterr().err == ""
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"compiling OpenZFS modules: {SECONDS}\n", err)


def test_a_long_step_off_a_terminal_says_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing calls it meanwhile: a build of minutes is one call."""
    monkeypatch.setattr("kit.core.progress._LONG_S", 0.01)
    progress, told = Progress(), threading.Event()
    monkeypatch.setattr(
        progress, "note", lambda text: (texts.append(text), text.endswith("reading facts") and told.set())
    )
    texts: list[str] = []
    with progress.step("checking"):
        progress.detail("nas: reading facts")
        assert told.wait(30)
    assert re.fullmatch(r"checking: [0-9]+ s  nas: reading facts", texts[-1])
    assert re.fullmatch(rf"checking: {SECONDS}\n", capsys.readouterr().err)


def test_a_failing_step_is_reported_and_raises_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with pytest.raises(KeyError, match="disk"), progress.step("making the pool"):
        raise KeyError("disk")
    assert re.fullmatch(rf"making the pool: failed after {SECONDS}\n", capsys.readouterr().err)


def test_an_interrupted_step_did_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Progress().step("starting the lab"):
        raise KeyboardInterrupt
    assert re.fullmatch(rf"starting the lab: interrupted after {SECONDS}\n", capsys.readouterr().err)


@pytest.mark.parametrize("terminal", [True, False])
def test_foreign_text_cannot_control_the_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal() if terminal else io.StringIO()
    progress, foreign = Progress(stream=stream), "a\x1b]0;title\x07\x1b[2J\x9b31m\u202eb\r\nc"
    with progress.step(foreign):
        progress.note(foreign)
    with pytest.raises(ValueError), progress.step(foreign):
        raise ValueError
    plain = re.sub(r"\x1b\[(\d*[ABKm]|\?25[lh]|1A|2K)", "", stream.getvalue())  # rich's own
    assert "a?]0;title??[2J?31m?b" in plain
    assert not re.search("[\x1b\x07\x9b\u202e]", plain)


def test_nested_steps_end_inside_out(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.step("outer"), progress.step("inner"):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["inner", "outer"]


def test_quiet_shows_only_failures(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(quiet=True)
    progress.note("hidden")
    with progress.step("fine"):
        pass
    with pytest.raises(ValueError), progress.step("broken"):
        raise ValueError
    assert re.fullmatch(rf"broken: failed after {SECONDS}\n", capsys.readouterr().err)


def test_markup_and_long_texts_come_out_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold]disk[/bold] [/oops] :warning: " + "x" * 300
    progress = Progress()
    progress.note(text)
    with progress.step(text):
        pass
    first, second = capsys.readouterr().err.splitlines()
    assert first == text
    assert second.startswith(text + ": ")


def test_a_terminal_gets_a_spinner_then_a_check_mark() -> None:
    progress, stream = on_terminal()
    with progress.step("[red]booting"), progress.step("waiting for ssh"):
        progress.note("a note")
    shown = stream.getvalue()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"[⠀-⣿] \[red\]booting  0 s", plain)
    assert "a note\n" in plain
    assert re.search(rf"✓ waiting for ssh: {SECONDS}\n", plain)
    assert re.search(rf"✓ \[red\]booting: {SECONDS}\n", plain)
    assert "\x1b[32m" in shown


def test_a_failure_on_a_terminal_is_marked() -> None:
    progress, stream = on_terminal()
    with pytest.raises(ValueError), progress.step("booting"):
        raise ValueError
    assert re.search(rf"✗.* booting: failed after {SECONDS}\n", stream.getvalue())


def test_no_color_leaves_colour_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    progress, stream = on_terminal()
    with progress.step("booting"):
        pass
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", stream.getvalue())


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress, stream = on_terminal()
    with progress.step("booting"):
        pass
    assert re.fullmatch(rf"booting: {SECONDS}\n", stream.getvalue())


def test_numbered_steps_show_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.numbered(2):
        with progress.step("modules"), progress.step("inner"):
            pass
        with progress.step("guest"):
            pass
    with progress.step("after"):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["inner", "[1/2] modules", "[2/2] guest", "after"]


def test_a_bar_shows_the_fraction_on_a_terminal_and_ends_with_its_step() -> None:
    progress, stream = on_terminal()
    with progress.step("filling"):
        progress.update(0.4)
        assert until(lambda: "40%" in stream.getvalue())  # rich draws eight times a second
    with progress.step("measuring"):
        assert until(lambda: "measuring" in stream.getvalue())
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    before, after = plain.split("✓ filling")
    assert re.search(r"filling  \d+ s ━+╸?━* +40%", before)
    assert "%" not in after


def test_a_fraction_off_a_terminal_adds_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.step("filling"):
        progress.update(0.4)
    assert len(capsys.readouterr().err.splitlines()) == 1


def screen(written: str) -> list[str]:
    """What stands on a terminal that got this: rich's own moves of the cursor, no wrapping."""
    lines, row, column = [""], 0, 0
    for count, move, text in re.findall(r"\x1b\[\??(\d*)[\d;]*([A-Za-z])|(\r|\n|[^\x1b\r\n]+)", written):
        if move == "A":
            row -= int(count)
        elif move == "B":
            row += int(count)
        elif move == "K":
            lines[row] = ""
        elif text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif text:
            lines[row] = f"{lines[row]:{column}}"[:column] + text + lines[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines]


def test_only_lines_that_have_changed_are_written_again() -> None:
    progress, stream = on_terminal()
    view = ["one", "two", "x" * 60]
    progress.show_below(Computed(view))
    with progress.step("measuring"):
        live = progress._live
        assert live is not None
        live.refresh()
        progress.note("a note")
        live.refresh()
        for change in ("TWO", "and 2"):
            view[1] = change
            before = len(stream.getvalue())
            live.refresh()
            written = stream.getvalue()[before:]
            assert change in written and "one" not in written and "x" * 60 not in written
            note, step, *below = screen(stream.getvalue())
            assert note == "a note" and "measuring" in step and below == view
        view.append("four")
        live.refresh()
        assert screen(stream.getvalue())[2:] == view
    assert [line for line in screen(stream.getvalue()) if line][1].startswith("✓ measuring")
