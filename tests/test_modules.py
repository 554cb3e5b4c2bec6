"""Every module with the Python at hand: it is imported, or compiled where it is for another Python."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[1]
# Programs for hosts, and what runs when it is imported.
_NOT_IMPORTED = {"kit/remote", "kit/cli/__main__.py"}


def modules() -> list[Path]:
    found = [
        path.relative_to(ROOT) for folder in ("kit", "reports") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(found) > 300
    return sorted(found)


def is_imported(path: Path) -> bool:
    return not any(str(path).startswith(each) for each in _NOT_IMPORTED)


def test_every_module_is_imported() -> None:
    for path in filter(is_imported, modules()):
        importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))


def test_every_program_is_compiled_without_a_warning() -> None:
    programs = [path for path in modules() if not is_imported(path)]
    assert len(programs) > 10
    for path in programs:
        compile((ROOT / path).read_text(), str(path), "exec")
