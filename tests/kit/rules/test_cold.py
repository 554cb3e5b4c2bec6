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
