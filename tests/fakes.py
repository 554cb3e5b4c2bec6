"""A host without a machine: scripted answers, a file store, and a record of every command.

Give answers by the first words of a command. Where a host has a state, derive a class and
override `answer`. Where a real part can be used instead, use kit.hosts.local.LocalHost.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kit.core.errors import HostError
from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, CommandResult, Host, HostLost, checked_argv
from kit.hosts.held_device import HeldDevice


@dataclass(frozen=True)
class Command:
    """A command as the kit sent it. `started`: by Host.start."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    deadline_s: float = DEFAULT_DEADLINE_S
    started: bool = False


class ScriptedProcess:
    """A process that runs (`alive`) or has ended. `signals`: those that `stop` sent."""

    def __init__(self, result: CommandResult, alive: bool = False) -> None:
        self.argv, self.result, self.alive = result.argv, result, alive
        self.signals: list[str] = []

    def running(self) -> bool:
        return self.alive

    def wait(self, deadline_s: float) -> CommandResult:
        return self.result

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        self.signals.append(signal)
        return self.result


# Stdout (a dict as JSON); exit code; exit code, stdout and stderr; an error to raise; the process of a
# started command; one answer for each call, the last one for all later calls; computed from the command.
Plain: TypeAlias = str | dict[str, Any] | int | tuple[int, str, str] | Exception | ScriptedProcess
Answer: TypeAlias = "Plain | list[Answer] | Callable[[Command], Answer]"


class ScriptedHost(Host):
    """A kit.hosts.base.Host. The longest key of `answers` that begins a command answers it.

    The program of a command may be written with its folder or without. `cat` reads `files`.
    `default` answers everything else: an AssertionError makes the host refuse it. With `lost` each call
    raises HostLost.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        name: str = "server",
        files: Mapping[str, str] | None = None,
        default: Answer = "",
    ) -> None:
        self.name, self.default = name, default
        self.answers = {key: list(a) if isinstance(a, list) else a for key, a in (answers or {}).items()}
        self.files = {path: text.encode() for path, text in (files or {}).items()}
        self.commands: list[Command] = []
        self.transfers: list[tuple[str, str, float]] = []
        self.lost = False
        self.closed = 0

    @property
    def calls(self) -> list[tuple[str, ...]]:
        """The argv of every command so far; of one on a device that is held, the command itself."""
        return [on_device(command.argv) for command in self.commands]

    def called(self, *prefix: str) -> list[tuple[str, ...]]:
        """The commands that begin with these words."""
        return [argv for argv in self.calls if argv[: len(prefix)] == prefix]

    def answer(self, command: Command) -> Answer:
        """The answer to a command."""
        argv = command.argv
        program = argv[0].rpartition("/")[2]
        for key in sorted(self.answers, key=len, reverse=True):
            words = tuple(key.split())
            if words in (argv[: len(words)], (program, *argv[1:])[: len(words)]):
                return self.answers[key]
        if argv[0] == "cat" and argv[-1] in self.files:
            return self.files[argv[-1]].decode()
        return self.default

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        result = self._outcome(Command(argv, stdin, deadline_s))
        assert isinstance(result, CommandResult)
        return result

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> ScriptedProcess:
        outcome = self._outcome(Command(checked_argv(argv), stdin, started=True))
        return ScriptedProcess(outcome) if isinstance(outcome, CommandResult) else outcome

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self.transfers.append(("put", path, deadline_s))
        self._check_lost()
        self.files[path] = content

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        self.transfers.append(("get", path, deadline_s))
        self._check_lost()
        if path not in self.files:
            raise HostError(f"on {self.name}: cannot read {path}: No such file or directory")
        return self.files[path]

    def close(self) -> None:
        self.closed += 1

    def _check_lost(self) -> None:
        if self.lost:
            raise HostLost(f"{self.name}: the connection broke")

    def _outcome(self, command: Command) -> CommandResult | ScriptedProcess:
        self.commands.append(command)
        assert not_isolated(command.argv) == []
        self._check_lost()
        answer: Any = self.answer(command)
        while isinstance(answer, list) or callable(answer):
            if callable(answer):
                answer = answer(command)
            else:
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ScriptedProcess):
            return answer
        if isinstance(answer, dict):
            answer = json.dumps(answer)
        if not isinstance(answer, tuple):
            answer = (0, answer, "") if isinstance(answer, str) else (answer, "", "")
        return CommandResult(self.name, command.argv, *answer)


def on_device(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that kit.hosts.held_device starts, with its device as descriptor; others as they are."""
    start = tuple(HeldDevice("", "").command([]))
    return argv[len(start) :] if argv[:5] == start[:5] else argv


def not_isolated(argv: Sequence[str]) -> list[str]:
    """The Pythons of a command that may import modules of their working directory: those without -I."""
    following = (*argv, "")[1:]
    return [
        f"{word} {after}"
        for word, after in zip(argv, following, strict=False)
        if re.fullmatch(r".*/python[0-9.]*|python3[0-9.]*", word) and after != "-I"
    ]


def tail(files: Mapping[str, str]) -> str:
    """The output of `tail -v -n +1`."""
    return "\n".join(f"==> {name} <==\n{text}" for name, text in files.items())


class FullDisk:
    """os.write until so many bytes are written; then the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
        self.free_bytes, self._write = free_bytes, os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle: int, content: bytes) -> int:
        if not self.free_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(handle, content[: self.free_bytes])
        self.free_bytes -= taken
        return taken
