"""The tables of a sweep: what they mean, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.overrides import with_sets
from kit.config.sweep import class_of, read_sweep
from kit.config.workload import workload_of
from kit.config.workload_base import WORKLOADS, read_source
from kit.core.errors import ConfigError

HEAD = 'format = 1\nname = "mine"\ntitle = "Mine"\nbase = "top-speeds"\n'
AXIS = (
    '[sweep.size]\nset = ["job.bs", "dataset.recordsize"]\nto = { 512 = ["512", 512], 4k = ["4k", "4KiB"] }\n'
)


def swept(folder: Path, text: str):
    (folder / "w.toml").write_text(HEAD + text)
    return read_sweep(read_source(folder / "w.toml"))


def test_values_have_names_and_the_first_is_the_base(tmp_path: Path) -> None:
    sweep = swept(tmp_path, AXIS + '[sweep.threads]\nset = "job.numjobs"\nto = [1, 2, 4]\n')
    assert sweep is not None
    size, threads = sweep.axes["size"], sweep.axes["threads"]
    assert (size.kind, size.base, size.values["4k"]) == ("build", "512", ("4k", "4KiB"))
    assert (threads.kind, threads.base, list(threads.values)) == ("phase", "1", ["1", "2", "4"])


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ('{ 0 = "0%", 90 = "90%" }', "%"),
        ('{ 0 = "0%", 90 = "512m" }', ""),
        ("[1, 2]", ""),
        ('["4k", "8k"]', ""),
    ],
)
def test_parts_have_a_unit(tmp_path: Path, values: str, unit: str) -> None:
    sweep = swept(tmp_path, f'[sweep.at]\nset = "job.rwmixread"\nto = {values}\n')
    assert sweep is not None and sweep.axes["at"].unit == unit


def test_a_workload_without_axes_sweeps_nothing(tmp_path: Path) -> None:
    assert swept(tmp_path, "") is None


def test_axes_of_the_base_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(HEAD + AXIS)
    (tmp_path / "w.toml").write_text(HEAD.replace("top-speeds", "base.toml"))
    sweep = read_sweep(read_source(tmp_path / "w.toml"))
    assert sweep is not None and list(sweep.axes) == ["size"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("job.bs", "phase"), ("phase.duration", "phase"),
        ("phase.read.duration", "phase"), ("phase.read.title", None), ("dataset.recordsize", "build"),
        ("pool.data", "build"), ("tunables.zfs_txg_timeout", "build"), ("nfs.version", "build"),
        ("nfs.nconnect", "build"), ("nfs.proto", "build"),
        ("use.log", "build"), ("phase", "nothing"), ("precondition.fills", "build"), ("phase.name", None),
        ("title", None), ("use.server", None), ("job", None),
    ],
)  # fmt: skip
def test_each_key_needs_a_phase_a_build_or_nothing(key: str, kind: str | None) -> None:
    assert class_of(key) == kind


WISH = '[[expect]]\naxis = "%s"\nphase = "read"\nop = "read"\ntier = "l2arc"\nfrom = 512\nto = "%s"\n'
MISTAKES = [
    ('[sweep.x]\nset = "job.bs"\nto = ["4k"]\n', 7, "at least two values"),
    ('[sweep.x]\nset = "dataset"\nto = ["4k", "8k"]\n', 6, "cannot be swept"),
    ('[sweep.x]\nset = ["job.bs", "job.bs"]\nto = { a = ["4k", 1], b = ["1k", 2] }\n', 6, "a key twice"),
    ('[sweep.x]\nset = "job.bs"\nto = ["4k", "4k"]\n', 7, "a value twice"),
    ('[sweep.x]\nset = "job.bs"\nto = { a = "4k", b = "4k" }\n', 7, "b is the same as a"),
    ('[sweep.x]\nset = ["job.bs", "job.rw"]\nto = { a = "4k", b = "8k" }\n', 7, "1 value for the 2 keys"),
    ('[sweep.x]\nset = "job.bs"\nto = { "a b" = "4k", c = "8k" }\n', 7, "is not a name for a cell"),
    ('[sweep.x]\nset = "job.bs"\nto = ["4k", "8k"]\nphases = ["raed"]\n', 8, "did you mean 'read'?"),
    ('[sweep.x]\nset = "phase"\nto = { a = "read", b = "reed" }\n', 7, "b: no phase 'reed', did you mean"),
    ('[sweep.x]\nset = ["phase", "job.bs"]\nto = { a = ["read", 1], b = ["read", 2] }\n', 6, "stands alone"),
    (AXIS + '[sweeps]\ncross = [["size", "x"]]\n', 9, "no axis 'x'"),
    (AXIS + '[sweeps]\ncross = [["size", "size"]]\n', 9, "each once"),
    (AXIS + '[sweeps]\nalso = ["read", "read"]\n', 9, "'read' is named twice: name each phase once"),
    (AXIS + "[sweeps]\ndrift_max = 2\n", 9, "less than or equal to 1"),
    (AXIS + "[sweeps]\nrepeat = 2\n", 9, "unknown key"),
    ("[sweeps]\ncross = []\n", 5, "there is none"),
    ('[sweep.X]\nset = "job.bs"\nto = ["4k", "8k"]\n', 5, "pattern"),
    (AXIS + WISH % ("siz", "4k") + "ratio_max = 4\n", 9, "did you mean 'size'?"),
    (AXIS + WISH % ("size", "5k") + "ratio_max = 4\n", 14, "no value '5k'"),
    (AXIS + WISH % ("size", "512") + "ratio_max = 4\n", 14, "the same value as from"),
    (AXIS + WISH % ("size", "4k"), 9, "no limit"),
    (AXIS + WISH % ("size", "4k") + "ratio_min = 3\nratio_max = 2\n", 15, "above ratio_max"),
    (WISH % ("size", "4k"), 6, "no axis"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "problem"), MISTAKES)
def test_mistakes_are_refused_with_their_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        swept(tmp_path, text)
    assert f"w.toml:{line}: " in refused.value.message, refused.value.message
    assert problem in refused.value.message


FORCED = """\
format = 1
name = "w"
title = "W"
precondition = "none"

