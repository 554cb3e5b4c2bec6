"""What a run did, and how to undo it: one JSON line before and one after each step.

The journal drives teardown: undo commands run in reverse order, each one tried even if
another failed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from kit.errors import KitError

Undo = Callable[[], object]


class Journal:
    """Append-only journal.jsonl; every line is on disk before the step goes on."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._undo: list[tuple[str, Undo]] = []

    @contextmanager
    def step(self, name: str, **details: Any) -> Iterator[None]:
        """Journal the begin and the outcome of one step."""
        self._write({"step": name, "state": "begin", **details})
        try:
            yield
        except BaseException as error:
            self._write({"step": name, "state": "failed", "error": str(error) or type(error).__name__})
            raise
        self._write({"step": name, "state": "done"})

    def on_teardown(self, name: str, undo: Undo) -> None:
        """Register how to undo what the current step is about to do."""
        self._undo.append((name, undo))
        self._write({"undo": name})

    def teardown(self) -> list[str]:
        """Undo everything, newest first. Returns what failed, in words."""
        failures = []
        while self._undo:
            name, undo = self._undo.pop()
            try:
                with self.step(f"undo: {name}"):
                    undo()
            except Exception as error:  # whatever one undo does, the others still run
                said = error.message if isinstance(error, KitError) else f"{type(error).__name__}: {error}"
                failures.append(f"{name}: {said}")
        return failures

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps({"time": time.time(), **entry}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
