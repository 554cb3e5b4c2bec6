"""kit.devices.clear_label and partition: only the run's own device is changed, under the lock of udev."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import clear_label, partition
from tests.fakes import ScriptedHost

PATH = "/dev/disk/by-id/ata-S1"
LABEL = "LABEL 0\n    version: 5000\n    name: 'hsp-abcdef'\n    state: 2\n    pool_guid: 7\n    guid: 9\n"


def test_each_removal_is_locked_and_follows_a_check_of_the_serial() -> None:
    host = ScriptedHost({"lsblk --nodeps": "S1\n", "zdb -l": LABEL})
    clear_label.clear(host, PATH, "S1", "hsp-abcdef")
    argvs = [command.argv for command in host.commands]
    wiped = [number for number, argv in enumerate(argvs) if argv[0] == "wipefs"]
    assert [argvs[number] for number in wiped] == [
        ("wipefs", "--all", "--quiet", "--lock", path) for path in (f"{PATH}-part1", PATH)
    ]
    assert all(argvs[number - 1][:2] == ("lsblk", "--nodeps") for number in wiped)


def test_a_disk_exchanged_during_the_undo_is_not_wiped() -> None:
    host = ScriptedHost({"lsblk --nodeps": ["S1\n", "OTHER\n"], "zdb -l": LABEL})
    with pytest.raises(SafetyRefusal, match="serial 'OTHER', the run used 'S1'"):
        clear_label.clear(host, PATH, "S1", "hsp-abcdef")
    assert not any(command.argv[0] == "wipefs" for command in host.commands)


@pytest.mark.parametrize(("answer", "error"), [("OTHER\n", SafetyRefusal), ((32, "", "gone"), HostError)])
def test_the_partition_of_another_disk_stays(
    answer: str | tuple[int, str, str], error: type[Exception]
) -> None:
    host = ScriptedHost({"lsblk --nodeps": answer})
    with pytest.raises(error):
        partition.remove(host, PATH, "S1")
    assert not any("del" in command.argv for command in host.commands)
    partition.remove(host, PATH)  # an emulated device has no serial
    assert any("del" in command.argv for command in host.commands)
