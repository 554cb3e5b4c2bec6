"""What the tests of recovery share: strike the command line at a step of its journal, then clean up.

Each time the host must be what it was: pools, mounts, exports, namespaces, module parameters, processes,
files and what is on its disks.

Steps that make something are struck one in a run. Those that undo are struck one after the other on what
one run has left: each time in another `hsp clean`, which goes on from where the last one was struck. Both
call the same teardown; the run's own is struck at its first and at its last step.

Runs go without the tracer, whose start takes longer than all the rest, but where it makes a difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.core.progress import Progress
from kit.recovery.clean import clean
from kit.recovery.journal import read_journal
from tests.lab.conftest import ROOT
from tests.lab.hoststate import State, differences, state_of
from tests.lab.interrupted import LOAD
from tests.lab.rig import LOGINS, NO_LOGIN, Bed, Rig
from tests.lab.workloads import write_small


class SmallBed(Bed):
    """A testbed of two disks on the rig, with a workload of its own."""

    def __init__(self, rig: Rig, folder: Path, trace: str) -> None:
        super().__init__(rig, folder, {"data": ("vd0",), "log": ("vd1",)}, trace)
        self.workload = write_small(folder, ("good", "write", "100ms"))

    def interrupted(self, mode: str, where: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The run, or the command of `arguments`."""
        words = arguments or self.run_words(self.workload)
        return self.hsp(*words, *self.results, strike=(mode, where))

    def clean(self, *runs: str) -> subprocess.CompletedProcess[str]:
        return self.hsp("clean", *runs, *self.results)

    def runs(self) -> set[Path]:
        return set((self.folder / "small").glob("2*"))


@dataclass(frozen=True)
class Line:
    """A line of the journal that begins or ends a step. `number`: as `interrupted` counts them."""

    number: int
    state: str
    step: str

    @property
    def undoes(self) -> bool:
        return self.step.startswith("undo: ")

    @property
    def text(self) -> str:
        return f"{self.state} of {self.step}"


# Until nothing that names the run is running, for 20 s at most. Argument: a pattern that is not like itself.
_AWAIT_COMMANDS = """\
n=0
while pgrep -f "$1" >/dev/null && [ $n -lt 200 ]; do n=$((n + 1)); sleep 0.1; done
"""


def lines_of(run: Path) -> list[Line]:
    lines: list[Line] = []
    for line in map(json.loads, (run / "journal.jsonl").read_text().splitlines()):
        if line.get("state") in ("begin", "done"):
            lines.append(Line(len(lines) + 1, line["state"], line["step"]))
    return lines


@dataclass(frozen=True)
class Whole:
    """A run that nobody interrupts: its lines, and the host as it was before it; it is so after it."""

    lines: list[Line]
    before: State


@pytest.fixture(scope="module")
def beds(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SmallBed]:
    """One with the tracer and one without."""
    folder = tmp_path_factory.mktemp("recovery")
    return {trace: SmallBed(rig, folder / trace, trace) for trace in ("auto", "none")}


@pytest.fixture(scope="module")
def whole(beds: dict[str, SmallBed]) -> Whole:
    """Without the tracer: with it other tunables are set, so the lines have other numbers."""
    bed = beds["none"]
    pristine = state_of(bed.rig.host)
    done = bed.interrupted("none", "0")
    assert done.returncode == 0, done.stderr
    assert differences(pristine, state_of(bed.rig.host)) == []
    (run,) = bed.runs()
    return Whole(lines_of(run), pristine)


# The watcher of a command sleeps up to a second after its end; of the guest's, which pass in no time.
_AWAIT_WATCHERS = """\
n=0
while pgrep -fx "sleep 1" >/dev/null && [ $n -lt 50 ]; do n=$((n + 1)); sleep 0.1; done
"""


class Wrong(Exception):
    """What is wrong after a strike."""


