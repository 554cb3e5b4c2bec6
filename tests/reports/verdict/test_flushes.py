"""Whether a FLUSH has reached what holds the commits of the ZIL, and forced writes of a pool."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.store.manifest import Manifest
from reports.features.forces.durability import durability
from reports.verdict.flushes import flush_outcomes, roles_of
from tests.reports.features.forces.test_forces import FORCES, manifest

COMMITS = {
    "id": "ZIL-COMMITS", "name": "synchronous writes", "source": "zil", "expected": 1000, "found": 1000,
    "tolerance": 5, "ok": True,
}  # fmt: skip
SLOG = {"target": None, "forces": None, "server_ios": 1000, "lost_events": 0, "tiers": ["slog"],
        "expected_tiers": ["slog"], "checks": [COMMITS]}  # fmt: skip
SHARES = {"unit": "log blocks", "source": "ZIL", "counts": {"slog": 1000, "pool": 0}}
OFF = [{"name": "zil_nocacheflush", "before": "0", "set": "1"}]


@pytest.mark.parametrize(
    ("keywords", "more", "state"),
    [
        ({}, {}, "ok"),
        ({"flushes": 0}, {}, "failed"),
        ({"flushes": 0, "checks": []}, {}, "failed"),
        # One answers at most all requests that wait.
        ({"flushes": 499}, {}, "failed"),
        ({"flushes": 499, "outstanding": 4}, {}, "ok"),
        ({"flushes": 1, "outstanding": None}, {}, "ok"),
        ({"flushes": 0, "cache": "write through"}, {}, None),
        ({"flushes": 0, "cache": "unknown"}, {}, None),
        ({"flushes": 0}, {"dataset": {"properties": {"sync": "disabled"}}}, None),
        (
            {"flushes": 0, "op": "read", "tiers": ["l2arc"], "expected_tiers": ["l2arc"], "checks": []},
            {},
            None,
        ),
        # The log is in the pool (logbias=throughput), so the log device holds nothing.
        ({"flushes": 0, "tiers": ["pool"], "expected_tiers": ["pool"]}, {}, None),
        ({"flushes": None}, {}, "not available"),
        ({"flushes": None}, {"tunables": OFF}, "failed"),
        ({"flushes": 0}, {"tunables": OFF}, "failed"),
        # Switched off, it is durable only where counts or the cache show it.
        ({"flushes": 1000}, {"tunables": OFF}, "ok"),
        ({"devices": []}, {}, None),
        ({"devices": []}, {"tunables": OFF}, "failed"),
        ({"flushes": 0, "cache": "unknown"}, {"tunables": OFF}, "failed"),
        ({"flushes": 1000, "cache": "unknown"}, {"tunables": OFF}, "ok"),
        ({"flushes": 0, "cache": "write through"}, {"tunables": OFF}, None),
        ({"devices": [], "cache": "write through"}, {"tunables": OFF}, None),
        ({"devices": [], "tiers": ["pool"], "expected_tiers": ["pool"]}, {"tunables": OFF}, None),
        # A local load that says no tier; the log without a tracer.
        ({"flushes": 0, "tiers": [], "expected_tiers": []}, {}, "failed"),
        ({"flushes": 0, "tiers": ["dram"], "expected_tiers": ["dram"]}, {}, None),
        ({"flushes": 0, "tiers": [], "expected_tiers": [], "checks": [], "shares": SHARES}, {}, "failed"),
    ],
)
def test_commits_of_the_zil_need_a_flush_where_the_cache_is_volatile(
    keywords: dict[str, Any], more: dict[str, Any], state: str | None
) -> None:
    value = {**manifest(**{**SLOG, **keywords}), **more}
    found = list(flush_outcomes(Manifest.from_json(value, "manifest")))
    assert [each.state for each in found] == ([state] if state else [])
    if state == "failed":
        assert found[0].makes == "unknown" and "log0 got " in found[0].text
        assert ("zil_nocacheflush is 1" in found[0].text) == ("tunables" in more)


@pytest.mark.parametrize("name", ["zil_nocacheflush", "zfs_nocacheflush"])
def test_a_parameter_as_the_run_found_it_switches_flush_off(name: str) -> None:
    value = {**manifest(**SLOG, flushes=0, cache="unknown"), "modules": {"zfs": {name: "1"}}}
    (found,) = flush_outcomes(Manifest.from_json(value, "manifest"))
    assert found.makes == "unknown" and "its write cache is not known: whether" in found.text
    assert f"({name} is 1: OpenZFS sends no FLUSH for a commit)" in found.text
    value["tunables"] = [{"name": name, "before": "1", "set": "0"}]
    assert not [*flush_outcomes(Manifest.from_json(value, "manifest"))]
    value["tunables"] = []
    value["testbed"]["devices"][0]["parameters"] = {"ssd": {"power_loss_protection": True}}
    assert not [*flush_outcomes(Manifest.from_json(value, "manifest"))], "its model says it is protected"


@pytest.mark.parametrize("role", ["log", "data"])
@pytest.mark.parametrize(
    ("flushes", "writes", "state", "code", "why"),
    [
        ((999, 1), (1000, 1000), "ok", "durable", "1,000 FLUSH commands reached x, y, "),
        ((1000, 0), (1000, 1000), "failed", "not-durable", "0 FLUSH commands reached y, "),
        ((None, 0), (1000, 1000), "failed", "unknown", "the write cache of x, y, or"),
        ((1000, None), (1000, 1000), "not available", "unknown", "the write cache of x, y, or"),
        # Of a data disk it may be the beginning of a transaction group; a log device has log blocks alone.
        ((1000, 0), (1000, 499), "by role", "", ""),
        # One of a stripe that got nothing.
        ((1000, 0), (1000, 0), "ok", "durable", "1,000 FLUSH commands reached x, "),
    ],
)
def test_each_device_that_was_written_needs_a_flush(
    role: str, flushes: tuple[int | None, ...], writes: tuple[int, ...], state: str, code: str, why: str
) -> None:
    if state == "by role":
        failed = "failed", "not-durable", "0 FLUSH commands reached y, "
        state, code, why = (
            failed if role == "log" else ("ok", "durable", "1,000 FLUSH commands reached x, y, ")
        )
    tiers = ["slog" if role == "log" else "pool"]
    value = manifest(**{**SLOG, "tiers": tiers, "expected_tiers": tiers, "forces": FORCES})
    (phase,) = value["phases"]
    start, end = phase["devices"][0]["samples"]
    ends = [{**end, "writes": count, "flushes": flush} for count, flush in zip(writes, flushes, strict=True)]
    names = ["x", "y"]
    # The phase was resumed before a FLUSH came.
    begun = [{"device": "x", "samples": [start, {**end, "flushes": flushes[0] and 0}]}]
    phase["devices"] = begun + [
        {"device": d, "samples": [start, e]} for d, e in zip(names, ends, strict=True)
    ]
    # The L2ARC needs none.
    phase["devices"].append({"device": "cache", "samples": [start, {**end, "flushes": 0}]})
    settings = {"settings": {"write_cache": "write back"}}
    value["testbed"]["devices"] = [
        *({"name": name, "role": role, **settings} for name in names),
        {"name": "cache", "role": "cache", **settings},
    ]
    stored = Manifest.from_json(value, "manifest")
    (found,) = flush_outcomes(stored)
    assert found.state == state
    assert state != "failed" or "y got 0 FLUSH commands for 1,000 commits" in found.text
    worth = durability(stored, stored.phases[0])
    assert worth.code == code and worth.why.startswith(why)


def of_vdevs(role: str, kinds: dict[str, str], **flushes: int) -> Manifest:
    """Devices that were written alike. `kinds`: such as {"xy": "mirror"}."""
    tiers = ["slog" if role == "log" else "pool"]
    value = manifest(**{**SLOG, "tiers": tiers, "expected_tiers": tiers, "forces": FORCES})
    (phase,) = value["phases"]
    start, end = phase["devices"][0]["samples"]
    phase["devices"] = [
        {"device": name, "samples": [start, {**end, "flushes": n}]} for name, n in flushes.items()
    ]
    value["testbed"]["devices"] = [
        {"name": name, "role": role, "settings": {"write_cache": "write back"}} for name in flushes
    ]
    vdevs = [{"role": role, "kind": kind, "devices": [*of]} for of, kind in kinds.items()]
    value["pool"] = {"name": "p", "vdevs": vdevs}
    return Manifest.from_json(value, "manifest")


@pytest.mark.parametrize("role", ["log", "data"])
@pytest.mark.parametrize(
    ("kinds", "flushes", "state", "why"),
    [
        ({"xy": "mirror"}, {"x": 780, "y": 1}, "failed", "1 FLUSH commands reached y, "),
        ({"xy": "mirror"}, {"x": 1000, "y": 0}, "failed", "0 FLUSH commands reached y, "),
        ({"xy": "mirror"}, {"x": 1000, "y": 998}, "ok", "998 FLUSH commands reached each of x, y, "),
        ({"xy": "mirror"}, {"x": 499, "y": 499}, "failed", "499 FLUSH commands reached each of x, y, "),
        ({"xyz": "raidz1"}, {"x": 1000, "y": 1000, "z": 4}, "failed", "4 FLUSH commands reached z, "),
        # Two vdevs share the commits.
        (
            {"wx": "mirror", "yz": "mirror"}, {"w": 500, "x": 501, "y": 500, "z": 500}, "ok",
            "1,000 FLUSH commands reached each of w, x, y, z, ",
        ),
        (
            {"wx": "mirror", "yz": "mirror"}, {"w": 900, "x": 900, "y": 100, "z": 1}, "failed",
            "1 FLUSH commands reached z, ",
        ),
        # A stripe.
        ({}, {"x": 999, "y": 1}, "ok", "1,000 FLUSH commands reached x, y, "),
    ],
)  # fmt: skip
def test_a_flush_of_a_vdev_reaches_each_of_its_devices(
    role: str, kinds: dict[str, str], flushes: dict[str, int], state: str, why: str
) -> None:
    stored = of_vdevs(role, kinds, **flushes)
    (found,) = flush_outcomes(stored)
    assert found.state == state
    worth = durability(stored, stored.phases[0])
    assert worth.why.startswith(why)
    if flushes == {"x": 780, "y": 1}:
        assert found.text.startswith(
            "y got 1 FLUSH commands for 1,000 commits, and its write cache is volatile"
        )
        assert "a FLUSH of the mirror goes to each of its devices: x (780) and y (1)" in found.text


@pytest.mark.parametrize(("requests", "state"), [(8, "ok"), (7, "failed")])
def test_requests_that_share_a_flush_may_do_so_on_one_leg_alone(requests: int, state: str) -> None:
    value = of_vdevs("log", {"xy": "mirror"}, x=1000, y=63).as_json()
    value["phases"][0]["outstanding"] = requests
    (found,) = flush_outcomes(Manifest.from_json(value, "manifest"))
    assert found.state == state


def test_a_leg_that_a_fault_took_offline_gets_fewer() -> None:
    value = of_vdevs("log", {"xy": "mirror"}, x=1000, y=3).as_json()
    action = {"kind": "fault", "what": "offline", "text": "y is offline", "device": "y", "at_ns": 0}
    value["phases"][0]["schedule"] = {"actions": [action]}
    (found,) = flush_outcomes(Manifest.from_json(value, "manifest"))
    assert found.state == "ok"


@pytest.mark.parametrize(
    ("caches", "flushes", "blocks", "state"),
    [
        # The log device was away for ten commits.
        (("write through", "write back"), (0, 10), (990, 10), "ok"),
        (("write back", "write back"), (990, 10), (990, 10), "ok"),
        (("write back", "write back"), (990, 4), (990, 10), "failed"),
        (("write back", "write back"), (490, 600), (990, 10), "failed"),
        # Four blocks for each commit, of which one has a waiter.
        (("write back", "write back"), (500, 500), (2000, 2000), "ok"),
        (("write back", "write back"), (249, 500), (2000, 2000), "failed"),
        # Without their log blocks it is not known which commits were where.
        (("write back", "write back"), (490, 600), None, "ok"),
    ],
)
def test_commits_on_log_devices_and_in_the_pool_are_judged_apart(
    caches: tuple[str, str], flushes: tuple[int, int], blocks: tuple[int, int] | None, state: str
) -> None:
    value = of_vdevs("log", {}, log0=flushes[0], disk0=flushes[1]).as_json()
    (phase,) = value["phases"]
    phase["tiers"] = phase["expected_tiers"] = ["slog", "pool"]
    for device, role, cache in zip(value["testbed"]["devices"], ("log", "data"), caches, strict=True):
        device |= {"role": role, "settings": {"write_cache": cache}}
    for id_, count in zip(("ZIL-SLOG-BLOCKS", "ZIL-POOL-BLOCKS"), blocks or (), strict=bool(blocks)):
        phase["checks"].append({**COMMITS, "id": id_, "expected": count, "found": count})
    (found,) = flush_outcomes(Manifest.from_json(value, "manifest"))
    assert found.state == state, found


@pytest.mark.parametrize(
    ("expected", "answered", "roles"),
    [
        # As the version of OpenZFS decides; the ZIL counts both as blocks in the pool.
        (("special", "pool"), {"special"}, {"special"}),
        (("special", "pool"), {"pool"}, {"data"}),
        (("special", "pool"), {"special", "pool"}, {"special", "data"}),
        (("special", "pool"), set(), {"special", "data"}),
        (("pool",), {"special"}, {"special"}),
        (("slog",), {"slog"}, {"log", "data"}),
    ],
)
def test_commits_are_held_by_the_devices_of_the_tier_that_answered(
    expected: tuple[str, ...], answered: set[str], roles: set[str]
) -> None:
    blocks = SimpleNamespace(id="ZIL-POOL-BLOCKS", found=1000)
    sums = [SimpleNamespace(op="write", tier=tier) for tier in answered]
    reads = SimpleNamespace(op="read", tier="special")
    phase: Any = SimpleNamespace(
        expected_tiers=expected, tiers=(), shares=None, checks=[blocks], sums=[*sums, reads]
    )
    assert roles_of({}, phase) == roles
