"""kit.precondition.age_pool and its program, on a file whose free blocks a `zpool` of the test counts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kit.config.tables.age_table import Age
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.hosts.base import Command, CommandFailed, CommandResult, DeadlineExceeded
from kit.hosts.local import LocalHost
from kit.precondition import age_pool
from tests.fakes import ScriptedHost, ScriptedProcess

PROGRAM = Path(age_pool.__file__).parents[1] / "remote" / "age_pool.py"
MIB, BLOCK = 1 << 20, 64 << 10
# A pool of 64 MiB that has what the file has. Each free block in the middle of it counts as 60 %.
ZPOOL = f"""\
#!/bin/sh
test "$1" = list || exit 0
set -- $(stat -c "%b %s" {{file}})
used=$(($1 * 512)) holes=$(($2 - $1 * 512)) free=$(({64 * MIB} - $1 * 512))
test $holes -gt 0 || holes=0
printf "hsp-1\\t0\\t0\\t0\\t-\\t-\\t%s\\t0\\n" {{fragmentation}}
printf "\\tmirror-0\\t0\\t%s\\t%s\\t-\\n" $used $(({64 * MIB} - $used))
printf "\\t/dev/a\\t5\\t-\\t-\\t-\\nspecial    -   -\\n\\t/dev/b\\t99\\t7\\t8\\t-\\n"
"""


def aged(
    folder: Path, age: Age, *, fragmentation: str = "$((60 * holes / free))", reserve: int = 0
) -> list[dict[str, float]]:
    """The steps that the program has printed."""
    file, output = folder / "file", folder / "steps"
    (folder / "zpool").write_text(ZPOOL.format(file=file, fragmentation=fragmentation))
    (folder / "zpool").chmod(0o755)
    asked = {
        "pool": "hsp-1", "file": os.fspath(file), **age.model_dump(), "filled_to": 94, "block_bytes": BLOCK,
        "reserve_bytes": reserve, "seed": 1,
    }  # fmt: skip
    argv = ("env", f"PATH={folder}:{os.environ['PATH']}", sys.executable, "-I", "-", json.dumps(asked))
    program = Command(argv, "the program", PROGRAM.read_bytes())
    age_pool.age_pool(LocalHost(), (Command(("true",)), program), age, output, Progress(quiet=True))
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.mark.parametrize(("capacity", "fragmentation"), [(50, 30), (80, 20), (50, 0)])
def test_it_is_as_full_and_as_fragmented_as_asked_for(
    tmp_path: Path, capacity: int, fragmentation: int
) -> None:
    steps = aged(tmp_path, Age(capacity=capacity, fragmentation=fragmentation))
    last, size = steps[-1], 64 * MIB
    assert max(each["allocated"] for each in steps) >= 0.9 * size
    assert 0 <= capacity * size / 100 - last["allocated"] <= 0.03 * size
    assert abs(last["fragmentation"] - fragmentation) <= 5
    assert last["part"] == 1 and steps == sorted(steps, key=lambda each: each["part"])


def test_it_leaves_room_for_the_working_set(tmp_path: Path) -> None:
    last = aged(tmp_path, Age(capacity=50), reserve=8 * MIB)[-1]
    assert 0 <= 24 * MIB - last["allocated"] <= 2 * MIB


def test_a_pool_that_does_not_get_so_fragmented_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="has a fragmentation of 5 % with 50 % of it used") as found:
        aged(tmp_path, Age(capacity=50, fragmentation=30), fragmentation="5")
    assert "asks for 30 %" in found.value.message and found.value.hint


def test_a_pool_without_the_property_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="spacemap_histogram is off"):
        aged(tmp_path, Age(capacity=50), fragmentation="-")


def test_a_program_that_prints_nothing_more_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(age_pool, "_STEP_S", -1.0)
    monkeypatch.setattr(age_pool, "_POLL_S", 0.0)
    process = ScriptedProcess(CommandResult("nas", ("python3",), 0, "", ""), alive=True)
    with pytest.raises(DeadlineExceeded, match="on nas: `python3`"):
        age_pool._await(ScriptedHost(name="nas"), process, tmp_path / "steps", Progress(quiet=True))
    assert process.signals == ["INT"]


@pytest.mark.parametrize(("printed", "percent"), [("12", 12), ("12%", 12), ("-", None)])
def test_the_space_of_a_pool(printed: str, percent: int | None) -> None:
    listing = f"hsp-1\t9\t9\t9\t-\t-\t{printed}\t9\n\t/dev/a\t1024\t250\t750\t-\n"
    listing += "special    -   -\n\t/dev/b\t99\t7\t8\t-\n"
    space = age_pool.space_of(ScriptedHost({"zpool": listing}), "hsp-1")
    assert (space.size_bytes, space.allocated_bytes, space.fragmentation_percent) == (1000, 250, percent)
