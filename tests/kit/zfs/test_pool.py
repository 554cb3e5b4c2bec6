"""kit.zfs.pool: only the run's pool is changed, and properties in effect are checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.sudo import SERVER_PROGRAMS
from kit.zfs import datasets, zil
from kit.zfs import pool as pools
from kit.zfs.pool import CreatedPool, PoolSpec
from tests.fakes import ScriptedHost

SPEC = PoolSpec(
    name="hsp-a1",
    run_id="a1",
    data_layout="stripe",
    data=("/dev/data0", "/dev/data1"),
    log=("/dev/log0",),
    cache=("/dev/cache0",),
    properties={"ashift": 9, "autotrim": False, "listsnapshots": True},
    mount_root="/run/hsp/a1",
)
RUN_ID_QUERY = "zfs get -H -p -o value hsp:run"
OURS = CreatedPool("hsp-a1", 12345678901234567890, "a1")

LABEL = """\
------------------------------------
LABEL 0
------------------------------------
    version: 5000
    name: 'hsp-a1'
    guid: 7
    vdev_children: 3
    vdev_tree:
        type: 'disk'
        id: 2
        guid: 99
        path: '/dev/log0'
        is_log: 1
        create_txg: 4
"""


def server_of_run(answers: dict[str, Any] | None = None) -> ScriptedHost:
    return ScriptedHost(
        {
            "zpool get -H -p -o value guid": f"{OURS.guid}\n",
            "zpool get": "ashift\t9\n",
            RUN_ID_QUERY: "a1\n",
            "zpool list": "hsp-a1\n\tmirror-0\n\t/dev/data0\n\t/dev/data1\nlogs\n\t/dev/disk/by-id/a log\n",
            "zdb": LABEL,
            "python3": {"exists": True},
            **(answers or {}),
        }
    )


def test_a_property_that_was_never_set_is_nobodys() -> None:
    """zfs prints "-" for it: a journal with the run id "-" destroyed a pool that the kit never made."""
    server = server_of_run({RUN_ID_QUERY: "-\n", "zpool list": "tank\n"})
    with pytest.raises(SafetyRefusal, match="carries the run id '-'"):
        pools.remove(server, "tank", "-", "", ())
    assert not server.called("zpool", "destroy")


def test_the_pool_is_created_as_specified() -> None:
    argv = list(pools.create_command(SPEC).argv)
    assert argv[:2] == ["zpool", "create"]
    assert "-f" not in argv
    options = [argv[at + 1] for at, word in enumerate(argv) if word == "-o"]
    assert options == ["cachefile=none", "ashift=9", "autotrim=off", "listsnapshots=on"]
    root = [argv[at + 1] for at, word in enumerate(argv) if word == "-O"]
    assert root == ["hsp:run=a1", "canmount=off", "mountpoint=/run/hsp/a1"]
    assert argv[argv.index("hsp-a1") :] == [
        "hsp-a1", "/dev/data0", "/dev/data1", "log", "/dev/log0", "cache", "/dev/cache0",
    ]  # fmt: skip
    # Absent roles, and another layout.
    argv = list(pools.create_command(replace(SPEC, data_layout="mirror", log=(), cache=())).argv)
    assert argv[argv.index("hsp-a1") :] == ["hsp-a1", "mirror", "/dev/data0", "/dev/data1"]


DISKS = ("/dev/a", "/dev/b", "/dev/c", "/dev/d")
LOGS = ("/dev/x", "/dev/y")


def test_groups_are_vdevs_and_the_log_can_be_a_mirror() -> None:
    spec = replace(SPEC, data_layout="mirror", data=DISKS, groups=2, log=LOGS, log_layout="mirror", cache=())
    argv = list(pools.create_command(spec).argv)
    assert " ".join(argv[argv.index("hsp-a1") + 1 :]) == (
        "mirror /dev/a /dev/b mirror /dev/c /dev/d log mirror /dev/x /dev/y"
    )
    argv = list(pools.create_command(replace(spec, log=())).argv)
    assert "log" not in argv
    # After the log: its mirror keeps its number.
    special = replace(spec, special=("/dev/s", "/dev/t"), dedup=("/dev/u", "/dev/v", "/dev/w", "/dev/z"))
    assert " ".join(pools.create_command(special).argv).endswith(
        " log mirror /dev/x /dev/y special mirror /dev/s /dev/t "
        "dedup mirror /dev/u /dev/v mirror /dev/w /dev/z"
    )
    assert pools.removal_names(special, "log") == pools.removal_names(spec, "log")
    assert set(special.devices) == {*DISKS, *LOGS, *special.special, *special.dedup}


@pytest.mark.parametrize(
    ("data_layout", "groups", "name"),
    [
        ("mirror", 2, "mirror-2"),
        ("mirror", 1, "mirror-1"),
        ("raidz1", 2, "mirror-2"),
        ("stripe", 1, "mirror-4"),
    ],
)
def test_a_mirrored_log_is_removed_by_its_place_among_the_vdevs(
    data_layout: str, groups: int, name: str
) -> None:
    spec = replace(SPEC, data_layout=data_layout, data=DISKS, groups=groups, log=LOGS)
    assert pools.removal_names(spec, "log") == LOGS
    mirrored = replace(spec, log_layout="mirror")
    assert pools.removal_names(mirrored, "log") == (name,)
    assert pools.removal_names(mirrored, "cache") == ("/dev/cache0",)
    server = server_of_run()
    pools.check_removed(server, OURS, LOGS)
    assert pools.remove_command("hsp-a1", (name,)).argv == ("zpool", "remove", "-w", "hsp-a1", name)


def test_a_mirror_of_which_a_device_is_left_was_not_removed() -> None:
    server = server_of_run({"zpool list": "hsp-a1\n\tmirror-0\n\t/dev/a\n\t/dev/b\nlogs\n\t/dev/y\n"})
    with pytest.raises(HostError, match="/dev/y is still part of the pool"):
        pools.check_removed(server, OURS, LOGS)


@pytest.mark.parametrize(
    ("run_id", "guid", "message"),
    [
        *((run_id, OURS.guid, "carries the run id") for run_id in ("-\n", "\n", "b2\n", "a1x\n", "a\n")),
        ("a1\n", 5, f"has GUID {OURS.guid}, not 5"),
    ],
)
def test_a_pool_with_another_run_id_or_guid_is_not_destroyed(run_id: str, guid: int, message: str) -> None:
    server = server_of_run({RUN_ID_QUERY: run_id})
    with pytest.raises(SafetyRefusal, match=message) as caught:
        pools.remove(server, OURS.name, OURS.run_id, str(guid), ())
    assert caught.value.exit_code == 4
    assert server.called("zpool", "destroy") == []


def test_what_a_run_left_is_looked_at_directly_before_it_is_destroyed() -> None:
    server = server_of_run()
    pools.remove(server, OURS.name, OURS.run_id, str(OURS.guid), ())
    looks = [("zpool", "get", "-H", "-p", "-o", "value", "guid", "hsp-a1"), (*RUN_ID_QUERY.split(), "hsp-a1")]
    listed = ("zpool", "list", "-H", "-o", "name")
    assert server.calls == [listed, *looks, ("zpool", "destroy", "hsp-a1")]
    with pytest.raises(SafetyRefusal, match=f"has GUID {OURS.guid}, not 5"):
        pools.remove(server, OURS.name, OURS.run_id, "5", ())
    assert len(server.called("zpool", "destroy")) == 1


def test_devices_are_removed() -> None:
    server = server_of_run()
    # A device whose name is a prefix of another can be removed.
    for path in ("/dev/log0", "/dev/data"):
        pools.check_removed(server, OURS, (path,))


def test_a_zil_is_begun_by_a_write_that_is_synced_and_gone() -> None:
    argvs = [each.argv for each in zil.begin_zil_commands("hsp-a1", "/run/hsp/a1/pool/bench")]
    assert argvs[-1] == ("zpool", "sync", "hsp-a1")
    # The dataset's root directory is root's: without sudo the write would fail.
    assert {argv[0] for argv in argvs} <= SERVER_PROGRAMS


def test_a_device_that_was_not_removed_is_an_error() -> None:
    with pytest.raises(HostError, match="/dev/data0 is still part of the pool"):
        pools.check_removed(server_of_run(), OURS, ("/dev/log0", "/dev/data0"))


def test_log_vdevs_come_from_the_labels() -> None:
    server = server_of_run({"zdb": lambda command: LABEL.replace("id: 2", f"id: {command.argv[-1][-1]}")})
    assert zil.vdev_ids(server, ("/dev/log4", "/dev/log5")) == {4, 5}
    assert zil.vdev_ids(server, ()) == frozenset()


MIRROR_LABEL = """\
------------------------------------
LABEL 0
------------------------------------
    version: 5000
    name: 'hsp-a1'
    state: 0
    txg: 4
    pool_guid: 12345678901234567890
    errata: 0
    hostid: 8323329
    hostname: 'lab'
    top_guid: 71
    guid: 99
    is_log: 1
    vdev_children: 3
    vdev_tree:
        type: 'mirror'
        id: 2
        guid: 71
        metaslab_array: 67
        metaslab_shift: 24
        ashift: 9
        asize: 62390272
        is_log: 1
        create_txg: 4
        children[0]:
            type: 'disk'
            id: 0
            guid: 98
            path: '/dev/x'
            create_txg: 4
        children[1]:
            type: 'disk'
            id: 1
            guid: 99
            path: '/dev/y'
            create_txg: 4
    features_for_read:
        com.delphix:hole_birth
    labels = 0 1 2 3
