"""What is undone, in which order, and what never is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import HostLost
from kit.recovery import registry, undo, work_directory
from kit.recovery.journal import Journal, LeftAlone, Undo, read_journal
from kit.trace import nfsd_tracer
from kit.trace.nfsd_tracer import TRACING
from tests.fakes import Answer, Command, ScriptedHost


def item(kind: str, host: str = "server", **arguments: object) -> Undo:
    return Undo(1, kind, host, f"undo {kind}", arguments)


RUN = "20260101T000000Z-abcdef"
DIRECTORY, TARGET = f"/run/hsp/{RUN}", f"/mnt/hsp-{RUN}"
ARGUMENTS: dict[str, dict[str, object]] = {
    "work-directory": {"path": DIRECTORY},
    "tracer": {"directory": DIRECTORY},
    "tunable": {
        "name": "zfs_txg_timeout", "value": "5", "effect": "", "set": "9", "machine_id": "m", "boot_id": "b",
    },
    "host-setting": {
        "path": "/proc/fs/nfsd/threads", "value": "8", "set": "16", "machine_id": "m", "boot_id": "b",
    },
    "preset": {
        "files": [{"path": "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "value": "0"}],
        "set": "1", "machine_id": "m", "boot_id": "b",
    },
    "write-cache": {
        "device": "ssd", "path": "/dev/disk/by-id/x", "serial": "S", "tool": "hdparm", "value": "on",
        "set": "off", "machine_id": "m", "boot_id": "b",
    },
    "settings": {
        "settings": [{
            "name": "setting.smartpath", "get": ["ctl", "show"], "back": ["ctl", "set", "path=on"],
            "pattern": None, "value": "on", "set": "off",
        }],
        "machine_id": "m",
    },
    "power": {"on": ["ipmitool", "power", "on"], "what": "the server"},
    "pool": {"name": "hsp-abcdef", "run_id": RUN, "devices": ["/dev/disk/by-id/x"], "guid": "1"},
    "export": {"path": f"{DIRECTORY}/pool/bench", "client": "10.0.0.2"},
    "device": {"path": "/dev/disk/by-id/x", "serial": "S", "pool": "hsp-abcdef"},
    "export-directory": {
        "target": TARGET, "directory": f"hsp-{RUN}", "file": "f", "source": "nas:/x", "version": "3",
        "options": ["hard"],
    },
    "partition": {"device_path": "/dev/disk/by-id/x", "size_bytes": 1 << 30},
    "online": {"pool": "hsp-abcdef", "run_id": RUN, "device": "/dev/disk/by-id/x"},
    "nfsd-threads": {
        "value": "8", "listeners": ["tcp 0.0.0.0 2049", "tcp :: 2049", "rdma - 20049"], "machine_id": "m",
        "boot_id": "b",
    },
    "fault-command": {"argv": ["ipmitool", "power", "on"], "machine_id": "m"},
    "array": {"name": "hsp-abcdef", "uuid": "0" * 32, "members": ["/dev/disk/by-id/x"], "serials": ["S"]},
    "mount": {"target": TARGET},
}  # fmt: skip


def test_every_kind_is_stored_and_read_as_the_same_value(tmp_path: Path) -> None:
    assert set(ARGUMENTS) == set(undo.KINDS)
    registry.enter(RUN, tmp_path)
    host = ScriptedHost(name="host")
    with Journal(tmp_path / "journal.jsonl", RUN, "digest") as journal:
        actions = [undo.KINDS[kind].model_validate(given) for kind, given in ARGUMENTS.items()]
        for action in actions:
            undo.register(journal, "server", host, action)
    pending = read_journal(tmp_path / "journal.jsonl").pending
    assert [undo.action_of(one) for one in pending] == actions
    for one, action in zip(pending, actions, strict=True):
        assert one.text and undo.by_hand(one, {"server": "host"}, RUN)[0].startswith("on host: "), action


HOSTILE = [
    ("array", "name", "md0"), ("array", "uuid", "x" * 32), ("array", "members", []),
    ("pool", "name", "tank"), ("pool", "name", "hsp-abcdef\n"), ("pool", "run_id", "-"),
    ("pool", "devices", []), ("export-directory", "source", "-o x:/y"),
    ("pool", "devices", ["/dev/../etc/passwd"]), ("pool", "devices", "sda"), ("pool", "guid", "-1"),
    ("tunable", "name", "../../../etc/passwd"), ("tunable", "name", "zfs/x"), ("tunable", "value", "x"),
    ("tunable", "value", 5), ("tunable", "effect", "; reboot"),
    ("mount", "target", "/"), ("mount", "target", "/mnt"), ("mount", "target", f"{TARGET}/.."),
    ("mount", "target", f"{TARGET}\n"),
    ("work-directory", "path", "/run/hsp"), ("tracer", "directory", "/"), ("export", "path", "/"),
    ("tracer", "mounts", "/"),
    ("export", "client", "*"), ("export", "client", "10.0.0.2 -o"), ("device", "path", "/dev/"),
    ("device", "path", "/etc/passwd"), ("device", "serial", ""), ("device", "pool", "tank"),
    ("export-directory", "directory", ".."), ("export-directory", "file", "../x"),
    ("export-directory", "version", "2"), ("export-directory", "options", ["bg"]),
    ("export-directory", "options", ["remount,exec"]), ("export-directory", "source", "nas:/../x"),
    ("tunable", "name", "kernel_panic"), ("tunable", "set", "1;"), ("partition", "device_path", "sda"),
    ("host-setting", "path", "/proc/sys/kernel/core_pattern"), ("host-setting", "value", "0"),
    ("host-setting", "path", "/sys/block/../queue/scheduler"), ("host-setting", "value", "8\n"),
    ("host-setting", "path", "/sys/block/sda/queue/scheduler\n"), ("host-setting", "set", "|sh"),
    ("preset", "files", []), ("preset", "set", "1;"),
    ("preset", "files", [{"path": "/proc/sys/kernel/core_pattern", "value": "0"}]),
    ("preset", "files", [{"path": "/sys/devices/system/cpu/cpu0/online", "value": "0"}]),
    ("preset", "files", [{"path": "/sys/block/../queue/scheduler", "value": "none"}]),
    ("preset", "files", [{"path": "/sys/block/sda/queue/scheduler\n", "value": "none"}]),
    ("preset", "files", [{"path": "/sys/block/sda/queue/scheduler", "value": "none | sh"}]),
    ("device", "guid", "-1"), ("partition", "serial", 5),
    ("write-cache", "path", "/etc/passwd"), ("write-cache", "tool", "sh"), ("write-cache", "value", "-W0 x"),
    ("write-cache", "device", "ssd power-loss"), ("write-cache", "set", ""), ("settings", "settings", []),
    ("settings", "machine_id", 5),
    ("online", "pool", "tank"), ("online", "device", "/etc/passwd"), ("nfsd-threads", "value", "0"),
    ("nfsd-threads", "value", "8; reboot"), ("nfsd-threads", "listeners", ["tcp 0.0.0.0 2049\n"]),
    ("nfsd-threads", "listeners", ["fd 3"]), ("fault-command", "argv", []),
    ("fault-command", "argv", "reboot"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "value"), HOSTILE)
def test_hostile_arguments_do_nothing(kind: str, name: str, value: object) -> None:
    host = ScriptedHost(name="host")
    damaged = item(kind, **{**ARGUMENTS[kind], name: value})
    with pytest.raises(HostError, match="is damaged: ") as caught:
        undo.undo(damaged, {"server": host}, frozenset())
    assert name in caught.value.message and "by hand" in caught.value.hint
    assert host.calls == [] and undo.by_hand(damaged, {}) == ()


@pytest.mark.parametrize("kind", sorted(ARGUMENTS))
def test_missing_and_unknown_arguments_do_nothing(kind: str) -> None:
    host, given = ScriptedHost(name="host"), ARGUMENTS[kind]
    for damaged in ({**given, "force": True}, dict(list(given.items())[1:])):
        with pytest.raises(HostError, match="is damaged: "):
            undo.undo(item(kind, **damaged), {"server": host}, frozenset())
    assert host.calls == []


@pytest.mark.parametrize(
    ("mounts", "is_ours"),
    [
        ("proc /proc proc rw 0 0\n", True),
        (f"proc /proc proc rw 0 0\ntracefs {TRACING} tracefs rw 0 0\n", False),
        ("", False),
    ],
)
def test_the_mount_that_a_tracer_caused_goes_and_one_that_was_there_stays(mounts: str, is_ours: bool) -> None:
    """An answer that says nothing leaves it; one that is in use is left by umount itself."""
    host = ScriptedHost({"umount": (32, "", "target is busy")}, files={"/proc/mounts": mounts})
    assert nfsd_tracer.will_mount(host) is is_ours
    undo.undo(item("tracer", directory=DIRECTORY, mounts=is_ours), {"server": host}, frozenset())
    assert host.called("umount") == ([("umount", TRACING)] if is_ours else [])


# What a later boot, another machine, an older kit, or somebody else makes of a module parameter.
IDENTITY = ("m", "00000000-0000-0000-0000-000000000001")
PARAMETER = "/sys/module/zfs/parameters/zfs_txg_timeout"


def parameter(value: str, machine_id: str, boot_id: str) -> ScriptedHost:
    values = [value]

    def tee(command: Command) -> str:
        values[0] = command.stdin.decode().strip()
        return ""

    return ScriptedHost(
        {
            "grep": lambda _: f"{PARAMETER}:{values[0]}\n",
            "tee": tee,
            "cat /proc/sys/kernel/random/boot_id": f"{boot_id}\n{machine_id}\n",
        }
    )


@pytest.mark.parametrize(
    ("now", "machine_id", "boot_id", "written"),
    [
        ("9", *IDENTITY, True),
        ("7", *IDENTITY, False),
        ("9", "other", IDENTITY[1], False),
        ("9", "m", IDENTITY[1].replace("1", "2"), False),
    ],
)
def test_a_tunable_is_written_only_where_and_while_it_is_the_runs(
    now: str, machine_id: str, boot_id: str, written: bool
) -> None:
    host = parameter(now, machine_id, boot_id)
    given = {**ARGUMENTS["tunable"], "machine_id": IDENTITY[0], "boot_id": IDENTITY[1]}
    if written:
        undo.undo(item("tunable", **given), {"server": host}, frozenset())
        assert host.called("tee") == [("tee", PARAMETER)]
    else:
        with pytest.raises(LeftAlone, match=f"is {now} and was left so"):
            undo.undo(item("tunable", **given), {"server": host}, frozenset())
        assert host.called("tee") == []


def test_a_tunable_of_an_old_journal_is_left_and_one_that_is_as_before_needs_nothing() -> None:
    old = {key: ARGUMENTS["tunable"][key] for key in ("name", "value", "effect")}
    with pytest.raises(LeftAlone):
        undo.undo(item("tunable", **old), {"server": parameter("9", *IDENTITY)}, frozenset())
    as_before = parameter("5", "other", "")
    undo.undo(item("tunable", **old), {"server": as_before}, frozenset())
    assert as_before.called("tee") == []


@pytest.mark.parametrize("kind", sorted(kind for kind, action in undo.KINDS.items() if action.named))
def test_names_of_another_run_do_nothing(kind: str) -> None:
    host = ScriptedHost(name="host")
    with pytest.raises(HostError, match="is not a name of the run"):
        undo.undo(item(kind, **ARGUMENTS[kind]), {"server": host}, frozenset(), "20260101T000000Z-000000")
    assert host.calls == []


@pytest.mark.parametrize("kind", ["pool", "partition", "device"])
def test_a_devices_kernel_name_is_no_id(kind: str) -> None:
    host = ScriptedHost(name="host")
    given = json.loads(json.dumps(ARGUMENTS[kind]).replace("/dev/disk/by-id/x", "/dev/sda"))
    with pytest.raises(HostError, match="/dev/sda is not an id of a device"):
        undo.undo(item(kind, **given), {"server": host}, frozenset(), RUN, real_devices=True)
    assert host.calls == []


@pytest.mark.parametrize(
    ("kind", "before"),
    [("pool", "mount"), ("pool", "export"), ("export", "mount"), ("partition", "pool"), ("device", "pool")],
)
def test_an_undo_waits_for_those_before_it(kind: str, before: str) -> None:
    host = ScriptedHost(name="host")
    with pytest.raises(HostError, match=before):
        undo.undo(item(kind, **ARGUMENTS[kind]), {"server": host}, frozenset({before}))
    assert host.calls == []


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("partition", {"test -e": 0}),
        ("fault-command", {"cat": f"{'0' * 8}-0000-0000-0000-{'0' * 12}\nm\n", "env": 1}),
    ],
)
def test_without_the_runs_directory_what_proves_nothing_is_left_and_holds_up_nothing(
    tmp_path: Path, kind: str, answers: dict[str, Answer]
) -> None:
    """A partition of the kernel's does not say whose it is, and who removed the directory has looked."""
    host = ScriptedHost(answers, name="host")
    registry.enter(RUN, tmp_path)
    action = undo.action_of(item(kind, **ARGUMENTS[kind]))
    if action.permit:
        registry.allow(RUN, action.permit)
    with pytest.raises(LeftAlone):
        undo.undo(item(kind, **ARGUMENTS[kind]), {"server": host}, frozenset(), RUN, proven=True)
    assert host.called("/usr/bin/python3") == []
    host.lost = True
    with pytest.raises(HostLost):
        undo.undo(item(kind, **ARGUMENTS[kind]), {"server": host}, frozenset(), RUN, proven=True)


