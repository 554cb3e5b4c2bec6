"""Sweeps as builds and cells: which phases and pools there are, what is skipped and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.plan.sweep.builds import SweepPlan
from kit.session.side import Side

HEAD = 'format = 1\nname = "mine"\ntitle = "Mine"\nbase = "top-speeds"\nprecondition.method = "none"\n'
SIZE = (
    '[sweep.size]\nset = ["job.bs", "dataset.recordsize"]\nto = { 512 = ["512", 512], 4k = ["4k", "4KiB"] }\n'
)
WRITE = "top-speeds-write.fio"
READ, THREADS = 'phases = ["read"]\n', '[sweep.threads]\nset = "job.numjobs"\nto = [1, 2]\n'


def planned(folder: Path, text: str, only: tuple[str, ...] = (), *, quick: bool = False) -> SweepPlan:
    (folder / "w.toml").write_text(HEAD + text)
    (folder / WRITE).write_text((WORKLOADS / WRITE).read_text())
    sweep = Side(str(folder / "w.toml"), LAB_TESTBED).sweep(only, quick=quick)
    assert sweep is not None
    return sweep


def shape(plan: SweepPlan) -> dict[str, list[str]]:
    return {
        build.name: [f"{c.in_run}: {c.name}{' again' * c.again}" for c in build.cells]
        for build in plan.builds
    }


def test_phase_keys_are_phases_beside_the_base_which_is_measured_last_too(tmp_path: Path) -> None:
    plan = planned(tmp_path, THREADS + READ)
    assert shape(plan) == {"base": ["read: base", "read-threads-2: threads=2", "read-again: base again"]}
    assert [phase.options.get("numjobs") for phase in plan.builds[0].plan.workload.phase] == ["1", "2", "1"]


def test_build_keys_are_pools_and_the_base_is_the_last_too(tmp_path: Path) -> None:
    plan = planned(tmp_path, SIZE + READ)
    assert shape(plan) == {
        "base": ["read: base"], "size=4k": ["read: size=4k"], "base-again": ["read: base again"]
    }  # fmt: skip
    four = plan.builds[1].plan
    assert four.workload.dataset.properties["recordsize"] == "4KiB"
    assert {job.block_bytes for job in four.jobs.values()} == {4096}, "the warm-up's, too"
    assert plan.builds[0].plan.digest == plan.builds[2].plan.digest


@pytest.mark.parametrize("value", ["phase.interval", "phase.duration"])
def test_a_cell_that_is_refused_has_its_phase_by_the_number_in_the_file(tmp_path: Path, value: str) -> None:
    """Of the workload's phases, a cell has one."""
    axis = f'[sweep.x]\nset = "{value}"\nto = ["100ms", "{"70s" if value == "phase.interval" else "1us"}"]\n'
    with pytest.raises(ConfigError, match=r"\.toml:[0-9]+: phase\[1\]\.duration: .* at least one interval"):
        planned(tmp_path, axis + 'phases = ["write-slog"]\n')


def test_an_expectation_that_is_refused_has_its_number_and_line_in_the_file(tmp_path: Path) -> None:
    """The build has no phase `read`, so it has the second expectation alone."""
    axis = '[sweep.x]\nset = "phase.interval"\nto = ["60ms", "50ms"]\nphases = ["write-slog"]\n'
    of_client = 'layer = "client"\ntier = "all"\n'
    expect = "".join(
        f'[[expect]]\nphase = "{phase}"\nop = "{op}"\n{of_client}stall_ms_max = {limit}\n'
        for phase, op, limit in (("read", "read", 1000), ("write-slog", "write", 110))
    )
    line = (HEAD + axis + expect).splitlines().index("stall_ms_max = 110") + 1
    with pytest.raises(ConfigError, match=rf"w\.toml:{line}: expect\[1\]\.stall_ms_max: 110 ms is less"):
        planned(tmp_path, axis + expect)


