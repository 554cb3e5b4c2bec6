"""kit.trace.nfsd_tracer: marks on a real shell, against a program that prints what the tracer would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import HostError
from kit.hosts.base import DeadlineExceeded
from kit.hosts.local import LocalHost
from kit.trace import nfsd_tracer
from kit.trace.output import parse_trace

FIRST = '{"type": "printf", "data": "hsp-trace phase %d 5\\n"}\n'
LAST = (
    '{"type": "printf", "data": "hsp-trace end 9\\n"}\n{"type": "map", "data": {"@counts": {}}}\n'
    '{"type": "printf", "data": "hsp-trace ended %d\\n"}\n'
)


class Server(LocalHost):
    """This machine; `answer` prints the answer to each mark."""

    def __init__(self, place: nfsd_tracer.TracerFiles) -> None:
        super().__init__("server")
        self.place, self.deaf = place, False
        self.marks: list[int] = []
        self.answers: list[threading.Thread] = []

    def run(self, argv: Any, **more: Any) -> Any:
        words = list(argv)
        marks = nfsd_tracer.BEGIN, nfsd_tracer.END, nfsd_tracer.END_FOLLOWED
        if words[:2] == ["sh", "-c"] and words[2] in marks:
            self.marks.append(int(words[6]))
            if not self.deaf:
                self.answer(self.marks[-1])
        return super().run(words, **more)

    def answer(self, mark: int) -> None:
        phase = mark >> 32 & nfsd_tracer.MOST_PHASES
        known = self.marks[-2] >> 32 & nfsd_tracer.MOST_PHASES if len(self.marks) > 1 else 0
        text = FIRST % phase if phase else LAST % known
        self.answers.append(threading.Thread(target=self.write, args=(mark, text), daemon=True))
        self.answers[-1].start()

    def write(self, mark: int, text: str) -> None:
        """After the mark, in two pieces."""
        while Path(self.place.directory, "mark").read_text().strip() != str(mark):
            time.sleep(0.01)
        with Path(self.place.output).open("a") as output:
            for part in (text[:-9], text[-9:]):
                time.sleep(0.02)
                output.write(part)
                output.flush()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    place = nfsd_tracer.TracerFiles(os.fspath(tmp_path))
    Path(place.output).write_text('{"type": "printf", "data": "hsp-trace begins\\n"}\n')
    Path(place.warnings).write_text("")
    Path(place.ready).write_text(f"{os.getpid()}\n")
    (tmp_path / "mark").write_text("")
    server = Server(place)
    yield server
    for answer in server.answers:
        answer.join(60)


def tracer(server: Server) -> nfsd_tracer.Tracer:
    return nfsd_tracer.Tracer(server, server.place, None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only root may raise a limit; tests/lab uses the real one. Here the mark goes into a file."""
    for name in ("BEGIN", "END", "END_FOLLOWED"):
        ulimit = f'ulimit() {{ echo "$2" >"{tmp_path}/mark"; }}; '
        monkeypatch.setattr(nfsd_tracer, name, ulimit + getattr(nfsd_tracer, name))


def test_each_phase_has_its_own_part_of_the_output(server: Server) -> None:
    running = tracer(server)
    for phase in (1, 2, 3):
        running.begin(200_000_000)
        text, problems = running.end()
        assert problems == []
        assert text.splitlines()[0] == (FIRST % phase).strip() and text.endswith("}\n")
        assert text.count("hsp-trace phase") == text.count("hsp-trace ended") == 1
        trace = parse_trace(text)
        assert (trace.phase, trace.problems, trace.ended) == (phase, [], True)
    assert server.marks == [
        mark for phase in (1, 2, 3) for mark in (nfsd_tracer.mark(phase, 200_000_000), nfsd_tracer.mark(0, 0))
    ]


def test_a_warning_of_the_tracer_is_a_problem(server: Server) -> None:
    running = tracer(server)
    running.begin(10**9)
    Path(server.place.warnings).write_text("WARNING: map full\n\n")
    assert running.end()[1] == ["the tracer warned: WARNING: map full"]


def test_a_tracer_that_dies_in_a_phase_makes_this_one_and_later_ones_unknown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing waits for an answer of the dead.
    monkeypatch.setattr(nfsd_tracer, "_MARK_DEADLINE_S", 3600.0)
    running = tracer(server)
    running.begin(10**9)
    assert running.end()[1] == []
    running.begin(10**9)
    server.deaf = True
    Path(server.place.ready).write_text("999999999\n")
    text, problems = running.end()
    assert problems == ["the tracer died during the load"]
    # Its output is kept, but is not a complete phase.
    assert "hsp-trace phase 2" in text
    assert any("died before its end" in problem for problem in parse_trace(text).problems)
    for _ in range(2):
        with pytest.raises(HostError, match="the tracer died before the phase"):
            running.begin(10**9)


def test_a_mark_without_an_answer_has_a_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    running = tracer(server)
    running.begin(10**9)
    monkeypatch.setattr(nfsd_tracer, "_MARK_DEADLINE_S", 0.5)
    server.deaf = True
    text, problems = running.end()
    assert text == "" and problems[0].startswith("the tracer did not confirm the end of the phase")
    with pytest.raises(DeadlineExceeded):
        running.begin(10**9)


def test_a_shell_that_cannot_mark(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = "ulimit() { echo refused >&2; false; }; "
    monkeypatch.setattr(nfsd_tracer, "BEGIN", failing + nfsd_tracer.BEGIN.partition("}; ")[2])
    server.deaf = True
    with pytest.raises(HostError, match=r"did not get the mark of the phase's begin: refused$"):
        tracer(server).begin(10**9)


def test_only_the_tracer_that_was_left_is_ended(tmp_path: Path) -> None:
    own, foreign = (tmp_path / name for name in ("own", "foreign"))
    left, stranger = (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", f"{where}/nfsd.bt"])
        for where in (own, foreign)
    )
    try:
        for _ in range(2):
            nfsd_tracer.end_left(LocalHost(), os.fspath(own))
            assert left.wait(60) == -15
            assert stranger.poll() is None
    finally:
        for process in (left, stranger):
            process.kill()
            process.wait()


def test_a_phase_whose_last_lines_do_not_arrive_has_a_problem(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = tracer(server)
    running.begin(10**9, tmp_path / "whole")
    assert running.follow_end(tmp_path / "whole") == []
    running.begin(10**9, tmp_path / "cut")
    assert running._follower
    running._follower.stop(60, "KILL")
    monkeypatch.setattr(nfsd_tracer, "_ARRIVAL_DEADLINE_S", 0.1)
    (problem,) = running.follow_end(tmp_path / "cut")
    assert "did not arrive" in problem and "is there room" in problem
