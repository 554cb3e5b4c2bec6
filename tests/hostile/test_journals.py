"""Journals and plans that somebody else made, or that are damaged, against `hsp clean`.

Asserted on the commands that scripted hosts saw: nothing outside the run's own names is passed to a host.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.config.address import HostAddress, parse_address
from kit.core.errors import KitError
from kit.core.progress import Progress
from kit.recovery import clean, power_undos, registry, undo
from tests.conftest import Called
from tests.fakes import Command
from tests.hostile.victim import (
    ARRAY_UUID,
    BOOT,
    DIRECTORY,
    HELD,
    MACHINE,
    OTHER,
    POOL,
    RUN,
    TARGET,
    WORK,
    Victim,
    is_own,
)


def mostly(right: str, *others: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*[right] * 4, *others])


MOODS = st.fixed_dictionaries(
    {
        "boot": mostly(BOOT, BOOT.replace("1", "2")),
        "machine": mostly(MACHINE, "f" * 32),
        "token": mostly("own", "other", "none", "empty"),
        "mount": st.sampled_from(["nfs", "none", "none", "nfs4", "ext4"]),
        "pool": mostly(POOL, "tank"),
        "guid": mostly("7", "18446744073709551615", "x"),
        "property": mostly(RUN, "-", "", OTHER),
        "serial": mostly("S", "-", ""),
        "label": mostly(POOL, "tank", "-"),
        "value": mostly("9", "5", "0"),
        "array": mostly("own", "other"),
    }
)

# --- Journals and plans ----------------------------------------------------------------------------------

_HOSTILE_TEXT = st.sampled_from([
    "", "-", "--", "-f", "/", "..", "tank", "rpool/data", "/etc/passwd", "/dev/sda",
    "/dev/disk/by-id/../../sda", "/dev/disk/by-id/x", "/dev/disk/by-id/x\n", "/dev/disk/by-id/a b",
    "../../../etc/cron.d/x", "kernel_panic", "zfs_arc_max", "zfs_arc_max\n", "zfs_../x", "5", "-1",
    "5\nreboot", "$(reboot)", "; reboot", "`id`", "\x1b[2J", "\x00", "\ud800", "*", "10.0.0.2",
    "10.0.0.2 -o rw", "@netgroup", "[::1]", "nas:/x", "-o x:/y", "nas:/../x", "nas:/x y", "soft", "hard",
    "remount", "bind", "noexec,suid", OTHER, f"hsp-{OTHER}", "hsp-012345", RUN, POOL, WORK, f"{WORK}/..",
    f"{WORK}/../{OTHER}", f"/run/hsp/{OTHER}", TARGET, f"{TARGET}/x", f"{TARGET}\n", DIRECTORY,
    f"{WORK}/pool/bench", f"{WORK}/pool/bench/../..", "server", "client0", "local", "ssh://nas",
    "x" * 5000,
])  # fmt: skip
_SCALAR = st.one_of(
    _HOSTILE_TEXT, st.text(max_size=8), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(), st.none(),
)  # fmt: skip
_VALUE = st.one_of(
    _SCALAR, st.lists(_HOSTILE_TEXT, max_size=3), st.dictionaries(_HOSTILE_TEXT, _SCALAR, max_size=2)
)
_RIGHT: dict[str, dict[str, Any]] = {
    "work-directory": {"path": WORK},
    "tracer": {"directory": WORK, "mounts": True},
    "tunable": {
        "name": "zfs_arc_max", "value": "5", "effect": "", "set": "9", "machine_id": MACHINE, "boot_id": BOOT,
    },
    "pool": {"name": POOL, "run_id": RUN, "devices": ["/dev/disk/by-id/x"], "guid": "7"},
    "export": {"path": f"{WORK}/pool/bench", "client": "10.0.0.2"},
    "device": {"path": "/dev/disk/by-id/x", "serial": "S", "pool": POOL},
    "export-directory": {
        "target": TARGET, "directory": DIRECTORY, "file": "f", "source": "nas:/x", "version": "3",
        "options": ["hard"],
    },
    "partition": {"device_path": "/dev/disk/by-id/x", "size_bytes": 1 << 30},
    "mount": {"target": TARGET},
    "settings": {
        "settings": [{
            "name": "setting.x", "get": ["cat", "/etc/shadow"], "back": ["sh", "-c", "reboot"],
            "pattern": None, "value": "on", "set": "off",
        }],
        "machine_id": MACHINE,
    },
    "host-setting": {
        "path": "/proc/fs/nfsd/threads", "value": "5", "set": "9", "machine_id": MACHINE, "boot_id": BOOT,
    },
    "preset": {
        "files": [
            {"path": "/sys/devices/system/cpu/cpufreq/boost", "value": "5"},
            {"path": "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "value": "5"},
        ],
        "set": "9", "machine_id": MACHINE, "boot_id": BOOT,
    },
    "write-cache": {
        "device": "log0", "path": "/dev/disk/by-id/x", "serial": "S", "tool": "sdparm", "value": "off",
        "set": "on", "machine_id": MACHINE, "boot_id": BOOT,
    },
    "power": {"on": ["sh", "-c", "reboot"], "what": "the server"},
    "online": {"pool": POOL, "run_id": RUN, "device": "/dev/disk/by-id/x"},
    "nfsd-threads": {
        "value": "5", "listeners": ["tcp 0.0.0.0 2049"], "machine_id": MACHINE, "boot_id": BOOT,
    },
    "fault-command": {"argv": ["sh", "-c", "reboot"], "machine_id": MACHINE},
    "array": {
        "name": POOL, "uuid": ARRAY_UUID, "members": ["/dev/disk/by-id/x", "/dev/disk/by-id/y"],
        "serials": ["S", "S"],
    },
}  # fmt: skip
# Run only if this machine's kit has listed them, which it has not: hosts never see them.
_OWN_COMMANDS = {"settings": "back", "power": "on", "fault-command": "argv"}


def often(right: st.SearchStrategy[Any], other: st.SearchStrategy[Any], times: int = 6) -> Any:
    """Mostly right: what is wrong everywhere is refused at once, and proves nothing about what acts."""
    return st.integers(0, times).flatmap(lambda drawn: other if drawn == times else right)


# What is plausible for a key, and not the run's: other runs' names first.
_PLAUSIBLE: dict[str, list[str]] = {
    "path": ["/home", f"/run/hsp/{OTHER}", f"{WORK}/..", f"/run/hsp/{OTHER}/pool/bench", "/dev/sda"],
    "target": [f"/mnt/hsp-{OTHER}", "/home", "/", f"{TARGET}/../x"],
    "directory": [f"/run/hsp/{OTHER}", f"hsp-{OTHER}", "..", "/"],
    "name": ["tank", "hsp-012345", "kernel_panic", "../x", "zfs_vdev_x/../../y"],
    "pool": ["tank", "hsp-012345"],
    "run_id": ["-", OTHER, ""],
    "devices": ["/dev/sda", "/dev/disk/by-id/../../sda", "/dev/mapper/root"],
    "device_path": ["/dev/sda", "/dev/disk/by-id/../../sda", "/dev/mapper/root"],
    "client": ["*", "10.0.0.2 -o rw", "@all", "10.0.0.0/8"],
    "source": ["-o x:/y", "nas:/../x", "nas:/x y", "/dev/sda", "x y:/z"],
    "options": ["remount", "bind", "soft", "x y", "exec=x,suid"],
    "file": ["../x", "", "a b", "/etc/passwd"],
    "value": ["5\nreboot", "* * * * *", "x"],
    "effect": ["5\nreboot", "x"],
    "set": ["5\nreboot", "x", "on", "9"],
    "on": ["reboot", "-c", "sh"],
    "argv": ["reboot", "-c", "sh"],
    "what": ["a\nb", "$(reboot)"],
    "device": ["/dev/sda", "/dev/disk/by-id/../../sda", "log1", "../log0"],
    "tool": ["model", "hdparm", "nvme", "sh"],
    "uuid": ["6" * 32, "", "x"],
    "members": ["/dev/sda", "/dev/disk/by-id/../../sda", "/dev/disk/by-id/z"],
    "serials": ["", "T"],
    "serial": ["", "T"],
}  # fmt: skip


def _like(key: str, value: Any) -> Any:
    """A hostile value, mostly a plausible one of the same type."""
    text = st.sampled_from(_PLAUSIBLE.get(key, ["x"])) | _HOSTILE_TEXT
    if isinstance(value, list):
        return often(st.lists(text, min_size=1, max_size=2), _VALUE)
    return often(text, _VALUE)


@st.composite
def undo_lines(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """The undo of a change, mostly with one value that no run writes."""
    kind, changed = draw(st.sampled_from([(kind, key) for kind in sorted(_RIGHT) for key in _RIGHT[kind]]))
    arguments = dict(_RIGHT[kind])
    also = draw(often(st.just([]), st.lists(st.sampled_from(sorted(arguments)), max_size=1)))
    for key in (changed, *also):
        arguments[key] = draw(_like(key, _RIGHT[kind][key]))
    if draw(st.integers(0, 15)) == 0:
        arguments[draw(st.sampled_from(["force", "name", "path"]))] = draw(_VALUE)
    if draw(st.integers(0, 15)) == 0:
        arguments.pop(draw(st.sampled_from(sorted(arguments))))
    host = draw(often(st.sampled_from(["server", "client0"]), st.sampled_from(["local", "controller"])))
    line: dict[str, Any] = {
        "undo": number, "kind": kind, "host": host, "text": "undo it", "arguments": arguments,
    }  # fmt: skip
    if draw(st.integers(0, 15)) == 0:
        line[draw(st.sampled_from(["undo", "kind", "host", "text", "arguments"]))] = draw(_VALUE)
    return line


_KNOWN = st.dictionaries(
    st.sampled_from(["guid", "name", "path", "target", "devices", "value"]), _VALUE, max_size=2
)


_RUNS = often(
    st.just({"run": RUN, "plan": "d", "token_sha256": registry.digest("t")}),
    st.sampled_from([
        {"run": RUN, "plan": "d"}, {"run": "../..", "plan": ""}, {"run": OTHER, "plan": "d"},
        {"step": "x", "state": "begin"},
    ]),
)  # fmt: skip
_MORE = st.one_of(
    st.fixed_dictionaries({"undo": st.integers(0, 3), "known": _KNOWN}),
    st.fixed_dictionaries({"undone": st.integers(0, 3)}),
    _VALUE,
)


@st.composite
def journals(draw: st.DrawFn) -> list[Any]:
    lines: list[Any] = [draw(_RUNS)]
    for key in draw(often(st.just(("server", "client0")), st.sampled_from([("server",), ()]))):
        boot_id = draw(often(st.just(BOOT), st.sampled_from(["", "x"])))
        lines.append({"host": key, "machine_id": MACHINE, "boot_id": boot_id})
    lines += [draw(undo_lines(number)) for number in range(1, draw(st.integers(2, 4)))]
    if draw(st.integers(0, 5)) == 0:
        lines.append(draw(_MORE))
    return lines


@st.composite
def plans(draw: st.DrawFn) -> Any:
    plan: Any = {"hosts": {"server": "ssh://nas", "client0": "ssh://c1"}, "ssh_config": None}
    if draw(st.integers(0, 15)) == 0:
        plan[draw(st.sampled_from(["hosts", "ssh_config"]))] = draw(_VALUE)
    elif draw(st.integers(0, 15)) == 0:
        plan["hosts"][draw(_HOSTILE_TEXT)] = draw(_SCALAR)
    return plan


class World:
    """One run directory that is written anew for each example, and what its hosts saw."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "w" / RUN
        self.run.mkdir(parents=True)
        self.hosts: list[Victim] = []
        self.moods: dict[str, str] = {}

    def open_host(self, address: HostAddress, ssh_config: str | None = None, *_: object) -> Victim:
        self.hosts.append(Victim("t", self.moods))
        return self.hosts[-1]

    def write(self, plan: Any, lines: list[Any]) -> None:
        (self.run / "plan.json").write_text(json.dumps(plan))
        (self.run / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        made = World(tmp_path_factory.mktemp("fuzz"))
        patch.setattr(clean, "open_host", made.open_host)
        patch.setattr(clean, "Locks", lambda *_: nullcontext())
        # Ten thousand journals need not survive a crash.
        patch.setattr(os, "fsync", lambda _: None)
        yield made


def check_one(world: World, plan: Any, lines: list[Any], moods: dict[str, str], known: bool) -> list[Command]:
    """Clean as the kit's own run, or with a person's agreement; what the hosts saw."""
    world.hosts, world.moods = [], moods
    world.write(plan, lines)
    entry = registry.RegisteredRun(RUN, str(world.run), "t") if known else None
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KitError):
        patch.setattr(registry, "find", lambda run: entry if run == RUN else None)
        # This machine, on which the power of a server is turned on.
        patch.setattr(power_undos, "controller", lambda: world.open_host(parse_address("ssh://here")))
        clean.describe(world.run)
        clean.clean(world.run, Progress(quiet=True), agreed=RUN)
    seen = [command for host in world.hosts for command in host.commands]
    foreign = [command for command in seen if not is_own(command)]
    assert foreign == [], foreign[0].argv
    if moods["label"] != POOL:
        assert not any(command.argv[:2] == ("zpool", "labelclear") for command in seen)
    if moods["array"] != "own":
        assert not any(
            command.argv[1] in ("--stop", "--zero-superblock") for command in seen if len(command.argv) > 1
        )
    puts = [path for host in world.hosts for _, path, _ in host.transfers]
    assert set(puts) <= {HELD}
    return seen


