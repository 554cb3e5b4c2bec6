"""What is undone, in which order, and what never is."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError, SafetyRefusal
from kit.recovery import undo, work_directory
from kit.recovery.journal import Undo
from tests.fakes import ScriptedHost


def item(kind: str, host: str = "server", **arguments: object) -> Undo:
    return Undo(1, kind, host, f"undo {kind}", arguments)


def test_every_kind_has_its_words_and_commands() -> None:
    items = [
        item("work-directory", path="/run/hsp/20260101T000000Z-abcdef"),
        item("tracer", directory="/run/hsp/20260101T000000Z-abcdef"),
        item("tunable", name="zfs_txg_timeout", value="5"),
        item("pool", name="hsp-x", run_id="r", devices=["/dev/x"], guid="1"),
        item("export", path="/p", client="10.0.0.2"),
        item("device", path="/dev/disk/by-id/x", serial="S", pool="hsp-x"),
        item(
            "export-directory",
            "client0",
            target="/mnt/x",
            directory="hsp-r",
            file="f",
            source="nas:/x",
            version="3",
            options=["hard"],
        ),
        item("partition", device_path="/dev/disk/by-id/x"),
        item("mount", "client0", target="/mnt/x y"),
    ]
    assert {one.kind for one in items} == set(undo.KINDS)
    for one in items:
        inspect.signature(undo.KINDS[one.kind].do).bind("host", **one.arguments)
    hosts = {"server": ScriptedHost(name="host"), "client0": ScriptedHost(name="host")}
    for one in items:
        assert undo.by_hand(one, hosts), one
    assert undo.by_hand(items[-1], hosts)[0] == "on host: umount '/mnt/x y'"


@pytest.mark.parametrize(
    ("kind", "before"),
    [("pool", "mount"), ("pool", "export"), ("export", "mount"), ("partition", "pool"), ("device", "pool")],
)
def test_nothing_goes_under_a_client_that_still_has_it_mounted(kind: str, before: str) -> None:
    host = ScriptedHost()
    with pytest.raises(HostError, match=before):
        undo.undo(item(kind), {"server": host}, frozenset({before}))
    assert host.calls == []


def test_the_work_directory_is_there_as_long_as_anything_is_left() -> None:
    others = set(undo.KINDS) - {"work-directory"}
    assert undo.KINDS["work-directory"].after == others


def test_an_unknown_kind_or_host_is_an_error_not_a_crash() -> None:
    with pytest.raises(HostError, match="unknown kind, 'reboot'"):
        undo.undo(item("reboot"), {}, frozenset())
    with pytest.raises(HostError, match="no host 'client7'"):
        undo.undo(item("mount", "client7", target="/mnt/x"), {}, frozenset())
    assert undo.by_hand(item("mount", wrong=1), {}) == ()


@pytest.mark.parametrize(
    "path",
    ["/", "/run/hsp", "/run/hsp/", "/run/hsp/..", "/run/hsp/20260101T000000Z-abcdef/..", "/home", "", "-rf",
     "/run/hsp/20260101T000000Z-abcdef/x", "/run/hsp/20260101T000000Z-abcdef\n", "/run/hsp/locks"],
)  # fmt: skip
def test_only_a_runs_own_directory_is_removed(path: str) -> None:
    host = ScriptedHost()
    with pytest.raises(SafetyRefusal):
        work_directory.remove(host, path)
    assert host.calls == []


@given(st.text())
def test_no_other_text_is_a_runs_directory(text: str) -> None:
    host = ScriptedHost()
    with pytest.raises(SafetyRefusal):
        work_directory.remove(host, text)
    assert host.calls == []


def test_leftovers_are_runs_and_nothing_else() -> None:
    host = ScriptedHost({"find": "locks\n20260101T000000Z-abcdef\nlab\n20260102T000000Z-000000\n"})
    assert work_directory.left_by(host) == ["20260101T000000Z-abcdef", "20260102T000000Z-000000"]
