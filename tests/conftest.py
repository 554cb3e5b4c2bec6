"""Settings of every test."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kit.cli import main as cli
from kit.core.signals import ENDING
from kit.core.terminal import TERMINAL
from tests import snapshots
from tests.changed import ROOT, Selection, changed_files, selection

# Who started the tests may have set it; a user has not.
os.environ.pop("PYTHONUNBUFFERED", None)
# Who started the tests may ignore these (nohup, `&` of a shell), and every command would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

# The duration of an example depends on the machine.
settings.register_profile("kit", deadline=None, max_examples=40)
settings.load_profile("kit")


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "only tests that the changes since this commit can break (tests/changed.py)"
    parser.addoption("--changed", metavar="COMMIT", help=words)
    parser.addoption("--update-snapshots", action="store_true", help="store the texts that are found")


SELECTION = pytest.StashKey[Selection]()


def pytest_configure(config: pytest.Config) -> None:
    base, worker = config.getoption("--changed"), getattr(config, "workerinput", None)
    if base is None:
        return
    if worker:
        config.stash[SELECTION] = Selection(frozenset(worker["files"]), worker["basic"])
        return
    try:
        config.stash[SELECTION] = selection(changed_files(base))
    except ValueError as error:
        raise pytest.UsageError(f"--changed: {error}") from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist: what the controller has selected goes to the worker."""
    if chosen := node.config.stash.get(SELECTION, None):
        node.workerinput.update(files=[*chosen.files], basic=chosen.basic)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m "any_python and ..."` (tox -e py313): pytest would import every file for the tests of a few."""
    few = config.option.markexpr.startswith("any_python") and collection_path.match("test_*.py")
    return True if few and "any_python" not in collection_path.read_text() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.stash.get(SELECTION, None)
    if chosen is None:
        return
    kept, left = [], []
    for item in items:
        whole = item.path.relative_to(ROOT).as_posix() in chosen.files
        (kept if whole or (chosen.basic and item.get_closest_marker("basic")) else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """`./hsp test -k NAME` runs every environment; an environment without such a test must not fail."""
    options = session.config.option
    narrowed = options.keyword or options.changed is not None or "not long" not in options.markexpr
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and narrowed:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(autouse=True)
def terminal_of_each_test() -> Iterator[None]:
    """--quiet and --color of a command in this process are not those of the next test."""
    yield
    TERMINAL.quiet, TERMINAL.color = False, "auto"


@pytest.fixture(scope="session", autouse=True)
def own_state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unfinished runs and the pace of the lab are not of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", os.fspath(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """small_disk(MiB): a directory that is a real filesystem of that size."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small filesystem needs root")
    with ExitStack() as stack:

        def mount(size_mib: int) -> Path:
            path = tmp_path / f"disk-{size_mib}"
            path.mkdir()
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0755", "tmpfs", path], check=True
            )
            stack.callback(subprocess.run, ["umount", path], check=True)
            return path

        yield mount


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """snapshot(name of a file, text): the text is the stored one (tests/snapshots.py)."""
    folder, update = request.path.parent / "snapshots", request.config.getoption("--update-snapshots")
    return lambda name, text: snapshots.compare(folder / name, text, update=update)


Called = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hsp_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """hsp_here(*words, cwd=..., NAME=value): run hsp in this process, which is faster than a new one.

    For output and exit codes. Each test file still has at least one test that starts a process.
    """

    def call(*words: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        handlers = {number: signal.getsignal(number) for number in ENDING}
        code: int | str | None = 0
        with monkeypatch.context() as changed:
            changed.setattr(sys, "argv", ["hsp", *words])
            changed.setattr(sys, "excepthook", sys.excepthook)
            if cwd:
                changed.chdir(cwd)
            for name, value in environ.items():
                changed.setenv(name, value)
            capsys.readouterr()
            try:
                cli.main()
            except SystemExit as end:
                code = end.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(words, code or 0, captured.out, captured.err)  # type: ignore[arg-type]

    return call