class Striking:
    """Strikes of one mode, `kill`, `drop` or `hang-up`, and what came of each."""

    def __init__(self, mode: str, before: State) -> None:
        self.mode, self.before = mode, before
        self.told: list[str] = []
        self.failures: list[str] = []
        self._cleaned_twice: set[frozenset[str]] = set()

    def report(self, request: pytest.FixtureRequest) -> None:
        request.node.add_report_section("call", "recovery", "\n".join(self.told) + "\n")
        assert not self.failures, "\n".join(self.failures)

    def once(self, bed: SmallBed, what: str, where: str) -> None:
        """Strike a run, then clean up and compare. One that is hung up must have cleaned up by itself."""
        with self._attempt(bed, what):
            run = self._strike_run(bed, where)
            if self.mode == "hang-up":
                if not read_journal(run / "journal.jsonl").finished:
                    raise Wrong("it did not clean up by itself")
                self._compare(bed, "run, before any")
                # What a clean does where nothing is left was seen after the first.
                if self._cleaned_twice:
                    return
            self._clean(bed, run)

    def each_undo(self, bed: SmallBed, first: Line, steps: int) -> None:
        """Strike each step that undoes a run, on what one run leaves. `first`: the run's own."""
        with self._attempt(bed, f"each of {steps} steps that undo"):
            run = self._strike_run(bed, str(first.number))
            # They are numbered as they were registered, so the last one is undone first.
            for number in range(steps - 1, 0, -1):
                pending = {undo.number: undo for undo in read_journal(run / "journal.jsonl").pending}
                if number not in pending:
                    raise Wrong(f"undo {number} was done before it could be struck")
                undo = pending[number]
                # The one struck before may have to be done again, and those between: two lines each.
                earlier = sum(other > number for other in pending)
                line = 2 * earlier + (1 if first.state == "begin" else 2)
                started = time.monotonic()
                self._check(bed.interrupted(self.mode, str(line), "clean", os.fspath(run)))
                self._tell(f"{first.state} of undo: {undo.text}, in hsp clean", "", started, "gone on")
            self._clean(bed, run)

    @contextlib.contextmanager
    def _attempt(self, bed: SmallBed, what: str) -> Iterator[None]:
        started, wrong = time.monotonic(), ""
        try:
            yield
        except Wrong as error:
            wrong = str(error)
            # What is left would stop each of the next ones: the table would say nothing about them.
            bed.clean()
        self._tell(what, wrong, started)

    def said(self, bed: SmallBed, where: str) -> None:
        """Cut a run off for good: what is left is said in one line, with the command that undoes it."""
        known = bed.runs()
        done = bed.interrupted("drop-for-good", where)
        (run,) = bed.runs() - known
        lines = done.stderr.splitlines()
        begin = next(number for number, line in enumerate(lines) if "failed after" in line)
        assert done.returncode == 5 and len(lines) - begin <= 15, done.stderr
        assert sum("hsp clean" in line for line in lines) == 1 and "not undone" not in done.stderr
        assert f"run `hsp clean {run}`" in lines[-1] and "still has a pool, " in lines[-1], lines[-1]
        self._clean(bed, run)

    def killed_when(self, bed: SmallBed, is_now: Callable[[], bool]) -> None:
        """Kill a run at a moment that is not in its journal, then clean up and compare."""
        known = bed.runs()
        argv = [sys.executable, "-m", "kit.cli", *bed.run_words(bed.workload), *bed.results]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            while not is_now():
                assert process.poll() is None and process.stdout, (process.communicate()[0], "not seen")
            process.kill()
        (run,) = bed.runs() - known
        self._clean(bed, run)

    def _tell(self, what: str, wrong: str, started: float, right: str = "as before") -> None:
        took = f"{time.monotonic() - started:.1f} s"
        self.told.append(f"{self.mode} at {what}: {wrong or right} ({took})")
        self.failures += [self.told[-1]] if wrong else []
        print(self.told[-1], flush=True)

    def _strike_run(self, bed: SmallBed, where: str) -> Path:
        known = bed.runs()
        self._check(bed.interrupted(self.mode, where))
        left = bed.runs() - known
        if not left:
            raise Wrong("it left no run directory")
        run = max(left, key=lambda path: path.name)
        if self.mode == "drop":
            # A command ends with its connection, but not in the same moment: one that makes a pool, after it
            # was cleaned up.
            own = run.name[-6:]
            bed.rig.host.run(["sh", "-c", _AWAIT_COMMANDS, "sh", f"[{own[0]}]{own[1:]}"], deadline_s=120)
        return run

    def _check(self, done: subprocess.CompletedProcess[str]) -> None:
        if self.mode == "kill" and done.returncode != -signal.SIGKILL:
            raise Wrong(f"it was not killed but ended with {done.returncode}: {done.stderr[-500:]}")
        if self.mode == "drop" and done.returncode not in (0, 3, 5):
            raise Wrong(f"it ended with {done.returncode}: {done.stderr[-500:]}")
        # While it cleans up a closed terminal changes nothing: it ends as if there were none.
        if self.mode == "hang-up" and done.returncode not in (0, 130):
            raise Wrong(f"it ended with {done.returncode}: {done.stderr[-500:]}")
        if "Traceback" in done.stderr:
            raise Wrong(f"it said {done.stderr[-1500:]}")

    def _clean(self, bed: SmallBed, run: Path) -> None:
        """Twice, where things of such kinds are to be undone for the first time: then there is nothing to do.

        Where they are not, the journal says of itself that there is nothing more.
        """
        kinds = frozenset(undo.kind for undo in read_journal(run / "journal.jsonl").pending)
        _clean_here(run)
        if not read_journal(run / "journal.jsonl").finished:
            raise Wrong("the journal does not say that nothing is left")
        self._compare(bed, "first")
        if kinds in self._cleaned_twice:
            return
        self._cleaned_twice.add(kinds)
        cleaned = bed.clean(os.fspath(run))
        if cleaned.returncode:
            raise Wrong(f"the second clean ended with {cleaned.returncode}: {cleaned.stderr[-800:]}")
        self._compare(bed, "second")

    def _compare(self, bed: SmallBed, which: str) -> None:
        bed.rig.host.run(["sh", "-c", _AWAIT_WATCHERS], deadline_s=120)
        found = differences(self.before, state_of(bed.rig.host))
        if found:
            raise Wrong(f"after the {which} clean: {'; '.join(found)[:1500]}")


