"""The power of an appliance: what its first client must see before a power loss counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.power_table import Power
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import DeadlineExceeded, HostLost
from kit.recovery import registry
from kit.recovery.journal import Journal
from kit.recovery.power_undos import controller
from kit.run.power import appliance_cut, cut
from kit.run.power.appliance_cut import ApplianceCut
from kit.run.power.cut import DeviceGone, NotCut
from kit.setup import appliance_setup
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.setup.site import Site
from kit.store import run_directory
from tests.fakes import Answer, Command, ScriptedHost

RUN = "20260101T000000Z-abcdef"


class Client(ScriptedHost):
    """Sees the appliance while the file `lit` is there. `dark`: what its port is without power."""

    def __init__(self, lit: Path) -> None:
        super().__init__(name="client")
        self.lit, self.dark, self.verifiers, self.shown = lit, "gone", ["aa"], "open"
        self.reads: list[Answer] = []

    def answer(self, command: Command) -> Answer:
        words = command.argv
        if words[0] == "dd":
            return self.reads.pop(0) if self.reads else ""
        if "port" in words:
            return f"{self.shown if self.lit.exists() else self.dark}\n"
        if "verifier" in words:
            found = self.verifiers.pop(0) if len(self.verifiers) > 1 else self.verifiers[0]
            return found if found else (1, "", "the server has no program 100005, version 3 (1)")
        return "2\n" if "stable" in words else ""


class World:
    def __init__(self, folder: Path, **keys: Any) -> None:
        self.lit = folder / "lit"
        self.lit.touch()
        table = {
            "scope": "server", "off": ("rm", str(self.lit)), "on": ("touch", str(self.lit)),
            "gone_within": "100ms", "back_within": "1s", **keys,
        }  # fmt: skip
        self.client = Client(self.lit)
        workload = SimpleNamespace(
            nfs=SimpleNamespace(options=("hard", "port=20490")), file_set=SimpleNamespace(file="working-set"),
            power_loss=SimpleNamespace(moments=1),
        )  # fmt: skip
        testbed = SimpleNamespace(
            power=Power.model_validate(table), server=SimpleNamespace(export="[::1]:/tank/x")
        )
        site = SimpleNamespace(
            server=None, controller=controller(), hosts={"client0": self.client}, cut_other_pools=False,
            clients=(), device_paths={},
        )  # fmt: skip
        registry.enter(RUN, folder)
        self.journal = Journal(folder / "journal.jsonl", RUN)
        plan: Any = SimpleNamespace(testbed=testbed, workload=workload)
        unused = cast(Any, None)
        run_dir = run_directory.RunDir(folder / RUN)
        self.run = Context(plan, cast(Site, site), run_dir, self.journal, unused, unused, "t")
        bench = SimpleNamespace(site=site, storage=None, mount=f"/mnt/x/hsp-{RUN}", mount_point="/mnt/x")
        self.cut = ApplianceCut(self.run, cast(Bench, bench), self.client, self.client, "")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(appliance_cut, "_POLL_S", 0.01)
    monkeypatch.setattr(cut, "_POLL_S", 0.01)
    made = World(tmp_path)
    yield made
    made.journal.close()


def test_each_start_has_another_verifier(world: World) -> None:
    world.client.verifiers = ["aa", "aa", "bb", "bb"]
    world.cut.begin("/run/hsp/x", control=True)
    assert world.cut.counts() == {"export": {"starts by write verifier": 0}}
    world.cut.cut()
    assert not world.lit.exists() and [each.kind for each in world.journal.pending] == ["power"]
    world.cut.bring_back()
    assert world.lit.exists() and not world.journal.pending
    assert world.cut.counts() == world.cut.counts() == {"export": {"starts by write verifier": 1}}
    assert world.cut.target == {"host": "::1", "export": "/tank/x", "port": 20490, "mountport": 0}


@pytest.mark.parametrize("dark", ["closed", "open"])
def test_a_machine_that_refuses_connections_has_power(world: World, dark: str) -> None:
    world.cut.begin("/run/hsp/x", control=True)
    world.client.dark = dark
    with pytest.raises(NotCut, match="the appliance ::1 still answers"):
        world.cut.cut()
    world.cut.stay()
    assert world.lit.exists() and not world.journal.pending


def test_without_nfsv3_there_is_no_control_and_no_proof(world: World) -> None:
    world.client.verifiers = [""]
    with pytest.raises(
        HostError, match="cannot be asked over NFSv3: the server has no program 100005"
    ) as caught:
        world.cut.begin("/run/hsp/x", control=True)
    assert 'control = "none"' in caught.value.hint
    world.cut.begin("/run/hsp/x", control=False)
    assert world.cut.counts() == {}


def test_an_appliance_that_was_never_seen_cannot_be_seen_to_go(world: World) -> None:
    world.lit.unlink()
    with pytest.raises(HostError, match="reaches no NFS port"):
        world.cut.begin("/run/hsp/x", control=False)


def test_the_list_of_writes_is_not_on_the_appliance_itself(world: World) -> None:
    world.client.shown = "here"
    with pytest.raises(SafetyRefusal, match="is the first client, or the machine that runs hsp"):
        world.cut.begin("/run/hsp/x", control=True)


def test_an_export_is_waited_for_and_mounted_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted: list[str] = []
    monkeypatch.setattr(ApplianceCut, "_mount_again", lambda _: mounted.append("again"))
    world.cut.begin("/run/hsp/x", control=True)
    world.cut.cut()
    world.client.reads = [DeadlineExceeded("client", ["dd"], 60.0), (1, "", "Stale file handle"), ""]
    world.cut.bring_back()
    assert mounted == ["again"] and world.client.reads == []


def test_an_export_that_is_not_back_is_no_loss(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApplianceCut, "_mount_again", lambda _: None)
    world.cut.begin("/run/hsp/x", control=True)
    world.client.reads = [(1, "", "No such file")] * 10000
    with pytest.raises(HostError, match=r"cannot be read 1 s after .* \(NFS port: open\)") as caught:
        world.cut.bring_back()
    assert not isinstance(caught.value, DeviceGone) and "unlocked" in caught.value.hint
    world.lit.unlink()
    with pytest.raises(HostError, match="NFS port: gone"):
        world.cut.bring_back()


def test_nfsv3_that_starts_last_is_waited_for(world: World) -> None:
    world.client.verifiers = ["aa", "", "", "bb"]
    world.cut.begin("/run/hsp/x", control=True)
    assert world.cut.counts() == {"export": {"starts by write verifier": 1}}
    world.client.verifiers = [""]
    with pytest.raises(HostError, match="does not answer over NFSv3 any more"):
        world.cut.counts()


def test_a_client_that_is_lost_is_not_the_appliance(world: World) -> None:
    world.client.reads = [HostLost("client: gone")]
    world.cut.begin("/run/hsp/x", control=True)
    with pytest.raises(HostLost, match="client: gone"):
        world.cut.bring_back()


def test_writes_that_are_stable_anyway_are_no_control(world: World) -> None:
    world.cut.begin("/run/hsp/x", control=True)
    assert world.cut.stable_anyway()


def test_all_that_an_appliance_serves_loses_its_power(world: World) -> None:
    with pytest.raises(SafetyRefusal, match="whose other pools are not seen; nothing was cut") as caught:
        appliance_setup.set_up(world.run)
    assert "--cut-other-pools" in caught.value.hint