@pytest.mark.parametrize("kind", [*sorted(set(undo.KINDS) - {"work-directory"}), "of-another-version", ""])
def test_the_work_directory_is_undone_last(kind: str) -> None:
    host, last = ScriptedHost(), item("work-directory", **ARGUMENTS["work-directory"])
    with pytest.raises(HostError, match="could not be undone"):
        undo.undo(last, {"server": host}, frozenset({kind}))
    assert host.calls == []
    # Each host has one.
    undo.undo(last, {"server": host}, frozenset({"work-directory"}))
    assert host.called("rm")


def test_an_unknown_kind_or_host_is_an_error_not_a_crash() -> None:
    with pytest.raises(HostError, match="unknown kind, 'reboot'"):
        undo.undo(item("reboot"), {}, frozenset())
    with pytest.raises(HostError, match="no host 'client7'"):
        undo.undo(item("mount", "client7", target=TARGET), {}, frozenset())
    assert undo.by_hand(item("mount", wrong=1), {}) == ()
    looks = undo.by_hand(item("mount", wrong=1), {"server": "nas"}, RUN)
    assert looks[0] == "on nas: zpool list hsp-abcdef" and f"on nas: findmnt {TARGET}" in looks


@pytest.mark.parametrize(
    "path",
    ["/", "/run/hsp", "/run/hsp/", "/run/hsp/..", "/run/hsp/20260101T000000Z-abcdef/..", "/home", "", "-rf",
     "/run/hsp/20260101T000000Z-abcdef/x", "/run/hsp/20260101T000000Z-abcdef\n", "/run/hsp/locks"],
)  # fmt: skip
def test_only_a_runs_own_directory_is_removed(path: str) -> None:
    host = ScriptedHost(name="host")
    with pytest.raises(SafetyRefusal):
        work_directory.remove(host, path)
    assert host.calls == []


