"""The help of each command, and `hsp plan` for people."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.markup import render

from kit.cli.main import EXIT_CODES, GROUPS, TARGETS, command_of
from kit.cli.run import _announcement
from kit.config.testbed import LAB_TESTBED
from kit.core.text import fitted
from kit.session.side import Side
from tests.conftest import Called
from tests.reports import synthetic

pytestmark = pytest.mark.any_python
STORED_PAGE = Path(__file__).resolve().parents[3] / "docs" / "hsp.1"


def words_of_commands() -> list[list[str]]:
    return [[], *([group] for group in GROUPS), *(words.split() for words in TARGETS)]


@pytest.mark.parametrize("words", words_of_commands(), ids=" ".join)
def test_a_help_has_names_of_values_no_types_and_examples(hsp_here: Called, words: list[str]) -> None:
    done = hsp_here(*words, "--help", COLUMNS="100")
    assert done.returncode == 0 and "--help" in done.stdout and "--color" in done.stdout
    assert not re.search(r"<(?:bool|str|int|Path|path|list|int range|file)\b|\[\]", done.stdout)
    assert hsp_here(*words, "-h", COLUMNS="100").stdout == done.stdout
    assert hsp_here("help", *words, COLUMNS="100").stdout.rstrip() == done.stdout.rstrip()
    if " ".join(words) in TARGETS:
        shown = done.stdout.partition("Examples:")[2]
        assert 2 <= len(re.findall(r"^ +hsp ", shown, re.MULTILINE)) <= 4


@pytest.mark.parametrize("words", [[], ["lab"], ["host"]], ids=" ".join)
def test_without_a_command_the_help_is_the_result(hsp_here: Called, words: list[str]) -> None:
    done = hsp_here(*words, COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == hsp_here(*words, "--help", COLUMNS="100").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shw"], "there is no command `hsp shw`\n  what to do: did you mean `hsp show`? `hsp --help`"),
        (["lab", "dwn"], "there is no command `hsp lab dwn`\n  what to do: did you mean `hsp lab down`?"),
        (["run", "--testbd", "x"], "no such option: --testbd\n  what to do: did you mean --testbed? `hsp"),
        (["plan"], "missing argument 'WORKLOAD'\n  what to do: for example `hsp plan top-speeds`; `hsp plan"),
        (["list", "rums"], "invalid value for 'WHAT': 'rums' is not one of 'runs', "),
        (["show", "-o", "x.htm"], "x.htm: no format ends in .htm\n  what to do: --format says it, or .txt"),
        (["plan", "top-sped"], "there is no workload 'top-sped'\n  what to do: did you mean 'top-speeds'?"),
    ],
)  # fmt: skip
def test_wrong_usage_is_an_error_as_any_other(hsp_here: Called, words: list[str], said: str) -> None:
    done = hsp_here(*words)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith(f"hsp: error: {said}")


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize(("command", "there"), [
    ("plan", "there are: addresses, addresses-ssd, "), ("compare", "there are: w, 20261121T053059Z-0000"),
    ("trend", "there are: w, "), ("sheet", "there are: w, "), ("tag", " more"), ("new", "workload, testbed"),
])  # fmt: skip
def test_a_command_without_arguments_says_what_there_is(
    hsp_here: Called, tmp_path: Path, command: str, there: str, width: int
) -> None:
    for number in range(60):
        (tmp_path / "results" / "w" / f"20261121T0530{number:02d}Z-{number:06x}").mkdir(parents=True)
    done = hsp_here(command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and there in done.stderr
    assert f"for example `hsp {command} " in done.stderr and f"`hsp {command} --help`" in done.stderr
    assert len([part for line in done.stderr.splitlines() for part in fitted(line, width)]) <= 15


@pytest.mark.parametrize("command", ["compare", "trend", "sheet", "tag"])
def test_where_no_run_is_stored_a_command_says_what_makes_one(
    hsp_here: Called, tmp_path: Path, command: str
) -> None:
    done = hsp_here(command, "--results", "other", cwd=tmp_path)
    assert done.returncode == 2
    assert "there are no runs in other: `hsp demo` makes one; --results names another place" in done.stderr


def test_no_word_of_a_help_is_taken_for_markup() -> None:
    """Names of tables have brackets, as rich's markup has: a backslash keeps them."""
    texts = [getattr(each, "help", None) or "" for words in TARGETS for each in command_of(words).params]
    assert len(texts) > 100
    assert {
        text: render(text).plain for text in texts if render(text).plain != text.replace("\\[", "[")
    } == {}


