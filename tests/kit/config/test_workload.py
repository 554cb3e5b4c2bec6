"""The shipped workloads load; mistakes are named; nothing hostile becomes an argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kit.config.workload import Dataset, Nfs, Pool, WorkingSet, Workload, read_workload
from kit.config.workload_base import WORKLOADS, find_workload
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
    assert all(
        phase.force or phase.open or phase.replay or phase.metadata or (WORKLOADS / phase.job).is_file()
        for phase in workload.phase
    )


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
        ('tiers = ["slog"]', "tiers = []", "phase[1].tiers", "which tiers may answer?"),
        ('remove = "log"', 'remove = "logs"', "phase[2].remove", "did you mean 'log'?"),
        ('data = "stripe"', 'data = "raid1"', "pool.data", "did you mean 'raidz1'?"),
        ("version = 3", "version = 4", "nfs.version", "say 4.0, 4.1 or 4.2"),
        ("version = 3", 'version = "2"', "nfs.version", '4.2, found the string "2"'),
        ("format = 1", "format = 2", "format", "1"),
        ("min_count = 500", "min_count = 0", "expect[0].min_count", "greater than or equal to 1"),
        (
            "min_count = 500",
            "p50_us_max = 1e300",
            "expect[0].p50_us_max",
            "must be less than or equal to 9007",
        ),
        (
            'interval = "50ms"',
            'interval = "50us"',
            "phase[1].interval",
            "interval must be whole milliseconds",
        ),
        ('interval = "50ms"', 'interval = "0s"', "phase[1].interval", "interval must be whole milliseconds"),
        ('interval = "50ms"', 'interval = "1501ms"', "phase[1].duration", "at least one interval"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, key: str, message: str) -> None:
    text = GOOD.replace(old, new, 1)
    # A problem of a whole table is at its header.
    line = line_of(text, new) - new.startswith("interval") * key.endswith(".duration")
    problems = refused(tmp_path, text).split("\n")
    [problem] = [problem for problem in problems if problem.startswith(f"w.toml:{line}: {key}: ")]
    assert message in problem


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('window = "1s"', 'window = "0s"', "warmup.window: must be greater than 0"),
        ('size = "72MiB" ', 'size = "0B" ', "working_set.size: must be greater than 0"),
        ('size = "72MiB" ', 'fill_block = "0B"\nsize = "72MiB" ', "fill_block: must be greater than 0"),
        ('name = "write-slog"', 'name = "read"', "two phases are called 'read'"),
        ('phase = "write-pool"', 'phase = "poll"', "no phase is called 'poll', phases: read, write-slog"),
        ('tiers = ["slog"]', 'tiers = ["slug"]', "did you mean 'slog'?"),
    ],
)
def test_other_mistakes_are_one_problem(tmp_path: Path, old: str, new: str, message: str) -> None:
    problem = refused(tmp_path, GOOD.replace(old, new, 1))
    assert message in problem and "\n" not in problem


def test_a_mount_option_that_falsifies_is_named_with_its_line(tmp_path: Path) -> None:
    text = GOOD.replace('"hard", ', '"hard", "soft", ')
    message = refused(tmp_path, text)
    assert message.startswith(f"w.toml:{line_of(text, 'options = ')}: nfs.options[1]: 'soft' is not")


@pytest.mark.parametrize(
    ("keys", "option", "message"),
    [
        ("nconnect = 4", "nconnect=2", "nfs.options has nconnect=2, and nfs.nconnect = 4 is the same"),
        ('proto = "rdma"', "tcp", "nfs.options has tcp, and nfs.proto = rdma is the same"),
        ("nconnect = 0", "hard", "nfs.nconnect: "),
        ("nconnect = 17", "hard", "nfs.nconnect: "),
        ('proto = "udp"', "hard", "nfs.proto: "),
    ],
)
def test_keys_of_connections_are_checked(tmp_path: Path, keys: str, option: str, message: str) -> None:
    text = GOOD.replace('"hard", ', f'"hard", "{option}", ')
    problem = refused(tmp_path, text.replace("[nfs]\n", f"[nfs]\n{keys}\n", 1))
    assert message in problem and "\n" not in problem


def test_keys_of_connections_are_stored_only_if_they_are_given() -> None:
    assert Nfs(nconnect=4).mount_options == ("hard", "nconnect=4")
    assert not {"nconnect", "proto"} & Nfs().model_dump().keys()


hostile = st.sampled_from([*"$`;|&=\"'\0 ä", "", "$(id)", "a;id", "a b", "-f", "--x", "-o"]) | st.text(
    max_size=20
)
# What is set by a hostile text, and the pattern of the harmless ones.
SETTINGS: dict[str, tuple[Callable[[str], object], str]] = {
    "pool property": (lambda text: Pool(properties={text: "on"}), r"[a-z][a-z0-9_@:.-]*"),
    "property": (lambda text: Dataset(properties={text: "on"}), r"[a-z][a-z0-9_@:.-]*"),
    "pool value": (lambda text: Pool(properties={"x": text}), r"[A-Za-z0-9][A-Za-z0-9_.,:/+-]*"),
    "value": (lambda text: Dataset(properties={"x": text}), r"[A-Za-z0-9][A-Za-z0-9_.,:/+-]*"),
    "tunable": (
        lambda text: Workload.model_validate({**dict(read_workload(TOP_SPEEDS)), "tunables": {text: 1}}),
        r"[a-z][a-z0-9_]*",
    ),
    "file": (
        lambda text: WorkingSet.model_validate({"file": text, "size": "1MiB"}),
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}",
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
@given(text=hostile)
@example(text="x\n")
@example(text="x/../y y")
@example(text="zfs_arc_max/../../../x\n")
@example(text="zfs_")
@example(text="ZFS_ARC_MAX;id")
def test_hostile_names_and_values_are_refused(setting: str, text: str) -> None:
    make, harmless = SETTINGS[setting]
    if re.fullmatch(harmless, text):
        make(text)
        return
    with pytest.raises(ValidationError, match=r"that can be set|file"):
        make(text)


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
