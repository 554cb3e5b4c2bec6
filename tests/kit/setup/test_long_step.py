"""kit.setup.long_step: a step that shows how far it is, and that leaves nothing running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.hosts.base import Command, CommandFailed, DeadlineExceeded
from kit.hosts.local import LocalHost
from kit.setup import long_step
from kit.setup.long_step import run_writing

LARGE = 1 << 30
# Writes a byte, and goes on until it is ended.
ENDLESS = ("sh", "-c", 'printf x >"$1"; echo $$ >"$1.pid"; exec sleep 600', "sh")


class Shown(Progress):
    """What is shown; `then` happens at the first time."""

    def __init__(self, then: BaseException | None = None) -> None:
        super().__init__(quiet=True)
        self.then, self.details = then, list[str]()

    def detail(self, text: str) -> None:
        self.details.append(text)
        if self.then:
            raise self.then


def is_running(path: Path) -> bool:
    return Path(f"/proc/{Path(f'{path}.pid').read_text().strip()}").exists()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_step, "_ASK_S", 0.0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), HostError("no answer")])
def test_nothing_goes_on_writing(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    with LocalHost() as host, pytest.raises(type(error)):
        run_writing(host, Command((*ENDLESS, str(path))), str(path), LARGE, Shown(error))
    assert not is_running(path)


def test_a_question_without_an_answer_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = tmp_path / "file", list[Any]()
    with LocalHost() as host:

        def run(argv: Any, **_: Any) -> None:
            asked.append(argv)
            raise DeadlineExceeded("here", ["stat"], 1.0)

        monkeypatch.setattr(host, "run", run)
        command = Command(("sh", "-c", 'until test -e "$1"; do sleep 0.05; done; echo done', "sh", str(path)))
        monkeypatch.setattr(long_step.time, "sleep", lambda _: path.touch() if asked else None)
        assert run_writing(host, command, str(path), LARGE, Shown()).stdout == "done\n"


def test_it_shows_the_pace(tmp_path: Path) -> None:
    path, progress = tmp_path / "file", Shown()
    command = Command(("sh", "-c", 'printf x >"$1"; sleep 1', "sh", str(path)))
    with LocalHost() as host:
        run_writing(host, command, str(path), LARGE, progress)
        with pytest.raises(CommandFailed):
            run_writing(host, Command(("sh", "-c", "exit 3")), str(path), LARGE, progress)
    assert progress.details and all(text.endswith(" left") for text in progress.details)
