"""The shipped workloads load; mistakes are named; nothing hostile becomes an argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kit.config.workload import (
    WORKLOADS,
    Dataset,
    Nfs,
    Pool,
    WorkingSet,
    Workload,
    find_workload,
    read_workload,
)
from kit.core.errors import ConfigError

# A workload as one was shipped once; the shipped ones may change.
TOP_SPEEDS = Path(__file__).parents[1] / "data" / "plan" / "top-speeds.toml"
GOOD = TOP_SPEEDS.read_text()


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def refused(tmp_path: Path, text: str) -> str:
    file = tmp_path / "w.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_workload(file)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("file", sorted(WORKLOADS.glob("*.toml")), ids=lambda file: file.stem)
def test_the_shipped_workloads_load(file: Path) -> None:
    workload = read_workload(file)
    assert workload.name == file.stem
    assert all((WORKLOADS / phase.job).is_file() for phase in workload.phase)


def test_values_are_those_of_the_file() -> None:
    workload = read_workload(TOP_SPEEDS)
    assert [(phase.name, phase.tiers, phase.remove) for phase in workload.phase] == [
        ("read", ("dram", "l2arc", "disk"), None),
        ("write-slog", ("slog",), None),
        ("write-pool", ("pool",), "log"),
    ]
    assert workload.dataset.properties["recordsize"] == 512
    assert workload.working_set.size == 72 << 20
    assert workload.phase[1].interval == 50_000_000
    assert workload.warmup is not None and workload.warmup.deadline == 30_000_000_000


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ('duration = "6s"', 'duration = "10usecs"', "phase[0].duration", "did you mean 'us'?"),
        ('duration = "6s"', "duration = 6", "phase[0].duration", "expected a duration"),
        ('duration = "6s"', 'durations = "6s"', "phase[0].durations", "did you mean 'duration'?"),
        ('size = "72MiB"', 'size = "72M"', "working_set.size", "did you mean 'MiB'?"),
        ('size = "72MiB"', "size = 72", "working_set.size", "expected a size"),
        ('file = "working-set"', 'file = "../x"', "working_set.file", "../x"),
        ("windows = 2", 'windows = "2"', "warmup.windows", "expected an integer"),
        ("windows = 2", "window_count = 2", "warmup.window_count", "did you mean 'window'?"),
        ('tiers = ["slog"]', 'tiers = ["slug"]', "phase[1].tiers[0]", "did you mean 'slog'?"),
        ('tiers = ["slog"]', 'tiers = "slog"', "phase[1].tiers", "expected an array"),
        ('tiers = ["slog"]', "tiers = []", "phase[1].tiers", "at least 1 item"),
        ('remove = "log"', 'remove = "logs"', "phase[2].remove", "did you mean 'log'?"),
        ('data = "stripe"', 'data = "raid1"', "pool.data", "did you mean 'raidz1'?"),
        ("version = 3", "version = 4", "nfs.version", "say 4.0, 4.1 or 4.2"),
        ("version = 3", 'version = "2"', "nfs.version", "expected one of 3, 4.0, 4.1, 4.2"),
        ("format = 1", "format = 2", "format", "1"),
        ("min_count = 500", "min_count = 0", "expect[0].min_count", "greater than or equal to 1"),
        ('interval = "50ms"', 'interval = "50us"', "phase[1]", "interval must be whole milliseconds"),
        ('interval = "50ms"', 'interval = "0s"', "phase[1]", "interval must be whole milliseconds"),
        ('interval = "50ms"', 'interval = "1501ms"', "phase[1]", "at least one interval"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, key: str, message: str) -> None:
    text = GOOD.replace(old, new, 1)
    told = refused(tmp_path, text).split("\n")
    # What the validator of a whole table says is at its header.
    line = line_of(text, new) if "interval" not in message else line_of(text, 'name = "write-slog"') - 1
    [said] = [said for said in told if said.startswith(f"w.toml:{line}: {key}: ")]
    assert message in said


def test_one_unknown_tier_is_one_problem(tmp_path: Path) -> None:
    assert refused(tmp_path, GOOD.replace('tiers = ["slog"]', 'tiers = ["slug"]')).count("\n") == 0


def test_two_phases_of_one_name_are_refused(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD.replace('name = "write-slog"', 'name = "read"', 1))
    assert "two phases are called 'read'" in told


def test_an_expectation_of_no_phase_is_refused(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD.replace('phase = "write-pool"', 'phase = "write-poll"'))
    assert "expect names the phase 'write-poll'; there is read, write-slog, write-pool" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('window = "1s"', 'window = "0s"'),
        ('size = "72MiB" ', 'size = "0B" '),
        ('size = "72MiB" ', 'fill_block = "0B"\nsize = "72MiB" '),
    ],
)
def test_zero_is_no_window_and_no_size(tmp_path: Path, old: str, new: str) -> None:
    assert old in GOOD
    refused(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    "option",
    [
        "soft",
        "softerr",
        "bg",
        "vers=4",
        "nfsvers=3",
        "soft=1",
        "v4",
        "",
        "rsize=",
        "a b",
        "hard,soft",
        "proto=tcp,vers=4",
    ],
)
def test_mount_options_that_falsify_are_refused(tmp_path: Path, option: str) -> None:
    text = GOOD.replace('"hard", ', f'"hard", "{option}", ')
    told = refused(tmp_path, text)
    assert told.startswith(f"w.toml:{line_of(text, 'options = ')}: nfs.options")
    assert f"'{option}' is not" in told


@pytest.mark.parametrize("option", ["proto=tcp,soft", "rsize=131072,bg", "proto=tcp,softerr"])
def test_no_option_hides_behind_another_ones_comma(option: str) -> None:
    with pytest.raises(ValidationError):
        Nfs(options=("hard", option))


ordinary_names = re.compile(r"[a-z][a-z0-9_@:.-]*\Z")
ordinary_values = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,:/+-]*\Z")
SHELL = [
    "$(id)",
    "`id`",
    "a;id",
    "a|id",
    "a&id",
    "a b",
    "a=b",
    "-f",
    "--x",
    "",
    " ",
    "a\0b",
    "ä",
    'a"b',
    "a'b",
]
hostile = st.sampled_from(SHELL) | st.text(max_size=20)


def settings_refused(name: str, value: Any) -> None:
    for make in (lambda: Dataset(properties={name: value}), lambda: Pool(properties={name: value})):
        with pytest.raises(ValidationError):
            make()


@given(hostile)
@example("-o")
@example("x y")
def test_hostile_property_names_are_refused(name: str) -> None:
    assume(not ordinary_names.match(name) and not name.endswith("\n"))
    settings_refused(name, "on")


@given(hostile)
@example("on off")
@example("-o")
def test_hostile_property_values_are_refused(value: str) -> None:
    assume(not ordinary_values.match(value) and not value.endswith("\n"))
    settings_refused("compression", value)


@given(hostile)
@example("zfs_arc_max/../../../x")
@example("zfs_")
@example("panic")
@example("ZFS_ARC_MAX")
@example("zfs_arc_max;id")
def test_hostile_tunables_are_refused(name: str) -> None:
    assume(not re.match(r"(zfs|spl|l2arc|zil|zio|metaslab|dbuf|arc|spa|dmu|zvol)_[a-z0-9_]+\Z", name))
    assume(not name.endswith("\n"))
    good = read_workload(TOP_SPEEDS)
    with pytest.raises(ValidationError, match="not a name that can be set"):
        Workload.model_validate({**dict(good), "tunables": {name: 1}})


@given(hostile)
def test_hostile_mount_options_are_refused(option: str) -> None:
    assume(not re.match(r"[a-z_]+(=[A-Za-z0-9.,-]+)?\Z", option) and not option.endswith("\n"))
    with pytest.raises(ValidationError, match="not a mount option"):
        Nfs(options=(option,))


@given(hostile)
@example("x/../y")
@example("-x")
@example("x\n")
def test_hostile_file_names_are_refused(file: str) -> None:
    assume(not re.match(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z", file))
    with pytest.raises(ValidationError, match="file"):
        WorkingSet.model_validate({"file": file, "size": "1MiB"})


def test_a_final_newline_is_hostile_too() -> None:
    accepted = []
    for what, make in {
        "property name": lambda: Dataset(properties={"atime\n": "off"}),
        "property value": lambda: Dataset(properties={"atime": "off\n"}),
        "mount option": lambda: Nfs(options=("soft\n",)),
        "tunable": lambda: Workload.model_validate(
            {**dict(read_workload(TOP_SPEEDS)), "tunables": {"zfs_arc_max\n": 1}}
        ),
    }.items():
        try:
            make()
        except ValidationError:
            continue
        accepted.append(what)
    assert accepted == []


@pytest.mark.parametrize("value", ["lz4", "zstd-19", 512, True, "a/b:c+d", "1.5"])
def test_ordinary_settings_are_accepted(value: Any) -> None:
    assert Dataset(properties={"user:x": value}).properties == {"user:x": value}


def test_a_workload_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert find_workload("top-speeds") == WORKLOADS / "top-speeds.toml"
    assert find_workload("./x") == Path("x")
    assert find_workload("x.toml") == Path("x.toml")
    with pytest.raises(ConfigError, match="no workload 'top-sped'") as caught:
        find_workload("top-sped")
    assert "top-speeds" in caught.value.hint
