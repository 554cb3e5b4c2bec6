"""Real power: what is cut must be gone, only that, and come back as the same before anything touches it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.power_table import Power
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import HostLost
from kit.recovery import registry
from kit.recovery.journal import Journal
from kit.recovery.power_undos import controller
from kit.recovery.undo import by_hand
from kit.run.power import cut
from kit.run.power.cut import DeviceGone, RealCut
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.setup.site import Site
from kit.store import run_directory
from tests.fakes import Answer, Command, ScriptedHost

RUN = "20260101T000000Z-abcdef"
MACHINE, PATH = "0123456789abcdef0123456789abcdef", "/dev/disk/by-id/x-ssd"
BOOTS = [f"{n}0000000-0000-0000-0000-000000000000" for n in (1, 2)]


class Server(ScriptedHost):
    """Its power, or that of its disk, is on while the file `lit` is there."""

    def __init__(self, lit: Path, *, of_server: bool) -> None:
        super().__init__()
        self.lit, self.of_server = lit, of_server
        self.machine, self.boots, self.others = MACHINE, list(BOOTS), ["sda"]
        # What is not there yet when it lets in, at each look.
        self.missing: list[str] = []

    def answer(self, command: Command) -> Answer:
        on = self.lit.exists()
        if self.of_server and not on:
            return HostLost("no answer")
        if command.argv[0] == "cat":
            return f"{self.boots.pop(0)}\n{self.machine}\n"
        if command.argv[:2] == ("ls", "/sys/block"):
            return " ".join(["nvme0n1"] * on + (self.others if on else self.others[:1]))
        if command.argv[0] == "sh" and self.of_server:
            return self.missing.pop(0) if self.missing else ""
        if command.argv[0] == "sh":
            return 0 if on else 1
        if command.argv[0] == "/usr/bin/python3":
            return {"device": {"logs": {}}}
        return ""


class World:
    def __init__(self, folder: Path, scope: str, **keys: Any) -> None:
        self.lit = folder / "lit"
        self.lit.touch()
        table = {
            "scope": scope, "off": ("rm", str(self.lit)), "on": ("touch", str(self.lit)),
            "gone_within": "2s", "back_within": "2s", **keys,
        }  # fmt: skip
        of_server = scope == "server"
        self.server = Server(self.lit, of_server=of_server)
        self.guarded: list[str] = []
        checked = SimpleNamespace(spec=SimpleNamespace(path=PATH), kernel_names=("nvme0n1",))
        guard = SimpleNamespace(
            checked=(checked,),
            release=lambda: self.guarded.append("release"),
            take_again=lambda *, locks: self.guarded.append(f"again {locks}"),
        )
        device = SimpleNamespace(name="ssd", serial="S1")
        testbed = SimpleNamespace(power=Power.model_validate(table), device=(device,))
        self.site = SimpleNamespace(
            guard=guard, server=self.server, controller=controller(), hosts={"server": self.server},
            device_paths={"ssd": PATH}, reopen=self.reopen, clients=(SimpleNamespace(address="10.0.0.2"),),
        )  # fmt: skip
        registry.enter(RUN, folder)
        self.journal = Journal(folder / "journal.jsonl", RUN)
        plan: Any = SimpleNamespace(testbed=testbed)
        unused = cast(Any, None)
        run_dir = run_directory.RunDir(folder / RUN)
        run = Context(plan, cast(Site, self.site), run_dir, self.journal, unused, unused, "t")
        pool = SimpleNamespace(name="hsp-abcdef")
        bench = SimpleNamespace(
            site=self.site,
            storage=SimpleNamespace(server=self.server, pool=pool, dataset="p/d", path="/p/d"),
        )
        self.reopened = 0
        path = "" if of_server else PATH
        self.cut = RealCut(run, cast(Bench, bench), self.server, self.server, path)

    def reopen(self, within_s: float) -> None:
        assert self.lit.exists(), "the power is on first"
        self.reopened += 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(scope: str, **keys: Any) -> World:
        made.append(World(tmp_path, scope, **keys))
        return made[-1]

    monkeypatch.setattr(cut, "_POLL_S", 0.01)
    monkeypatch.setattr(cut.reimport, "put_back", lambda *_: made[-1].guarded.append("pool"))
    monkeypatch.setattr(cut.work_directory, "create", lambda *_: made[-1].guarded.append("directory"))
    monkeypatch.setattr(cut.server_setup, "partition_again", lambda *_: made[-1].guarded.append("parts"))
    yield make
    for each in made:
        each.journal.close()


def pending(world: World) -> list[str]:
    return [each.kind for each in world.journal.pending]


def test_a_server_is_gone_and_comes_back_with_another_boot(world: Callable[..., World]) -> None:
    made = world("server")
    made.cut.cut()
    assert not made.lit.exists() and pending(made) == ["power"]
    made.cut.bring_back()
    assert made.lit.exists() and pending(made) == [] and made.reopened == 1
    # Devices are looked at before the pool is imported.
    assert made.guarded == ["again True", "release", "directory", "parts", "pool"]


def test_a_server_that_lets_in_is_waited_for_until_its_disks_and_nfsd_are_there(
    world: Callable[..., World],
) -> None:
    made = world("server")
    made.cut.cut()
    made.server.missing = [f"{PATH}\nnfsd\n", "nfsd\n"]
    made.cut.bring_back()
    assert made.server.missing == [] and made.guarded[0] == "again True"


@pytest.mark.parametrize(
    ("missing", "kind", "words"),
    [
        (f"{PATH}\nnfsd\n", DeviceGone, f"{PATH} on server: not there 2 s after"),
        ("nfsd\n", HostError, "the NFS server of server does not run 2 s after"),
    ],
)
def test_a_server_without_its_disk_or_nfsd_is_not_touched(
    world: Callable[..., World], missing: str, kind: type[HostError], words: str
) -> None:
    made = world("server")
    made.cut.cut()
    made.server.missing = [missing] * 10000
    with pytest.raises(HostError, match=words) as caught:
        made.cut.bring_back()
    assert type(caught.value) is kind and made.guarded == []


def test_what_turns_the_power_on_is_in_the_journal_before_it_is_cut(world: Callable[..., World]) -> None:
    made = world("server", off=("false",))
    with pytest.raises(HostError, match="ended with 1"):
        made.cut.cut()
    assert pending(made) == ["power"]
    made.cut.rescue()
    assert pending(made) == []


def test_a_server_that_still_answers_was_not_cut(world: Callable[..., World]) -> None:
    made = world("server", off=("true",), gone_within="50ms")
    with pytest.raises(cut.NotCut, match="still answers"):
        made.cut.cut()
    assert pending(made) == ["power"]
    # It stays as it is: `on` does no harm, and nothing is imported or locked again.
    made.cut.stay()
    assert pending(made) == [] and made.guarded == [] and made.reopened == 0


def test_a_device_that_can_still_be_read_is_claimed_again(world: Callable[..., World]) -> None:
    made = world("device", off=("true",), gone_within="50ms")
    with pytest.raises(cut.NotCut, match="still answers"):
        made.cut.cut()
    made.cut.stay()
    assert made.guarded == ["release", "again False"] and pending(made) == []


def test_a_server_that_does_not_come_back_is_named_with_what_to_do(world: Callable[..., World]) -> None:
    made = world("server", back_within="90s")

    def unreachable(within_s: float) -> None:
        raise HostLost("ssh://nas: no SSH connection")

    made.site.reopen = unreachable
    made.cut.cut()
    with pytest.raises(HostLost) as raised:
        made.cut.bring_back()
    assert re.match("server is not back 90 s after `touch .*` turned its power on", raised.value.message)
    assert "no SSH connection" in raised.value.message
    assert "hsp clean" in raised.value.hint and "back_within" in raised.value.hint
    assert made.guarded == [], "nothing was touched"


def test_power_that_cannot_be_turned_on_stays_in_the_journal(world: Callable[..., World]) -> None:
    """And a later `hsp clean` turns it on."""
    made = world("server", on=("test", "-e", "/nonexistent/works-again"))
    made.cut.cut()
    with pytest.raises(HostError, match="ended with 1") as raised:
        made.cut.bring_back()
    assert "turn it on by hand, then run `hsp clean`" in raised.value.hint
    made.cut.rescue()
    (left,) = made.journal.pending
    assert left.kind == "power" and left.arguments["on"] == list(made.cut.power.on)
    assert by_hand(left, {"controller": "this machine"}, RUN) == (
        "on this machine: test -e /nonexistent/works-again",
    )


def test_a_server_of_the_same_boot_was_not_without_power(world: Callable[..., World]) -> None:
    made = world("server")
    made.server.boots = [BOOTS[0], BOOTS[0]]
    made.cut.cut()
    with pytest.raises(cut.NotCut, match="same boot"):
        made.cut.bring_back()
    assert made.guarded == [], "nothing was touched"


def test_another_machine_at_the_address_is_not_touched(world: Callable[..., World]) -> None:
    made = world("server")
    made.cut.cut()
    made.server.machine = "f" * 32
    with pytest.raises(SafetyRefusal, match="another machine"):
        made.cut.bring_back()
    assert made.guarded == []


def test_a_device_is_let_go_of_and_looked_at_again(world: Callable[..., World]) -> None:
    made = world("device")
    made.cut.cut()
    assert made.guarded == ["release"] and not made.lit.exists()
    made.cut.bring_back()
    assert made.guarded == ["release", "again False"] and pending(made) == []


def test_a_cut_that_takes_another_disk_along_ends_the_run_with_the_power_on(
    world: Callable[..., World],
) -> None:
    made = world("device")
    made.server.others = ["sda", "sdb"]
    with pytest.raises(SafetyRefusal, match="took sdb from server as well"):
        made.cut.cut()
    made.cut.rescue()
    assert made.lit.exists() and pending(made) == []


def test_a_device_that_does_not_come_back_is_gone(world: Callable[..., World]) -> None:
    made = world("device", on=("true",), back_within="50ms")
    made.cut.cut()
    with pytest.raises(cut.DeviceGone, match="not back"):
        made.cut.bring_back()


def test_the_users_own_count_is_asked_for_each_device(world: Callable[..., World]) -> None:
    made = world(
        "device", count=("sh", "-c", 'test "$1 $2" = "$3 S1" && echo 7', "sh", "{path}", "{serial}", PATH)
    )
    assert made.cut.counts() == {"ssd": {"count": 7}}
    # Without it the device's own tools are asked; here there are none.
    made.cut.power = made.cut.power.model_copy(update={"count": None})
    assert made.cut.counts() == {"ssd": {}}
