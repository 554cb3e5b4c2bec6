"""While a load is counted: what is shown, and the end of the space for it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.hosts.local import LocalHost
from kit.load.launch import PhaseLoad
from kit.load.phase_load import Worker
from kit.run import watch
from kit.store.run_directory import RunDir

SECOND = 10**9


def bench(tmp_path: Path, clock: Clock | None = None, storage: Any = None) -> Any:
    client = SimpleNamespace(host=LocalHost("client"))
    server = LocalHost("server") if storage else None
    site = SimpleNamespace(
        clock=clock or Clock(), clients=[client], server=server, hosts={"client0": client.host}
    )
    (tmp_path / "raw").mkdir(exist_ok=True)
    return SimpleNamespace(site=site, run_dir=RunDir(tmp_path), storage=storage, work_dir=str(tmp_path))


WORKERS = [Worker(LocalHost("client"), "client", "/mnt", 512)]


class Running(PhaseLoad):
    """Runs until it is stopped; its file has two readings of a second."""

    def __init__(self, tmp_path: Path) -> None:
        self.problems, self.failed = [], False
        self.path = tmp_path / "counts"
        rows = [
            {
                "from_ns": n * SECOND,
                "asked_ns": 0,
                "to_ns": (n + 1) * SECOND,
                "read": {"bins": {"1": 4000 * n}},
            }
            for n in (1, 2)
        ]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"from')

    @property
    def outputs(self) -> list[Path]:
        return [self.path]

    def running(self) -> bool:
        return True


class Shown(Progress):
    def __init__(self) -> None:
        super().__init__(stream=io.StringIO())
        self.details: list[str] = []

    def detail(self, text: str) -> None:
        self.details.append(text)


def test_a_load_ends_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FLOOR_BYTES", 1 << 60)
    monkeypatch.setattr(watch, "_LOOK_S", 0.2)
    load, shown = Running(tmp_path), Shown()
    end = watch.wait(bench(tmp_path), load, 600 * SECOND, (), shown)
    # Long before the end of its 600 s.
    assert load.failed and end.by == "no-room" and not load.problems
    assert f"{1 << 40} MiB" in end.early and "all intervals until then are kept" in end.early
    # Of the last whole line: 8000 I/Os in a second; 2 s of 600 are done.
    assert shown.details == ["8,000 I/O a second, 9 min 58 s left"]


def test_a_phase_that_has_no_room_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.check_room(bench(tmp_path), WORKERS, 60 * SECOND, SECOND)
    with pytest.raises(HostError, match=r"this machine: .* MiB free; this phase may write"):
        watch.check_room(bench(tmp_path), WORKERS, 10**12 * SECOND, SECOND)


@pytest.mark.parametrize(
    ("clock", "storage", "limit_s"),
    [(Clock(), True, 86_400 + 900), (Clock(), False, 86_400 + 120), (Clock("virtual", 4), True, 3_456_000)],
)
def test_deadlines_come_from_the_duration(
    tmp_path: Path, clock: Clock, storage: bool, limit_s: float
) -> None:
    assert watch.limit_s(bench(tmp_path, clock, storage or None), 86_400 * SECOND) == limit_s


def test_a_load_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LATE_APPLIANCE_S", 0.2)
    load = Running(tmp_path)
    watch.wait(bench(tmp_path), load, 1, ())
    assert load.failed and "did not end within" in load.problems[0]


def test_files_of_a_tree_are_shown_as_ios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LATE_APPLIANCE_S", 0.5)
    monkeypatch.setattr(watch, "_LOOK_S", 0.1)
    load, shown = Running(tmp_path), Shown()
    load.path.write_text(load.path.read_text().replace('"read"', '"create"'))
    watch.wait(bench(tmp_path), load, 1, (), shown)
    assert shown.details[0].startswith("8,000 I/O a second")