_FUZZED = given(plan=plans(), lines=journals(), moods=MOODS, known=st.booleans())
_ANY_SPEED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@settings(max_examples=150, suppress_health_check=_ANY_SPEED)
@_FUZZED
def test_nothing_but_its_own_names_reaches_a_host(world: World, **one: Any) -> None:
    check_one(world, **one)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=10_000, suppress_health_check=_ANY_SPEED)
@_FUZZED
def test_nothing_but_its_own_names_reaches_a_host_of_10000(world: World, **one: Any) -> None:
    check_one(world, **one)


def test_the_fuzzer_knows_every_kind_of_undo() -> None:
    assert sorted(_RIGHT) == sorted(undo.KINDS)
    for kind, right in _RIGHT.items():
        undo.KINDS[kind].model_validate(right)
        later = {"guid", "serial", "size_bytes", "known"}
        assert undo.KINDS[kind].model_fields.keys() - right.keys() <= later, kind


@pytest.mark.parametrize("kind", sorted(_RIGHT))
def test_the_fuzzer_reaches_every_kind(world: World, kind: str) -> None:
    """Right arguments do act: otherwise the fuzzer would prove nothing."""
    moods = {
        "boot": BOOT, "machine": MACHINE, "token": "own", "mount": "nfs", "pool": POOL, "guid": "7",
        "property": RUN, "serial": "S", "label": POOL, "value": "0" if kind == "nfsd-threads" else "9",
        "array": "own",
    }  # fmt: skip
    line = {"undo": 1, "kind": kind, "host": "server", "text": "undo it", "arguments": _RIGHT[kind]}
    run = {"run": RUN, "plan": "d", "token_sha256": registry.digest("t")}
    host = {"host": "server", "machine_id": MACHINE, "boot_id": BOOT}
    plan = {"hosts": {"server": "ssh://nas"}, "ssh_config": None}
    seen = [command.argv for command in check_one(world, plan, [run, host, line], moods, True)]
    action = undo.KINDS[kind].model_validate(_RIGHT[kind])
    first = action.changes()[0][0]
    if kind in _OWN_COMMANDS:
        assert seen and not any("reboot" in argv for argv in seen)
        return
    if kind == "mount":
        first = ["umount", TARGET]
    if kind == "array":
        first = ["mdadm", "--stop", "/dev/md127"]
    assert any(list(argv[: len(first)]) == first for argv in seen), seen
    if kind == "device":
        assert any("wipefs" in argv for argv in seen if argv[0] == "sh")
    if kind == "array":
        zeroed = [argv[-1] for argv in seen if argv[:2] == ("mdadm", "--zero-superblock")]
        assert zeroed == _RIGHT[kind]["members"]