def test_the_first_value_is_the_base_whatever_the_workload_has(tmp_path: Path) -> None:
    text = (
        '[sweep.layout]\nset = "pool.data"\nto = ["stripe", "mirror"]\n[sweep.threads]\nset = "job.numjobs"\n'
    )
    plan = planned(tmp_path, text + "to = [2, 1]\n")
    assert [build.plan.workload.pool.data for build in plan.builds] == ["stripe", "mirror", "stripe"]
    assert {phase.options["numjobs"] for phase in plan.builds[1].plan.workload.phase} == {"2"}


def test_an_axis_of_a_job_option_leaves_phases_alone_that_it_does_not_name(tmp_path: Path) -> None:
    """Not even its base's value reaches them."""

    def numjobs(text: str) -> dict[str, set[str | None]]:
        found: dict[str, set[str | None]] = {}
        for build in planned(tmp_path, text).builds:
            for phase in build.plan.workload.phase:
                (section,) = build.plan.jobs[phase.load].sections
                found.setdefault(phase.name, set()).add(section.options.get("numjobs"))
        return found

    axis = '[sweep.threads]\nset = "job.numjobs"\nto = [2, 4]\n' + READ
    other = '[sweep.depth]\nset = "job.thinktime"\nto = [0, "8us"]\nphases = ["write-slog"]\n'
    own = numjobs(other)["write-slog"]
    assert own != {"2"}
    found = numjobs(axis + other)
    assert (found["read"], found["read-threads-4"], found["write-slog"]) == ({"2"}, {"4"}, own)
    build = '[sweep.record]\nset = ["job.numjobs", "dataset.recordsize"]\n'
    build += 'to = { a = [2, 512], b = [4, "4KiB"] }\n'
    found = numjobs(build + READ + other)
    assert (found["read"], found["write-slog"]) == ({"2", "4"}, own)


LOADS = """
format = 1
name = "w"
title = "W"
base = "capacity"
[tree]
files = 5
[[phase]]
name = "writes"
[[phase]]
name = "open"
base = "writes"
open = { op = "write", block = "4KiB", rate = 100 }
[[phase]]
name = "files"
title = "files"
metadata = "create"
duration = "1s"
[[phase]]
name = "fio"
title = "fio"
job = "top-speeds-write.fio"
tiers = ["slog"]
duration = "1s"
"""


@pytest.mark.parametrize(
    ("axis", "cells"),
    [
        ('set = "job.bs"\nto = ["2k", "4k"]\nphases = ["fio"]\n', 2),
        ('set = "open.rate"\nto = [100, 200]\nphases = ["open"]\n', 2),
        # A build each.
        ('set = "dataset.recordsize"\nto = ["4KiB", "8KiB"]\nphases = ["fio"]\n', 2),
        ('set = "capacity.ios"\nto = [1000, 2000]\nphases = ["writes"]\n', 2),
        ('set = "tree.files"\nto = [5, 6]\nphases = ["files"]\n', 2),
    ],
)
def test_cells_need_no_tables_of_the_loads_of_others(tmp_path: Path, axis: str, cells: int) -> None:
    (tmp_path / "w.toml").write_text(f"{LOADS}[sweep.x]\n{axis}")
    (tmp_path / WRITE).write_text((WORKLOADS / WRITE).read_text())
    sweep = Side(str(tmp_path / "w.toml"), LAB_TESTBED).sweep()
    assert sweep and not sweep.skipped
    assert len({cell.name for build in sweep.builds for cell in build.cells}) == cells


def test_axes_may_share_a_key_with_one_base(tmp_path: Path) -> None:
    alone = '[sweep.record]\nset = "dataset.recordsize"\nto = [512, "8KiB"]\n' + READ
    plan = planned(tmp_path, SIZE + READ + alone)
    assert {b.name: b.plan.workload.dataset.properties["recordsize"] for b in plan.builds} == {
        "base": 512, "size=4k": "4KiB", "record=8KiB": "8KiB", "base-again": 512
    }  # fmt: skip


