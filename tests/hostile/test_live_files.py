"""Files of a run that goes on, as a host or a stranger may write them: no view ends a run or a command."""

from __future__ import annotations

import io
import json
import os
import pty
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, ConsoleOptions, RenderResult

from kit.core.progress import Progress
from kit.run import execute
from kit.session.live.run_reader import RunReader
from kit.session.live.terminal import LiveView
from kit.session.live.watch import message_of
from tests.kit.session.live.rig import READ, going_on

FIRST = READ.splitlines()[:40]
SEEN = (1 << 11) + 1


def counts(value: str, key: str = f"{SEEN},200") -> str:
    return f'{{"type": "map", "data": {{"@counts": {{"{key}": {value}}}}}}}'


def mark(text: str) -> str:
    return json.dumps({"type": "printf", "data": f"hsp-trace {text}\n"})


TRACES = {
    "a count of 64 bits and more": [counts(str(1 << 63))],
    "a count that is no number": [counts("1e300")],
    "a count of 400 digits": [counts("9" * 400)],
    "counts whose sum is too large": [counts(f'{1 << 62}, "{SEEN},201": {1 << 62}, "{SEEN},202": {1 << 62}')],
    "a time of 4,000 digits": [mark("at " + "9" * 4000)],
    "a time of 64 bits": [mark(f"at {1 << 63}"), counts("5")],
    "a class that is none": [counts("5", f"{1 << 70},200")],
    "lost events of 400 digits": ['{"type": "lost_events", "data": {"events": ' + "9" * 400 + "}}"],
    "a feed at no time": [json.dumps({"type": "map", "data": {"@fed": {"9" * 400: 1}}})],
    "what is no object": ["[]", "7", "null", '"x"', "{}"],
}
UNDER_WAY = {"interval_ns": (1 << 63) - 1, "duration_ns": (1 << 63) - 1, "dilation": 1 << 20}


@pytest.mark.parametrize("lines", TRACES.values(), ids=TRACES)
def test_a_trace_is_drawn_or_said_to_be_damaged(tmp_path: Path, lines: list[str]) -> None:
    run, journal = going_on(tmp_path)
    begun, rest = FIRST[:3], FIRST[3:]
    text = "\n".join([*begun, *[mark(f"at {10**12 + n * 10**9}") for n in range(1, 3)], *lines, *rest])
    (run.raw / "read-trace.json").write_text(text + "\n")
    reader = RunReader(run)
    phase = reader.poll()
    assert phase is not None
    stream = io.StringIO()
    Console(file=stream, width=120, height=40, force_terminal=True).print(LiveView(run))
    assert "live view: " not in stream.getvalue()
    if phase.counts.last >= 0:
        assert message_of(phase)
    journal.close()


@pytest.mark.parametrize("key", UNDER_WAY)
def test_a_phase_under_way_that_no_run_has_is_said_and_ends_nothing(tmp_path: Path, key: str) -> None:
    run, journal = going_on(tmp_path)
    path = run.raw / "under-way.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: UNDER_WAY[key]}))
    (run.raw / "read-trace.json").write_text(READ)
    stream = io.StringIO()
    Console(file=stream, width=120, height=40).print(LiveView(run))
    assert stream.getvalue()
    journal.close()


class _Broken:
    """A view that cannot be drawn, whatever its own code takes care of."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        raise OverflowError("int too big to convert")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TERM", "xterm-256color")
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                seen.extend(data)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    with open(theirs, "w", buffering=1) as stream:
        reader.start()
        yield stream, seen
    reader.join(10)
    os.close(ours)


def test_no_view_raises_out_of_a_step(terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    stream, seen = terminal
    progress = Progress(stream=stream)
    progress.show_below(_Broken())
    with progress.step("measuring"), progress.step("inside"):
        for _ in range(100):
            if b"the view failed" in seen or threading.Event().wait(0.1):
                break
    progress.note("after")
    assert b"the view failed" in seen and not failed


@pytest.mark.parametrize("where", ["tear_down", "leave"])
def test_a_cleanup_that_fails_leaves_its_word(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """What was left was not told, and the last manifest not stored."""

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(execute, "tear_down", fail if where == "tear_down" else lambda *_: [])
    monkeypatch.setattr(execute.registry, "leave", fail)
    problems: list[str] = []
    record = SimpleNamespace(add_problems=lambda code, *texts: problems.extend(texts))
    run = SimpleNamespace(
        progress=Progress(quiet=True, stream=io.StringIO()), journal=SimpleNamespace(settled=True),
        record=record, site=SimpleNamespace(gone=None), run_id="x", settings_of_boot=[],
    )  # fmt: skip
    outcome = execute.Execution(record)  # type: ignore[arg-type]
    execute._clean_up(run, outcome, None)  # type: ignore[arg-type]
    assert isinstance(outcome.failure, RuntimeError)
    assert [each.why for each in outcome.left] == ["RuntimeError: broken"] and "broken" in problems[0]
