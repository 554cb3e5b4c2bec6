"""docs/verdict.md has every id that a verdict can have, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from kit.store.checks.ids import IDS, UNKNOWN_ID, id_of_problem, markdown
from kit.store.phase import ProblemCode

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "verdict.md").read_text()


def test_the_tables_are_those_of_the_program() -> None:
    begin, end = (
        DOCUMENT.index(f"<!-- {each} -->") for each in ("kit.store.checks.ids.markdown()", "end of the ids")
    )
    assert DOCUMENT[begin:end].split("\n\n", 1)[1] == markdown() + "\n", (
        "paste kit.store.checks.ids.markdown()"
    )


def test_each_id_is_one_that_code_gives_and_the_reverse() -> None:
    problems = {id_of_problem(code) for code in get_args(ProblemCode)}
    sums = {each.id for each in IDS.values() if each.names}
    assert {*_in_reports(), *problems, *sums, UNKNOWN_ID} == IDS.keys()


def _in_reports() -> Iterator[str]:
    """The `id` of every Reason that the reports or `hsp check` make; constants of a module by their name."""
    for path in [*sorted((ROOT / "reports").rglob("*.py")), ROOT / "kit" / "session" / "rejudged.py"]:
        tree = ast.parse(path.read_text())
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason":
                value = next(each.value for each in node.keywords if each.arg == "id")
                if isinstance(value, ast.Constant):
                    yield value.value
                elif isinstance(value, ast.Name) and value.id in constants:
                    yield constants[value.id]
                elif isinstance(value, (ast.Name, ast.Attribute)):
                    # One of a table of the module, or that of another reason.
                    yield from _in_tables(tree)
                else:
                    # Made by a function of kit.store.checks.ids.
                    assert isinstance(value, ast.Call) and ast.unparse(value.func).startswith("id_of_")


def _in_tables(tree: ast.Module) -> Iterator[str]:
    """The ids in the tables of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Dict, ast.Tuple)):
            for each in ast.walk(node.value):
                if isinstance(each, ast.Constant) and str(each.value) in IDS:
                    yield str(each.value)
