import io
import os
import pty
import re
import sys
import termios
import threading

import pytest
from rich.console import Console

from kit.core.progress import Progress
from kit.session.live import terminal
from kit.session.live.run_reader import RunReader
from kit.session.live.terminal import LiveView, why_off
from tests.kit.hosts.conftest import until
from tests.kit.session.live.rig import READ, going_on

pytestmark = pytest.mark.any_python


def shown(run, *, width=80, height=30, **console):
    phase = RunReader(run).poll()
    output = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, **console)
    output.print(terminal.drawn(phase, output, width, height))
    return output.file.getvalue()


@pytest.fixture
def run(tmp_path):
    made, journal = going_on(tmp_path)
    (made.raw / "read-trace.json").write_text(READ)
    yield made
    journal.close()


def test_the_view_fits_into_the_terminal_and_names_each_tier(run):
    for width, height in ((60, 20), (80, 24), (160, 50)):
        lines = re.sub(r"\x1b\[[0-9;]*m", "", shown(run, width=width, height=height)).splitlines()
        assert len(lines) < height and max(map(len, lines)) <= width, (width, height)
        text = "\n".join(lines)
        for name in (
            "read: 8.0 of 8.0 s, ended",
            "DRAM (ARC), reads",
            "SSD cache (L2ARC), reads",
            "disk, reads",
        ):
            assert name in text
        assert "p50" in text and "s a column" in text


def test_cells_have_the_hue_of_their_tier_and_letters_where_there_are_no_colours(run):
    assert re.search(r"\x1b\[(?:48;|4[0-7]m|10[0-7]m)", shown(run, color_system="truecolor"))
    plain = shown(run, no_color=True)
    assert "[48;" not in plain
    # Each tier has a letter of its own, which the table explains.
    of_tiers = dict(re.findall(r"^([A-Z]) (\S+).*, reads", plain, re.MULTILINE))
    assert of_tiers == {"A": "DRAM", "C": "SSD", "D": "disk", "O": "disk,"}
    assert all(re.search(f"^ .*[{each}{each.lower()}]", plain, re.MULTILINE) for each in "ACD")


def test_the_lowest_row_says_that_it_has_what_is_faster(run):
    plain = shown(run, no_color=True, width=80, height=16)
    assert re.findall(r"^ *(<= [0-9.]+ \S+)", plain, re.MULTILINE)


def test_a_terminal_gets_the_view_below_the_step(run, monkeypatch):
    """A pseudo-terminal of its own: what a person would see."""
    monkeypatch.setenv("TERM", "xterm-256color")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 90))
    with open(theirs, "w", buffering=1) as stream:
        seen = bytearray()

        def read():
            try:
                while data := os.read(ours, 65536):
                    seen.extend(data)
            except OSError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        progress = Progress(stream=stream)
        progress.show_below(LiveView(run))
        with progress.step("measuring read"):
            assert until(lambda: b"DRAM (ARC)" in seen)
    reader.join(60)
    text = seen.decode()
    assert "measuring read" in text and "DRAM (ARC), reads" in text and "p99" in text
    # The view goes with the step: what stays is its line.
    assert (
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).rstrip().splitlines()[-1].startswith("✓ measuring read")
    )


def test_a_view_that_fails_ends_no_run(run):
    (run.raw / "read-trace.json").unlink()
    (run.raw / "read-trace.json").symlink_to("/etc/passwd")
    stream = io.StringIO()
    console = Console(file=stream, width=200)
    console.print(LiveView(run))
    assert "live view: " in stream.getvalue() and "root:" not in stream.getvalue()


@pytest.mark.parametrize(
    "options, variables, why",
    [
        ({"json_output": True}, {}, "--json"),
        ({"quiet": True}, {}, "--quiet"),
        ({}, {"TERM": "dumb"}, "TERM is dumb"),
        ({}, {"CI": "true"}, "CI is set"),
        ({}, {"NO_COLOR": "1"}, ""),
        ({}, {}, ""),
    ],
)
def test_the_view_is_off_without_a_terminal_for_it(monkeypatch, options, variables, why):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert why_off(**{"quiet": False, "json_output": False, **options}) == why


def test_the_view_is_off_in_a_pipe(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert why_off(quiet=False, json_output=False) == "stderr is no terminal"
