"""What hosts answer: how much of it is kept, and how it reaches the terminal."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

# All that writes to the terminal. Text goes through safe_text there, or is the kit's own or the user's shell.
WRITERS = {
    "kit/core/output.py": "say, emit (data: escaped JSON; tables and exports made safe before)",
    "kit/core/progress.py": "steps and notes",
    "kit/cli/main.py": "the version",
    "kit/cli/export.py": "nothing; asks whether it is a terminal",
    "kit/cli/plan.py": "lines of the plan",
    "kit/cli/devices.py": "kit.devices.listing",
    "kit/cli/lab.py": "the output of a command of the user's own, as ssh shows it",
    "kit/lab/shell.py": "a terminal in the lab, as ssh shows it",
    "kit/lab/supervisor.py": "JSON for the kit",
}
_STREAMS = ("sys.stdout", "sys.stderr", "print", "typer.echo", "typer.secho", "Console", "os.dup")


def writes(path: Path) -> bool:
    names = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    return bool(names & set(_STREAMS))


def test_everything_that_writes_to_the_terminal_is_known() -> None:
    # Programs for hosts and for the image write for the kit, which reads it.
    modules = [
        path
        for folder in ("kit", "reports")
        for path in (ROOT / folder).rglob("*.py")
        if not {"remote", "image"} & set(path.parts)
    ]
    observed = {str(path.relative_to(ROOT)) for path in modules if writes(path)}
    assert observed == set(WRITERS)
