"""Phases that begin with empty caches, and imports of the pool meanwhile: what is refused, what is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed
from kit.session.agreement import commands as agreement
from tests.kit.rules.test_schedule import APPLIANCE

HEAD = 'format = 1\nname = "own"\ntitle = "own"\nbase = "l2arc-life"\n'
COLD = '[[phase]]\nname = "cold"\n'
IMPORT = '[[event]]\nat = "6s"\nwhat = "export-import"\n'


def plan(folder: Path, text: str, bed: Path = LAB_TESTBED) -> Plan:
    path = folder / "own.toml"
    path.write_text(HEAD + ("" if "[[event]]" in text else "event = []\n") + text)
    return make_plan(read_workload(path), read_testbed(bed), path, bed)


def commands(made: Plan, step: str) -> list[str]:
    return [" ".join(each["argv"]) for each in listed(made, planned_names(made)) if each["step"] == step]


def test_cache_devices_leave_the_pool_and_come_back_after_an_import(tmp_path: Path) -> None:
    found = commands(plan(tmp_path, COLD), "phase cold")
    words = [
        "zpool remove",
        "exportfs -u",
        "zpool export",
        "zpool import",
        "zfs mount",
        "exportfs -o",
        "zpool add",
    ]
    places = [next(n for n, each in enumerate(found) if each.startswith(word)) for word in words]
    assert places == sorted(places)
    assert found[places[-1]].split()[3] == "cache"
    # What they hold is sampled while the phase runs, and only then.
    assert any('"l2_rebuild_success"' in each for each in found)
    warm = commands(plan(tmp_path, COLD + "cold = false\n"), "phase cold")
    assert not any("l2_rebuild_success" in each or "zpool" in each for each in warm)


def test_an_import_stops_nfsd_and_starts_it_after_the_exports(tmp_path: Path) -> None:
    made = plan(tmp_path, COLD + IMPORT)
    found = commands(made, "phase cold: at 6s: the pool is exported and imported")
    begins = [
        "tee /proc/fs/nfsd/threads",
        "sh -ec n=0; until timeout 60 zpool export",
        "sh -ec pool=$1",
        "exportfs -o",
        "python3",
    ]
    assert [next(word for word in begins if each.startswith(word)) for each in found[: len(begins)]] == begins
    undos = commands(made, "undo")
    nfsd, gone = (next(n for n, each in enumerate(undos) if word in each) for word in ("start 1", "destroy"))
    assert nfsd < gone


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ('target = "dataset"\n', "cold", "how caches get warm is seen over NFS"),
        ("ios = 400\n", "ios", "a cold phase cannot be measured again"),
        ("resumable = true\n", "resumable", "a cold phase cannot be continued"),
        ('remove = "cache"\n', "remove", "without cache devices no L2ARC gets warm"),
        (
            'options = { rw = "randwrite", sync = "dsync" }\ntiers = ["slog"]\n',
            "cold",
            "its load reads nothing",
        ),
    ],
)
def test_what_cannot_be_cold_is_refused(tmp_path: Path, more: str, key: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(tmp_path, COLD + more)
    assert f"{key}: " in error.value.message and words in error.value.message, error.value.message


def test_a_phase_without_cache_devices_is_refused(tmp_path: Path) -> None:
    first = COLD + 'remove = "cache"\ncold = false\ntiers = ["dram", "disk"]\n'
    text = first + '[[phase]]\nname = "import"\ncold = true\n'
    with pytest.raises(ConfigError, match="has no cache device in this phase"):
        plan(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (COLD + IMPORT + IMPORT.replace("6s", "9s"), "beside an export and import nothing else is done"),
        (COLD + IMPORT + '[[event]]\nat = "5s"\nwhat = "send"\n', "and there are send"),
        (COLD + IMPORT.replace("6s", "29900ms"), "needs an interval before and after it"),
        (COLD + IMPORT.replace("6s", "0s"), "needs an interval before and after it"),
        (COLD + "keys = 8\n" + IMPORT, "blocks of the sample would not be the same"),
    ],
)
def test_nothing_else_is_done_while_the_pool_is_away(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(tmp_path, text)
    assert words in error.value.message, error.value.message


def test_an_import_lasts_as_long_as_it_takes_and_an_appliance_has_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it lasts as long as export and import take"):
        plan(tmp_path, COLD + IMPORT + 'for = "1s"\n')
    bed = tmp_path / "nas.toml"
    bed.write_text(APPLIANCE)
    with pytest.raises(ConfigError, match="needs a server that can be logged into"):
        plan(tmp_path, COLD + "cold = false\n" + IMPORT, bed)


BED = """\
name = "nas"
[server]
host = "ssh://root@10.0.0.1"
[[client]]
host = "ssh://root@10.0.0.2"
"""
DEVICE = """\
[[device]]
name = "{0}"
role = "{1}"
path = "/dev/disk/by-id/x-{0}"
serial = "{0}"
size = "4TiB"
"""
DEVICES = "".join(DEVICE.format(f"{role}{n}", role) for role, n in (("data", 0), ("data", 1), ("cache", 0)))
ALLOWED = '[restart]\ncommand = ["systemctl", "reboot"]\n'
POWER = '[power]\nscope = "server"\noff = ["off"]\non = ["on"]\n'
BEFORE = '[[phase]]\nname = "before"\nbase = "import"\n'
AFTER = '[[phase]]\nname = "after"\nbase = "import"\nrestart = "reboot"\n'


def bed_with(folder: Path, tables: str) -> Path:
    path = folder / "nas.toml"
    path.write_text(BED + tables + DEVICES)
    return path


def test_a_restart_is_between_two_tracers_and_is_agreed_to(tmp_path: Path) -> None:
    made = plan(tmp_path, BEFORE + AFTER, bed_with(tmp_path, ALLOWED))
    listed_steps = [each["step"] for each in listed(made, planned_names(made))]
    assert listed_steps.count("start the tracer") == 2
    found = commands(made, "restart before phase after")
    begins = ["umount", "exportfs -u", "zpool export", "systemctl reboot", "install -d"]
    # Only the kernel knew the partition of the cache device.
    begins += ["/usr/bin/python3 -I - add", "tee /sys/module/zfs", "env python3", "zpool import"]
    begins += ["zfs mount", "exportfs -o", "mount -t nfs"]
    places = [next(n for n, each in enumerate(found) if each.startswith(word)) for word in begins]
    assert places == sorted(places)
    # A minute of reads on both sides.
    assert [phase.duration for phase in made.workload.phase] == [60 * 10**9] * 2
    assert agreement.listed(made) == ["ssh://root@10.0.0.1: command of [restart]: systemctl reboot"]
    assert any("is restarted" in note and "--cut-other-pools" in note for note in made.notes)


def test_a_power_cut_leaves_the_pool_imported_and_has_its_undo(tmp_path: Path) -> None:
    made = plan(tmp_path, BEFORE + AFTER.replace("reboot", "power-cut"), bed_with(tmp_path, POWER))
    assert "off" in commands(made, "cut the power of the server") and "on" in commands(made, "undo")
    assert not any("zpool export" in each for each in commands(made, "restart before phase after"))
    assert [line.split(": ", 1)[1] for line in agreement.listed(made)] == [
        "off of [power]: off",
        "on of [power]: on",
    ]


@pytest.mark.parametrize(
    ("tables", "text", "words"),
    [
        ("", BEFORE + AFTER, "does not allow that its server is restarted"),
        (ALLOWED, BEFORE + AFTER.replace("reboot", "power-cut"), "does not say how to cut the power"),
        (
            POWER.replace('"server"', '"device"'),
            BEFORE + AFTER.replace("reboot", "power-cut"),
            "does not say how to cut the power",
        ),
        (ALLOWED, AFTER, "there is no phase before it with the same job"),
        (
            ALLOWED,
            BEFORE + 'options = { bs = "8k" }\n' + AFTER,
            "there is no phase before it with the same job",
        ),
        (ALLOWED, BEFORE + AFTER + "cold = true\n", "remove cold, or restart"),
        (ALLOWED, BEFORE + AFTER + "ios = 400\n", "a restarted phase cannot be measured again"),
        (ALLOWED, "[host]\nnfsd_threads = 8\n" + BEFORE + AFTER, "may be lost with the restart"),
        (
            ALLOWED,
            '[dataset.properties]\nencryption = "on"\n' + BEFORE + AFTER,
            "the key of the encrypted dataset",
        ),
    ],
)
def test_what_must_not_be_restarted_or_shows_nothing_is_refused(
    tmp_path: Path, tables: str, text: str, words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        plan(tmp_path, text, bed_with(tmp_path, tables))
    assert words in error.value.message, error.value.message


@pytest.mark.parametrize(
    ("server", "words"),
    [("local", "this machine, and hsp would end"), ("lab", "in the memory of its guest")],
)
def test_a_testbed_that_cannot_be_restarted_has_no_such_table(
    tmp_path: Path, server: str, words: str
) -> None:
    bed = tmp_path / "bed.toml"
    bed.write_text(f'name = "x"\n[server]\nhost = "{server}"\n[[client]]\nhost = "{server}"\n' + ALLOWED)
    with pytest.raises(ConfigError) as error:
        read_testbed(bed)
    assert "restart" in error.value.message and words in error.value.message, error.value.message


def test_the_lab_has_no_restart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the lab's devices are in the memory of its guest"):
        plan(tmp_path, BEFORE + AFTER)
