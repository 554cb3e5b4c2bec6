"""kit.config.testbed: the shipped testbed loads; each mistake is named with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.testbed_devices import Device
from kit.core.errors import ConfigError

# A testbed as it was shipped once; the shipped one may change.
FILE = Path(__file__).parents[1] / "data" / "plan" / "testbed.toml"
GOOD = FILE.read_text()


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def refused(tmp_path: Path, text: str) -> str:
    file = tmp_path / "testbed.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_testbed(file)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(f"{tmp_path}/", "")


def test_the_shipped_testbed_loads() -> None:
    testbed = read_testbed(LAB_TESTBED)
    assert {device.role for device in testbed.device} == {"data", "cache", "log"}
    assert {device.preset for device in testbed.without_idle.devices("data")} == {"disk-7200"}


def test_values_are_those_of_the_file() -> None:
    testbed = read_testbed(FILE)
    assert [(device.name, device.role, device.latency) for device in testbed.device] == [
        ("data0", "data", 5_000_000),
        ("cache0", "cache", 130_000),
        ("log0", "log", 115_000),
    ]
    assert testbed.devices("data")[0].size == 512 << 20
    assert (testbed.clock.kind, testbed.clock.dilation) == ("virtual", 4)


def test_the_version_of_a_server_is_left_out_of_plans_that_have_none(tmp_path: Path) -> None:
    assert "version" not in read_testbed(FILE).model_dump(mode="json")["server"]
    file = tmp_path / "testbed.toml"
    file.write_text(GOOD.replace("[server]", '[server]\nversion = "TrueNAS 13.0-U6"'))
    assert read_testbed(file).model_dump(mode="json")["server"]["version"] == "TrueNAS 13.0-U6"
    for wrong in ("", " 13", "\u202e13", "1" * 61):
        text = GOOD.replace("[server]", f'[server]\nversion = "{wrong}"')
        assert "server.version: expected a version of 1 to 60" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ('latency = "130us"', 'latency = "10usecs"', "device[1].latency", "did you mean 'us'?"),
        ('latency = "130us"', "latency = 130", "device[1].latency", "expected a duration"),
        ('latency = "130us"', 'latancy = "130us"', "device[1].latancy", "did you mean 'latency'?"),
        ('size = "64MiB"', "size = true", "device[1].size", "expected a size"),
        ('size = "64MiB"', 'size = "64M"', "device[1].size", "did you mean 'MiB'?"),
        ('role = "cache"', 'role = "cash"', "device[1].role", "did you mean 'cache'?"),
        ('role = "log"', "role = 3", "device[2].role", "3"),
        ('model = "null_blk"', 'model = "nul_blk"', "device[0].model", "null_blk"),
        ("dilation = 4 ", "dilation = 0 ", "lab.dilation", "greater than or equal to 1"),
        ("dilation = 4 ", "dilation = 65 ", "lab.dilation", "less than or equal to 64"),
        ("dilation = 4 ", 'dilation = "4" ', "lab.dilation", "expected an integer"),
        ('clock = "virtual"', 'clock = "virtuel"', "lab.clock", "did you mean 'virtual'?"),
        ('memory = "4GiB"', 'memroy = "4GiB"', "lab.memroy", "did you mean 'memory'?"),
        ('name = "data0"', 'name = "../sda"', "device[0].name", "../sda"),
        ('name = "lab"', 'nmae = "lab"', "nmae", "did you mean 'name'?"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, key: str, message: str) -> None:
    text = GOOD.replace(old, new, 1)
    problems = refused(tmp_path, text).split("\n")
    [line] = [line for line in problems if line.startswith(f"testbed.toml:{line_of(text, new)}: {key}: ")]
    assert message in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"64MiB"', '"63MiB"', "ZFS needs at least 64MiB"),
        ('"64MiB"', '"65.5MiB"', "whole MiB"),
        ('name = "log0"', 'name = "data0"', "two devices are called 'data0'"),
        ('clock = "virtual"', 'clock = "real"', 'lab.dilation needs lab.clock = "virtual"'),
        ('memory = "4GiB"', 'memory = "1407MiB"', "more than half of the guest's"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refused(tmp_path, GOOD.replace(old, new, 1))


def test_devices_may_fill_just_half_of_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "testbed.toml"
    file.write_text(GOOD.replace('memory = "4GiB"', 'memory = "1408MiB"'))
    assert read_testbed(file).lab.memory == 1408 << 20


def test_missing_tables_are_named(tmp_path: Path) -> None:
    problems = refused(tmp_path, 'name = "lab"\n').split("\n")
    assert [line.split(": ", 2)[1:] for line in problems] == [
        [key, "required, but missing"] for key in ("server", "client")
    ]


NAME_CHARACTERS = set("abcdefghijklmnopqrstuvwxyz0123456789_-")


@given(st.text(max_size=40))
@example("data0\n")
@example("")
@example("../../etc")
@example("$(reboot)")
@example("-f")
@example("a" * 32)
def test_hostile_device_names_are_refused(name: str) -> None:
    assume(not (name and set(name) <= NAME_CHARACTERS and name[0].isalpha() and len(name) < 32))
    with pytest.raises(ValidationError, match="name"):
        Device.model_validate(
            {"name": name, "role": "data", "model": "null_blk", "size": "64MiB", "latency": "1ms"}
        )


def test_a_testbed_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read_testbed(LAB_TESTBED).name = "other"  # type: ignore[misc]


def test_pytest_does_not_collect_it() -> None:
    assert Testbed.__test__ is False


SETTING = """
[[setting]]
name = "smartpath"
get = ["ssacli", "show"]
set = ["ssacli", "modify", "ssdsmartpath={value}"]
pattern = 'Smart Path: (\\w+)'
"""


def test_a_setting_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "testbed.toml"
    file.write_text(GOOD + SETTING)
    (setting,) = read_testbed(file).setting
    assert setting.argv_for("disable") == ["ssacli", "modify", "ssdsmartpath=disable"]
    assert "setting" not in read_testbed(LAB_TESTBED).model_dump(), "stored plans stay as they were"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("={value}", "", "setting[0].set: no {value} after the program"),
        ('"ssacli", "modify"', '"{value}", "modify"', "cannot be in the name of the program"),
        ("(\\w+)", "\\w+", "setting[0].pattern: 0 groups: exactly one"),
        ("(\\w+)", "(\\w+", "not a regular expression"),
        ('["ssacli", "show"]', "[]", "setting[0].get: must have at least 1 element, found 0"),
        ('"show"]', '"show", "x={value}"]', "setting[0].get: {value} is for set alone"),
        ('["ssacli", "show"]', '"ssacli show"', "setting[0].get: expected an array"),
        ('"show"', '""', "1 to 500 printable characters"),
        ('name = "smartpath"', 'name = "Smart Path"', "setting[0].name"),
        ("pattern", "patern", "did you mean 'pattern'?"),
        (SETTING, SETTING + SETTING, "two settings are called 'smartpath'"),
    ],
)
def test_a_setting_that_cannot_be(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert text in refused(tmp_path, (GOOD + SETTING).replace(old, new, 1))


def test_a_price(tmp_path: Path) -> None:
    text = GOOD.replace('role = "data"', 'role = "data"\nprice = "816.90 EUR"', 1)
    file = tmp_path / "testbed.toml"
    file.write_text(text)
    assert read_testbed(file).device[0].price == "816.90 EUR"
    for wrong in ("816,90 EUR", "816.90", "EUR 816.90", "816.90 eur", "0 EUR", "-1 EUR", "0.00 EUR"):
        assert "an amount and a currency" in refused(tmp_path, text.replace("816.90 EUR", wrong))
