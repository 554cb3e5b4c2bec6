"""docs/verdict.md has every id that a verdict can have, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from kit.store.checks.ids import IDS, SUM_IDS, UNKNOWN_ID, id_of_problem, markdown
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
    makers = [path for room in ("instruments", "observe") for path in (ROOT / "kit" / room).rglob("*.py")]
    sums = {*_used(*makers, ROOT / "kit" / "run" / "parts.py")}
    assert sums == SUM_IDS
    judges = [*sorted((ROOT / "reports").rglob("*.py")), ROOT / "kit" / "session" / "rejudged.py"]
    assert {*_used(*judges), *problems, *sums, UNKNOWN_ID} == IDS.keys()


def test_an_outcome_has_an_id_of_the_list() -> None:
    given = [
        node.args[0].value
        for path in (ROOT / "reports").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "Outcome"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    assert len(given) > 30 and {*given} <= IDS.keys()


def _used(*paths: Path) -> Iterator[str]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in IDS:
                yield node.value
