"""What is undone, in which order, and what never is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError, SafetyRefusal
from kit.recovery import undo, work_directory
from kit.recovery.journal import Journal, Undo, read_journal
from tests.fakes import ScriptedHost


def item(kind: str, host: str = "server", **arguments: object) -> Undo:
    return Undo(1, kind, host, f"undo {kind}", arguments)


RUN = "20260101T000000Z-abcdef"
DIRECTORY, TARGET = f"/run/hsp/{RUN}", f"/mnt/hsp-{RUN}"
ARGUMENTS: dict[str, dict[str, object]] = {
    "work-directory": {"path": DIRECTORY},
    "tracer": {"directory": DIRECTORY},
    "tunable": {"name": "zfs_txg_timeout", "value": "5", "effect": ""},
    "pool": {"name": "hsp-abcdef", "run_id": RUN, "devices": ["/dev/disk/by-id/x"], "guid": "1"},
    "export": {"path": f"{DIRECTORY}/pool/bench", "client": "10.0.0.2"},
    "device": {"path": "/dev/disk/by-id/x", "serial": "S", "pool": "hsp-abcdef"},
    "export-directory": {
        "target": TARGET, "directory": f"hsp-{RUN}", "file": "f", "source": "nas:/x", "version": "3",
        "options": ["hard"],
    },
    "partition": {"device_path": "/dev/disk/by-id/x"},
    "mount": {"target": TARGET},
}  # fmt: skip


def test_every_kind_is_stored_and_read_as_the_same_value(tmp_path: Path) -> None:
    assert set(ARGUMENTS) == set(undo.KINDS)
    host = ScriptedHost(name="host")
    with Journal(tmp_path / "journal.jsonl", RUN, "digest") as journal:
        actions = [undo.KINDS[kind].model_validate(given) for kind, given in ARGUMENTS.items()]
        for action in actions:
            undo.register(journal, "server", host, action)
    pending = read_journal(tmp_path / "journal.jsonl").pending
    assert [undo.action_of(entry) for entry in pending] == actions
    for entry, action in zip(pending, actions, strict=True):
        assert entry.text and undo.by_hand(entry, {"server": host})[0].startswith("on host: "), action


HOSTILE = [
    ("pool", "name", "tank"), ("pool", "name", "hsp-abcdef\n"), ("pool", "run_id", "-"),
    ("pool", "devices", []), ("export-directory", "source", "-o x:/y"),
    ("pool", "devices", ["/dev/../etc/passwd"]), ("pool", "devices", "sda"), ("pool", "guid", "-1"),
    ("tunable", "name", "../../../etc/passwd"), ("tunable", "name", "zfs/x"), ("tunable", "value", "x"),
    ("tunable", "value", 5), ("tunable", "effect", "; reboot"),
    ("mount", "target", "/"), ("mount", "target", "/mnt"), ("mount", "target", f"{TARGET}/.."),
    ("mount", "target", f"{TARGET}\n"),
    ("work-directory", "path", "/run/hsp"), ("tracer", "directory", "/"), ("export", "path", "/"),
    ("export", "client", "*"), ("export", "client", "10.0.0.2 -o"), ("device", "path", "/dev/"),
    ("device", "path", "/etc/passwd"), ("device", "serial", ""), ("device", "pool", "tank"),
    ("export-directory", "directory", ".."), ("export-directory", "file", "../x"),
    ("export-directory", "version", "2"), ("partition", "device_path", "sda"),
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
    ("kind", "before"),
    [("pool", "mount"), ("pool", "export"), ("export", "mount"), ("partition", "pool"), ("device", "pool")],
)
def test_an_undo_waits_for_those_before_it(kind: str, before: str) -> None:
    host = ScriptedHost(name="host")
    with pytest.raises(HostError, match=before):
        undo.undo(item(kind, **ARGUMENTS[kind]), {"server": host}, frozenset({before}))
    assert host.calls == []


def test_the_work_directory_is_undone_last() -> None:
    others = set(undo.KINDS) - {"work-directory"}
    assert undo.KINDS["work-directory"].after == others


def test_an_unknown_kind_or_host_is_an_error_not_a_crash() -> None:
    with pytest.raises(HostError, match="unknown kind, 'reboot'"):
        undo.undo(item("reboot"), {}, frozenset())
    with pytest.raises(HostError, match="no host 'client7'"):
        undo.undo(item("mount", "client7", target=TARGET), {}, frozenset())
    assert undo.by_hand(item("mount", wrong=1), {}) == ()


@given(st.text())
def test_only_a_runs_own_directory_is_removed(text: str) -> None:
    host = ScriptedHost(name="host")
    others = ("/", "/run/hsp", "/run/hsp/", "/run/hsp/..", "/run/hsp/locks", "/home", "", "-rf")
    for path in (*others, f"{DIRECTORY}/..", f"{DIRECTORY}/x", f"{DIRECTORY}\n", text):
        with pytest.raises(SafetyRefusal):
            work_directory.remove(host, path)
    assert host.calls == []


def test_only_runs_are_leftovers() -> None:
    host = ScriptedHost({"find": "locks\n20260101T000000Z-abcdef\nlab\n20260102T000000Z-000000\n"})
    assert work_directory.left_by(host) == ["20260101T000000Z-abcdef", "20260102T000000Z-000000"]