# --- What was seen ---------------------------------------------------------------------------------------

SEEN = {
    "half a character": ("export-directory", {"options": ["\ud800"]}),
    "a pool that the kit never made": ("pool", {"name": "tank", "run_id": "-", "guid": ""}),
    "a property that was never set": ("pool", {"run_id": "-"}),
    "a file of root's choice": ("tunable", {"name": "../../../../etc/cron.d/x"}),
    "a command for cron": ("tunable", {"value": "* * * * * root reboot"}),
    "any mount point": ("mount", {"target": "/home"}),
    "any directory": ("work-directory", {"path": "/home"}),
    "any file of the kernel": ("host-setting", {"path": "/proc/sysrq-trigger", "value": "b"}),
    "any file of a preset": (
        "preset",
        {"files": [{"path": "/proc/sysrq-trigger", "value": "b"}], "set": "9"},
    ),
    "a file beside a preset's": (
        "preset",
        {
            "files": [{"path": "/sys/devices/system/cpu/cpufreq/../../../power/state", "value": "mem"}],
            "set": "9",
        },
    ),
    "the pool of somebody else": ("online", {"pool": "tank"}),
    "an array of somebody else": ("array", {"name": "tank"}),
    "a command of a stranger's": ("fault-command", {"argv": ["reboot"]}),
}


