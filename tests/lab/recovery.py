"""What the tests of recovery share: stop the command line at a step of its journal, then `hsp clean`, twice.

Each time the host must be what it was: pools, mounts, exports, namespaces, module parameters, processes,
files and what is on its disks. The table of all steps and what came of each is printed, and written to
recovery.txt beside pytest's temporary files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lab.hoststate import State, differences, state_of
from tests.lab.rig import Rig, call
from tests.lab.workloads import write_small

_DEADLINE_S = 900
_DEVICES = {"data": ("vd0",), "log": ("vd1",)}


@dataclass
class Bed:
    """A testbed on the rig, with a workload and results of its own."""

    rig: Rig
    folder: Path
    trace: str = "auto"
    serials: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        text = self.rig.testbed_toml(_DEVICES)
        head = f'name = "rig"\nssh_config = "{self.rig.ssh_config(self.folder / "ssh_config")}"\n'
        text = text.replace('name = "rig"\n', head, 1)
        text = text.replace("[server]\n", f'[server]\ntrace = "{self.trace}"\n', 1)
        (self.folder / "rig.toml").write_text(text)
        write_small(self.folder, ("good", "write", "100ms"))
        self.serials = [self.rig.disks[name].serial for names in _DEVICES.values() for name in names]

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def run_arguments(self) -> list[str]:
        named = [part for serial in self.serials for part in ("--erase-serial", serial)]
        testbed, workload = self.folder / "rig.toml", self.folder / "small.toml"
        return ["run", os.fspath(workload), "--testbed", os.fspath(testbed), *named]

    def interrupted(self, mode: str, number: int) -> subprocess.CompletedProcess[str]:
        return self._call("tests.lab.interrupted", mode, str(number), "--", *self.run_arguments)

    def hsp(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._call("kit.cli", *arguments)

    def _call(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", module, *arguments, "--results", os.fspath(self.results)]
        return call(argv, _DEADLINE_S)

    def newest(self) -> Path:
        return max((self.results / "small").glob("2*"), key=lambda path: path.name)


def lines_of(run: Path) -> list[dict[str, object]]:
    """Lines of the journal that begin or end a step: what `interrupted` counts."""
    journal = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [line for line in journal if line.get("state") in ("begin", "done")]


def struck(bed: Bed, mode: str, number: int, before: State) -> str:
    """Interrupt, clean up twice, compare; returns what is wrong, empty if nothing is."""
    known = set((bed.results / "small").glob("2*"))
    done = bed.interrupted(mode, number)
    if mode == "kill" and done.returncode != -signal.SIGKILL:
        return f"it was not killed but ended with {done.returncode}: {done.stderr[-500:]}"
    if mode == "drop" and done.returncode not in (0, 3, 5):
        return f"it ended with {done.returncode}: {done.stderr[-500:]}"
    if "Traceback" in done.stderr:
        return f"it said {done.stderr[-1500:]}"
    if set((bed.results / "small").glob("2*")) == known:
        return "it left no run directory"
    for attempt in ("first", "second"):
        cleaned = bed.hsp("clean", os.fspath(bed.newest()))
        if cleaned.returncode:
            return f"the {attempt} clean ended with {cleaned.returncode}: {cleaned.stderr[-800:]}"
        found = differences(before, state_of(bed.rig.host))
        if found:
            return f"after the {attempt} clean: {'; '.join(found)[:1500]}"
    return ""


@pytest.fixture(scope="module")
def beds(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bed]:
    """One with the tracer and one without: what comes after the phase need not wait for it each time."""
    folder = tmp_path_factory.mktemp("recovery")
    return {trace: Bed(rig, folder / trace, trace) for trace in ("auto", "none")}


@pytest.fixture(scope="module")
def whole(beds: dict[str, Bed]) -> tuple[list[dict[str, object]], State]:
    """The journal of a run that nobody interrupts, and the host as it was before it; it is so after it."""
    bed = beds["auto"]
    pristine = state_of(bed.rig.host)
    done = bed.interrupted("none", 0)
    assert done.returncode == 0, done.stderr
    assert differences(pristine, state_of(bed.rig.host)) == []
    return lines_of(bed.newest()), pristine


def stop_at_every(
    mode: str, state: str, beds: dict[str, Bed], whole: tuple[list[dict[str, object]], State], table: Path
) -> list[str]:
    """Strike at each line of that state. Writes the table of outcomes, prints it, returns the failures."""
    lines, before = whole
    phase = next(n for n, line in enumerate(lines, start=1) if str(line["step"]).startswith("phase "))
    told, failures = [], list[str]()
    # Without a tracer there are no steps about it.
    untraced = [line for line in lines if "the tracer" not in str(line["step"])]
    for number, line in enumerate(lines, start=1):
        if line["state"] != state:
            continue
        # In the phase itself with the tracer, after it without.
        traced = number <= phase + 1 or line not in untraced
        bed = beds["auto" if traced else "none"]
        wrong = struck(bed, mode, number if traced else untraced.index(line) + 1, before)
        if wrong:
            # What is left would stop each of the next ones: the table would say nothing about them.
            bed.hsp("clean")
        told.append(f"{mode} at {state} of {line['step']}: {wrong or 'as before'}")
        failures += [told[-1]] if wrong else []
        print(told[-1], flush=True)
    table.write_text("\n".join(told) + "\n")
    return failures