def test_axes_stand_by_themselves_unless_they_are_crossed(tmp_path: Path) -> None:
    star = planned(tmp_path, SIZE + READ + THREADS + READ)
    assert [cell.name for cell in star.cells if not cell.again] == ["base", "threads=2", "size=4k"]
    crossed = planned(tmp_path, SIZE + READ + THREADS + READ + '[sweeps]\ncross = [["size", "threads"]]\n')
    assert [cell.name for cell in crossed.cells if not cell.again] == [
        "base", "threads=2", "size=4k", "size=4k,threads=2",
    ]  # fmt: skip


def test_the_log_is_removed_once_and_before_each_build_that_needs_it(tmp_path: Path) -> None:
    text = THREADS + 'phases = ["write-pool"]\n[sweep.atime]\nset = "dataset.atime"\nto = ["off", "on"]\n'
    plan = planned(tmp_path, text + 'phases = ["write-pool"]\n')
    assert [[phase.remove for phase in build.plan.workload.phase] for build in plan.builds] == [
        ["log", None, None], ["log"], ["log"],
    ]  # fmt: skip


def test_a_phase_after_one_that_is_left_out_still_has_no_log(tmp_path: Path) -> None:
    text = '[[phase]]\nname = "write-pool"\n[[phase]]\nname = "after"\ntitle = "After"\n'
    text += f'job = "{WRITE}"\n'
    text += 'tiers = ["pool"]\nduration = "2s"\n' + THREADS + 'phases = ["after"]\n'
    assert [phase.remove for phase in planned(tmp_path, text).builds[0].plan.workload.phase] == [
        "log",
        None,
        None,
    ]


def test_phases_can_be_the_values(tmp_path: Path) -> None:
    text = '[sweep.kind]\nset = "phase"\nto = { slog = "write-slog", pool = "write-pool" }\n'
    plan = planned(tmp_path, text)
    assert shape(plan) == {"base": ["write-slog: base", "write-pool: kind=pool"]}
    assert {cell.phase for cell in plan.cells} == {"write-slog"}, "they stand beside each other"


def test_only_keeps_cells_and_their_base(tmp_path: Path) -> None:
    plan = planned(tmp_path, SIZE + READ + THREADS, ("threads=*",))
    assert {cell.name for cell in plan.cells} == {"base", "threads=2"}
    plan = planned(tmp_path, SIZE + READ + THREADS, ("base",))
    assert {cell.name for cell in plan.cells} == {"base"}
    with pytest.raises(ConfigError, match=r"--only: no cell 'thread=2', did you mean 'threads=2'\?"):
        planned(tmp_path, THREADS, ("thread=2",))


def test_quick_is_declared(tmp_path: Path) -> None:
    text = SIZE + READ + THREADS + READ + '[sweeps]\nquick = ["size=4k"]\n'
    plan = planned(tmp_path, text, quick=True)
    assert plan.quick and {cell.name for cell in plan.cells} == {"base", "size=4k"}
    with pytest.raises(ConfigError, match="declares no cells"):
        planned(tmp_path, THREADS, quick=True)


def test_quick_of_a_base_is_looked_at_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "under.toml").write_text(HEAD + THREADS + READ + '[sweeps]\nquick = ["threads=2"]\n')
    (tmp_path / "w.toml").write_text(
        HEAD.replace("top-speeds", "under.toml") + "[sweep.threads]\nto = [1, 4]\n"
    )
    side = Side(str(tmp_path / "w.toml"), LAB_TESTBED)
    assert side.sweep() is not None
    with pytest.raises(ConfigError, match=r"under\.toml:11: sweeps\.quick\[0\]: no cell 'threads=2'"):
        side.sweep(quick=True)


