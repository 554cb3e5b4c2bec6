"""What the plan lists is what the hosts are sent: for every workload of the kit, and for each kind of step.

Preconditioning, warm-up and loads are replaced: their commands depend on what others have printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.hosts.local import MARK
from kit.plan import steps
from kit.plan.names import Names
from kit.plan.plan import Plan, make_plan
from kit.plan.step import Step
from kit.precondition import age_pool
from kit.run import execute as execute_module
from kit.setup import device_dram, long_step
from tests.changes import changes_something, sketch
from tests.fakes import Answer, Command
from tests.kit.recovery import strikes
from tests.kit.recovery.strikes import (
    BY_ID,
    DEVICE,
    DISKS,
    KINDS,
    POWER,
    TESTBED,
    Struck,
    each_line,
    load,
    new_world,
    write,
)
from tests.machines.files import FileHost
from tests.machines.world import HERE, Wire

WORKLOADS = sorted((Path(__file__).parents[3] / "workloads").glob("*.toml"))
REPLACED = ("precondition", "start the tracer", "warm up")
# The directory of locks, made before there is a journal; files of sysfs whose names the kernel gives.
NOT_LISTED = ("/run/hsp", "/safe_mode_delay", "/device/rescan")
# And the end of a tracer.
LOOKS = (
    ["ctl", "show"], ["hdparm", "-W"], ["mdadm", "--detail"], ["mdadm", "--version"],
    ["modprobe", "--dry-run"], ["df", "--block-size=1"], ["kill", "-TERM"],
)  # fmt: skip
Sent = dict[str, list[tuple[str, list[str]]]]
"""By step, the host and argv of each command that changes something."""


def plan_of(workload: Path, folder: Path) -> Plan:
    """On the machines of the struck runs, with larger disks."""
    roles = {name: "special" if role != "data" else role for name, role in DISKS.items()}
    of_workload = roles if "special" in workload.stem else DISKS
    devices = "".join(DEVICE.format(name, role, BY_ID) for name, role in of_workload.items())
    # Operations on files are counted by the tracer alone.
    trace = "auto" if any(phase.metadata for phase in read_workload(workload).phase) else "none"
    bed = TESTBED.format(trace=trace) + devices.replace("128MiB", "256GiB")
    power = POWER if read_workload(workload).power_loss else ""
    if read_workload(workload).on_devices:
        power = power.replace('"server"', '"device"')
    path = folder / "bed.toml"
    path.write_text(bed + power)
    return make_plan(read_workload(workload), read_testbed(path), workload, path)


def change(argv: Sequence[str], run: str) -> list[str]:
    """Words of a command, none if it changes nothing; numbers of arrays and pools are the machine.s."""
    words = sketch(list(argv))
    words = words[3:] if words[:3] == ["env", "LC_ALL=C.UTF-8", f"{MARK}="] else words
    if words[-1].endswith(NOT_LISTED) or words[:2] in LOOKS or not changes_something(words, run):
        return []
    if words[0] == "tee":
        # The plan has the first CPU's file for those of all, and no kernel's names of disks.
        paths = (re.sub(r"/(cpu|policy)[0-9]+/", r"/\g<1>0/", word) for word in words)
        words = sorted({path.replace("/sys/block/sd", "/sys/block/") for path in paths}, reverse=True)
    guid = words[-1] if words[:2] == ["zpool", "import"] and words[-1].isdecimal() else ""
    return [{"NUMBER": "127", guid: "GUID"}.get(word, word) for word in words]


@contextmanager
def recorded(run: str) -> Iterator[Sent]:
    """The commands that change something, by the innermost step of the journal."""
    sent: Sent = {}
    under = [""]
    answer = FileHost.answer

    def note(entry: dict[str, Any]) -> None:
        if entry.get("state") == "begin":
            under.append(entry["step"])
        elif "state" in entry:
            under.pop()

    def noted(host: FileHost, command: Command) -> Answer:
        name = under[-2] if under[-1].startswith("set setting.") else under[-1]
        if host.key != HERE and (words := change(command.argv, run)):
            sent.setdefault(name, []).append((host.key, words))
        return answer(host, command)

    with pytest.MonkeyPatch.context() as patch, each_line(note):
        patch.setattr(FileHost, "answer", noted)
        yield sent


def sent_by(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> tuple[Sent, list[Step]]:
    """What a run sends, and the steps of its plan."""
    struck, world = Struck(plan, folder, patch), new_world()
    patch.setattr(execute_module, "_warm_up", lambda *_, **__: None)
    patch.setattr(long_step, "_LARGE_BYTES", 1 << 60)
    patch.setattr(device_dram, "probe_all", lambda *_: None)
    patch.setattr(age_pool, "_await", lambda *_: None)
    patch.setattr(age_pool, "_last", lambda _: {"fragmentation": 100})
    for tunable in plan.tunables:
        world.machines["nas"].tree.setdefault(f"/sys/module/zfs/parameters/{tunable.name}", "1\n")
    world.machines["nas"].tree["/sys/kernel/btf/vmlinux"] = ""
    patch.setattr(strikes, "load", lambda bench, phase: load(replace(bench, schedule=()), phase))
    with recorded(struck.run.path.name) as sent:
        outcome = struck.execute(Wire(world))
    assert outcome and outcome.failure is None and outcome.left == [], outcome
    paths = {device.name: device.path or "" for device in plan.testbed.device}
    count = len(plan.testbed.client)
    addresses = ("10.0.0.2", "10.0.0.3")[:count]
    names = Names(struck.run.path.name, paths, addresses, ("10.0.0.1",) * count, ("c0", "c1")[:count])
    return sent, list(steps.of(plan, names))


def of_pool(commands: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """In a phase: the removal of devices and what empties the log, beside the load."""
    return [each for each in commands if each[1][0] == "zpool" or "begin-zil" in "".join(each[1])]


def check(sent: Sent, planned: list[Step], run: str = "") -> None:
    hosts = {"server": "nas", "client0": "c0", "client1": "c1"}
    listed: Sent = {}
    for step in planned:
        # What is scheduled is a part of the load.
        if step.host in hosts and not step.name.startswith(REPLACED) and ": at " not in step.name:
            found = filter(None, (change(each.argv, run) for each in step.commands))
            listed.setdefault(step.name, []).extend((hosts[step.host], words) for words in found)
    for name, commands in listed.items():
        if name.startswith("phase "):
            assert of_pool(sent.get(name, [])) == of_pool(commands), name
        else:
            assert sent.get(name, []) == commands, name
    left = sorted(name for name in set(sent) - set(listed) if not name.startswith(("undo: ", *REPLACED)))
    assert [sent[name] for name in left] == []


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda path: path.stem)
def test_a_workload_of_the_kit(workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(*sent_by(plan_of(workload, tmp_path), tmp_path, monkeypatch))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_step(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, planned = sent_by(write(KINDS[kind], tmp_path / "workload"), tmp_path, monkeypatch)
    check(sent, planned)
