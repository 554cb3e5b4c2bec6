"""The program of files and directories, on a directory of this machine, and what is read of its lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.tree_table import Action, MetadataJob, Tree
from kit.config.tree_shape import Shape
from kit.core.errors import MeasurementUnknown
from kit.load.fio_windows import read_counts
from kit.load.programs import metadata_load
from kit.load.programs.force_program import TREE_FILE, TREE_PROGRAM, tree_command
from kit.load.programs.program_load import sums_of
from kit.remote.load import metadata_load as program

FILES, DEPTH, WIDTH = 37, 2, 3
DIRECTORIES = 1 + 3 + 9
TREE = Tree.model_validate(
    {"files": FILES, "depth": DEPTH, "width": WIDTH, "size": "100B", "size_max": "2000B"}
)
HOUR_NS = 3600 * 10**9


def job(action: Action, *before: Action, version: str = "3", tree: Tree = TREE) -> MetadataJob:
    return MetadataJob.of(action, tree, before, version)


def call(
    load: MetadataJob, place: Path, *, window_ns: int = 1, limit_ns: int = HOUR_NS, code: int = 0
) -> str:
    (place / "metadata").mkdir(exist_ok=True)
    times_ns = window_ns, limit_ns
    program = place / "program"
    program.mkdir(exist_ok=True)
    (program / TREE_PROGRAM.name).write_bytes(TREE_PROGRAM.read_bytes())
    (program / TREE_FILE).write_text(load.shape("5").to_json())
    argv = tree_command(load, str(program), str(place), 0, times_ns)
    done = subprocess.run([sys.executable, *argv[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


def last(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    assert found["end"] is True
    return found


def tree_of(place: Path) -> list[Path]:
    return sorted((place / "metadata" / "0").rglob("*"))


def test_what_it_says_that_it_did_is_what_is_there(tmp_path: Path) -> None:
    assert last(call(job("create"), tmp_path))["calls"] == {"mkdir": DIRECTORIES, "create": FILES}
    files = [path for path in tree_of(tmp_path) if path.is_file()]
    assert len(files) == FILES and len(tree_of(tmp_path)) == FILES + DIRECTORIES - 1
    sizes = [path.stat().st_size for path in files]
    assert 100 <= min(sizes) < 600 < max(sizes) <= 2000
    assert last(call(job("stat"), tmp_path))["calls"] == {"stat": FILES}
    assert last(call(job("list"), tmp_path))["calls"] == {"readdir": DIRECTORIES}
    found = last(call(job("ls"), tmp_path))["calls"]
    assert found == {"readdir": DIRECTORIES, "stat": FILES + DIRECTORIES - 1}
    before: list[Action] = ["create"]
    for renames in (1, 2):
        assert last(call(job("rename", *before), tmp_path))["calls"] == {"rename": FILES}
        before.append("rename")
        renamed = [path for path in tree_of(tmp_path) if path.is_file()]
        assert all(path.name.endswith("r" * renames) for path in renamed) and len(renamed) == FILES
    call(job("stat", *before), tmp_path)
    assert last(call(job("remove", *before), tmp_path))["calls"] == {"unlink": FILES, "rmdir": DIRECTORIES}
    assert not (tmp_path / "metadata" / "0").exists()


def test_untar_sets_mode_and_times_and_rm_removes_what_it_finds(tmp_path: Path) -> None:
    found = last(call(job("untar", tree=TREE.model_copy(update={"fsync": True})), tmp_path))["calls"]
    assert found == {"mkdir": DIRECTORIES, **dict.fromkeys(("create", "fsync", "chmod", "utimes"), FILES)}
    file = next(path for path in tree_of(tmp_path) if path.is_file())
    assert (file.stat().st_mtime, file.stat().st_mode & 0o777) == (1.0, 0o640)
    # Whatever the names are.
    file.rename(file.with_name("other"))
    found = last(call(job("rm", "untar"), tmp_path))["calls"]
    assert found == {"readdir": DIRECTORIES, "unlink": FILES, "rmdir": DIRECTORIES}
    assert not (tmp_path / "metadata" / "0").exists()


def test_another_tree_a_second_one_and_too_long_a_one_are_errors(tmp_path: Path) -> None:
    call(job("create"), tmp_path)
    assert "File exists" in call(job("create"), tmp_path, code=1)
    (tmp_path / "metadata" / "0" / "more").touch()
    assert f"{FILES + DIRECTORIES} entries, not the {FILES + DIRECTORIES - 1}" in call(
        job("ls"), tmp_path, code=1
    )
    assert "No such file" in call(job("stat", "create", "rename"), tmp_path, code=1)
    assert "of the phase: give the phase a longer duration" in call(job("stat"), tmp_path, limit_ns=0, code=1)


def test_the_tree_of_a_list_has_its_structure_and_sizes_and_none_of_its_names(tmp_path: Path) -> None:
    listed = Shape((0, 1, 0), ((), (7,), (0, 5000), ()))
    load = MetadataJob.of("create", Tree(list="files.txt"), [], "3", listed)
    assert last(call(load, tmp_path))["calls"] == {"mkdir": 4, "create": 3}
    found = {str(path.relative_to(tmp_path / "metadata" / "0")): path for path in tree_of(tmp_path)}
    assert [*found] == ["d1", "d1/d2", "d1/d2/f0", "d1/d2/f1", "d1/f0", "d3"]
    sizes = [found[name].stat().st_size for name in ("d1/f0", "d1/d2/f0", "d1/d2/f1")]
    assert sizes == [7, 0, 5000]
    metadata = metadata_load.metadata_of(load, [{"calls": {}, "create": {"sum": 5}}])
    numbers = metadata.files, metadata.directories, metadata.depth, metadata.least_bytes, metadata.most_bytes
    assert numbers == (3, 4, 2, 0, 5000)
    removal = MetadataJob.of("rm", load.tree, ["create"], "3", listed)
    assert last(call(removal, tmp_path))["calls"] == {"readdir": 4, "unlink": 3, "rmdir": 4}


@pytest.mark.parametrize("window_ns", [1, HOUR_NS])
def test_its_counts_are_those_of_all_lines(tmp_path: Path, window_ns: int) -> None:
    path = tmp_path / "counts"
    path.write_text(call(job("create"), tmp_path, window_ns=window_ns))
    windows = read_counts(path, 100, alone=True)
    assert windows.by_op() == {"read": 0, "write": 0, "create": FILES}
    assert len(path.read_text().splitlines()) == (FILES + 1 if window_ns == 1 else 1)
    metadata = metadata_load.metadata_of(job("create"), lines(path.read_text()))
    [sum_ns] = sums_of(lines(path.read_text())).values()
    (least, most), *_ = windows.extremes_ns.values()
    assert FILES * least <= sum_ns <= FILES * most and metadata.files == FILES


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


CALLS = {"create": 7, "mkdir": 3, "rename": 2, "unlink": 5, "rmdir": 4, "stat": 9}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3", {"create": 7, "mkdir": 3, "rename": 2, "remove": 5, "rmdir": 4}),
        # OPEN makes files, CREATE directories; REMOVE is of both.
        ("4.2", {"open": 7, "create": 3, "rename": 2, "remove": 9}),
    ],
)
def test_the_operations_that_the_calls_need_are_those_of_the_version(
    version: str, expected: dict[str, int]
) -> None:
    made = [{"calls": CALLS, "create": {"sum": 5}}]
    metadata = metadata_load.metadata_of(job("create", version=version), made)
    assert metadata.expected == expected
    both = metadata.together([metadata, metadata])
    assert both.expected == {op: 2 * count for op, count in expected.items()}
    assert (both.files, both.directories) == (2 * FILES, 2 * DIRECTORIES)


@pytest.mark.parametrize(
    "made",
    [
        [{}],
        [{"calls": []}],
        [{"calls": {"reboot": 1}, "create": {"sum": 5}}],
        [{"calls": {"create": -1}, "create": {"sum": 5}}],
        [{"calls": CALLS, "create": {"sum": "x"}}],
        [{"calls": CALLS, "create": 5}],
    ],
)
def test_damaged_lines_are_unknown(made: Sequence[dict[str, Any]]) -> None:
    with pytest.raises(MeasurementUnknown, match="damaged"):
        sums_of(made)
        metadata_load.metadata_of(job("create"), made)


def test_what_ended_before_a_long_wait_did_not_end_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten files of 1 ms, one of 3 s, ten more; the windows are of a second."""
    second, ms, at_ns = 10**9, 10**6, [0]
    monkeypatch.setattr(program.time, "monotonic_ns", lambda: at_ns[0])
    counts = program.Counts("create", second, HOUR_NS)
    for took_ns in (*[ms] * 10, 3 * second, *[ms] * 10):
        begun_ns, at_ns[0] = at_ns[0], at_ns[0] + took_ns
        counts.ended(begun_ns)
    counts.line(at_ns[0], at_ns[0], end=True)
    (tmp_path / "counts").write_text(capsys.readouterr().out)
    windows = read_counts(tmp_path / "counts", 1000, alone=True)
    slow_ns = 3 * second + 10 * ms
    rows = zip(windows.begin_ns.tolist(), windows.end_ns.tolist(), windows.count.tolist(), strict=True)
    assert [*rows] == [(0, 10 * ms, 10), (slow_ns, slow_ns, 1), (slow_ns, slow_ns + 10 * ms, 10)]
    assert windows.guessed == 0