def test_a_cell_that_cannot_be_is_skipped_with_its_reason(tmp_path: Path) -> None:
    text = 'pool.properties.ashift = 12\njob.bs = "4k"\ndataset.properties.recordsize = "4KiB"\n'
    sizes = 'to = { 4k = ["4k", "4KiB"], 512 = ["512", 512], 8k = ["8k", "8KiB"] }\nphases = ["read"]\n'
    plan = planned(tmp_path, text + '[sweep.size]\nset = ["job.bs", "dataset.recordsize"]\n' + sizes)
    assert [build.name for build in plan.builds] == ["base", "size=8k", "base-again"]
    (skipped,) = plan.skipped
    assert (dict(skipped.at), skipped.phase) == ({"size": "512"}, "read")
    assert "ashift = 12" in skipped.reason


def test_devices_and_clients_are_chosen_by_number_or_name(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, '[sweep.disks]\nset = "use.data"\nto = [2, 1]\n' + READ + '[pool]\ndata = "stripe"\n'
    )
    assert [len(build.plan.testbed.devices("data")) for build in plan.builds] == [2, 1, 2]


FOUR = '[sweep.disks]\nset = "use.data"\nto = [4, 2]\n' + READ
GROUPS = '[sweep.groups]\nset = "pool.groups"\nto = [1, 2]\n' + READ


def test_groups_are_a_pool_each(tmp_path: Path) -> None:
    plan = planned(tmp_path, FOUR + GROUPS)
    found = {build.name: build.plan.workload.pool.groups for build in plan.builds}
    assert found == {"base": 1, "disks=2": 1, "groups=2": 2, "base-again": 1}
    assert [len(build.plan.testbed.devices("data")) for build in plan.builds] == [4, 2, 4, 4]
    assert plan.builds[0].plan.digest == plan.builds[3].plan.digest


def test_groups_that_cannot_be_are_skipped_with_their_reason(tmp_path: Path) -> None:
    plan = planned(tmp_path, FOUR + GROUPS + '[sweeps]\ncross = [["disks", "groups"]]\n')
    assert [build.name for build in plan.builds] == ["base", "disks=2", "groups=2", "base-again"]
    (skipped,) = plan.skipped
    assert dict(skipped.at) == {"disks": "2", "groups": "2"}
    assert "pool.groups: groups = 2: a mirror needs 2 data devices in each group" in skipped.reason
    assert "write groups = 1" in skipped.reason
    assert skipped.reason == f"pool.groups: {skipped.problem}"


def test_layouts_and_their_groups_change_together(tmp_path: Path) -> None:
    layouts = '{ mirrors = ["mirror", 2, 4], raidz1 = ["raidz1", 1, 4], stripe = ["stripe", 1, 4] }'
    text = f'[sweep.layout]\nset = ["pool.data", "pool.groups", "use.data"]\nto = {layouts}\n{READ}'
    pools = [build.plan.workload.pool for build in planned(tmp_path, text).builds]
    assert [(pool.data, pool.groups) for pool in pools] == [
        ("mirror", 2), ("raidz1", 1), ("stripe", 1), ("mirror", 2),
    ]  # fmt: skip


def test_the_log_is_a_stripe_and_a_mirror(tmp_path: Path) -> None:
    text = '[sweep.logs]\nset = ["use.log", "pool.log"]\nto = { one = [1, "stripe"], two = [2, "mirror"] }\n'
    plan = planned(tmp_path, text + 'phases = ["write-slog"]\n')
    assert [build.plan.workload.pool.log for build in plan.builds] == ["stripe", "mirror", "stripe"]
    assert [len(build.plan.testbed.devices("log")) for build in plan.builds] == [1, 2, 1]


