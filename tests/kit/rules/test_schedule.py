"""Faults and events at set times: what is refused, with file and line, and what the plan shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.tables.fault_table import ExpectedEvent, during
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed
from tests.lab.workloads import JOB

HEAD = """\
format = 1
name = "soak"
title = "soak"
precondition = "none"
[pool]
data = "{data}"
[dataset]
properties = {{ recordsize = "4KiB" }}
[working_set]
file = "working-set"
size = "1MiB"
[tunables]
zfs_arc_max = "64MiB"
zfs_arc_min = "32MiB"
[[phase]]
name = "soak"
title = "soak"
job = "write.fio"
tiers = ["slog"]
duration = "100s"
interval = "250ms"
"""
LINE = HEAD.count("\n") + 1
APPLIANCE = """
name = "nas"
[server]
host = "none"
export = "nas:/pool/x"
[[client]]
host = "ssh://client"
"""


def plan(folder: Path, more: str, data: str = "mirror", bed: Path = LAB_TESTBED) -> Plan:
    folder.joinpath("write.fio").write_text(
        JOB.replace("512", "4k") + "rw=write\nsync=dsync\nsize=${HSP_SIZE}\n"
    )
    path = folder / "soak.toml"
    path.write_text(HEAD.format(data=data) + more)
    return make_plan(read_workload(path), read_testbed(bed), path, bed)


COMMAND = '[[fault]]\nat = "9s"\nwhat = "command"\n'
ERROR = '[[fault]]\nat = "9s"\nwhat = "error"\ndevice = "log0"\n'
FAIL = '[[fault]]\nat = "9s"\nwhat = "fail"\n'
NFSD = '[[fault]]\nat = "9s"\nwhat = "nfsd-restart"\nfor = "1s"\n'
RESILVER = '[[event]]\nat = "20s"\nwhat = "resilver"\nfor = "1s"\n'
SNAPSHOTS = '[[event]]\nat = "3s"\nwhat = "snapshots"\nevery = "1s"\nfor = "3s"\n'
STALL = '[[fault]]\nat = "{at}"\nwhat = "stall"\ndevice = "log0"\nfor = "{length}"\n'


@pytest.mark.parametrize(
    ("more", "line", "text"),
    [
        (STALL.format(at="100s", length="1s"), 1, "is after the end of phase 'soak', which lasts 100s"),
        (STALL.format(at="99s", length="2s"), 4, "it would end 101s after the begin of phase 'soak'"),
        (STALL.format(at="0s", length="1s"), 1, "needs 30 whole intervals (250ms each) without"),
        (STALL.format(at="5s", length="1s"), 1, "phase 'soak' has 19 until then, without the first"),
        (STALL.format(at="9s", length="1s") + SNAPSHOTS, 1, "phase 'soak' has 22 until then"),
        (STALL.format(at="20s", length="9s") + STALL.format(at="28s", length="1s"), 4, "be told apart"),
        ('[[fault]]\nat = "9s"\nwhat = "stal"\n', 2, "did you mean 'stall'?"),
        ('[[fault]]\nat = "9s"\nwhat = "stall"\ndevice = "log0"\n', 0, 'how long? "stall" needs for'),
        (FAIL, 0, 'which device does "fail" hit?'),
        (FAIL + 'device = "data"\n', 3, "which of data0, data1? name the device"),
        (FAIL + 'device = "log9"\n', 3, "did you mean 'log0'?"),
        (FAIL + 'device = "all"\n', 3, '"all" goes with "power-loss" alone'),
        ('[[fault]]\nat = "9s"\nwhat = "power-loss"\ndevice = "all"\nfor = "1s"\n', 4, "has no length"),
        (COMMAND, 0, "which [[command]] of the testbed?"),
        (COMMAND + 'command = "x"\n', 3, "has no [[command]] 'x', add it there"),
        (COMMAND + 'run = ["x"]\n', 3, "a workload names no program"),
        (COMMAND + 'command = "x"\nundo = ["x"]\n', 4, "a workload names no program"),
        (STALL.format(at="9s", length="1s") + 'command = "x"\n', 5, 'goes with what = "command"'),
        (ERROR, 0, "which sectors return errors?"),
        (ERROR + "sectors = [0, 999999]\n", 4, "has 131072 sectors"),
        (NFSD + 'phase = "sook"\n', 4, "did you mean 'soak'?"),
        (NFSD + 'expect = "fine"\n', 4, "unknown value"),
        (FAIL + 'device = "data0"\n' + RESILVER + 'device = "data1"\n', 5, "would be away while data0 is"),
        ('[[event]]\nat = "9s"\nwhat = "snapshots"\n', 0, "how often?"),
        (RESILVER + 'device = "log0"\n', 4, "data devices are resilvered"),
        ('[[event]]\nat = "9s"\nwhat = "scrub"\ndevice = "log0"\n', 3, 'device goes with what = "resilver"'),
        ('[[event]]\nat = "9s"\nwhat = "scrap"\n', 2, "did you mean 'scrub'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_or_judged_is_refused(tmp_path: Path, more: str, line: int, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, more)
    first = caught.value.message.splitlines()[0]
    assert text in caught.value.message, caught.value.message
    assert f"soak.toml:{LINE + line}: " in first or not line, first


@pytest.mark.parametrize("fault", ["fail", "offline"])
def test_a_pool_without_a_copy_cannot_lose_a_device(tmp_path: Path, fault: str) -> None:
    table = f'[[fault]]\nat = "9s"\nwhat = "{fault}"\ndevice = "data0"\nfor = "1s"\n'
    with pytest.raises(ConfigError, match="without 'data0' the pool is lost"):
        plan(tmp_path, table, "stripe")
    with pytest.raises(ConfigError, match="with 2 data devices has no copy of it"):
        plan(tmp_path, '[[event]]\nat = "9s"\nwhat = "resilver"\nfor = "1s"\n', "stripe")
    assert plan(tmp_path, table)


SPECIAL = '\n[[device]]\nname = "special{0}"\nrole = "special"\nsize = "64MiB"\npreset = "nvme-datacentre"\n'
AWAY = '[[fault]]\nat = "{1}s"\nwhat = "offline"\ndevice = "{0}"\nfor = "{2}s"\n'


def test_a_special_vdev_can_lose_as_many_devices_as_one_of_data(tmp_path: Path) -> None:
    bed = tmp_path / "bed.toml"
    bed.write_text(LAB_TESTBED.read_text() + SPECIAL.format(0) + SPECIAL.format(1))
    one = AWAY.format("special0", 10, 30)
    assert plan(tmp_path, one, bed=bed)
    with pytest.raises(ConfigError, match="without 'special0' the pool is lost"):
        plan(tmp_path, one, "stripe", bed)


def test_a_server_without_login_takes_commands_alone(tmp_path: Path) -> None:
    bed = tmp_path / "nas.toml"
    bed.write_text(APPLIANCE)
    for table in (
        '[[fault]]\nat = "9s"\nwhat = "nfsd-restart"\nfor = "1s"\n',
        '[[event]]\nat = "9s"\nwhat = "scrub"\n',
    ):
        with pytest.raises(ConfigError, match=r'host = "none"'):
            plan(tmp_path, table, bed=bed)
    bed.write_text(APPLIANCE + '[[command]]\nname = "swap"\nrun = ["failover", "nas"]\n')
    made = plan(tmp_path, COMMAND + 'command = "swap"\n', bed=bed)
    (shown,) = [each for each in listed(made, planned_names(made)) if each["argv"] == ["failover", "nas"]]
    assert shown["host"] == "client0" and shown["step"] == "phase soak: at 9s: command swap"
    with pytest.raises(ConfigError, match=r"soak.toml:25: fault\[0\].command: .* did you mean 'swap'"):
        plan(tmp_path, COMMAND + 'command = "swop"\n', bed=bed)
    with pytest.raises(ConfigError, match=r"what ends 'swap' after `for`\? add undo to it in the testbed"):
        plan(tmp_path, COMMAND + 'command = "swap"\nfor = "1s"\n', bed=bed)


def test_devices_on_a_real_server_are_taken_offline_only(tmp_path: Path) -> None:
    bed = Path("docs/examples/mynas.toml")
    with pytest.raises(ConfigError, match=r'is for emulated devices, and the server is .*: write "offline"'):
        plan(tmp_path, STALL.format(at="9s", length="1s").replace("log0", "log"), bed=bed)


def test_the_plan_shows_schedule_commands_and_their_way_back(tmp_path: Path) -> None:
    more = (
        STALL.format(at="10s", length="50ms")
        + '[[fault]]\nat = "20s"\nwhat = "offline"\ndevice = "log"\nfor = "1s"\n'
        + '[[fault]]\nat = "30s"\nwhat = "nfsd-restart"\nfor = "1s"\n'
        + '[[fault]]\nat = "40s"\nwhat = "command"\ncommand = "cut"\nfor = "2s"\n'
    )
    bed = tmp_path / "bed.toml"
    command = '[[command]]\nname = "cut"\nrun = ["pdu", "off"]\nundo = ["pdu", "on"]\n'
    bed.write_text(LAB_TESTBED.read_text() + command)
    made = plan(tmp_path, more, bed=bed)
    commands = listed(made, planned_names(made))
    at = {each["step"]: each["argv"] for each in commands if each["step"].startswith("phase soak: at")}
    assert at["phase soak: at 10s: log0 stalls for 50ms"][-2:] == ["stall", "50000000"]
    assert at["phase soak: at 40s: command cut for 2s"] == ["pdu", "on"]
    undos = [each["argv"] for each in commands if each["step"] == "undo"]
    assert undos[:3] == [
        ["pdu", "on"],
        ["python3", "-I", "-", "start", "1"],
        ["zpool", "online", "hsp-ID", "/dev/log0"],
    ]


def test_plans_without_a_schedule_are_stored_as_before(tmp_path: Path) -> None:
    stored = plan(tmp_path, "").as_json()["workload"]
    assert not {"fault", "event"} & stored.keys() and "during" not in stored["phase"][0]


def test_events_during_a_phase_stand_at_equal_distances(tmp_path: Path) -> None:
    made = plan(tmp_path, 'during = ["scrub", "resilver", "snapshots"]\n')
    events = during(made.workload.phase[0])
    assert [(each.what, each.at, each.for_) for each in events] == [
        ("scrub", 25 * 10**9, None),
        ("resilver", 50 * 10**9, 5 * 10**9),
        ("snapshots", 75 * 10**9, 10 * 10**9),
    ]  # fmt: skip
    assert all(isinstance(each, ExpectedEvent) for each in made.workload.schedule(made.workload.phase[0]))
    with pytest.raises(ConfigError, match="each event once"):
        plan(tmp_path, 'during = ["scrub", "scrub"]\n')
