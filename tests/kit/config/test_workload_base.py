"""A workload takes from its base what it does not have, and mistakes name the right file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import Workload, read_workload
from kit.config.workload_base import WORKLOADS, find_workload, read_source
from kit.core.errors import ConfigError
from kit.core.sample_size import sample_needed
from kit.plan.plan import Plan, make_plan

HEAD = 'format = 1\nname = "mine"\ntitle = "Mine"\nbase = "top-speeds"\n'
BASE = read_workload(find_workload("top-speeds"))


def workload(folder: Path, text: str, name: str = "mine.toml") -> Workload:
    (folder / name).write_text(text)
    return read_workload(folder / name)


def plan(folder: Path, text: str) -> Plan:
    read = workload(folder, text)
    return make_plan(read, read_testbed(LAB_TESTBED), folder / "mine.toml", LAB_TESTBED)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(folder, text)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(f"{folder}/", "").replace(f"{WORKLOADS}/", "kit:")


def test_everything_else_is_the_base_s(tmp_path: Path) -> None:
    mine = workload(tmp_path, f"{HEAD}[dataset.properties]\nrecordsize = 4096\n")
    assert mine.dataset.properties == {**BASE.dataset.properties, "recordsize": 4096}
    own = {"name": "mine", "title": "Mine", "dataset": mine.dataset, "expect": mine.expect}
    assert mine == BASE.model_copy(update=own)


def test_the_phases_of_the_file_are_those_that_run(tmp_path: Path) -> None:
    mine = workload(tmp_path, f'{HEAD}[[phase]]\nname = "read"\nduration = "2s"\n')
    (phase,) = mine.phase
    # Nor the number of I/Os: who says how long a phase lasts means that.
    assert phase == BASE.phase[0].model_copy(update={"duration": 2 * 10**9, "ios": None})
    needed = [(each.op, each.tier, each.min_count, each.inside) for each in mine.expect]
    assert needed == [("read", tier, sample_needed(0.99), False) for tier in ("dram", "l2arc", "disk")]


def test_the_expectations_of_the_file_are_all(tmp_path: Path) -> None:
    mine = workload(tmp_path, f'{HEAD}[[expect]]\nphase = "write-pool"\nop = "write"\ntier = "pool"\n')
    assert [(each.phase, each.min_count) for each in mine.expect] == [("write-pool", 1)]


def test_a_title_that_is_taken_over_names_the_options_that_differ(tmp_path: Path) -> None:
    phases = (
        '[[phase]]\nname = "read"\n[[phase]]\nname = "two"\nbase = "read"\noptions.numjobs = 2\n'
        '[[phase]]\nname = "four"\nbase = "two"\noptions.numjobs = 4\noptions.iodepth = 1\n'
        '[[phase]]\nname = "five"\nbase = "four"\ntitle = "Five"\n'
    )
    title = BASE.phase[0].title
    titles = [phase.title for phase in workload(tmp_path, HEAD + phases).phase]
    assert titles == [title, f"{title}, numjobs=2", f"{title}, numjobs=4, iodepth=1", "Five"]
    blocks = workload(tmp_path, f'{HEAD}dataset.properties.recordsize = 4096\njob.bs = "4k"\n{phases}')
    assert [phase.title for phase in blocks.phase][:2] == [f"{title}, bs=4k", f"{title}, bs=4k, numjobs=2"]
    alone = workload(tmp_path, f'{HEAD}job.bs = "4k"\n', "alone.toml")
    assert alone.phase[0].title == f"{title}, bs=4k"
    above = f'{HEAD.replace("top-speeds", "./alone.toml")}[[phase]]\nname = "read"\n'
    assert workload(tmp_path, above).phase[0].title == f"{title}, bs=4k"


def test_a_phase_of_another_name(tmp_path: Path) -> None:
    text = (
        f'{HEAD}[[phase]]\nname = "two"\nbase = "read"\noptions.numjobs = 2\n'
        '[[phase]]\nname = "four"\nbase = "two"\noptions = { numjobs = 4 }\n'
    )
    two, four = (phase.model_copy(update={"log": "auto"}) for phase in plan(tmp_path, text).workload.phase)
    title = f"{BASE.phase[0].title}, numjobs="
    changed = {"name": "two", "title": f"{title}2", "options": {"numjobs": "2"}}
    assert two == BASE.phase[0].model_copy(update=changed)
    changed = {"name": "four", "title": f"{title}4", "options": {"numjobs": "4"}}
    assert four == two.model_copy(update=changed)
    assert {each.phase for each in plan(tmp_path, text).workload.expect} == {"two", "four"}


def test_the_options_replace_those_of_the_jobs(tmp_path: Path) -> None:
    text = (
        f'{HEAD}dataset.properties.recordsize = "8KiB"\njob = {{ bs = "4KiB", norandommap = false }}\n'
        '[[phase]]\nname = "read"\noptions = { blocksize = "8k" }\n[[phase]]\nname = "write-slog"\n'
    )
    jobs = plan(tmp_path, text).jobs
    assert {name: job.block_bytes for name, job in jobs.items()} == {
        "top-speeds-read.fio (read)": 8192,
        "top-speeds-write.fio": 4096,
        "top-speeds-warm-up.fio": 4096,
    }
    assert "bs=8k\n" in jobs["top-speeds-read.fio (read)"].text
    assert "norandommap=0\n" in jobs["top-speeds-write.fio"].text
    assert jobs["top-speeds-write.fio"].is_sync_write


def test_a_base_of_a_base_and_a_job_beside_it(tmp_path: Path) -> None:
    job = (WORKLOADS / "top-speeds-read.fio").read_text()
    (tmp_path / "own.fio").write_text(job)
    middle = f'{HEAD}[[phase]]\nname = "read"\njob = "own.fio"\n[pool]\ndata = "stripe"\n'
    workload(tmp_path, middle, "middle.toml")
    made = plan(tmp_path, HEAD.replace('"top-speeds"', '"middle.toml"'))
    assert made.workload.pool.data == "stripe"
    assert made.jobs["own.fio"].text == job
    source = read_source(tmp_path / "mine.toml")
    assert source.place_of(("phase", 0, "job")) == (tmp_path / "middle.toml", 7)
    assert source.place_of(("phase", 0, "tiers"))[0] == WORKLOADS / "top-speeds.toml"
    assert source.is_own(("name",)) and not source.is_own(("pool", "data"))


def test_another_method_replaces_the_table(tmp_path: Path) -> None:
    mine = workload(tmp_path, f'{HEAD}[precondition]\nmethod = "none"\n')
    assert mine.precondition is not None and not mine.precondition.writes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[phase]]\nname = "read"\ndurations = "2s"\n', "mine.toml:7: phase[0].durations: unknown key"),
        ('[[phase]]\nname = "x"\nbase = "raed"\n', "mine.toml:7: phase[0].base: no phase 'raed' above"),
        ('[[phase]]\nname = "x"\nbase = "raed"\n', "did you mean 'read'?"),
        ('[[phase]]\nname = "x"\n', "mine.toml:5: phase[0].duration: required, but missing"),
        ('[job]\nbs = "4KiBB"\n', "mine.toml:6: job.bs: expected one size"),
        ("[job]\nbss = 512\n", "mine.toml:6: job.bss: not allowed, did you mean 'bs'?"),
        ('[job]\nexec_prerun = "x"\n', "mine.toml:6: job.exec_prerun: not allowed, runs a command"),
        ('[job]\nbs = "1k,2k"\n', "mine.toml:6: job.bs: expected one size such as 512, 8k or 1m, found"),
        ('[job]\nbs = "8k"\n', "mine.toml:6: [read] bs: 8192 bytes, but dataset.properties"),
        (
            '[[phase]]\nname = "read"\noptions.bs = "8k"\n',
            "mine.toml:7: [read] bs: 8192 bytes, but dataset.properties.recordsize is 512",
        ),
        ('[job]\nfilename = "other"\n', "mine.toml:6: [read] filename is 'other'"),
        ("dataset.properties.recordsize = 256\n", "mine.toml:5: dataset.properties.recordsize: "),
        ('dataset.properties.recordsize = "8"\n[nfs]\noptions = ["soft"]', "mine.toml:7: nfs.options[0]: "),
        ("phase = 3\n", "mine.toml:5: phase: expected an array, found the integer 3"),
        ('[[phase]]\nname = "read"\nduration = "1ms"\n', "mine.toml:7: phase[0].duration: duration must be"),
    ],
)
def test_a_mistake_is_placed(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, HEAD + text)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            '"top-speed"',
            "mine.toml:1: base: there is no workload 'top-speed'; did you mean 'top-speeds'? the kit has: ",
        ),
        ("7", "mine.toml:1: base: expected the name of a workload or of a .toml file, found the integer 7"),
        ('"other.toml"', "mine.toml:1: base: other.toml: no such file"),
        ('"./mine.toml"', "mine.toml:1: base: ./mine.toml is based on this file itself"),
    ],
)
def test_a_base_that_is_none(tmp_path: Path, base: str, message: str) -> None:
    assert message in refused(tmp_path, f"base = {base}\n")


def test_a_chain_that_has_no_end(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.toml").write_text(f'base = "{number + 1}.toml"\n')
    message = refused(tmp_path, 'base = "0.toml"\n')
    assert "6.toml:1: base: the 8th workload beneath another" in message
