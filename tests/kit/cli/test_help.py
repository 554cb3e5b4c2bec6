"""The help of each command, and `hsp plan` for people."""

from __future__ import annotations

import re

import pytest
from rich.markup import render

from kit.cli.main import EXIT_CODES, Commands, imported
from kit.cli.run import _announcement
from kit.config.testbed import LAB_TESTBED
from kit.session.side import Side
from tests.conftest import Called

pytestmark = pytest.mark.any_python


def words_of_commands() -> list[list[str]]:
    inner = {name: getattr(imported(name), "commands", None) for name in Commands.targets}
    return [[], *([name, *more] for name in inner for more in [[], *([each] for each in inner[name] or ())])]


@pytest.mark.parametrize("words", words_of_commands(), ids=" ".join)
def test_a_flag_has_no_type(hsp_here: Called, words: list[str]) -> None:
    done = hsp_here(*words, "--help", COLUMNS="80")
    assert done.returncode == 0 and "--help" in done.stdout
    assert "<bool>" not in done.stdout
    assert hsp_here(*words, "-h", COLUMNS="80").stdout == done.stdout


def test_no_word_of_a_help_is_taken_for_markup() -> None:
    """Names of tables have brackets, as rich's markup has: a backslash keeps them."""
    commands = [imported(name) for name in Commands.targets]
    texts = [
        getattr(parameter, "help", None) or ""
        for command in commands
        for one in (command, *getattr(command, "commands", {}).values())
        for parameter in one.params
    ]
    assert len(texts) > 100
    assert {
        text: render(text).plain for text in texts if render(text).plain != text.replace("\\[", "[")
    } == {}


def test_exit_codes_are_a_line_each(hsp_here: Called) -> None:
    shown = [line.rstrip() for line in hsp_here("--help", COLUMNS="60").stdout.splitlines()]
    for line in EXIT_CODES.splitlines():
        assert f" {line}" in shown


def test_options_of_a_run_are_in_panels(hsp_here: Called) -> None:
    panels = re.findall(r"^╭─ (.+?) ─", hsp_here("run", "--help", COLUMNS="100").stdout, re.MULTILINE)
    assert panels == ["Arguments", "Options", "Safety", "A and B", "Sweep", "Lab", "Output"]


def test_a_demo_says_in_a_line_what_it_does_and_how_long_that_takes() -> None:
    line = _announcement(Side("top-speeds", LAB_TESTBED))
    assert re.fullmatch(
        r"Hybrid storage pool: top speeds, .*\(3 phases, [0-9]+ s .*\): about 2 minutes .*", line
    )


def test_a_plan_cuts_long_commands_and_unfolds_them(
    hsp_here: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    short = hsp_here("plan", "top-speeds", COLUMNS="80").stdout.splitlines()
    whole = hsp_here("plan", "top-speeds", "--commands", COLUMNS="80").stdout.splitlines()
    assert hsp_here("plan", "top-speeds").stdout.splitlines() == whole, "a file gets all"
    begin = next(n for n, line in enumerate(short) if line.startswith("commands,"))
    assert short[: begin + 1] == whole[: begin + 1]
    assert max(map(len, short[begin + 1 :])) <= 80 < max(map(len, whole))
    assert "--commands shows them whole" in short[-1] and "--commands" not in whole[-1]
    assert len(short) == len(whole) + 1
    assert all(b.startswith(a.removesuffix(" ...")) for a, b in zip(short, whole, strict=False))