"""


def test_the_devices_of_a_log_mirror_name_one_vdev() -> None:
    """Not their own numbers within the mirror, which are those of data vdevs."""
    assert zil.vdev_ids(server_of_run({"zdb": MIRROR_LABEL}), LOGS) == {2}


@pytest.mark.parametrize(
    "label", [LABEL.replace("is_log: 1", "is_log: 0"), "", LABEL.replace(" id: 2", " ID: 2")]
)
def test_a_label_without_is_log_is_an_error(label: str) -> None:
    with pytest.raises(HostError, match="does not say that it is a log device"):
        zil.vdev_ids(server_of_run({"zdb": label}), ("/dev/log0",))


def test_properties_in_effect() -> None:
    server = server_of_run()
    assert pools.properties_of(server, "zpool", OURS.name, []) == {} and server.calls == []
    assert pools.properties_of(server, "zpool", OURS.name, ["ashift"]) == {"ashift": "9"}


def test_the_devices_of_a_pool_are_its_leaves() -> None:
    assert pools.vdev_paths(server_of_run(), OURS) == ["/dev/data0", "/dev/data1", "/dev/disk/by-id/a log"]


@pytest.mark.parametrize("answer", ["", "ashift 9\n", "autotrim\toff\n"])
def test_a_missing_property_is_an_error(answer: str) -> None:
    with pytest.raises(HostError, match="does not report ashift"):
        pools.properties_of(server_of_run({"zpool get": answer}), "zpool", OURS.name, ["ashift"])


# --- Dataset ---

PROPERTIES: dict[str, Any] = {"recordsize": "8KiB", "atime": False, "compression": "lz4"}
MAKE_DATASET = datasets.dataset_commands("hsp-a1/d", "a1", PROPERTIES)


def dataset_answers(**values: Any) -> dict[str, Any]:
    properties = {"recordsize": 8192, "atime": "off", "compression": "lz4", **values}
    return {
        "zfs get -H -p -o property,value": "".join(f"{name}\t{value}\n" for name, value in properties.items())
    }


def test_a_dataset_gets_its_recordsize_when_it_is_made() -> None:
    server = server_of_run(dataset_answers())
    datasets.create_dataset(server, MAKE_DATASET, "hsp-a1/d", PROPERTIES)
    assert server.calls[0][3:] == ("create", "hsp-a1/d", "a1", "8192")
    assert server.calls[1] == ("zfs", "set", "atime=off", "compression=lz4", "hsp-a1/d")
    assert ("zfs", "mount", "hsp-a1/d") in server.calls


@pytest.mark.parametrize(
    ("value", "words"),
    [("aes-128-ccm", ("aes-128-ccm", "/run/key")), (True, ("on", "/run/key")), (False, ()), ("off", ())],
)
def test_an_encrypted_dataset_gets_cipher_and_key_when_it_is_made(value: Any, words: tuple[str, ...]) -> None:
    properties = {"recordsize": "8KiB", "atime": False, "encryption": value}
    make = datasets.dataset_commands("hsp-a1/d", "a1", properties, "/run/key")
    cipher = {True: "aes-256-gcm", False: "off"}.get(value, value)
    server = server_of_run(dataset_answers(encryption=cipher))
    datasets.create_dataset(server, make, "hsp-a1/d", properties)
    assert server.calls[0][3:] == ("create", "hsp-a1/d", "a1", "8192", *words)
    assert server.calls[1] == ("zfs", "set", "atime=off", "hsp-a1/d")
    if words:
        with pytest.raises(HostError, match="encryption was set to"):
            datasets.create_dataset(
                server_of_run(dataset_answers(encryption="off")), make, "hsp-a1/d", properties
            )


@pytest.mark.parametrize(
    ("name", "observed", "expected"),
    [("recordsize", 512, "8192"), ("atime", "on", "off"), ("compression", "off", "lz4")],
)
def test_a_property_not_in_effect_is_an_error(name: str, observed: Any, expected: str) -> None:
    with pytest.raises(HostError, match=f"{name} was set to {expected} but is {observed}"):
        datasets.create_dataset(
            server_of_run(dataset_answers(**{name: observed})), MAKE_DATASET, "hsp-a1/d", PROPERTIES
        )


@pytest.mark.parametrize("printed", [{"exists": False}, {}, "nonsense", "[]", "1", "[" * 100_000])
def test_a_snapshot_that_was_not_created_is_an_error(printed: Any) -> None:
    server = server_of_run({"python3": printed})
    with pytest.raises(HostError, match="libzfs_core did not create hsp-a1/d@s"):
        datasets.with_pyzfs(server, datasets.snapshot_command("hsp-a1/d@s", "a1"))
    assert server.calls[0][3:] == ("snapshot", "hsp-a1/d@s", "a1")


@pytest.mark.parametrize(
    ("properties", "size"), [({}, 131072), ({"recordsize": 512}, 512), ({"recordsize": "1MiB"}, 1 << 20)]
)
def test_recordsize_in_bytes(properties: dict[str, Any], size: int) -> None:
    assert datasets.record_bytes(properties) == size


CACHE_LABEL = f"LABEL 0\n    state: 4\n    guid: 7\nL2ARC device header\n    pool_guid: {OURS.guid}\n"


def test_a_part_of_a_special_device_is_given_back_without_its_label() -> None:
    """It cannot be found there once the part is gone; a partition that begins there would have it."""
    label = LABEL.replace("    guid: 7\n", f"    state: 2\n    pool_guid: {OURS.guid}\n")
    server = server_of_run({"zdb -l": label})
    devices = ("/dev/disk/by-id/whole", "/dev/disk/by-id/partly-part1")
    pools.remove(server, OURS.name, OURS.run_id, str(OURS.guid), devices)
    assert [argv[2] for argv in server.called("zpool", "labelclear")] == ["/dev/disk/by-id/partly-part1"]
    for other in (label.replace("state: 2", "state: 0"), label.replace(str(OURS.guid), "5")):
        server = server_of_run({"zdb -l": other})
        pools.remove(server, OURS.name, OURS.run_id, str(OURS.guid), devices)
        assert not server.called("zpool", "labelclear")


@pytest.mark.parametrize(
    ("label", "cleared"),
    [
        (CACHE_LABEL, True),
        (CACHE_LABEL.replace(str(OURS.guid), "5"), False),
        (CACHE_LABEL.replace("state: 4", "state: 0"), False),
        (CACHE_LABEL + "    name: 'tank'\n", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("is_destroyed", [False, True])
def test_the_labels_of_cache_devices_go_with_the_pool(label: str, cleared: bool, is_destroyed: bool) -> None:
    """A pool's end is not written to them, and they do not name it. It may be destroyed already."""
    gone: dict[str, Any] = {"zpool list": "", "zpool import": 1} if is_destroyed else {}
    server = server_of_run({"zdb -l": label, **gone})
    devices = ("/dev/disk/by-id/whole", "/dev/disk/by-id/partly-part1", "/dev/ublkb0")
    pools.remove(server, OURS.name, OURS.run_id, str(OURS.guid), devices)
    places = [argv[2] for argv in server.called("zpool", "labelclear")]
    assert places == (["/dev/disk/by-id/whole-part1", "/dev/disk/by-id/partly-part1"] if cleared else [])
    assert not any("-f" in argv for argv in server.called("zpool"))
    # While it is imported it has them open: labelclear comes after the destruction.
    assert [argv[1] for argv in server.called("zpool")][-1] in ("destroy", "labelclear", "import")
    assert bool(server.called("zpool", "destroy")) != is_destroyed