@given(st.text())
def test_no_other_text_is_a_runs_directory(text: str) -> None:
    host = ScriptedHost(name="host")
    with pytest.raises(SafetyRefusal):
        work_directory.remove(host, text)
    assert host.calls == []


def test_only_runs_are_leftovers() -> None:
    host = ScriptedHost({"find": "locks\n20260101T000000Z-abcdef\nlab\n20260102T000000Z-000000\n"})
    assert work_directory.left_by(host) == ["20260101T000000Z-abcdef", "20260102T000000Z-000000"]


# --- Write caches, and the user's own settings -----------------------------------------------------------


class Machine(ScriptedHost):
    """Settings by name, that `ctl` shows and sets. `linked`: what setting one does to another."""

    def __init__(self, linked: dict[tuple[str, str], tuple[str, str]] | None = None, **values: str) -> None:
        boot = f"{IDENTITY[1]}\n{IDENTITY[0]}\n"
        super().__init__({"cat /proc/sys/kernel/random/boot_id": boot, "env": self.control})
        self.values, self.linked = values, linked or {}

    def control(self, command: Command) -> str:
        verb, word = command.argv[4:]
        name, _, value = word.partition("=")
        if verb == "set":
            self.values[name] = value
            other = self.linked.get((name, value))
            self.values |= dict([other]) if other else {}
        return self.values[name]