def test_the_reference_is_the_help(hsp_here: Called) -> None:
    stored = STORED_PAGE.with_name("commands.md").read_text()
    assert hsp_here("help", "reference").stdout == stored, "run: hsp help reference > docs/commands.md"
    assert all(f"\n    hsp {words} " in stored for words in TARGETS)


def test_the_manual_page_is_the_help(hsp_here: Called) -> None:
    page = hsp_here("help", "man").stdout
    assert page == STORED_PAGE.read_text(), "run: hsp help man > docs/hsp.1"
    assert all(f".SS hsp {words} " in page for words in TARGETS)


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_stored_scripts_of_shells_are_those_of_the_command(hsp_here: Called, shell: str) -> None:
    stored = STORED_PAGE.with_name("completions") / f"hsp.{shell}"
    script = hsp_here("help", "completion", shell).stdout
    assert script == stored.read_text(), f"run: hsp help completion {shell} > {stored}"
    # zsh reads the first line alone.
    assert shell != "zsh" or script.startswith("#compdef hsp\n")


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]], ids=" ".join)
def test_a_script_is_for_one_shell_that_is_known(hsp_here: Called, words: list[str]) -> None:
    done = hsp_here("help", "completion", *words)
    assert done.returncode == 2 and "hsp help completion bash|fish|zsh" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hsp sh", {"show"}), ("hsp lab u", {"up"}), ("hsp plan top", {"top-speeds"}),
        ("hsp show --op", {"--open"}), ("hsp show w", {"w"}), ("hsp show 2026", {"20261121T050001Z-000001"}),
        ("hsp show w --phase wr", {"write-slog"}), ("hsp lab fault l", {"log0"}),
        ("hsp slog nvme-d", {"nvme-datacentre"}), ("hsp list work", {"workloads"}),
    ],
)  # fmt: skip
def test_the_shell_completes(hsp_here: Called, tmp_path: Path, words: str, expected: set[str]) -> None:
    run = tmp_path / "results" / "w" / "20261121T050001Z-000001"
    synthetic.write(run, synthetic.manifest(), synthetic.latency())
    done = hsp_here(
        cwd=tmp_path, _HSP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")),
    )  # fmt: skip
    assert expected <= {*done.stdout.split()}, done


@pytest.mark.parametrize("words", [["list", "workloads", "--json"], ["help", "man"], ["list", "presets"]])
def test_a_reader_that_is_gone_is_no_error(words: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "kit.cli", *words], stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("text", ["", "[1]", '{"phases": 1}', '{"phases": [1, {}]}', "{"])
def test_the_shell_completes_nothing_of_what_is_damaged(hsp_here: Called, tmp_path: Path, text: str) -> None:
    run = tmp_path / "results" / "w" / "20261121T050001Z-000001"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(text)
    for words in ("hsp show w --phase ", "hsp show x --phase "):
        done = hsp_here(
            cwd=tmp_path, _HSP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")),
        )  # fmt: skip
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


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


def test_a_plan_begins_with_its_phases_and_has_commands_where_they_are_asked_for(hsp_here: Called) -> None:
    short = hsp_here("plan", "top-speeds", COLUMNS="80").stdout
    whole = hsp_here("plan", "top-speeds", "--commands", COLUMNS="80").stdout
    assert re.search(r"^phase +load +block +lasts$", short, re.MULTILINE) and len(short.splitlines()) < 60
    assert "--commands lists them" in short and "echo 67108864 > /sys/module/zfs" in whole
    begin = whole.index("commands, in their order")
    assert short.startswith(whole[:begin])
