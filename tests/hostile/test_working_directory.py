"""Modules in the directory where a command is called, or where a host runs commands, are not imported."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.config.workload_base import WORKLOADS
from kit.doctor.diagnosis import DiagnosedHost, diagnose
from kit.hosts.local import LocalHost
from kit.lab import guest
from kit.zfs import datasets
from tests.fakes import not_isolated

pytestmark = pytest.mark.any_python

ROOT = Path(__file__).parents[2]
# Imported by the programs or by what they import.
MODULES = (
    "json os sys re glob signal subprocess time contextlib ctypes typing base64 select venv tempfile".split()
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: its modules leave a mark, `imported`, and end the program."""
    mark = os.fspath(tmp_path / "imported")
    text = f"open({mark!r}, 'a')\nraise SystemExit(9)\n"
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_doctor_runs_no_module_of_the_working_directory(hostile: Path) -> None:
    target = DiagnosedHost("here", ("server", "client"), lambda: LocalHost(cwd=hostile))
    diagnose([target])
    assert not (hostile / "imported").exists()


def test_nor_does_the_program_that_makes_datasets(hostile: Path) -> None:
    command = datasets.snapshot_command("no-such-pool/d@s", "x")
    # It fails here, without that pool and perhaps without pyzfs.
    command.run(LocalHost(cwd=hostile), check=False)
    assert not (hostile / "imported").exists()


def test_nor_does_the_supervisor_of_a_lab(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(hostile))
    monkeypatch.setenv("PYTHONPATH", os.fspath(hostile))
    hostile.chmod(0o700)
    supervisor = guest._Supervisor(files={}, argv=["sleep", "60"], info={})
    try:
        (lab,) = guest.running_labs()
        assert lab["state"] == os.fspath(supervisor.state)
    finally:
        supervisor.close()
    assert not (hostile / "imported").exists()


# ---- every argv that the kit builds ----


def argv_literals(module: ast.AST) -> Iterator[list[str]]:
    """Lists and tuples as they are written; what is not a text is "?", this Python is "python3"."""
    for node in ast.walk(module):
        if isinstance(node, ast.List | ast.Tuple):
            yield [
                str(part.value)
                if isinstance(part, ast.Constant)
                else "python3"
                if ast.unparse(part) == "sys.executable"
                else "?"
                for part in node.elts
            ]


def texts(module: ast.AST) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# In a text of a shell or a job: Python with another first option, or with a program.
_CALL = re.compile(r"""(python3[0-9.]*["']?|python["']) +(?!-I\b)(-\S+|["'$]?\S*\.py\b)""")


def test_every_python_in_the_sources_is_isolated() -> None:
    wrong, isolated = [], 0
    for path in sorted((ROOT / "kit").rglob("*.py")):
        module = ast.parse(path.read_text())
        for argv in argv_literals(module):
            wrong += [f"{path}: {text}" for text in not_isolated(argv)]
            isolated += "-I" in argv
        wrong += [f"{path}: {text}" for text in texts(module) if _CALL.search(text)]
    assert wrong == [] and isolated >= 9


def test_every_python_in_the_shell_scripts_is_isolated() -> None:
    scripts = [ROOT / "hsp", *(ROOT / "kit").rglob("*.sh"), *(ROOT / "kit/lab/image/guest").iterdir()]
    wrong = [
        f"{path}: {line}"
        for path in scripts
        for line in path.read_text().splitlines()
        if _CALL.search(line) and not line.lstrip().startswith("#")
    ]
    assert wrong == [] and len(scripts) > 5


@pytest.mark.parametrize(
    "line", ["python3 -", '"$python" -c 1', "python3 -m x", "python3 start.py", "python3 -S -I"]
)
def test_the_check_sees_a_python_that_is_not(line: str) -> None:
    assert _CALL.search(line) or not_isolated(line.split())


Called = Callable[..., subprocess.CompletedProcess[str]]


def test_every_python_in_a_plan_is_isolated(hsp_here: Called) -> None:
    seen = 0
    for workload in sorted(WORKLOADS.rglob("*.toml")):
        done = hsp_here("plan", os.fspath(workload), "--json")
        if done.returncode:
            continue  # not a workload of the lab
        plan = json.loads(done.stdout)
        if "builds" in plan:  # a sweep: the commands of one build
            build = plan["builds"][0]["name"]
            plan = json.loads(hsp_here("plan", os.fspath(workload), "--json", "--build", build).stdout)
        for argv in (command["argv"] for command in plan["commands"]):
            assert not_isolated(argv) == []
            seen += "-I" in argv
    assert seen