def _clean_here(run: Path) -> None:
    """In this process: another one takes as long to start as to clean up."""
    for _ in range(LOGINS):
        cleaned = clean(run, Progress(quiet=True))
        lost = [error.message for error in cleaned.unreachable]
        # A login that the guest slept through (tests.lab.rig).
        if not lost or any(NO_LOGIN not in message for message in lost):
            break
    if cleaned.left or lost:
        raise Wrong(f"the first clean left {[*map(str, cleaned.left), *lost]}")


def strike_at_each(
    mode: str, state: str, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    """Strike at every line of that state; fails with those after which the host is not what it was.

    The table of all steps and their outcomes is printed, and is a section of the report on the test.
    """
    striking = Striking(mode, whole.before)
    lines = [line for line in whole.lines if line.state == state]
    making, undoing = ([line for line in lines if line.undoes == undoes] for undoes in (False, True))
    for line in (*making, undoing[-1]):
        striking.once(beds["none"], line.text, str(line.number))
    striking.each_undo(beds["none"], undoing[0], len(undoing))
    # What the tracer makes different: the look for what it needs, its start, and the load while it is there.
    for step in ("check", "start the tracer"):
        striking.once(beds["auto"], f"{state} of {step}, traced", f"{state}:{step}")
    striking.once(beds["auto"], "the load, traced", LOAD)
    striking.report(request)


def hang_up_at_each(
    step: int, beds: dict[str, SmallBed], whole: Whole, request: pytest.FixtureRequest
) -> None:
    """Close the terminal at lines that are `step` apart, and at the last; fails as above."""
    striking = Striking("hang-up", whole.before)
    for line in dict.fromkeys((*whole.lines[::step], whole.lines[-1])):
        striking.once(beds["none"], line.text, str(line.number))
    striking.report(request)
