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


CACHE_LABEL = """\
LABEL 0
    version: 5000
    state: 4
    guid: 862923464577455445
    labels = 0 1 2 3
L2ARC device header
    magic: 6504978260106102853
    version: 1
    pool_guid: 8301348999092846956
"""


def test_a_whole_cache_device_is_given_back_bare_though_its_label_names_no_pool() -> None:
    no_label = (1, "failed to unpack label 0\n", "")
    host = ScriptedHost(
        {"lsblk --nodeps": "S1\n", f"zdb -l {PATH}-part1": CACHE_LABEL, f"zdb -l {PATH}": no_label}
    )
    clear_label.clear(host, PATH, "S1", "hsp-abcdef", "8301348999092846956")
    changes = [command.argv for command in host.commands if command.argv[0] in ("zpool", "wipefs")]
    assert changes == [
        ("zpool", "labelclear", f"{PATH}-part1"),
        *(("wipefs", "--all", "--quiet", "--lock", path) for path in (f"{PATH}-part1", PATH)),
    ]


@pytest.mark.parametrize(
    ("label", "guid"),
    [
        (CACHE_LABEL, "8301348999092846957"),
        (CACHE_LABEL, ""),
        (CACHE_LABEL.replace("state: 4", "state: 3"), "8301348999092846956"),
        # Two copies of the header that differ, and a label without one.
        (CACHE_LABEL + "    pool_guid: 1\n", "8301348999092846956"),
        (CACHE_LABEL.partition("L2ARC")[0], "862923464577455445"),
    ],
)
def test_the_cache_device_of_another_pool_is_not_changed_and_is_listed(label: str, guid: str) -> None:
    host = ScriptedHost({"lsblk --nodeps": "S1\n", "zdb -l": label})
    with pytest.raises(SafetyRefusal, match="of an unknown pool") as caught:
        clear_label.clear(host, PATH, "S1", "hsp-abcdef", guid)
    assert f"zpool labelclear {PATH}-part1" in caught.value.hint
    assert not any(command.argv[0] in ("zpool", "wipefs") for command in host.commands)
