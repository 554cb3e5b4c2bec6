"""Forced writes: the program on a file of this machine, and its output."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import get_args

import pytest

from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import HostError, MeasurementUnknown
from kit.hosts.local import LocalHost
from kit.load import forces
from kit.load.forces import Test
from kit.store.parts.forces import Forces, Idle

MIB = 1 << 20
REAL = Clock("real", 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "device"
    path.write_bytes(bytes(4 * MIB))
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this filesystem has no O_DIRECT")
    return path


def run(file: Path, *tests: Test, clock: Clock = REAL, seed: int = 1) -> tuple[Forces, ...]:
    return forces.run(LocalHost(), os.fspath(file), tests, clock, seed, 60)


def test_each_method_counts_each_write(file: Path) -> None:
    methods: list[forces.Method] = ["none", "open_dsync", "open_sync", "fdatasync", "fsync", "fsync_other"]
    results = run(file, *(Test(method, 4096, 40, 4 * MIB) for method in methods))
    for method, result in zip(methods, results, strict=True):
        assert (result.method, result.threads, result.write.ios) == (method, 1, 40)
        forced = "sync" in method and not method.startswith("open")
        assert (result.force is not None) == (result.both is not None) == forced
        for latencies in (result.write, result.force, result.both):
            if latencies:
                assert latencies.ios == 40
                assert latencies.bins[0][0] == bin_index(latencies.min_ns)
                assert latencies.bins[-1][0] == bin_index(latencies.max_ns)
                assert latencies.min_ns * 40 <= latencies.sum_ns <= latencies.max_ns * 40
        if result.force and result.both:
            assert result.both.sum_ns == pytest.approx(result.write.sum_ns + result.force.sum_ns, abs=40)


def test_what_needs_no_medium_writes_nothing(file: Path) -> None:
    before = file.read_bytes()
    results = run(file, *(Test(method, 4096, 40, 4 * MIB) for method in get_args(Idle)))
    assert [(each.method, each.write.ios, each.force, each.both) for each in results] == [
        ("flush_idle", 40, None, None),
        ("read_cached", 40, None, None),
    ]
    assert file.read_bytes() == before


def test_threads_write_parts_of_their_own_and_all_of_them(file: Path) -> None:
    [result] = run(file, Test("none", 4096, 256, 4 * MIB, threads=4, order="sequential"))
    assert (result.threads, result.write.ios) == (4, 1024)
    content = file.read_bytes()
    sectors = {content[at : at + 512] for at in range(0, len(content), 512)}
    assert len(sectors) == len(content) // 512, "each sector has content of its own"


def test_it_stays_in_its_span_and_a_seed_repeats_its_places(file: Path) -> None:
    def written(seed: int) -> bytes:
        file.write_bytes(bytes(4 * MIB))
        run(file, Test("none", 8192, 20, MIB, first_bytes=2 * MIB), seed=seed)
        return file.read_bytes()

    once = written(7)
    assert not any(once[: 2 * MIB]) and not any(once[3 * MIB :]) and any(once[2 * MIB : 3 * MIB])
    assert written(7) == once != written(8)


def test_latencies_are_those_of_the_experiment(file: Path) -> None:
    begun_ns = time.monotonic_ns()
    [result] = run(file, Test("none", 4096, 200, 4 * MIB), clock=Clock("virtual", 4))
    assert result.elapsed_ns * 4 <= time.monotonic_ns() - begun_ns
    assert result.write.sum_ns <= result.elapsed_ns


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (Test("none", 4096, 1, 4096, threads=2), "too small"),
        (Test("none", 1000, 1, 4 * MIB), "not a test"),
        (Test("none", 4096, 1, 8 * MIB, first_bytes=1 << 60), "write of 4096 bytes"),
        (Test("once", 4096, 1, 4 * MIB), "no such method"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused(file: Path, test: Test, message: str) -> None:
    with pytest.raises(HostError, match=message):
        run(file, test)


def test_a_device_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="gone: No such file"):
        run(tmp_path / "gone", Test("none", 4096, 1, 4 * MIB))
    assert not (tmp_path / "gone").exists()


def test_one_that_is_killed_is_an_error_and_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def kill() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pids = subprocess.run(["pgrep", "-f", f"/forces {file}"], capture_output=True, text=True)
            for pid in pids.stdout.split():
                if Path(f"/proc/{pid}/comm").read_text() == "forces\n":
                    os.kill(int(pid), 9)
                    return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostError, match=r"measurement of forces on .* failed"):
        run(file, Test("fdatasync", 4096, 10_000_000, 4 * MIB))
    killer.join()
    assert [path.name for path in tmp_path.iterdir()] == ["device"]


LINE = {
    "method": "none", "block_bytes": 4096, "threads": 1, "elapsed_ns": 10,
    "write": {"sum_ns": 9, "min_ns": 4, "max_ns": 5, "bins": [[4, 1], [5, 1]]},
}  # fmt: skip
ASKED = [Test("none", 4096, 2, 4 * MIB)]


def test_its_output_is_checked() -> None:
    [result] = forces.parse(json.dumps(LINE), ASKED)
    assert result.durable.mean_ns == 4.5 and result.forces_per_s == 2e8


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", json.dumps(LINE) * 2, json.dumps({**LINE, "threads": 2}), "[" * 100_000]
    + [json.dumps({**LINE, "write": {**LINE["write"], "bins": bins}}) for bins in ([], [[4, 1]], [[4, 0]])],  # type: ignore[dict-item]
)
def test_damaged_output_is_refused(text: str) -> None:
    with pytest.raises(MeasurementUnknown):
        forces.parse(text, ASKED)


def test_it_compiles_without_warnings(tmp_path: Path) -> None:
    source = Path(forces.__file__).with_suffix(".c")
    strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(["cc", *strict, source], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
