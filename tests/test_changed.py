"""Which tests `./hsp test --changed` selects, on a small checkout and on this one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.changed import LAB, ROOT, changed_files, is_of_lab, protects, selection

MARK = "pytestmark = mark.lab\n"
FILES = {
    "kit/core/units.py": "",
    "kit/zfs/pool.py": "from kit.core import units\n",
    "kit/cli/main.py": 'TARGETS = {"run": "kit.cli.run:run"}\n',
    "kit/cli/run.py": "from kit.zfs.pool import create\n",
    "kit/cli/say.py": "",
    "kit/remote/probe.py": "",
    "kit/trace/tracer.py": "",
    "kit/trace/programs/nfsd.bt": "",
    "kit/lab/guest.py": "",
    "kit/lab/image/build.py": "",
    "kit/lab/image/guest/init": "",
    "workloads/demo.toml": "",
    "reports/page.py": "",
    "tests/conftest.py": "from kit.cli import main\n",
    "tests/kit/test_pool.py": "from kit.zfs.pool import create\n",
    "tests/kit/test_program.py": "def test_it(hsp_here): ...\n",
    "tests/kit/test_probe.py": 'PROGRAM = "kit/remote/probe.py"\n',
    "tests/kit/test_trace.py": "from kit.trace import tracer\n",
    "tests/kit/test_image.py": "from kit.lab.image import build\n",
    "tests/kit/test_inputs.py": 'FILE = "guest/init"\n',
    "tests/kit/samples/conftest.py": "from tests.helper import make\n",
    "tests/kit/samples/test_own.py": "",
    "tests/helper.py": "from reports import page\n",
    "tests/docs/test_words.py": "",
    "tests/test_layout.py": "",
    "tests/test_launcher.py": "",
    "tests/lab/rig.py": "",
    "tests/lab/test_disks.py": f'from tests.lab.rig import Rig\nPROTECTS = ("kit/zfs", "hsp")\n{MARK}',
    "tests/lab/test_main.py": f'PROTECTS = ("reports",)\n{MARK}',
    "tests/faults/test_stale.py": "from kit.trace import tracer\n",
}
TRACE = {"tests/kit/test_trace.py", "tests/faults/test_stale.py"}
POOL = {"tests/kit/test_pool.py", "tests/kit/test_program.py"}
ALWAYS = {"tests/docs/test_words.py", "tests/test_layout.py"}
LAB_FILES = {"tests/lab/test_disks.py", "tests/lab/test_main.py"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "selected", "basic"),
    [
        ("kit/core/units.py", POOL | LAB_FILES, True),
        ("kit/zfs/pool.py", POOL | {"tests/lab/test_disks.py"}, True),
        ("kit/cli/run.py", {"tests/kit/test_program.py", *LAB_FILES}, True),
        ("kit/cli/say.py", LAB_FILES, True),
        ("kit/remote/probe.py", {"tests/kit/test_probe.py", *LAB_FILES}, True),
        ("kit/trace/programs/nfsd.bt", TRACE | LAB_FILES, True),
        ("kit/lab/image/guest/init", {"tests/kit/test_inputs.py", *LAB_FILES}, True),
        ("kit/lab/image/build.py", {"tests/kit/test_image.py", *LAB_FILES}, True),
        ("reports/page.py", {"tests/kit/samples/test_own.py", "tests/lab/test_main.py"}, False),
        ("tests/helper.py", {"tests/kit/samples/test_own.py"}, False),
        ("tests/kit/samples/conftest.py", {"tests/kit/samples/test_own.py"}, False),
        ("tests/lab/rig.py", {"tests/lab/test_disks.py"}, False),
        ("workloads/demo.toml", LAB_FILES, True),
        ("hsp", {"tests/test_launcher.py", "tests/lab/test_disks.py"}, True),
        ("docs/report.md", set(), False),
    ],
)  # fmt: skip
def test_tests_of_a_change(checkout: Path, changed: str, selected: set[str], basic: bool) -> None:
    found = selection(frozenset({changed}), checkout)
    assert (found.files, found.basic) == (selected | ALWAYS, basic)


@pytest.mark.parametrize("settings", ["tox.ini", "requirements.lock", "tests/conftest.py"])
def test_settings_of_the_tests_change_all(checkout: Path, settings: str) -> None:
    every = {name for name in FILES if "/test_" in name}
    found = selection(frozenset({settings}), checkout)
    assert found.files == every and found.basic


def test_a_module_that_is_gone_still_selects(checkout: Path) -> None:
    (checkout / "kit/zfs/pool.py").unlink()
    assert "tests/kit/test_pool.py" in selection(frozenset({"kit/zfs/pool.py"}), checkout).files


def test_a_module_that_cannot_be_parsed_selects_who_imports_it(checkout: Path) -> None:
    before = selection(frozenset({"kit/zfs/pool.py"}), checkout)
    (checkout / "kit/zfs/pool.py").write_text("def (\n")
    assert selection(frozenset({"kit/zfs/pool.py"}), checkout) == before


def test_files_that_git_knows_and_new_ones(checkout: Path) -> None:
    def git(*words: str) -> None:
        identity = "-c", "user.name=Test", "-c", "user.email=test@example.org"
        subprocess.run(["git", *identity, *words], cwd=checkout, check=True, capture_output=True)

    git("init", "--quiet")
    (checkout / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (checkout / "kit/zfs/pool.py").write_text("changed\n")
    git("commit", "--quiet", "-a", "-m", "second")
    (checkout / "kit/core/units.py").unlink()
    (checkout / "reports/page.py").rename(checkout / "reports/sheet.py")
    (checkout / "ignored.log").touch()
    now = {"kit/core/units.py", "reports/page.py", "reports/sheet.py"}
    assert changed_files("", checkout) == now
    assert changed_files("HEAD~1", checkout) == now | {"kit/zfs/pool.py"}
    with pytest.raises(ValueError, match="no-such-commit"):
        changed_files("no-such-commit", checkout)


def test_each_file_of_the_lab_names_what_it_protects() -> None:
    files = [path for folder in LAB for path in (ROOT / folder).glob("test_*.py") if is_of_lab(path)]
    missing = [
        f"{path.name}: {folder}"
        for path in files
        for folder in protects(path) or ["has no PROTECTS"]
        if not (ROOT / folder).exists()
    ]
    assert files and missing == []
