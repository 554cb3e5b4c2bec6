"""What a command imports: nothing heavy that it does not use. It is not to be seen from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kit.cli.main import GROUPS, TARGETS, app, command_of

ROOT = Path(__file__).resolve().parents[3]
LOG = ROOT / "tests" / "kit" / "data" / "read-fio_lat.log"
# Words on stderr, and the modules at the end in its last line.
RUN = """
import json, sys
from kit.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
NEVER = {"pandas", "matplotlib"}
NUMBERS = {"polars", "numpy", "scipy"}
DRAWING = {"plotly", "jinja2", "reports"}
SSH = {"asyncssh", "cryptography"}


def modules_of(*words: str, cwd: Path = ROOT) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        cwd=cwd, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["--version"], {"pydantic", "rich", "asyncio", "kit.config.testbed"}),
        (["--help"], {"pydantic", "asyncio", "kit.config.testbed"}),
        (["plan", "top-speeds"], {"asyncio", "kit.run.execute", "kit.store.run_directory"}),
    ],
)
def test_what_a_command_does_not_use_is_not_imported(words: list[str], unused: set[str]) -> None:
    assert not modules_of(*words) & {*NEVER, *NUMBERS, *DRAWING, *SSH, *unused}


def test_the_help_of_a_group_imports_no_command() -> None:
    loaded = modules_of("lab", "--help")
    assert not loaded & {"kit.cli.lab", "kit.cli.run", *DRAWING}


def test_a_report(tmp_path: Path) -> None:
    modules_of("import", "--from", "fio-log", str(LOG), cwd=tmp_path)
    loaded = modules_of("show", "results/import/latest", cwd=tmp_path)
    assert (tmp_path / "results" / "import" / "latest" / "report.html").exists()
    assert not loaded & {*NEVER, *SSH, "asyncio", "kit.run.execute", "kit.lab", "kit.hosts.base"}
    # Of Plotly only its script is needed: its classes take as long as all else.
    assert not loaded & {"plotly.graph_objs", "plotly.graph_objects", "plotly.subplots"}


@pytest.mark.parametrize("name", [*GROUPS, *(words for words in TARGETS if " " not in words)])
def test_a_list_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    root = typer.main.get_command(app)
    context = typer.Context(root)
    listed = root.get_command(context, name)  # type: ignore[attr-defined]
    resolved, command, rest = root.resolve_command(context, [name, "word"])  # type: ignore[attr-defined]
    assert (resolved, command.name, rest) == (name, name, ["word"])
    assert listed.help and listed.help == command.help
    # Completion is a matter of the whole program.
    assert not any("completion" in (parameter.name or "") for parameter in command.params)


def test_a_name_that_is_none() -> None:
    root = typer.main.get_command(app)
    assert root.get_command(typer.Context(root), "nonesuch") is None  # type: ignore[attr-defined]


def test_a_group_has_its_commands() -> None:
    assert set(command_of("lab").commands) == {"up", "shell", "down", "fault"}
