"""Power losses that a testbed cannot have, or that show nothing; and what a plan shows of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import Workload
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed
from kit.rules.appliance_limits import left_out
from tests.kit.rules.test_device_phases import HEAD, PHASE, plan

DISK = '\n[[device]]\nname = "{name}"\nrole = "{role}"\nsize = "64MiB"\npath = "{path}"\nserial = "{name}"\n'
CLIENT = '\n[[client]]\nhost = "{host}"\n'
POWER = '\n[power]\nscope = "{scope}"\noff = ["cut", "7"]\non = ["cut", "--on", "7"]\n'
LOSSES = "\n[power_loss]\nmoments = 3\n"
_ROLES = {"log0": "log"}


def bed(
    folder: Path, power: str = "", names: tuple[str, ...] = ("ssd",), client: str = "ssh://c1",
    server: str = "ssh://nas",
) -> Path:  # fmt: skip
    path = folder / "bed.toml"
    disks = [
        DISK.format(name=name, role=_ROLES.get(name, "data"), path=f"/dev/disk/by-id/x-{name}")
        for name in names
    ]
    path.write_text(
        f'name = "bed"\n[server]\nhost = "{server}"\n{CLIENT.format(host=client)}{"".join(disks)}{power}'
    )
    return path


def over_nfs(folder: Path, testbed: Path) -> Plan:
    from kit.config.workload import read_workload

    workload = WORKLOADS / "power-loss.toml"
    return make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)


def of_devices(folder: Path, testbed: Path, tables: str = LOSSES) -> Plan:
    return plan(folder, HEAD + PHASE + tables, testbed=testbed)


def refusal(made: object, folder: Path, testbed: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        made(folder, testbed)  # type: ignore[operator]
    assert "power_loss" in caught.value.message
    return str(caught.value.message)


def test_real_hardware_needs_commands_that_cut_its_power(tmp_path: Path) -> None:
    for made in (over_nfs, of_devices):
        assert "does not say how to cut the power: add [power]" in refusal(made, tmp_path, bed(tmp_path))


def test_the_power_of_a_device_under_a_pool_shows_nothing(tmp_path: Path) -> None:
    testbed = bed(tmp_path, POWER.format(scope="device"), ("a",))
    assert "OpenZFS has the writes in memory still" in refusal(over_nfs, tmp_path, testbed)


def test_the_power_of_a_server_takes_the_list_of_writes_to_its_devices(tmp_path: Path) -> None:
    testbed = bed(tmp_path, POWER.format(scope="server"))
    assert "with it: use" in refusal(of_devices, tmp_path, testbed)


def test_the_witness_is_another_machine_than_the_server(tmp_path: Path) -> None:
    testbed = bed(tmp_path, POWER.format(scope="server"), client="ssh://nas")
    assert "ssh://nas is the server" in refusal(over_nfs, tmp_path, testbed)


def test_records_go_to_one_device(tmp_path: Path) -> None:
    power = POWER.format(scope="device")
    assert "the power of a, b would be cut" in refusal(of_devices, tmp_path, bed(tmp_path, power, ("a", "b")))
    of_devices(tmp_path, bed(tmp_path, f'{power}devices = ["b"]\n', ("a", "b")))


def test_a_device_without_a_model_cannot_lose_its_power(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    null = '\n[[device]]\nname = "n"\nrole = "data"\nsize = "64MiB"\nmodel = "null_blk"\nlatency = "10us"\n'
    path.write_text(LAB_TESTBED.read_text().split("[[device]]")[0] + null)
    assert "n has no model" in refusal(of_devices, tmp_path, path)


def test_a_plan_shows_what_cuts_the_power_and_what_turns_it_on(tmp_path: Path) -> None:
    made = of_devices(tmp_path, bed(tmp_path, POWER.format(scope="device")))
    commands = [(each["host"], each["argv"], each["input"]) for each in listed(made, planned_names(made))]
    cuts = [each for each in commands if each[1][0] == "cut"]
    assert [(host, argv) for host, argv, _ in cuts] == [
        ("controller", ["cut", "7"]), ("controller", ["cut", "--on", "7"]),
    ]  # fmt: skip
    assert "3 times at random moments" in cuts[0][2]


def test_the_plan_of_a_server_is_over_nfs(tmp_path: Path) -> None:
    made = over_nfs(tmp_path, bed(tmp_path, POWER.format(scope="server"), ("a", "b", "log0")))
    assert any(each["argv"] == ["cut", "7"] for each in listed(made, planned_names(made)))


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"scope": "rack"}, "power.scope", "rack"),
        ({"off": "[]"}, "power.off", ""),
        ({"off": '["a\\u0000b"]'}, "power.off", "printable"),
        ({"off": '"ipmitool off"'}, "power.off", ""),
        ({"host": '"server"'}, "power.host", "cannot run `on`"),
        ({"devices": '["ssd"]'}, "power.devices", "remove it"),
        ({"back_within": '"0s"'}, "power.back_within", "greater than 0"),
        ({"of": '["x"]'}, "power.of", "did you mean"),
    ],
)  # fmt: skip
def test_mistakes_in_the_table_are_named(
    tmp_path: Path, changes: dict[str, str], key: str, text: str
) -> None:
    keys = {"scope": "server", "off": '["cut"]', "on": '["cut"]'} | changes
    lines = [f'scope = "{keys.pop("scope")}"', *(f"{name} = {value}" for name, value in keys.items())]
    with pytest.raises(ConfigError) as caught:
        read_testbed(bed(tmp_path, "\n[power]\n" + "\n".join(lines) + "\n"))
    assert key in caught.value.message and text in caught.value.message, caught.value.message


def test_a_server_whose_power_must_stay_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hsp would lose its own power"):
        read_testbed(bed(tmp_path, POWER.format(scope="server"), server="local"))


def appliance(folder: Path, power: str = "") -> Path:
    path = folder / "nas.toml"
    client = CLIENT.format(host="ssh://c1")
    path.write_text(f'name = "nas"\n[server]\nhost = "none"\nexport = "nas:/x"\n{client}{power}')
    return path


@pytest.mark.parametrize(
    ("power", "key", "text"),
    [
        (POWER.format(scope="device"), "power.scope", 'all of it loses its power: scope = "server"'),
        (
            POWER.format(scope="server") + 'count = ["cuts"]\n',
            "power.count",
            "NFS write verifier is the proof",
        ),
    ],
)
def test_of_an_appliance_no_device_is_seen(tmp_path: Path, power: str, key: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_testbed(appliance(tmp_path, power))
    assert key in caught.value.message and text in caught.value.message


def test_an_appliance_needs_commands_that_cut_its_power(tmp_path: Path) -> None:
    assert "its appliance: add [power]" in refusal(over_nfs, tmp_path, appliance(tmp_path))


def test_the_caches_of_an_appliance_cannot_be_told_to_lie(tmp_path: Path) -> None:
    from kit.config.workload import read_workload

    testbed, workload = appliance(tmp_path, POWER.format(scope="server")), tmp_path / "losses.toml"
    text = (WORKLOADS / "power-loss.toml").read_text()
    workload.write_text(f'{text}control = "no-flush"\n')
    for job in WORKLOADS.glob("top-speeds-write.fio"):
        (tmp_path / job.name).write_text(job.read_text())
    with pytest.raises(ConfigError, match='"no-flush" needs a login at the server'):
        make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)


def test_the_plan_of_an_appliance_cuts_its_power_here(tmp_path: Path) -> None:
    made = over_nfs(tmp_path, appliance(tmp_path, POWER.format(scope="server")))
    commands = listed(made, planned_names(made))
    assert [each["host"] for each in commands if each["argv"] == ["cut", "7"]] == ["controller"]
    assert all("synchronous" not in text for text in left_out(made.workload).not_seen)


def test_the_lab_has_no_such_table(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(LAB_TESTBED.read_text() + POWER.format(scope="server"))
    with pytest.raises(ConfigError, match="the lab cuts the power of its emulated devices itself"):
        read_testbed(path)


def test_a_device_that_the_testbed_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no device 'sdd', did you mean 'ssd'"):
        read_testbed(bed(tmp_path, f'{POWER.format(scope="device")}devices = ["sdd"]\n'))


@pytest.mark.parametrize("size", ['"513"', '"0KiB"', '"2MiB"'])
def test_sizes_of_records(tmp_path: Path, size: str) -> None:
    testbed = bed(tmp_path, POWER.format(scope="device"))
    with pytest.raises(ConfigError, match=r"power_loss\.sizes"):
        of_devices(tmp_path, testbed, f"{LOSSES}sizes = [{size}]\n")


def test_plans_that_ask_for_nothing_new_are_stored_as_before() -> None:
    keys = Workload.model_fields["power_loss"].annotation
    assert keys is not None
    from kit.config.tables.power_table import PowerLoss

    assert set(PowerLoss(moments=3).model_dump(mode="json")) == {"moments", "within", "seed"}
    assert "power" not in read_testbed(LAB_TESTBED).model_dump(mode="json")
