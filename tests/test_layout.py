"""Where modules stand and how long they are (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for top in ("kit", "reports") for path in (ROOT / top).rglob("*.py"))
_FILE_LINES, _FUNCTION_LINES = 450, 60
_ROOM_MODULES = 16


# Beside the tree itself: what people and their tools look for at the top.
_TOP = {
    ".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "LICENSE", "LICENSES", "README.md", "REUSE.toml", "SECURITY.md", "docs", "hsp", "kit",
    "pyproject.toml", "reports", "requirements-test.lock", "requirements.lock", "tests", "tox.ini",
    "workloads",
}  # fmt: skip


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="files that are not the project's may be there")
def test_the_top_has_nothing_else() -> None:
    words = ["git", "ls-tree", "--name-only", "HEAD"]
    found = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert set(found) == _TOP


@pytest.mark.parametrize("top", ["kit", "reports"])
def test_each_module_is_in_a_room(top: str) -> None:
    assert [path.name for path in (ROOT / top).glob("*.py")] == ["__init__.py"]


def test_files_and_functions_are_short() -> None:
    too_long = []
    for path in MODULES:
        text = path.read_text()
        if (lines := text.count("\n")) > _FILE_LINES:
            too_long.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > _FUNCTION_LINES:
                    too_long.append(f"{path.relative_to(ROOT)}: {node.name} has {lines} lines")
    assert len(MODULES) > 100 and not too_long


def test_a_room_has_few_modules() -> None:
    rooms = Counter(path.parent.relative_to(ROOT) for path in MODULES if not path.name.startswith("__"))
    assert [f"{room}: {count}" for room, count in rooms.items() if count > _ROOM_MODULES] == []


# A table of a workload or testbed, and what a run stores of it, are one thing at two times.
_ONE_THING = ({"config", "store"}, {"core", "store"})


def test_a_class_name_stands_for_one_thing() -> None:
    """Programs for hosts stand alone: they import nothing."""
    found: dict[str, list[Path]] = {}
    for path in MODULES:
        if path.is_relative_to(ROOT / "kit" / "remote"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(ROOT))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert len(found) > 300
    assert {
        name: list(map(str, paths)) for name, paths in twice.items()
        if len(paths) > 2 or {path.parts[1] for path in paths} not in _ONE_THING
    } == {}  # fmt: skip


@pytest.mark.parametrize("marker", ["lab", "browser"])
def test_what_a_stage_runs_is_where_it_collects(marker: str) -> None:
    """tox.ini names folders, so that its workers do not import all other tests."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    command = tox[f"testenv:{marker}"]["commands"]
    found = re.search(r'-o "?testpaths=([^"]+?)"? -', command)
    assert found
    folders = [ROOT / folder for folder in found[1].split()]
    assert all(folder.is_dir() for folder in folders)
    marked = [path for path in (ROOT / "tests").rglob("*.py") if f"pytest.mark.{marker}" in path.read_text()]
    outside = [path for path in marked if not any(path.is_relative_to(folder) for folder in folders)]
    assert marked and [path for path in outside if path != Path(__file__).resolve()] == []
