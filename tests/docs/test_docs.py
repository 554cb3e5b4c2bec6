"""What the documents say is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.cli.lazy import imported
from kit.cli.main import Commands
from kit.core import errors
from kit.store import run_directory

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FORMATS = (ROOT / "docs" / "formats.md").read_text()


def commands() -> list[str]:
    """Every subcommand, with its group before it."""
    found = []
    for name, target in Commands.targets.items():
        inner = getattr(imported(name, target), "commands", None)
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


def test_there_are_commands() -> None:
    assert {"demo", "run", "report", "lab build", "lab up"} <= set(commands())


@pytest.mark.parametrize("command", commands())
def test_every_command_is_in_the_readme(command: str) -> None:
    last = command.split()[-1]
    lines = [line for line in README.splitlines() if line.strip().startswith("hsp ")]
    assert any(re.search(rf"\b{last}\b", line) and command.split()[0] in line for line in lines), command


@pytest.mark.parametrize("document", [README, FORMATS])
def test_every_exit_code_is_documented(document: str) -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    text = " ".join(document[document.lower().index("exit codes") :].split())
    for code in codes:
        assert re.search(rf"(^|[ :]){code} [a-z]", text), code


def test_every_column_and_tier_is_documented() -> None:
    for name in (*run_directory.LATENCY_SCHEMA, *run_directory.TIERS, *run_directory.LAYERS):
        if name not in ("vdev",):  # named in the format for later; nothing writes it yet
            assert f"`{name}`" in FORMATS, name


def test_links_lead_somewhere() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "formats.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_map_of_the_code_names_every_module() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for module in (ROOT / "kit").glob("*.py"):
        if module.name != "__init__.py" and module.name != "errors.py":
            assert f"kit/{module.name}" in text, module.name


def test_every_figure_of_the_readme_was_filled_in() -> None:
    assert not re.search(r"@[A-Z]+@|TODO|TBD", README)
