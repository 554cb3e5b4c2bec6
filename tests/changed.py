"""Tests that a change can break (`./hsp test --changed [COMMIT]`).

A unit test depends on what it imports, and on what those modules import in turn. A module whose name
stands in a string ("kit.cli.run:run") counts as imported; so does each module of a package whose name does. A
changed file that is no module, such as a template, counts as all modules of its folder. What the lab's image
is built with and what runs in it is not: only the lab executes it, so of the unit tests those that name it.

A test of the lab starts the whole program, so its imports say nothing: its file names the folders that it
protects (PROTECTS). After a change in a folder of the kit that no file names, all of them run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import subprocess
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("kit", "reports", "workloads", "tests")
LAB = ("tests/lab", "tests/faults")
# These decide how all tests run.
_SETTINGS = ("pyproject.toml", "tox.ini", "requirements.lock", "requirements-test.lock", "tests/conftest.py")
_DOTTED = re.compile(rf"(?:{'|'.join(TOPS)})(?:\.\w+)*")
_PATH = re.compile(rf"(?:{'|'.join(TOPS)})(?:/[\w.-]+)+")
_IMAGE = "kit/lab/image/"
_READS_WORKLOADS = "kit/config/workload.py"
# The one fixture of tests/conftest.py that needs the kit: it runs the program in this process.
_PROGRAM_FIXTURE, _PROGRAM = "hsp_here", "kit/cli/main.py"


def changed_files(base: str = "", root: Path = ROOT) -> frozenset[str]:
    """Paths that differ from the commit `base`, committed or not, and new files that git does not ignore.

    Without `base`: from the commit where this branch left origin/main, or from HEAD if there is no such
    branch.
    Raises ValueError if git does not know the commit.
    """
    base = base or _git(root, "merge-base", "HEAD", "origin/main", check=False).strip() or "HEAD"
    tracked = _git(root, "diff", "--name-only", "--no-renames", base, "--")
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return frozenset((*tracked.splitlines(), *new.splitlines()))


def _git(root: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise ValueError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout if not done.returncode else ""


class Imports:
    """Which file of a checkout imports which. Paths are relative to its root."""

    def __init__(self, root: Path, removed: Set[str] = frozenset()) -> None:
        self._root = root
        self._modules = {*removed} | {
            path.relative_to(root).as_posix()
            for top in TOPS
            for path in (root / top).rglob("*.py")
            if "__pycache__" not in path.parts
        }
        self._folders: dict[str, list[str]] = {}
        for module in sorted(self._modules):
            for folder in PurePosixPath(module).parents:
                self._folders.setdefault(str(folder), []).append(module)

    def modules_of(self, path: str) -> set[str]:
        """The module that a changed file is, or the modules of its folder, or of the folder above it."""
        if path.endswith(".py"):
            return {path}
        if path.startswith(_IMAGE):
            tests = (each for each in self._modules if each.startswith("tests/"))
            return {each for each in tests if self._mentions(each, path)}
        for folder in map(str, PurePosixPath(path).parents):
            if folder in self._folders and folder not in (*TOPS, "."):
                return set(self._folders[folder])
        return set()

    def _mentions(self, module: str, path: str) -> bool:
        return PurePosixPath(path).name in (self._root / module).read_text()

    def needing(self, modules: frozenset[str]) -> frozenset[str]:
        """These modules, all that import them, and all that import those."""
        found, open_ = set(modules), [*modules]
        while open_:
            more = self._importers.get(open_.pop(), set()) - found
            found |= more
            open_ += more
        return frozenset(found)

    @functools.cached_property
    def _importers(self) -> dict[str, set[str]]:
        importers: dict[str, set[str]] = {}
        for module in filter(lambda path: (self._root / path).is_file(), self._modules):
            for imported in self._imports(module):
                importers.setdefault(imported, set()).add(module)
        return importers

    def _imports(self, module: str) -> set[str]:
        found: set[str] = set()
        # What is half written imports nothing yet: lint says where, and the tests that import it fail.
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse((self._root / module).read_text())):
                for name, is_text in _names(node):
                    found |= self._resolve(name, is_text)
        folder = PurePosixPath(module).parent
        if module.startswith("tests/"):
            above = (
                f"{parent}/conftest.py" for parent in (folder, *folder.parents) if str(parent) not in TOPS
            )
            found |= self._modules.intersection(above) - {module}
        return found

    def _resolve(self, name: str, is_text: bool) -> set[str]:
        path = name.replace(".", "/")
        if f"{path}.py" in self._modules:
            return {f"{path}.py"}
        if is_text and path in self._folders and path not in TOPS:
            return set(self._folders[path])
        return self._modules & {f"{path}/__init__.py"}


def _names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Dotted names that a node imports, and those in a string (True)."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, False) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module, False
        yield from ((f"{node.module}.{alias.name}", False) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from ((found[0], True) for found in _DOTTED.finditer(node.value) if "." in found[0])
        yield from ((found[0].removesuffix(".py"), True) for found in _PATH.finditer(node.value))
    elif isinstance(node, ast.arg) and node.arg == _PROGRAM_FIXTURE:
        yield _PROGRAM.removesuffix(".py"), False


def is_of_lab(path: Path, root: Path = ROOT) -> bool:
    """Whether tests of the file start the lab. Unit tests stand in these folders, too."""
    return path.relative_to(root).as_posix().startswith(LAB) and "mark.lab" in path.read_text()


def protects(path: Path) -> tuple[str, ...]:
    """PROTECTS of a test file of the lab: folders, or files."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["PROTECTS"]:
            return tuple(ast.literal_eval(node.value))
    return ()


@dataclass(frozen=True)
class Selection:
    """Test files to run whole. `basic`: of other files of the lab, tests with the marker of that name."""

    files: frozenset[str]
    basic: bool


def selection(changed: frozenset[str], root: Path = ROOT) -> Selection:
    """What the changed files can break."""
    tests = {path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")}
    if changed & {*_SETTINGS}:
        return Selection(frozenset(tests), True)
    lab = {path for path in tests if is_of_lab(root / path, root)}
    imports = Imports(root, {path for path in changed if path.startswith(TOPS) and path.endswith(".py")})
    modules = frozenset().union(*(imports.modules_of(path) for path in changed))
    if any(path.startswith("workloads/") for path in changed):
        modules |= {_READS_WORKLOADS}
    files = tests & imports.needing(modules) - lab
    # Documents, and where files stand, are looked at whatever has changed.
    files |= {path for path in tests if path.startswith("tests/docs/")} | {"tests/test_layout.py"}
    if "hsp" in changed:
        files |= {"tests/test_launcher.py"}
    files |= lab & imports.needing(frozenset(module for module in modules if module.startswith(LAB)))
    named = {path: protects(root / path) for path in lab}
    in_kit = [path for path in changed if path.startswith(("kit/", "workloads/")) or path == "hsp"]
    for path in changed:
        protecting = {test for test, folders in named.items() if _is_in(path, folders)}
        files |= protecting or (lab if path in in_kit else set())
    return Selection(frozenset(files), bool(in_kit))


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
