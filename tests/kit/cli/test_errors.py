"""What people type wrongly, in every command that there is: one style of errors, one exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.cli import lab, slog
from kit.cli.main import TARGETS, command_of
from kit.session import measure, repeated_runs, sweep_runs
from tests.conftest import Called
from tests.reports import synthetic

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
IDS = [f"2026112{day}T053000Z-ab12cd" for day in (1, 2)]
DAMAGED = "20261130T053000Z-ab12cd"
# What stands for an argument or a required option, by its name in the help.
WORDS = {
    "RUN": IDS[0], "FILE": "plain.log", "DEVICE": "log0", "WORKLOAD": "top-speeds", "FAULT": "heal",
    "workload|testbed": "workload", "NAME|DEVICE": "x", "NAME": "fw1", "COMMAND": "true",
    "COMMAND|schema|man|reference|completion": "run", "RUN|FILE": "keys.csv",
}  # fmt: skip
TESTBED = str(ROOT / "kit" / "lab" / "testbed.toml")
# Of anybody's own: whatever it is, the shell in the guest says whether it is one.
FREE = {"lab shell"}


def parameters(command: str, kind: str) -> list[Any]:
    return [
        each for each in command_of(command).params if each.param_type_name == kind and each.name != "help"
    ]


def given(command: str, **instead: str) -> list[str]:
    """Words with which the command would begin its work; `instead`: other ones, by name in the help."""
    words = []
    for each in (*parameters(command, "argument"), *parameters(command, "option")):
        value = instead.get(each.metavar or "", WORDS.get(each.metavar or "", ""))
        if each.name in ("testbed", "need") and each.required:
            words += [each.opts[0], TESTBED if each.name == "testbed" else "need.toml"]
        elif each.param_type_name == "argument" and (each.required or each.metavar == "RUN"):
            words += [value, "--", IDS[1]] if command == "compare" else [value]
    words += ["--arc-now", "1GiB", "--block", "128KiB"] if command == "size" else []
    return ["w"] if command == "trend" and not instead else words


def takes_run(command: str) -> bool:
    return any(each.metavar == "RUN" for each in parameters(command, "argument"))


def mistakes() -> Iterator[Any]:
    for command in TARGETS:
        for name, words in mistakes_in(command):
            yield pytest.param([*command.split(), *words], id=f"{command}: {name}")


def mistakes_in(command: str) -> Iterator[tuple[str, list[str]]]:
    """What is wrong, and the words behind the command."""
    base = given(command)
    if command not in FREE:
        yield "unknown option", ["--no-such", *base]
    if any(each.required for each in command_of(command).params):
        yield "missing argument", []
    if not any(each.nargs == -1 for each in parameters(command, "argument")):
        yield "too many arguments", [*base, "more", "more", "more"]
    for each in parameters(command, "option"):
        for value in wrong_values(each):
            yield f"{each.opts[0]} {value}", [*base, each.opts[0], value]
    if takes_run(command):
        for value in ("no-such", "2026112", DAMAGED, "folder/", "./noise"):
            yield f"run {value}", given(command, RUN=value)


def wrong_values(option: Any) -> list[str]:
    if option.opts[0] == "--output":
        return ["folder", "no-such/x.json", "/proc/x.json", "x.nosuch"]
    if option.metavar in ("FILE", "TESTBED"):
        return ["folder", "no-such/x.json", *(["noise"] if option.opts[0] != "--junit" else [])]
    is_checked = option.metavar in (None, "N") or option.opts[0] == "--format"
    return ["no-such"] if is_checked and not option.is_flag else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("errors")
    for number, name in enumerate(IDS):
        frame = synthetic.realistic(intervals=4, per_interval=60, seed=number)
        manifest = synthetic.manifest(frame, 4) | {"run": name, "started_utc": "2026-11-24T05:30:02Z"}
        reports.analyse(synthetic.write(path / "results" / "w" / name, manifest, frame))
    damaged = path / "results" / "w" / DAMAGED
    damaged.mkdir()
    (damaged / "manifest.json").write_text('{"format": 1, "run"')
    (damaged / "plan.json").write_text("[")
    (path / "folder").mkdir()
    (path / "noise").write_bytes(bytes(range(256)))
    (path / "need.toml").write_text('title = "x"\nsync_write_p99 = "1ms"\n')
    (path / "keys.csv").write_text("".join(f"{n % 100}\n" for n in range(400)))
    (path / "plain.log").write_text("".join(f"{n}, {150_000 + n}, 0, 512, 0, 0\n" for n in range(200)))
    return path


@pytest.fixture(autouse=True)
def nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: Any, **__: Any) -> None:
        raise AssertionError("it goes to work")

    for module in (measure, repeated_runs, sweep_runs):
        monkeypatch.setattr(module, "SharedSite" if module is sweep_runs else "prepare", begun)
    for name in ("build", "open_host"):
        monkeypatch.setattr(lab, name, begun)
    monkeypatch.setattr(slog, "measure_each", begun)


def check(done: Any, codes: tuple[int, ...] = (2,)) -> None:
    assert done.returncode in codes, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "a defect" not in done.stderr
    lines = done.stderr.splitlines()
    assert done.stdout == "" and sum(line.startswith("hsp: error: ") for line in lines) == 1, done.stderr
    assert any(line.startswith("  what to do: ") and len(line) > 20 for line in lines), done.stderr


@pytest.mark.parametrize("words", [*mistakes()])
def test_a_mistake_is_an_error_as_any_other(hsp_here: Called, folder: Path, words: list[str]) -> None:
    # Where the disk says it, not the words: 5. A pack has an ending of its own, and here is none.
    of_disk = "/proc/x.json" in words and words[0] not in ("pack", "gallery")
    check(hsp_here(*words, cwd=folder), (5,) if of_disk else (2,))


@pytest.mark.parametrize("command", [each for each in TARGETS if takes_run(each)])
def test_without_a_run_it_is_said_how_to_make_one(hsp_here: Called, tmp_path: Path, command: str) -> None:
    done = hsp_here(*command.split(), *given(command), cwd=tmp_path)
    check(done)
    assert "`hsp demo` makes one" in done.stderr


def test_every_command_is_looked_at() -> None:
    assert {str(each.id).partition(":")[0] for each in mistakes()} == {*TARGETS}
    assert len([*mistakes()]) > 7 * len(TARGETS)


@pytest.mark.parametrize("command", [*TARGETS])
def test_an_option_without_its_value_names_the_help_of_its_command(hsp_here: Called, command: str) -> None:
    option = next(each for each in parameters(command, "option") if not each.is_flag)
    done = hsp_here(*command.split(), option.opts[0])
    check(done)
    assert f"`hsp {command} --help` shows how" in done.stderr
