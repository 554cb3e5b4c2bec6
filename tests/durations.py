"""The slowest test files of the last run of each environment, and what each protects (`tox -e durations`).

    python -m tests.durations FOLDER [COUNT]        FOLDER has ENVIRONMENT/junit.xml; COUNT: 40 if left out

Prints a table in Markdown. A file protects what the first line of its docstring says. Times are those of all
of its tests with their fixtures, in turn; files run beside one another, so an environment takes less.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 40


def durations(folder: Path) -> Iterator[tuple[str, Counter[str], Counter[str]]]:
    """An environment, the seconds of each of its files, and the number of their tests."""
    for report in sorted(folder.glob("*/junit.xml")):
        seconds, tests = Counter[str](), Counter[str]()
        for case in ElementTree.parse(report).iter("testcase"):
            path = _file(case.get("classname", ""))
            seconds[path] += float(case.get("time", 0))  # type: ignore[assignment]
            tests[path] += 1
        yield report.parent.name, seconds, tests


def _file(classname: str) -> str:
    """tests.lab.test_x, or tests.lab.test_x.TestClass, as a path."""
    words = classname.split(".")
    while words and not Path(ROOT, *words).with_suffix(".py").is_file():
        words.pop()
    return "/".join(words) + ".py" if words else classname


def _protects(path: str) -> str:
    try:
        text = ast.get_docstring(ast.parse((ROOT / path).read_text()))
    except OSError:
        text = None
    return (text or "").partition("\n")[0].replace("|", "\\|")


def table(folder: Path, count: int = SLOWEST) -> list[str]:
    """Lines of Markdown: the slowest files, and a line for each environment."""
    rows, sums = [], []
    for environment, seconds, tests in durations(folder):
        rows += [(taken, environment, path, tests[path]) for path, taken in seconds.items()]
        sums.append(f"| {environment} | {sum(seconds.values()):.0f} | {sum(tests.values())} |")
    lines = ["| seconds | environment | file | tests | what it protects |", "|---|---|---|---|---|"]
    for taken, environment, path, number in sorted(rows, reverse=True)[:count]:
        lines.append(f"| {taken:.0f} | {environment} | {path} | {number} | {_protects(path)} |")
    return [*lines, "", "| environment | seconds of all tests | tests |", "|---|---|---|", *sums]


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]), *map(int, sys.argv[2:3]))))