def own_settings(**changes: tuple[str, str]) -> dict[str, object]:
    """Arguments of an undo: by name, the value before and that of the run."""
    listed = [
        {
            "name": f"setting.{name}", "get": ["ctl", "show", name],
            "back": ["ctl", "set", f"{name}={before}"], "pattern": None, "value": before, "set": now,
        }
        for name, (before, now) in changes.items()
    ]  # fmt: skip
    return {"settings": listed, "machine_id": IDENTITY[0]}


def undo_settings(host: ScriptedHost, path: Path, given: dict[str, object]) -> None:
    registry.enter(RUN, path)
    registry.allow(RUN, undo.action_of(item("settings", **given)).permit)
    undo.undo(item("settings", **given), {"server": host}, frozenset(), RUN)


@pytest.mark.parametrize("order", [("cache", "path"), ("path", "cache")])
def test_the_users_settings_are_set_back_also_where_one_changes_another(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    host = Machine({("path", "on"): ("cache", "off")}, path="off", cache="off")
    given = own_settings(**dict.fromkeys(order, ("on", "off")))
    undo_settings(host, tmp_path, given)
    assert host.values == {"path": "on", "cache": "on"}
    sets = "env", "LC_ALL=C.UTF-8", "HSP_COMMANDS=", "ctl", "set"
    before = len(host.called(*sets))
    undo_settings(host, tmp_path, given)
    assert len(host.called(*sets)) == before, "it is safe to repeat"


def test_a_setting_that_somebody_else_changed_is_left_and_said(tmp_path: Path) -> None:
    host = Machine(path="third", cache="off")
    with pytest.raises(LeftAlone, match=r"setting\.path is third, the run had set off"):
        undo_settings(host, tmp_path, own_settings(cache=("on", "off"), path=("on", "off")))
    assert host.values == {"path": "third", "cache": "on"}


@pytest.mark.parametrize(("known", "why"), [(True, "somebody else"), (False, "an effect of its own")])
def test_what_a_killed_run_may_have_done_itself_is_not_laid_on_others(
    tmp_path: Path, known: bool, why: str
) -> None:
    """Between a switch and the line that says what else it has changed."""
    host = Machine(path="off", cache="third")
    given = {**own_settings(cache=("on", "on"), path=("on", "off")), "known": known}
    with pytest.raises(LeftAlone, match=why):
        undo_settings(host, tmp_path, given)
    assert host.values == {"path": "on", "cache": "third"}


def test_a_setting_that_does_not_come_back_stays_in_the_journal(tmp_path: Path) -> None:
    host = Machine({("path", "on"): ("path", "off")}, path="off")
    with pytest.raises(HostError, match=r"setting\.path on server is not on again") as caught:
        undo_settings(host, tmp_path, own_settings(path=("on", "off")))
    assert not isinstance(caught.value, LeftAlone)


def test_on_another_machine_no_setting_is_set(tmp_path: Path) -> None:
    host, given = Machine(path="off"), own_settings(path=("on", "off"))
    with pytest.raises(LeftAlone, match="another machine"):
        undo_settings(host, tmp_path, {**given, "machine_id": "f" * 32})
    assert host.called("env") == []


@pytest.mark.parametrize("entered", [False, True])
def test_commands_of_a_journal_that_this_machines_kit_does_not_know_are_not_run(
    tmp_path: Path, entered: bool
) -> None:
    """Neither those of a stranger's run, nor what somebody has made of those of one of this machine's."""
    host, given = Machine(path="off"), own_settings(path=("on", "off"))
    foreign = json.loads(json.dumps(given).replace("ctl", "evil"))
    registry.leave(RUN)
    if entered:
        registry.enter(RUN, tmp_path)
        registry.allow(RUN, undo.action_of(item("settings", **given)).permit)
    for run in (RUN, ""):
        with pytest.raises(SafetyRefusal, match="not in this machine's list"):
            undo.undo(item("settings", **foreign), {"server": host}, frozenset(), run)
    assert host.calls == []
    assert undo.by_hand(item("settings", **foreign), {}, RUN) == (), "nor is a person asked to run them"
    registry.leave(RUN)


class Drive(ScriptedHost):
    """A SATA disk whose cache `hdparm` switches."""

    def __init__(self, state: str, serial: str = "S", boot_id: str = IDENTITY[1]) -> None:
        self.state = state
        answers = {
            "cat /proc/sys/kernel/random/boot_id": f"{boot_id}\n{IDENTITY[0]}\n",
            "lsblk": f"{serial}\n", "readlink": "/dev/sda\n", "hdparm": self.hdparm,
        }  # fmt: skip
        super().__init__(answers, files={"/sys/class/block/sda/queue/write_cache": "write back\n"})

    def hdparm(self, command: Command) -> str:
        if command.argv[1] in ("-W0", "-W1"):
            self.state = command.argv[1][-1]
        return f"\n/dev/sda:\n write-caching =  {self.state} ({'off' if self.state == '0' else 'on'})\n"


def test_a_write_cache_is_switched_back_on_the_same_disk_alone() -> None:
    given = {**ARGUMENTS["write-cache"], "machine_id": IDENTITY[0], "boot_id": IDENTITY[1]}
    host = Drive("0")
    undo.undo(item("write-cache", **given), {"server": host}, frozenset(), RUN)
    assert host.state == "1" and host.called("tee") == [("tee", "/sys/class/block/sda/device/rescan")]
    undo.undo(item("write-cache", **given), {"server": host}, frozenset(), RUN)
    assert len(host.called("hdparm", "-W1")) == 1, "it is safe to repeat"
    with pytest.raises(SafetyRefusal, match="has the serial 'T'"):
        undo.undo(item("write-cache", **given), {"server": (other := Drive("0", "T"))}, frozenset(), RUN)
    with pytest.raises(LeftAlone, match="before this boot"):
        later = Drive("0", boot_id=IDENTITY[1].replace("1", "2"))
        undo.undo(item("write-cache", **given), {"server": later}, frozenset(), RUN)
    assert other.state == later.state == "0"