[[phase]]
name = "one"
title = "One"
target = "device:log"
force = { record = "8KiB", method = "fsync" }
duration = "1s"

[[phase]]
name = "split"
base = "one"
force = { record = "16KiB", method = "open_sync" }

[sweep.method]
set = "force.method"
to = ["fsync", "fdatasync"]
phases = ["one"]
"""
SPLIT = """
[sweep.split]
set = ["force.method", "force.per_force"]
to = { a = ["open_sync", 1], b = ["open_sync", 2] }
"""


def test_axes_of_different_phases_may_set_one_key(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(f'{FORCED}{SPLIT}phases = ["split"]\n')
    sweep = read_sweep(read_source(tmp_path / "w.toml"))
    assert sweep and list(sweep.axes) == ["method", "split"]
    (tmp_path / "w.toml").write_text(f"{FORCED}{SPLIT}")
    with pytest.raises(ConfigError, match="there is one base"):
        read_sweep(read_source(tmp_path / "w.toml"))


def test_set_changes_a_key_of_forced_writes(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(FORCED.partition("[sweep")[0])
    workload = workload_of(with_sets(read_source(tmp_path / "w.toml"), ["force.threads=4"]))
    assert [phase.force and phase.force.threads for phase in workload.phase] == [4, 4]


def test_set_changes_a_key_of_every_phase(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(HEAD)
    source = with_sets(
        read_source(tmp_path / "w.toml"), ["job.bs=4k", "dataset.recordsize=4KiB", "phase.duration=1s"]
    )
    workload = workload_of(source)
    assert workload.dataset.properties["recordsize"] == "4KiB"
    assert {phase.options["bs"] for phase in workload.phase} == {"4k"}
    assert {phase.duration for phase in workload.phase} == {10**9}


def test_set_changes_a_key_of_open_loops() -> None:
    source = with_sets(read_source(WORKLOADS / "capacity.toml"), ["open.threads=8"])
    assert [phase.open and phase.open.threads for phase in workload_of(source).phase] == [8, 8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("force.threads=4", "no phase of the workload has force"),
        ("open.rate=4", "no phase of the workload has open"),
        ("array.level=raid0", "no phase of the workload has array"),
        ("phase.nosuch.duration=1s", "no phase of the workload is called 'nosuch'"),
    ],
)
def test_a_set_that_would_change_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "w.toml").write_text(HEAD)
    with pytest.raises(ConfigError, match=said):
        with_sets(read_source(tmp_path / "w.toml"), [text])


@pytest.mark.parametrize("value", ["1979-05-27", "[1979-05-27]", "07:32:00", "9" * 5000, "[" * 3000])
def test_a_value_that_toml_has_and_json_has_not_is_refused_as_text(value: str) -> None:
    source = with_sets(read_source(WORKLOADS / "metadata.toml"), [f"tree.files={value}"])
    with pytest.raises(ConfigError, match=r"tree\.files: expected an integer, found the string") as error:
        workload_of(source)
    assert len(error.value.message) < 1000


@pytest.mark.parametrize("table", ["tree.files=5", "capacity.p99_max=1ms"])
def test_a_table_of_loads_that_no_phase_has_is_refused(table: str) -> None:
    with pytest.raises(ConfigError, match="of which load"):
        workload_of(with_sets(read_source(WORKLOADS / "top-speeds.toml"), [table]))


RATES = """
format = 1
name = "w"
title = "W"
base = "capacity"
[[phase]]
name = "writes"
open = { op = "write", block = "4KiB", rate = 100 }
"""


def test_a_capacity_of_the_base_may_be_left_over(tmp_path: Path) -> None:
    """It cannot be taken away."""
    (tmp_path / "w.toml").write_text(RATES)
    assert workload_of(read_source(tmp_path / "w.toml")).phase[0].open
    (tmp_path / "w.toml").write_text(f'{RATES}[capacity]\np99_max = "1ms"\n')
    with pytest.raises(ConfigError, match="of which load"):
        workload_of(read_source(tmp_path / "w.toml"))


@pytest.mark.parametrize("text", ["job.bs", "name=x", "use.log=1", "=4k", "phase=read"])
def test_set_of_another_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.toml").write_text(HEAD)
    with pytest.raises(ConfigError, match=r"expected KEY=VALUE|there is no key"):
        with_sets(read_source(tmp_path / "w.toml"), [text])


def test_a_wrong_value_of_set_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(HEAD)
    with pytest.raises(ConfigError, match=r"--set phase\.duration=never:1: "):
        workload_of(with_sets(read_source(tmp_path / "w.toml"), ["phase.duration=never"]))