@pytest.mark.parametrize("what", SEEN)
@pytest.mark.parametrize("known", [True, False])
def test_what_was_seen_does_nothing_even_if_a_person_agrees(world: World, what: str, known: bool) -> None:
    kind, changed = SEEN[what]
    moods = {
        "boot": BOOT, "machine": MACHINE, "token": "own", "mount": "nfs", "pool": "tank", "guid": "7",
        "property": "-", "serial": "S", "label": "tank", "value": "9", "array": "other",
    }  # fmt: skip
    line = {
        "undo": 1, "kind": kind, "host": "server", "text": "x", "arguments": {**_RIGHT[kind], **changed},
    }  # fmt: skip
    run = {"run": RUN, "plan": "d", "token_sha256": registry.digest("t")}
    plan = {"hosts": {"server": "ssh://nas"}, "ssh_config": None}
    seen = check_one(world, plan, [run, line], moods, known)
    looks = [command for command in seen if command.argv[3:4] == ("list",)]
    assert {command.argv[0] for command in seen if command not in looks} <= {"cat", "find", "zpool", "zfs"}
    assert not any(command.argv[:2] == ("zpool", "destroy") for command in seen)


@pytest.mark.parametrize("named", [False, True])
def test_the_ssh_config_of_a_strangers_run_is_not_read(tmp_path: Path, hsp_here: Called, named: bool) -> None:
    """`Match exec` ran as the caller, often root, at a bare `hsp clean`."""
    run, proof = tmp_path / "w" / RUN, tmp_path / "proof"
    run.mkdir(parents=True)
    config = run / "ssh_config"
    config.write_text(f'Match exec "touch {proof}"\n  User x\n')
    plan = {
        "hosts": {"server": "ssh://127.0.0.1:1", "client0": "ssh://127.0.0.1:1"},
        "ssh_config": str(config),
    }
    (run / "plan.json").write_text(json.dumps(plan))
    lines = [
        {"run": RUN, "plan": "x"},
        {"undo": 1, "kind": "mount", "host": "server", "text": "\x1b[2J", "arguments": {"target": TARGET}},
    ]
    (run / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = hsp_here("clean", *([str(run)] if named else []), "--results", str(tmp_path))
    assert done.returncode == 4 and not proof.exists(), done.stderr
    assert str(run) in done.stderr and "\x1b" not in done.stderr
    if named:
        assert str(config) in done.stderr and "server: ssh://127.0.0.1:1" in done.stderr


def test_the_list_of_runs_is_the_callers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    entry = registry.enter(RUN, tmp_path)
    assert registry.find(RUN) == entry and len(entry.token) == 32
    file = tmp_path / "state" / "hsp" / "runs" / f"{RUN}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o666)
    assert registry.find(RUN) is None, "anybody could have written it"
    registry.leave(RUN)
    registry.leave(RUN)
    shutil.rmtree(tmp_path / "state")
    assert registry.find(RUN) is None
