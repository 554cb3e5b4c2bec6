"""The program of forced writes on a device, and how many groups it gets."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.force_table import ForceTable
from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.local import LocalHost
from kit.load.programs import force_load, program_load
from kit.load.programs.force_program import command, put_program, run_words, words_of
from kit.store.parts.forces import FLUSH_IDLE, READ_CACHED, Forces
from tests.kit.hosts.conftest import until
from tests.kit.load.programs.test_force_load import METHODS, MIB, REAL, kill


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A file in place of one."""
    path = tmp_path / "device"
    path.write_bytes(bytes(4 * MIB))
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this filesystem has no O_DIRECT")
    return path


def measured(
    device: Path,
    method: str,
    groups: int | None,
    *,
    size: int = 4 * MIB,
    seed: int = 1,
    clock: Clock = REAL,
    **keys: Any,
) -> Forces:
    """Direct writes at random places of the first `size` bytes. Without `groups` they last 100 s."""
    keys = {"record": 4096, "random": True, "direct": True, "check": False, **keys}
    # The table has limits of its own.
    force = ForceTable.model_construct(method=method, groups=groups, **{"file": size, **keys})
    spec = words_of(force, "", os.fspath(device), size, seed, is_device=True)
    put_program(LocalHost(), os.fspath(device.parent))
    argv = command(os.fspath(device.parent), run_words(spec, force, size, 10**7, 10**11))
    lines = program_load.lines_of(LocalHost().run(argv, deadline_s=60).stdout, "it")
    assert lines[-1]["end"] is True
    return force_load.forces_of(force, lines, clock)


@pytest.mark.parametrize("method", METHODS)
def test_groups_that_are_asked_for_end_the_load(device: Path, method: str) -> None:
    result = measured(device, method, 40)
    assert (result.method, result.threads, result.records, result.group.ios) == (method, 1, 40, 40)
    assert (result.force is not None) == ("sync" in method and not method.startswith("open"))
    for latencies in (result.write, result.force, result.group):
        if latencies:
            assert latencies.ios == 40
            assert latencies.bins[0][0] == bin_index(latencies.min_ns)
            assert latencies.bins[-1][0] == bin_index(latencies.max_ns)
    if result.force and "close" not in method:
        assert result.group.sum_ns == result.write.sum_ns + result.force.sum_ns
    # It ends with the last group, not with the window: rates are of this time.
    assert result.group.sum_ns <= result.elapsed_ns < 10**11


def test_what_needs_no_medium_writes_nothing(device: Path) -> None:
    before = device.read_bytes()
    flush, read = (measured(device, each, 40, random=False) for each in (FLUSH_IDLE, READ_CACHED))
    assert (flush.force and flush.force.ios, flush.forces, read.group.ios, read.forces) == (40, 40, 40, 0)
    assert read.force is None and device.read_bytes() == before
    assert not flush.writes and not read.writes and measured(device, "none", 1).writes


def test_threads_write_parts_of_their_own_and_all_of_them(device: Path) -> None:
    result = measured(device, "none", 1024, threads=4, random=False)
    assert (result.threads, result.group.ios) == (4, 1024)
    content = device.read_bytes()
    sectors = {content[at : at + 512] for at in range(0, len(content), 512)}
    assert len(sectors) == len(content) // 512, "each sector has content of its own"
    # By one seed the n-th record has one content: a block that got it before could get it again.
    measured(device, "none", 9 * 1024, threads=1024, random=False, seed=2)
    again = device.read_bytes()
    assert all(again[at : at + 512] != content[at : at + 512] for at in range(0, len(content), 4096))


def test_it_stays_in_its_span_and_a_seed_repeats_its_places(device: Path) -> None:
    def written(seed: int) -> bytes:
        device.write_bytes(bytes(4 * MIB))
        measured(device, "none", 20, size=MIB, record=8192, seed=seed)
        return device.read_bytes()

    once = written(7)
    assert any(once[:MIB]) and not any(once[MIB:]) and written(7) == once != written(8)


def test_latencies_are_those_of_the_experiment(device: Path) -> None:
    begun_ns = time.monotonic_ns()
    result = measured(device, "none", 200, clock=Clock("virtual", 4))
    assert result.elapsed_ns * 4 <= time.monotonic_ns() - begun_ns
    assert result.group.sum_ns <= result.elapsed_ns


@pytest.mark.parametrize(
    ("method", "keys", "message"),
    [
        ("none", {"threads": 2, "size": 4096}, "too small"),
        ("none", {"record": 1004}, "not a load"),
        ("once", {}, "not a load"),
    ],
)
def test_a_load_that_cannot_be_is_refused(
    device: Path, method: str, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(HostError, match=message):
        measured(device, method, 2, **keys)


def test_a_device_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="gone: No such file"):
        measured(tmp_path / "gone", "none", 1)
    assert not (tmp_path / "gone").exists()


def test_one_that_is_killed_leaves_nothing_of_itself(
    device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copies := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(copies))
    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(lambda: until(lambda: kill(f"force_load run {device}", copies)))
        # A number of groups ends with the device, which a fast disk writes before anybody can kill.
        with pytest.raises(HostError):
            measured(device, "fdatasync", None)
        assert killer.result()
    assert not any(copies.iterdir())


@pytest.mark.parametrize(
    ("keys", "on_device", "groups"),
    [
        ({}, 1 << 30, None),
        ({"groups": 4000}, 1 << 30, 4000),
        ({"groups": 4000, "most": "1MiB"}, 1 << 30, 256),
        ({"groups": 4000, "random": True, "check": False}, 2 << 20, 512),
        ({"groups": 4000, "random": True, "check": False, "most": "1MiB"}, 2 << 20, 256),
        # At least one of each thread.
        ({"groups": 4000, "most": "4KiB", "threads": 4}, 1 << 30, 4),
        ({"groups": 4000, "most": "4KiB", "method": "flush_idle", "check": False}, 1 << 30, 4000),
    ],
)
def test_how_many_groups_a_device_gets(keys: dict[str, Any], on_device: int, groups: int | None) -> None:
    assert ForceTable.model_validate({"record": "4KiB", **keys}).groups_on(on_device) == groups
