"""The steps of a run and their undos: a JSON line before and after each step.

The journal drives teardown. The undo of a step is written before the step, so that another process can do it
if this one is killed (`hsp clean`). Undos run in reverse order; one that fails does not stop the others. Each
is safe to repeat, and safe if its step never ran.

Lines of journal.jsonl, each with `time` (seconds since 1970):

    {"run": ID, "plan": DIGEST}                            a process starts or resumes the run
    {"step": NAME, "state": "begin", ...}                  then "done", or "failed" with `error`
    {"undo": N, "kind": KIND, "host": KEY, "text": ..., "arguments": {...}}
    {"undo": N, "known": {...}}                            arguments known only after the step
    {"undone": N}
    {"finished": true}                                     nothing is left to undo
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError, error_text
from kit.core.files import AppendLog
from kit.hosts.base import Closing

_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class Undo:
    """A pending undo. `kind` is a key of kit.recovery.undo.KINDS, `host` a key of the site's hosts."""

    number: int
    kind: str
    host: str
    text: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Leftover:
    """A failed undo: its reason, and commands for a person."""

    text: str
    why: str
    by_hand: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}: {self.why}"


@dataclass(frozen=True)
class Record:
    """The content of a journal. `pending`: oldest first. `last_number`: the highest of an undo."""

    pending: tuple[Undo, ...]
    finished: bool
    last_number: int


# Performs an undo; gets the kinds of failed undos. Raises if it fails.
Doer = Callable[[Undo, frozenset[str]], object]
# The commands of an undo for a person.
ByHand = Callable[[Undo], tuple[str, ...]]


class Journal(Closing):
    """Append-only journal.jsonl; each line is on disk before the step continues."""

    def __init__(self, path: Path, run: str = "", plan: str = "") -> None:
        record = read_journal(path)
        self._path, self._file = path, AppendLog(path)
        self._unwritten: OSError | None = None
        self._pending = {undo.number: undo for undo in record.pending}
        self._last_number = record.last_number
        if run:
            self._write({"run": run, "plan": plan})

    @contextmanager
    def step(self, name: str, **details: Any) -> Iterator[None]:
        """Write the begin and the outcome of a step."""
        self._write({"step": name, "state": "begin", **details})
        try:
            yield
        except BaseException as error:
            self._note({"step": name, "state": "failed", "error": str(error) or type(error).__name__})
            raise
        self._write({"step": name, "state": "done"})

    def on_teardown(self, kind: str, host: str, text: str, **arguments: Any) -> int:
        """Write the undo of the next step. Returns its number, for `know`."""
        self._last_number += 1
        entry = {"undo": self._last_number, "kind": kind, "host": host, "text": text, "arguments": arguments}
        _apply(entry, self._pending)
        self._write(entry)
        return self._last_number

    def know(self, number: int, **arguments: Any) -> None:
        """Add arguments that became known by the step."""
        entry = {"undo": number, "known": arguments}
        _apply(entry, self._pending)
        self._write(entry)

    @property
    def pending(self) -> tuple[Undo, ...]:
        return tuple(self._pending.values())

    def teardown(self, do: Doer, by_hand: ByHand = lambda _: ()) -> list[Leftover]:
        """Undo everything, newest first. Returns the failed undos, which stay pending.

        If the journal cannot be written (a full disk), the undos still run; `hsp clean` repeats them later,
        which is safe.
        """
        left, kinds = [], set[str]()
        for undo in reversed(self.pending):
            step = f"undo: {undo.text}"
            self._note({"step": step, "state": "begin"})
            try:
                do(undo, frozenset(kinds))
            except Exception as error:  # the other undos must run
                why = error_text(error)
                self._note({"step": step, "state": "failed", "error": why})
                left.append(Leftover(undo.text, why, by_hand(undo)))
                kinds.add(undo.kind)
                continue
            self._note({"step": step, "state": "done"})
            self._note({"undone": undo.number})
            del self._pending[undo.number]
        if not left:
            self._note({"finished": True})
        if self._unwritten:
            run = shlex.quote(os.fspath(self._path.parent))
            why = f"{self._unwritten.strerror}, so the journal does not record what was undone"
            left.append(Leftover(os.fspath(self._path), why, (f"free some space, then: hsp clean {run}",)))
        return left

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.append(json.dumps({"time": time.time(), **entry}), sync=True)

    def _note(self, entry: dict[str, Any]) -> None:
        """As `_write`, but keeps a write error for later."""
        try:
            self._write(entry)
        except OSError as error:
            self._unwritten = self._unwritten or error

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> Record:
    """Read the journal at `path`. A missing or empty one has nothing to undo.

    Ignores a last line that a crash cut off: its step never ran. Raises ConfigError for other damage: it is
    then not known what is left on the hosts.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} has more than {_MAX_BYTES >> 20} MiB: not a journal of the kit")
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    pending, finished, last_number = dict[int, Undo](), True, 0
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            finished = _apply(entry, pending)
            last_number = max(last_number, entry.get("undo", 0))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(
                f"{path}:{number}: this is not a line of a journal: {line[:80]!r}",
                "it is not known what this run left on its hosts: look there for a pool hsp-*, mounts of "
                "/mnt/hsp-* and directories in /run/hsp",
            ) from None
    return Record(tuple(pending.values()), finished, last_number)


def _apply(entry: dict[str, Any], pending: dict[int, Undo]) -> bool:
    """Apply a line to the pending undos. Returns whether the journal is finished with it."""
    if "known" in entry:
        undo = pending[entry["undo"]]
        pending[undo.number] = replace(undo, arguments={**undo.arguments, **entry["known"]})
    elif "undo" in entry:
        number, arguments = int(entry["undo"]), dict(entry["arguments"])
        pending[number] = Undo(number, str(entry["kind"]), str(entry["host"]), str(entry["text"]), arguments)
    elif "undone" in entry:
        del pending[entry["undone"]]
    elif not ({"run", "plan"} <= entry.keys() or {"step", "state"} <= entry.keys() or "finished" in entry):
        raise ValueError("an unknown line")
    return "finished" in entry
