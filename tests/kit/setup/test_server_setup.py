"""kit.setup.server_setup: what a run asks of a server where others have pools, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.power_table import Power, PowerLoss
from kit.config.workload import Pool
from kit.core.clock import Clock
from kit.core.errors import SafetyRefusal
from kit.setup import server_setup
from kit.setup.context import Context
from kit.zfs.tunables import tunable
from tests.kit.zfs.test_tunables import Server

POWER = Power(scope="server", off=("pdu", "off"), on=("pdu", "on"))
DEVICE = POWER.model_copy(update={"scope": "device"})
NO_FLUSH = PowerLoss(moments=1, control="no-flush")


def refuse(
    tunables: dict[str, int],
    asked: PowerLoss | None,
    power: Power | None,
    *restarts: str,
    exports: str = "\0",
    **agreed: bool,
) -> list[str]:
    """The notes of the run, on a server with somebody else's pool."""
    server, notes = Server(zil_nocacheflush="0", zfs_nocacheflush="0", zfs_recover="0"), list[str]()
    server.answers["zpool list -H -o name"] = "tank\n"
    server.answers["sh"] = exports
    given = {"beside_other_pools": False, "cut_other_pools": False, **agreed}
    plan = SimpleNamespace(
        workload=SimpleNamespace(power_loss=asked, restarts=frozenset(restarts)),
        testbed=SimpleNamespace(power=power),
        tunables=tuple(tunable(name, value, Clock("real")) for name, value in tunables.items()),
    )
    manifest = SimpleNamespace(notes=())
    record = SimpleNamespace(add_notes=lambda *texts: notes.extend(texts), manifest=manifest)
    run: Any = SimpleNamespace(plan=plan, site=SimpleNamespace(**given), record=record)
    server_setup.refuse_other_pools(cast(Context, run), server)
    return notes


@pytest.mark.parametrize(
    ("tunables", "asked", "power", "words", "option"),
    [
        ({"zfs_recover": 1}, None, None, "zfs_recover = 1", "beside_other_pools"),
        ({}, NO_FLUSH, DEVICE, "zil_nocacheflush = 1", "beside_other_pools"),
        ({}, PowerLoss(moments=1), POWER, "cuts the power of", "cut_other_pools"),
    ],
)
def test_another_pool_is_neither_weakened_nor_cut(
    tunables: dict[str, int], asked: PowerLoss | None, power: Power | None, words: str, option: str
) -> None:
    other = {"beside_other_pools", "cut_other_pools"} - {option}
    with pytest.raises(SafetyRefusal, match=words):
        refuse(tunables, asked, power, **dict.fromkeys(other, True))
    notes = refuse(tunables, asked, power, **{option: True})
    assert any(words in note and f"(--{option.replace('_', '-')})" in note for note in notes)


@pytest.mark.parametrize("kind", ["reboot", "power-cut"])
def test_a_server_with_another_pool_or_export_is_not_restarted(kind: str) -> None:
    exports = "/tank 10.0.0.9(rw,sync)\n\0/tank 10.0.0.9(rw,sync)\n"
    with pytest.raises(SafetyRefusal, match="where other pools are imported: tank"):
        refuse({}, None, POWER, kind, exports=exports, beside_other_pools=True)
    pools, exported = refuse({}, None, POWER, kind, exports=exports, cut_other_pools=True)
    assert "tank (--cut-other-pools)." in pools and "has other exports: /tank" in exported


def test_a_run_that_touches_no_other_pool_goes_on() -> None:
    assert refuse({"zfs_recover": 0}, None, POWER) == []
    assert refuse({}, PowerLoss(moments=1), DEVICE) == []


@pytest.mark.parametrize(
    ("pool", "vdevs"),
    [
        ({}, []),
        (
            {"data": "mirror", "groups": 2},
            [
                ("data", "mirror", "ab"),
                ("data", "mirror", "cd"),
                ("special", "mirror", "st"),
                ("dedup", "mirror", "uv"),
            ],
        ),
        (
            {"data": "raidz1", "log": "mirror"},
            [
                ("data", "raidz1", "abcd"),
                ("log", "mirror", "xy"),
                ("special", "mirror", "st"),
                ("dedup", "mirror", "uv"),
            ],
        ),
    ],
)
def test_which_devices_are_in_which_vdev_is_stored(
    pool: dict[str, Any], vdevs: list[tuple[str, ...]]
) -> None:
    devices = {"data": "abcd", "log": "xy", "cache": "c", "special": "st", "dedup": "uv"}
    plan: Any = SimpleNamespace(
        workload=SimpleNamespace(pool=Pool(**pool)),
        testbed=SimpleNamespace(devices=lambda role: [SimpleNamespace(name=n) for n in devices[role]]),
    )
    found = server_setup.vdevs_of(plan)
    assert [(vdev.role, vdev.kind, "".join(vdev.devices)) for vdev in found] == vdevs
