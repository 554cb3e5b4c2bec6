"""`hsp new workload`: what it writes is a workload that the plan takes, also with what stands in comments."""

import contextlib
import json
import re
import tomllib

import pytest

from tests.kit.session.test_schemas import mistakes


@pytest.fixture
def made(tmp_path, hsp_here):
    assert hsp_here("new", "workload", "database-log", "-C", str(tmp_path)).returncode == 0
    return tmp_path / "database-log.toml"


def test_the_plan_takes_it(made, hsp_here):
    assert {path.name for path in made.parent.iterdir()} == {
        "database-log.toml", "database-log-read.fio", "database-log-write.fio"
    }  # fmt: skip
    assert mistakes("workload", tomllib.loads(made.read_text())) == []
    planned = hsp_here("plan", str(made), "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["workload"] == "database-log"


def uncommented(text, first):
    """The block of comments that begins with `first`, as keys."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"# {first}"))
    for number in range(start, len(lines)):
        if not lines[number].startswith("# "):
            break
        lines[number] = lines[number][2:]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "first", ["[nfs]", "[working_set]", "[precondition]", "[[expect]]", "[sweep.threads]"]
)
def test_each_comment_is_right(made, hsp_here, first):
    text = uncommented(made.read_text(), first)
    assert re.search(rf"^{re.escape(first)}", text, re.MULTILINE)
    made.write_text(text)
    planned = hsp_here("plan", str(made))
    assert planned.returncode == 0, planned.stderr


def test_the_comment_of_the_pool_names_what_the_testbed_lacks(made, hsp_here):
    made.write_text(uncommented(made.read_text(), "[pool]"))
    planned = hsp_here("plan", str(made))
    assert planned.returncode == 2 and "log" in planned.stderr


@pytest.mark.parametrize("name", ["../x", "A", "", "x" * 60, "x y", "-x"])
def test_names_are_refused(tmp_path, hsp_here, name):
    done = hsp_here("new", "workload", "-C", str(tmp_path), "--", name)
    assert done.returncode == 2 and "is not a name" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["database-log.toml", "database-log-read.fio"])
def test_nothing_is_overwritten(tmp_path, hsp_here, there):
    (tmp_path / there).write_text("mine")
    done = hsp_here("new", "workload", "database-log", "-C", str(tmp_path))
    assert done.returncode == 2 and "is there already" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_the_directory_must_be_there(tmp_path, hsp_here):
    assert hsp_here("new", "workload", "x", "-C", str(tmp_path / "none")).returncode == 2


def test_where_nothing_can_be_written_nothing_is_left(small_disk, hsp_here):
    done = hsp_here("new", "workload", "x", "-C", "/proc")
    assert done.returncode == 2 and "/proc/x-read.fio: " in done.stderr and "Traceback" not in done.stderr
    full = small_disk(1)
    with (full / "other").open("wb") as file, contextlib.suppress(OSError):
        file.write(bytes((1 << 20) - 4096))
    done = hsp_here("new", "workload", "x", "-C", str(full))
    assert done.returncode == 2 and "nothing was written" in done.stderr
    assert [path.name for path in full.iterdir()] == ["other"]
