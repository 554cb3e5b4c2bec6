"""Settings of a workload that a testbed does not have, and what a plan shows of those that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.sweep import class_of
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.steps import listed
from tests.kit.rules.test_device_phases import HEAD, PHASE, plan

DEVICE = '\n[[device]]\nname = "ssd"\nrole = "{role}"\nsize = "64MiB"\npreset = "ssd-2009-write"\n'
OPEN = "set = { power_loss_protection = false }\n"
SETTING = '\n[[setting]]\nname = "smartpath"\nget = ["ctl", "get"]\nset = ["ctl", "set", "path={value}"]\n'


def bed_of(folder: Path, more: str) -> Path:
    path = folder / "t.toml"
    path.write_text(LAB_TESTBED.read_text().split("[[device]]")[0] + more)
    return path


@pytest.mark.parametrize(
    ("table", "more", "line", "text"),
    [
        ('[host]\nwrite_cache = "off"\n', "", 6, "no device of this run has a volatile write cache: ssd"),
        ('[host]\nwrite_cache = "of"\n', OPEN, 6, "did you mean 'off'?"),
        ('[setting]\nsmartpath = "off"\n', OPEN, 6, "no setting 'smartpath', it has none: add [[setting]]"),
        ('[setting]\nsmartpat = "off"\n', OPEN + SETTING, 6, "did you mean 'smartpath'?"),
        ('[setting]\nwc = "off"\n', OPEN + SETTING, 6,
         "has no setting 'wc', it has: smartpath; or add a [[setting]] with get and set to it"),
        ('[setting]\nsmartpath = "; reboot"\n', OPEN + SETTING, 6, "is not a value that can be set"),
        ('[setting]\nsmartpath = "--force"\n', OPEN + SETTING, 6, "is not a value that can be set"),
        ("[setting]\nsmartpath = true\n", OPEN + SETTING, 6, "setting.smartpath"),
    ],
)  # fmt: skip
def test_what_the_testbed_does_not_have_is_refused(
    tmp_path: Path, table: str, more: str, line: int, text: str
) -> None:
    path = bed_of(tmp_path, DEVICE.format(role="data") + more)
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, HEAD + table + PHASE, testbed=path)
    assert f"drives.toml:{line}: " in caught.value.message and text in caught.value.message


def test_a_plan_shows_the_commands_and_their_way_back(tmp_path: Path) -> None:
    path = bed_of(tmp_path, DEVICE.format(role="data") + OPEN + SETTING)
    tables = '[host]\nwrite_cache = "off"\n[setting]\nsmartpath = "off"\n'
    made = plan(tmp_path, HEAD + tables + PHASE, testbed=path)
    commands = [each["argv"] for each in listed(made, planned_names(made))]
    settings = [argv[-1] for argv in commands if argv[0] == "ctl"]
    assert settings == ["get", "path=off", "path=BEFORE"]
    caches = [argv[-3:] for argv in commands if "write-cache" in argv]
    assert caches == [["ssd", "write-cache", "off"], ["ssd", "write-cache", "on"]]
    assert commands.index(["ctl", "set", "path=off"]) < commands.index(
        next(argv for argv in commands if "write-cache" in argv)
    ), "a controller may change the caches behind it"


def test_plans_without_them_are_stored_as_before(tmp_path: Path) -> None:
    stored = plan(tmp_path).as_json()
    assert "setting" not in stored["workload"] and "write_cache" not in stored["workload"]["host"]
    assert "setting" not in stored["testbed"] and "price" not in stored["testbed"]["device"][0]


def test_both_can_be_swept() -> None:
    assert class_of("host.write_cache") == class_of("setting.smartpath") == "build"
    assert class_of("setting.") is None
