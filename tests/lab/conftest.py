"""The lab, once per test session: the image, one guest for looking at parts, one whole main job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.core.clock import Clock
from kit.core.progress import Progress
from kit.hosts.ssh import SshHost
from kit.lab.guest import RunningLab
from kit.lab.image.image import Image, ImageInputs, build
from kit.lab.qemu import LabSpec
from kit.lab.warm import open_lab
from tests.lab.rig import SAVED_DISKS, Rig, open_rig

ROOT = Path(__file__).parents[2]
# Host time. A guest under emulation on two busy cores is slow; a hang is much slower.
RUN_DEADLINE_S = 1200


# Longest files first (`tox -e durations`), for two of them run at a time: the short ones fill up the end.
# A file that is not listed comes before those of _SHORTEST. Where there is no image, the first file makes it,
# which takes minutes. The second file needs none: the other worker does not wait for the image.
_LONGEST = (
    "test_real_testbed",
    "test_image_faults",
    "test_settings",
    "test_struck",
    "test_device_families",
    "test_own_workloads",
    "test_ordinary_user",
    "test_main_job",
    "test_device_runs",
    "test_interlocks",
    "test_appliance",
    "test_parts",
    "test_slog",
    "test_warm",
    "test_faults",
    "test_sweep",
    "test_beside_live_runs",
)
_SHORTEST = (
    "test_split",
    "test_schedule",
    "test_write_clock",
    "test_nfs",
    "test_streamed",
    "test_untraced",
    "test_addresses",
    "test_doctor",
)


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[None]:
    """Keep the labs of two workers apart. The path must be short: it holds sockets (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="hsp-") as path, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", path)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate((*_LONGEST, "", *_SHORTEST))}
    items.sort(key=lambda item: ranks.get(item.path.stem, ranks[""]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tables that tests of recovery made, also of those that passed."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for title, content in report.sections:
            if title.startswith("Captured recovery"):
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(content)


@pytest.fixture(scope="session")
def image() -> Image:
    """HSP_LAB_PIN: other versions, such as zfs-linux/trixie-backports; not for tests that call `hsp demo`."""
    pins = os.environ.get("HSP_LAB_PIN", "").split()
    return build(ImageInputs(pins=tuple(pins)), Progress())


@dataclass
class LabAndGuest:
    lab: RunningLab
    guest: SshHost


# A guest on a virtual clock never sleeps: one that nobody uses takes a CPU from one that somebody does.
# So guests live as long as the file that uses them.
@pytest.fixture(scope="module")
def running_lab(image: Image) -> Iterator[LabAndGuest]:
    spec = LabSpec(image.path, Clock("virtual", 4), memory_mib=2048)
    with open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()
        with lab.host() as guest:
            yield LabAndGuest(lab, guest)


@dataclass(frozen=True)
class Finished:
    """A run of the CLI that has ended."""

    code: int
    stdout: str
    stderr: str
    run: Path

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.run / "summary.json").read_text())

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.run / "manifest.json").read_text())

    def row(self, tier: str, layer: str = "nfs-server") -> dict[str, Any]:
        (found,) = (row for row in self.summary["rows"] if row["tier"] == tier and row["layer"] == layer)
        return found

    def check_undone(self) -> None:
        """Everything that the journal has is undone in the reverse order, the pool too."""
        lines = [json.loads(line) for line in (self.run / "journal.jsonl").read_text().splitlines()]
        registered = [line["text"] for line in lines if "kind" in line]
        undone = [
            line["step"].removeprefix("undo: ")
            for line in lines
            if line.get("state") == "done" and line["step"].startswith("undo: ")
        ]
        assert undone == registered[::-1]
        assert any(name.startswith("destroy pool") for name in undone)


def hsp(*arguments: str, results: Path) -> subprocess.Popen[str]:
    """Start the CLI as a user would, with its own results directory."""
    return subprocess.Popen(
        [sys.executable, "-m", "kit.cli", *arguments, "--results", os.fspath(results)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who starts the tests in the background of a script has them ignore Ctrl-C, and all that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(process: subprocess.Popen[str], results: Path, workload: str = "top-speeds") -> Finished:
    stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)
    return Finished(process.returncode, stdout, stderr, results / workload / "latest")


@pytest.fixture(scope="module")
def main_job(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """`hsp demo --json`, whole."""
    results = tmp_path_factory.mktemp("results")
    return finish(hsp("demo", "--json", results=results), results)


@pytest.fixture(scope="module")
def rig(
    image: Image, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    """A guest with disks of its own (others: RIG_DISKS of the file), reached over TCP like any machine."""
    disks = getattr(request.module, "RIG_DISKS", SAVED_DISKS)
    with open_rig(image, tmp_path_factory.mktemp("rig"), disks) as up:
        yield up