REFUSED = [
    (SIZE + READ + '[sweep.r]\nset = "dataset.recordsize"\nto = ["8KiB", 512]\n', 12, "there is one base"),
    (SIZE + READ + '[sweep.r]\nset = "dataset.recordsize"\nto = [512, "8KiB"]\n'
     '[sweeps]\ncross = [["size", "r"]]\n', 14, "both set dataset.recordsize"),
    ('[sweep.x]\nset = "dataset.recordsze"\nto = [512, 1024]\n', 8, "recordsize"),
    ('[sweep.x]\nset = "dataset.compression"\nto = ["off", "lz5"]\n', 8, "lz5"),
    ('[sweep.x]\nset = "job.bz"\nto = ["4k", "8k"]\n', 8, "bz"),
    ('[sweep.x]\nset = "tunables.zfs_txg_timeut"\nto = ["5s", "6s"]\n', 8, "zfs_txg_timeout"),
    ('[sweep.x]\nset = "phase.duration"\nto = ["5s", 6]\nphases = ["read"]\n', 8, "a duration such as"),
    ('[sweep.x]\nset = "phase.raed.duration"\nto = ["5s", "6s"]\n', 7, "did you mean 'read'"),
    ('[sweep.x]\nset = "phase.write-pool.tiers"\nto = ["5s", "6s"]\nphases = ["read"]\n', 7, "of the axis"),
    ('[sweep.x]\nset = "use.data"\nto = [2, 9]\n', 8, "from 1 to 6"),
    ('[sweep.x]\nset = "use.log"\nto = [1, "slog9"]\n', 8, "no device 'slog9'"),
    ('[sweep.x]\nset = "job.rwmixread"\nto = [25, 75]\nphases = ["read"]\n', 8, "phase does not use"),
    ('[sweep.x]\nset = "job.sync"\nto = ["none", "dsync"]\nphases = ["read"]\n', 8, "phase does not use"),
    ('[sweep.x]\nset = "job.numjobs"\nto = { a = 1, b = "1" }\nphases = ["read"]\n', 8, "measures what"),
    ('[sweep.x]\nset = "job.bs"\nto = ["512", "8k"]\nphases = ["read"]\n', 6, "none of its cells can be"),
    (f'[sweep.x]\nset = "job.numjobs"\nto = {list(range(1, 80))}\n', 6, "200 are the most"),
    (SIZE + READ + THREADS + 'phases = ["write-slog"]\n[sweeps]\ncross = [["size", "threads"]]\n', 15,
     "no phase in common"),
    (THREADS + '[sweeps]\nquick = ["treads=2"]\n', 10, "did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "problem"), REFUSED)
def test_what_no_cell_can_have_is_refused(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        planned(tmp_path, text)
    assert f"w.toml:{line}: " in refused.value.message, refused.value.message
    assert problem in refused.value.message


def with_devices(folder: Path, axis: str, only: tuple[str, ...] = ()) -> SweepPlan:
    """A workload with phases on bare devices, and one over NFS."""
    (folder / "w.toml").write_text(f'format = 1\nname = "w"\ntitle = "W"\nbase = "transaction-log"\n{axis}')
    sweep = Side(str(folder / "w.toml"), LAB_TESTBED).sweep(only)
    assert sweep is not None
    return sweep


@pytest.mark.parametrize(
    ("axis", "line", "problem"),
    [
        ('set = "force.method"\nto = ["fsync_writethrough", "fsync"]\nphases = ["log"]\n', 7,
         "force.method: n/a on Linux: it is F_FULLFSYNC"),
        ('set = "force.per_force"\nto = [1, 2]\nphases = ["direct-4k"]\n', 8,
         "force.per_force: phase 'direct-4k' has no force: name phases that have it"),
        ('set = "array.level"\nto = ["raid0", "raid1"]\n', 6, "array.level: no phase has array: add it"),
        ('set = "open.rate"\nto = [100, 200]\n', 6, "open.rate: no phase has open: add it"),
        ('set = "dataset.sync"\nto = ["standard", "always"]\nphases = ["direct-4k"]\n', 8,
         "dataset.sync: there is no pool in phase 'direct-4k', which goes to devices"),
    ],
)  # fmt: skip
def test_of_phases_with_and_without_a_pool_the_axis_is_wrong(
    tmp_path: Path, axis: str, line: int, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        with_devices(tmp_path, f"[sweep.x]\n{axis}")
    assert f"w.toml:{line}: " in refused.value.message and problem in refused.value.message


def test_a_build_of_phases_on_devices_has_no_pool(tmp_path: Path) -> None:
    axis = '[sweep.x]\nset = "host.scheduler"\nto = ["none", "mq-deadline"]\nphases = ["direct-4k"]\n'
    builds = with_devices(tmp_path, axis, ("x=*",)).builds
    assert [build.name for build in builds] == ["base", "x=mq-deadline", "base-again"]
    assert all(build.plan.workload.on_devices for build in builds)


def test_a_key_of_one_phase_leaves_the_others_of_its_axis(tmp_path: Path) -> None:
    keys = 'set = ["dataset.recordsize", "phase.write-slog.duration"]\n'
    values = 'to = { 512 = [512, "300ms"], 8k = ["8KiB", "1s"] }\nphases = ["read", "write-slog"]\n'
    builds = planned(tmp_path, "[sweep.size]\n" + keys + values).builds
    for build, seconds in zip(builds, (0.3, 1, 0.3), strict=True):
        durations_ns = {phase.name: phase.duration for phase in build.plan.workload.phase}
        assert durations_ns["write-slog"] == seconds * 1e9
        assert durations_ns["read"] == 36 * 10**9


def test_idle_devices_are_for_axes_alone(tmp_path: Path) -> None:
    sweep = planned(
        tmp_path,
        '[sweep.ssd]\nset = ["use.cache", "use.log"]\n'
        'to = { old = ["cache0", "log0"], new = ["cache1", "log1"] }\n'
        '[sweep.disks]\nset = "use.data"\nto = [2, 4]\n',
    )
    used = {build.name: [device.name for device in build.plan.testbed.device] for build in sweep.builds}
    assert used == {
        "base": ["data0", "data1", "cache0", "log0"],
        "ssd=new": ["data0", "data1", "cache1", "log1"],
        "disks=4": ["data0", "data1", "cache0", "log0", "data2", "data3"],
        "base-again": ["data0", "data1", "cache0", "log0"],
    }
    whole = read_testbed(LAB_TESTBED)
    unused = {device.name for device in whole.device} - {d.name for d in sweep.in_use(whole).device}
    assert unused == {"log-battery", "log-bypass", "slc", "disk"}
    few = planned(tmp_path, '[sweep.disks]\nset = "use.data"\nto = [2, 3]\n')
    assert {device.name for device in whole.device} - {d.name for d in few.in_use(whole).device} == {
        "cache1", "log1", "data3", *unused,
    }  # fmt: skip


def test_the_digest_names_all_that_is_measured(tmp_path: Path) -> None:
    both = planned(tmp_path, SIZE + READ + THREADS + READ)
    assert both.digest == planned(tmp_path, SIZE + READ + THREADS + READ).digest
    assert both.digest != planned(tmp_path, SIZE + READ + THREADS + READ, ("size=*",)).digest


def test_a_workload_without_cells_has_none_to_choose(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(HEAD)
    side = Side(str(tmp_path / "w.toml"), LAB_TESTBED)
    assert side.sweep() is None


def test_devices_of_all_builds_must_fit_into_the_lab_together(tmp_path: Path) -> None:
    """Idle ones that no build takes are not made."""
    (tmp_path / "w.toml").write_text(
        f'{HEAD}[sweep.log]\nset = "use.log"\nto = {{ a = "log0", b = "log1" }}\n'
    )
    (tmp_path / WRITE).write_text((WORKLOADS / WRITE).read_text())
    lab = tmp_path / "lab.toml"
    # 960 MiB of devices, and 64 MiB of one that is idle but for the axis.
    for memory in ("2048MiB", "2000MiB"):
        lab.write_text(LAB_TESTBED.read_text().replace('memory = "4GiB"', f'memory = "{memory}"'))
        side = Side(str(tmp_path / "w.toml"), lab)
        if memory == "2048MiB":
            assert side.sweep((), quick=False)
            continue
        with pytest.raises(ConfigError, match="1024 MiB, more than half of the guest's 2000 MiB"):
            side.sweep((), quick=False)
