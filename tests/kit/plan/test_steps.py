"""The plan of a real testbed, of an appliance and of the lab; 10,000 hostile names in it."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload, read_source
from kit.core.errors import KitError
from kit.plan.estimate import seconds, written
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed, of, undone
from kit.session.side import lab_of

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "mynas.toml"
WORKLOADS = sorted((ROOT / "workloads").glob("*.toml"))


def plan_of(testbed: Testbed, workload: str = "top-speeds") -> Plan:
    path = find_workload(workload)
    return make_plan(read_workload(path), testbed, path, EXAMPLE)


@pytest.fixture(scope="module")
def example_plan() -> Plan:
    return plan_of(read_testbed(EXAMPLE))


def commands(plan: Plan) -> list[SimpleNamespace]:
    """As `hsp plan --json` has them."""
    return [SimpleNamespace(**entry) for entry in listed(plan, planned_names(plan))]


def steps(plan: Plan) -> list[str]:
    return list(dict.fromkeys(one.step for one in commands(plan)))


def test_the_example_is_planned_in_order(example_plan: Plan) -> None:
    found = steps(example_plan)
    wanted = [
        "make work directory", "precondition cache0: purge", "precondition cache0: fill 2", "set zfs_arc_max",
        "use a part", "create pool", "export", "mount", "fill", "warm up", "phase read",
        "phase write-pool", "undo",
    ]  # fmt: skip
    assert [step for step in found if step in wanted] == wanted
    assert {one.host for one in commands(example_plan)} == {"server", "client0"}


def test_only_devices_of_the_testbed_are_written(example_plan: Plan) -> None:
    paths = {device.path for device in example_plan.testbed.device}
    for one in commands(example_plan):
        for word in one.argv if one.argv[0] != "sh" else ():
            for device in re.findall(r"/dev/[^\s,\"]+", word):
                assert device.removesuffix("-part1") in paths | {"/dev/null", "/dev/zero"}, one


def test_what_is_made_is_undone(example_plan: Plan) -> None:
    undone = [one.argv[0] for one in commands(example_plan) if one.step == "undo"]
    for made, undo in (("mount", "umount"), ("zpool", "zpool"), ("install", "rm")):
        assert any(one.argv[0] == made for one in commands(example_plan))
        assert undo in undone
    tees = [
        one.argv for one in commands(example_plan) if one.argv[0] == "tee" and one.argv[1].startswith("/sys/")
    ]
    assert len(tees) == 2 * len(example_plan.tunables)


def test_everything_is_undone_in_the_reverse_order(example_plan: Plan) -> None:
    made = [step for step in of(example_plan, planned_names(example_plan)) if step.undo]
    assert [(step.host, step.undo) for step in made][::-1] == list(undone(made))
    kinds = [step.undo.kind for step in made if step.undo]
    # What another kind has to wait for is made after it, and so undone before it.
    for step in made:
        assert step.undo is not None
        for later in step.undo.after & set(kinds):
            assert kinds.index(step.undo.kind) < kinds.index(later), (step.undo.kind, later)


def test_the_zil_is_begun_between_the_removal_of_the_log_device_and_the_load(example_plan: Plan) -> None:
    phase = [one.argv for one in commands(example_plan) if one.step == "phase write-pool"]
    names = [argv[0] for argv in phase]
    at = next(n for n, argv in enumerate(phase) if argv[:2] == ["zpool", "remove"])
    assert names[at : at + 4] == ["zpool", "fio", "rm", "zpool"] and phase[at + 3][1] == "sync"
    assert "--sync=1" in phase[at + 1] and f"--filename={phase[at + 2][-1]}" in phase[at + 1]
    assert not [
        one
        for one in commands(example_plan)
        if "--name=begin-zil" in one.argv and one.step == "phase write-slog"
    ]


def test_log_blocks_of_a_phase_are_given_back_before_the_next_that_writes_some(tmp_path: Path) -> None:
    text = 'base = "top-speeds"\nformat = 1\nname = "two"\ntitle = "Two"\n'
    phase = '[[phase]]\nname = "{}"\nbase = "write-slog"\ntitle = "W"\nduration = "1s"\n'
    (tmp_path / "w.toml").write_text(text + phase.format("first") + phase.format("second"))
    plan = make_plan(
        read_workload(tmp_path / "w.toml"), read_testbed(LAB_TESTBED), tmp_path / "w.toml", LAB_TESTBED
    )
    for name, synced in (("first", 0), ("second", 1)):
        argvs = [one.argv for one in commands(plan) if one.step == f"phase {name}"]
        syncs = [number for number, argv in enumerate(argvs) if argv[:2] == ["zpool", "sync"]]
        assert len(syncs) == synced and all(number == 0 for number in syncs), "before the load"


def test_without_a_tracer_its_settings_are_planned(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("[server]\n", '[server]\ntrace = "none"\n')
    (tmp_path / "t.toml").write_text(text)
    found = steps(plan_of(read_testbed(tmp_path / "t.toml")))
    assert {"set zfs_read_history", "set zfs_read_history_hits"} <= set(found)
    assert "start the tracer" not in found


def test_bytes_and_seconds(example_plan: Plan) -> None:
    by_device = {one.device: one for one in written(example_plan)}
    cache = next(device for device in example_plan.testbed.device if device.name == "cache0")
    assert 2 * cache.size < by_device["cache0"].min_bytes < 2.01 * cache.size
    fast, slow = seconds(example_plan)
    assert 9 * fast < slow < 10 * fast


@pytest.mark.parametrize("file", WORKLOADS, ids=lambda path: path.stem)
def test_every_workload_of_the_kit_can_be_planned(file: Path) -> None:
    bed, _ = lab_of(read_source(file))
    found = commands(make_plan(read_workload(file), read_testbed(bed), file, bed))
    assert found and all(one.argv and one.host for one in found)


def test_an_appliance_is_only_mounted_and_read(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(
        '[server]\nhost = "none"\nexport = "nas:/pool/export"\n[[client]]\nhost = "ssh://a"\n'
        '[[client]]\nhost = "ssh://b"\n'
    )
    found = commands(plan_of(read_testbed(path)))
    assert {one.host for one in found} == {"client0", "client1"}
    assert not {one.argv[0] for one in found} & {
        "zpool",
        "zfs",
        "exportfs",
        "wipefs",
        "blkdiscard",
        "sh",
    }


def call(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "kit.cli", "plan", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_and_its_json() -> None:
    told = call("top-speeds", "--testbed", os.fspath(EXAMPLE), "--commands")
    assert told.returncode == 0, told.stderr
    for text in ("V1GABCDE", "--erase-serial S64FNE0R900001", "zpool create", "1.921 TB"):
        assert text in told.stdout
    data = json.loads(call("top-speeds", "--testbed", os.fspath(EXAMPLE), "--json").stdout)
    plan = plan_of(read_testbed(EXAMPLE))
    assert data["digest"] == plan.digest
    assert [one["argv"] for one in data["commands"]] == [list(one.argv) for one in commands(plan)]


# Names as an attacker, or a slip of the finger, would write them.
_NASTY = [
    "; rm -rf /", "$(reboot)", "`reboot`", "a|b", "a&b", "a>b", "a\nb", "a\0b", "-rf", "--help", "../..",
    "a b", "'", '"', "\\", "~root", "*", "?", "[a]", "{a,b}", "#", "!", "%s", "\x1b[2J", "ü", "@", ":", ",",
]  # fmt: skip
_TEXT = st.one_of(
    st.text(max_size=40),
    st.text("abcXYZ019._-:/@$`'\";|&<>()[]{}*?!#~%=+, \\\n\t\0\x1b-", max_size=30),
    st.builds(
        lambda a, b, c: a + b + c,
        st.sampled_from(["", "nas", "x"]),
        st.sampled_from(_NASTY),
        st.text(max_size=5),
    ),
)
_PLACES = ("host", "client", "address", "path", "serial", "export", "property", "option", "file", "dataset")
_WORKLOAD = read_workload(find_workload("top-speeds"))
_BASE = json.loads(json.dumps(read_testbed(EXAMPLE).model_dump(mode="json")))


def with_name(place: str, name: str) -> Plan:
    """The example with `name` in one place. Raises ValidationError, ValueError or KitError if refused."""
    testbed: dict[str, Any] = {
        "name": "t",
        "server": {"host": "ssh://nas", "address": "10.0.0.1"},
        "client": [{"host": "ssh://client", "address": "10.0.0.2"}],
    }
    devices = [{k: one[k] for k in ("name", "role", "path", "serial")} for one in _BASE["device"]]
    for device, one in zip(devices, _BASE["device"], strict=True):
        device["size"] = f"{one['size']}B"
    path, workload = find_workload("top-speeds"), _WORKLOAD
    if place == "host":
        testbed["server"] = {"host": f"ssh://{name}"}
    elif place == "client":
        testbed["client"][0]["host"] = f"ssh://root@{name}"
    elif place == "address":
        testbed["client"][0]["address"] = name
    elif place == "path":
        devices[0]["path"] = f"/dev/disk/by-id/{name}"
    elif place == "serial":
        devices[0]["serial"] = name
    elif place == "export":
        testbed["server"], devices = {"host": "none", "export": f"nas:/{name}"}, []
    else:
        changes = {
            "property": {"pool": {"cache_size": "64MiB", "properties": {"comment": name}}},
            "option": {"nfs": {"options": ["hard", name]}},
            "file": {"working_set": {"file": name, "size": "72MiB"}},
            "dataset": {"dataset": {"properties": {"recordsize": 512, "user:x": name}}},
        }[place]
        dumped = {
            key: type(getattr(workload, key)).model_validate(value, strict=False)
            for key, value in changes.items()
        }
        workload = workload.model_copy(update=dumped)
    read = Testbed.model_validate(
        {**testbed, "device": tuple(devices), "client": tuple(testbed["client"])}, strict=False
    )
    return make_plan(workload, read, path, EXAMPLE)


GOOD = {
    "host": "nas2", "client": "c2", "address": "10.0.0.9", "path": "ata-X_1", "serial": "S 1",
    "export": "pool/x", "property": "a:b", "option": "noac", "file": "working-set", "dataset": "abc",
}  # fmt: skip
USUAL = {one.argv[0] for place in ("serial", "export") for one in commands(with_name(place, GOOD[place]))}
HARMLESS = {
    word
    for place in ("serial", "export")
    for one in commands(with_name(place, GOOD[place]))
    for word in one.argv
}


@pytest.mark.parametrize("place", _PLACES)
def test_a_harmless_name_is_admitted_everywhere(place: str) -> None:
    """Or the test below would show nothing."""
    words = [word for one in commands(with_name(place, GOOD[place])) for word in one.argv]
    assert place in ("host", "client", "serial") or any(GOOD[place] in word for word in words)


def literal(found: list[SimpleNamespace], name: str) -> Iterator[str]:
    """What is wrong with the commands of a plan in which `name` was admitted."""
    for one in found:
        if not same_after_a_shell(tuple(one.argv)):
            yield f"not the same after a shell: {one.argv}"
        if name in one.argv and name.startswith("-") and name not in HARMLESS:
            yield f"it became an option: {one.argv}"
        if has_control_characters(tuple(one.argv)) and one.argv[0] != "sh":
            yield f"control characters: {one.argv}"


# Most commands have no name in them, and are the same every time.
@functools.lru_cache(10_000)
def same_after_a_shell(argv: tuple[str, ...]) -> bool:
    return shlex.split(shlex.join(argv)) == list(argv)


@functools.lru_cache(10_000)
def has_control_characters(argv: tuple[str, ...]) -> bool:
    return any(ord(char) < 32 or ord(char) == 127 for word in argv for char in word)


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(_PLACES), _TEXT)
@example("host", "-oProxyCommand=reboot")
@example("path", "../sda")
@example("export", "../../etc")
@example("serial", "--help")
def test_hostile_names_are_refused_or_one_literal_argument(place: str, name: str) -> None:
    """Never a second command: what argv lists are over SSH is asked of a real sshd in tests/kit/hosts."""
    try:
        plan = with_name(place, name)
    except (ValidationError, ValueError, KitError):
        return
    found = list(commands(plan))
    assert list(literal(found, name)) == []
    names_only = {one.argv[0] for one in found}
    assert names_only <= USUAL
