"""The directory of a run, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import ConfigError, HostError
from kit.core.files import write_atomically
from kit.store import run_directory
from kit.store.run_directory import create_run
from kit.store.series import create_series


def test_a_run_gets_a_directory_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    first, second = (run_directory.create_run(tmp_path, "w") for _ in range(2))
    latest = tmp_path / "w" / "latest"
    assert not latest.is_symlink(), "neither has anything to show yet"
    for run in (first, second):
        run_directory.point_latest(run)
    assert first.path != second.path
    assert first.raw.is_dir() and second.raw.is_dir()
    assert latest.resolve() == second.path.resolve()
    assert not Path(os.readlink(latest)).is_absolute()
    assert {path.name for path in (tmp_path / "w").iterdir()} == {first.path.name, second.path.name, "latest"}
    older = run_directory.RunDir(tmp_path / "w" / "20000101T000000Z-ffffff")
    run_directory.point_latest(older)
    assert latest.resolve() == second.path.resolve(), "an older run that is resumed is not the newest"


def test_only_latest_may_be_a_link_and_only_to_a_directory_beside_it(tmp_path: Path) -> None:
    run = run_directory.create_run(tmp_path, "w")
    run_directory.point_latest(run)
    assert run_directory.named_run(tmp_path / "w" / "latest") == run
    assert run_directory.named_run(Path(os.path.relpath(run.path))) == run
    (tmp_path / "w" / "link").symlink_to(run.path.name)
    (tmp_path / "latest").symlink_to(run.path)
    for link in (tmp_path / "w" / "link", tmp_path / "latest"):
        with pytest.raises(ConfigError, match="is a link"):
            run_directory.named_run(link)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_new_run_can_be_read_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        run = run_directory.create_run(tmp_path, "w")
    finally:
        os.umask(before)
    assert run_directory.named_run(run.path) == run
    assert not (run.raw.stat().st_mode | run.path.stat().st_mode) & 0o022


def test_too_little_space_stops_before_the_load(tmp_path: Path) -> None:
    run_directory.check_space(tmp_path, 1, 1)
    with pytest.raises(HostError, match="MiB free, a run needs"):
        run_directory.check_space(tmp_path, 1 << 60, 1)
    with pytest.raises(HostError, match=r"room for [0-9]+ files more, a run needs"):
        run_directory.check_space(tmp_path, 1, 1 << 60)


def test_a_file_is_written_whole_and_readable_for_others(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_atomically(file, b"old")
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("failing", ["fsync", "replace", "fchmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(HostError, match=r"x\.json: cannot be written: No space left"):
        write_atomically(file, b"new")
    monkeypatch.undo()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def _of_another(place: Path) -> None:
    os.chown(place, 12345, 12345)


def _for_everybody(place: Path) -> None:
    place.chmod(0o1777)


@pytest.mark.parametrize("whose", [_of_another, _for_everybody])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("create", [create_run, create_series])
def test_results_are_not_put_where_somebody_else_can_change_them(
    tmp_path: Path,
    whose: Callable[[Path], None],
    inner: bool,
    create: Callable[[Path, str], object],
) -> None:
    if whose is _of_another and os.geteuid():
        pytest.skip("only root can give a directory away")
    results = tmp_path / "results"
    place = results / "small" if inner else results
    place.mkdir(parents=True)
    whose(place)
    with pytest.raises(ConfigError, match="results are not written there") as caught:
        create(results, "small")
    assert "--results" in caught.value.hint and list(place.iterdir()) == []
    # One of your own in a directory for everybody is as good as any.
    if whose is _for_everybody and not inner:
        create(results / "mine", "small")
