"""kit.rules.device_phases: phases on bare devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli.plan import _loaded
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.lab.expected_duration import expected_s
from kit.plan.estimate import seconds, written
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed
from kit.setup.manifest import planned

HEAD = """\
format = 1
name = "drives"
title = "Drives"
precondition = "none"
"""
PHASE = """\
[[phase]]
name = "write"
title = "Writes"
target = "device:data"
job = "write.fio"
duration = "2s"
interval = "100ms"
"""
TOGETHER = '[[phase]]\nname = "together"\nbase = "write"\neach = "together"\n'
ORDER = "in_order = true\n"
EXPECT = '[[expect]]\nphase = "write"\nop = "write"\ntier = "all"\nlayer = "device"\n'
JOB = """\
[write]
filename=${HSP_DEVICE}
rw=write
bs=128k
size=${HSP_SIZE}
direct=1
time_based
runtime=${HSP_RUNTIME}
"""


def plan(folder: Path, text: str = HEAD + PHASE, job: str = JOB, testbed: Path = LAB_TESTBED) -> Plan:
    path = folder / "drives.toml"
    path.write_text(text)
    (folder / "write.fio").write_text(job)
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


def refused(folder: Path, *arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(folder, *arguments)
    return str(caught.value).replace(f"{folder}/", "")


def test_a_phase_is_one_for_each_device_and_together_one_for_all(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE + TOGETHER + EXPECT)
    phases = {phase.name: (phase.devices, phase.log) for phase in made.workload.phase}
    assert phases == {
        "write-data0": (("data0",), "every-io"),
        "write-data1": (("data1",), "every-io"),
        # fio's log of every I/O is of one job file.
        "together": (("data0", "data1"), "histograms"),
    }
    assert [phase.title for phase in made.workload.phase] == ["Writes: data0", "Writes: data1", "Writes"]
    assert [expectation.phase for expectation in made.workload.expect] == ["write-data0", "write-data1"]
    assert {made.jobs[phase.load].op for phase in made.workload.phase} == {"write"}


def test_only_its_devices_are_taken_and_no_client(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE.replace("device:data", "device:log"))
    assert [device.name for device in made.testbed.device] == ["log0"]
    assert made.testbed.client == () and made.hosts == {"server": "lab"}
    assert planned(made).working_set is None
    (phase,) = made.workload.phase
    assert (phase.name, phase.devices) == ("write", ("log0",))


def test_some_devices_of_a_role(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE + 'devices = ["data1"]\n')
    assert [(phase.name, phase.devices) for phase in made.workload.phase] == [("write", ("data1",))]


def test_options_of_a_phase_hold_for_each_device(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE + 'options = { bs = "4k" }\n')
    assert [made.jobs[phase.load].block_bytes for phase in made.workload.phase] == [4096, 4096]


def test_the_commands_have_no_pool_and_lock_the_device(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE + TOGETHER)
    commands = listed(made, planned_names(made))
    programs = {command["argv"][0] for command in commands}
    assert not programs & {"zpool", "zfs", "exportfs", "mount", "bpftrace"}
    samplers = [each for each in commands if each["input"] == "kit/remote/sample_resources.py"]
    assert [each["argv"][-1].rpartition('"lock": ')[2] for each in samplers] == [
        '["data0"]}', '["data1"]}', '["data0", "data1"]}',
    ]  # fmt: skip
    # Root's: an ordinary user has no devices.
    fios = [each for each in commands if "fio" in each["argv"] or "count_ios.py" in each["argv"]]
    assert len(fios) == 4 and {each["host"] for each in fios} == {"server"}
    assert not any(each["argv"][0] in ("env", "setpriv") for each in fios)


def test_the_plan_says_how_long_devices_are_written_to(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + PHASE + TOGETHER)
    assert _loaded(made)[1:3] == ["  data0          for 4 s", "  data1          for 4 s"]
    assert _loaded(plan(tmp_path, job=JOB.replace("rw=write", "rw=read"))) == []
    assert (written(made), seconds(made)) == ([], (6.0, 6.0))
    assert (expected_s(made, aged=True) or 0) > 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PHASE + 'tiers = ["disk"]\n', "drives.toml:12: phase[0].tiers: there is no pool"),
        (PHASE + 'remove = "log"\n', "phase[0].remove: there is no pool"),
        (PHASE.replace("device:data", "device:spare"), "drives.toml:8: phase[0].target"),
        (PHASE + 'devices = ["data7"]\n', "drives.toml:12: phase[0].devices: the testbed"),
        (PHASE + 'devices = ["data0", "data1", "data0"]\n',
         "drives.toml:12: phase[0].devices: 'data0' is named twice: name each device once"),
        (PHASE + TOGETHER + 'log = "every-io"\n', "with several devices together"),
        (PHASE + "[working_set]\nfile = 'x'\nsize = '1MiB'\n", "drives.toml:12: working_set: there is no"),
        (PHASE + "[tunables]\nzfs_txg_timeout = 5\n", "drives.toml:12: tunables: there is no pool"),
        (PHASE + EXPECT.replace('"device"', '"client"'), "expect[0].layer: phase 'write' goes to devices"),
        (PHASE + EXPECT.replace('op = "write"', 'op = "read"'), "expect[0].op: read: the job write.fio"),
        (
            f'{PHASE}[[phase]]\nname = "x"\ntitle = "x"\njob = "x.fio"\ntiers = ["disk"]\nduration = "1s"\n',
            "drives.toml:1: working_set: which file do the phases read and write?",
        ),
        (PHASE.replace('job = "write.fio"', 'force = { record = "4KiB" }') + ORDER,
         "drives.toml:12: phase[0].in_order: latencies are counted with force, and counts have no order: "
         "remove in_order, or force"),
        (PHASE + ORDER + 'log = "histograms"\n', "no order: remove in_order, or log = \"histograms\""),
        (PHASE + ORDER + 'each = "together"\nresumable = true\n',
         "counted with resumable and each = \"together\", and counts"),
        (PHASE.replace('"2s"', '"901s"') + ORDER,
         "drives.toml:10: phase[0].duration: 901s is longer than 15min, above which latencies are counted"),
        (PHASE.replace('target = "device:data"', 'each = "in turn"\ntiers = ["disk"]'), "[0].each: each is"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, HEAD + text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("filename=${HSP_DEVICE}\n", "", "write.fio:1: [write] filename is missing, but the phases go"),
        ("${HSP_DEVICE}", "working-set", "write.fio:2: [write] filename is 'working-set'"),
        ("direct=1\n", "", "write.fio:1: [write] direct=1 is missing: the page cache of the server"),
        ("direct=1\n", "direct=1\nnrfiles=4\n", "write.fio:7: [write] nrfiles: a device has none"),
        ("direct=1\n", "direct=1\ndirectory=${HSP_DIRECTORY}\n", "write.fio:7: [write] directory: a"),
        ("size=${HSP_SIZE}", "size=1g", "write.fio:5: [write] size=1g: fio would use more than its 384MiB"),
        ("time_based\n", "", "[write] time_based is missing"),
        ("bs=128k\n", "bs=128k\noffset=90%\n", "write.fio:5: [write] offset=90%: with size=${HSP_SIZE} it is "
         "beyond the end of the device: write size=10%, the largest that fits, or a smaller offset"),
        ("${HSP_SIZE}\n", "20%\noffset=90%\n", "write.fio:6: [write] offset=90%: with size=20% it is beyond"),
        ("${HSP_SIZE}\n", "20%\noffset=381m\n", "write size=3145728, the largest that fits"),
        ("bs=128k\n", "bs=128k\noffset=384m\n", "offset=384m: the device has 384MiB, so no I/O of 131072"),
        ("bs=128k\n", "bs=128k\noffset=777\n", "write.fio:5: [write] offset=777: direct I/O begins at a "
         "sector of 512 bytes: write a multiple, such as offset=512"),
        ("bs=128k\n", "bs=777\n", "write.fio:4: [write] bs: 777 bytes, and direct I/O is in sectors: write"),
        ("${HSP_SIZE}\n", "777\n", "write.fio:5: [write] size=777: not whole I/Os of 131072 bytes (bs), so "
         "the rest is never reached: write a multiple, such as size=131072"),
        ("${HSP_SIZE}\n", "0%\n", "write.fio:5: [write] size=0%: no I/O fits into nothing (fio would take"),
    ],
)  # fmt: skip
def test_jobs_that_do_not_fit_a_device_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in JOB
    assert said in refused(tmp_path, HEAD + PHASE, JOB.replace(old, new))


@pytest.mark.parametrize("part", ["offset=90%\nsize=10%", "offset=4608\nsize=1m", "offset=90%", "size=7%"])
def test_jobs_may_take_a_part_of_a_device(tmp_path: Path, part: str) -> None:
    made = plan(tmp_path, HEAD + PHASE, JOB.replace("size=${HSP_SIZE}", part))
    assert len(made.workload.phase) == 2


def test_an_appliance_has_no_devices_for_it(tmp_path: Path) -> None:
    testbed = tmp_path / "nas.toml"
    testbed.write_text(
        'name = "nas"\n[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "local"\n'
    )
    path = tmp_path / "drives.toml"
    path.write_text(HEAD + PHASE)
    (tmp_path / "write.fio").write_text(JOB)
    with pytest.raises(ConfigError, match="the server of the testbed 'nas' is an appliance"):
        make_plan(read_workload(path), read_testbed(testbed), path, testbed)


def test_a_job_for_devices_is_refused_over_nfs(tmp_path: Path) -> None:
    text = HEAD + PHASE.replace('target = "device:data"', 'tiers = ["disk"]')
    text += '[working_set]\nfile = "working-set"\nsize = "64MiB"\n'
    assert "filename is '${HSP_DEVICE}', but the working set is the file 'working-set'" in refused(
        tmp_path, text
    )
