"""A series of power losses on a file that keeps all: what ends it, and what is said then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.power_table import PowerLoss as Settings
from kit.core.clock import Clock
from kit.core.errors import SafetyRefusal
from kit.hosts.base import Host
from kit.hosts.local import LocalHost
from kit.run.power import cut as power_cut
from kit.run.power import loss
from kit.run.power.cut import Counts, NotCut
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.store.manifest import PowerLoss
from reports.features.power_loss import judge as verdict
from tests.fakes import ScriptedHost

OFF = "server still answers 60 s after `pdu off`: its power was not cut"


class Cut:
    """Cuts nothing. `fails`: of which cuts `off` does nothing, and of which the boot is the same."""

    scope = "device"

    def __init__(self, host: Host, still_on: int = 0, same_boot: int = 0) -> None:
        self.witness = self.reader = host
        self.still_on, self.same_boot = still_on, same_boot
        self.tries, self.counted, self.calls = 0, 0, list[str]()

    def cut(self) -> int | None:
        self.tries += 1
        if self.tries == self.still_on:
            raise NotCut(OFF)
        self.counted += 1
        return None

    def stay(self) -> None:
        self.calls.append("stay")

    def settle(self) -> None:
        self.calls.append("settle")

    def bring_back(self) -> None:
        if self.tries == self.same_boot:
            raise NotCut(OFF)
        self.calls.append("back")

    def rescue(self) -> None:
        self.calls.append("rescue")

    def counts(self) -> Counts:
        return {"ssd": {"count": self.counted}}


def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Cut, **settings: Any) -> PowerLoss:
    device = tmp_path / "device"
    device.write_bytes(bytes(8 << 20))
    site = SimpleNamespace(
        device_paths={"ssd": str(device)}, seed=1, clock=Clock("real"), guard=None, devices=None
    )
    bench = SimpleNamespace(
        site=site, storage=None, device_bytes={"ssd": 8 << 20}, work_dir=str(tmp_path / "work")
    )
    stored: dict[str, Any] = {}
    testbed = SimpleNamespace(is_appliance=False, power=None, device=(SimpleNamespace(name="ssd"),))
    run = SimpleNamespace(
        plan=SimpleNamespace(testbed=testbed), site=site, record=SimpleNamespace(fill=stored.update),
        progress=SimpleNamespace(note=print),
    )  # fmt: skip
    monkeypatch.setattr(power_cut, "of_run", lambda *_: cut)
    asked = Settings.model_validate({"moments": 3, "within": "20ms", "idle": "0s", **settings})
    told = loss.run_power_losses(cast(Context, run), cast(Bench, bench), asked)
    assert stored["power_loss"] == told
    return told


def test_all_are_counted_and_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut(LocalHost("here"))
    told = losses(tmp_path, monkeypatch, cut)
    assert (len(told.moments), told.lost, told.stopped) == (3, 0, "")
    assert all(verdict.is_proven(each) and each.again for each in told.moments)
    assert cut.calls == ["back"] * 4 + ["settle", "back"]


@pytest.mark.parametrize("how", ["still_on", "same_boot"])
@pytest.mark.parametrize(("number", "moments", "words"), [
    (1, 0, "at power loss 0, server still answers"), (3, 2, "at power loss 2, server still answers"),
    (5, 3, "at the power cycle after all of them, server still answers"),
])  # fmt: skip
def test_power_that_did_not_go_ends_them_and_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, number: int, moments: int, words: str
) -> None:
    """Number 1 is the control, 5 the power cycle after three of them."""
    cut = Cut(LocalHost("here"), **{how: number})
    told = losses(tmp_path, monkeypatch, cut)
    assert len(told.moments) == moments and told.stopped.startswith(words)
    assert cut.calls.count("stay") == (how == "still_on") and "rescue" not in cut.calls
    judged = verdict.judge(told)
    assert judged.verdict != "invalid" and not judged.kept
    assert "POWER-STOPPED" in [each.id for each in judged.outcomes]
    if number == 3:
        assert not verdict.is_proven(told.moments[1]) and told.moments[1].acknowledged
        bound = judged.told.bound if judged.told else None
        assert bound and bound.of == 1, "what was not cut does not count"


def test_a_pool_that_was_imported_since_the_run_began_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut, server = Cut(LocalHost("here")), ScriptedHost(default="hsp-abcdef\ntank\n")
    cut.scope = "server"
    site = SimpleNamespace(seed=1, cut_other_pools=False)
    storage = SimpleNamespace(server=server, pool=SimpleNamespace(name="hsp-abcdef"))
    bench = SimpleNamespace(site=site, storage=storage, work_dir="/x")
    plan = SimpleNamespace(testbed=SimpleNamespace(is_appliance=False))
    run = SimpleNamespace(plan=plan, site=site, progress=SimpleNamespace(note=print))
    monkeypatch.setattr(power_cut, "of_run", lambda *_: cut)
    with pytest.raises(SafetyRefusal, match="other pools are imported: tank; nothing was cut"):
        loss.run_power_losses(cast(Context, run), cast(Bench, bench), Settings(moments=1))
    assert cut.tries == 0
