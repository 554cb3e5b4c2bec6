"""What an observed server does beside its requests: the kernel's files and `zpool status`, as events."""

from __future__ import annotations

from kit.core.clock import Clock
from kit.observe.activity import Activity
from tests.fakes import ScriptedHost, tail
from tests.kit.instruments.test_server_activity import NEW, STAT, TXGS

_JSON = """{"pools": {"tank": {"scan_stats": {"function": "SCRUB", "state": "FINISHED",
  "start_time": 1767225625, "end_time": 1767225626}}, "plain": {}}}"""


def test_syncs_of_all_pools_and_scrubs_are_marks_in_the_time_of_the_observation() -> None:
    times = {"/proc/uptime": "30.00 1.00\n", "/proc/stat": STAT}
    # `plain` went while it was observed.
    txgs = {"/proc/spl/kstat/zfs/tank/txgs": f"31 1 0x01\n{TXGS}"}
    head = "tail -v -n +1"
    answers = {
        f"{head} /proc/uptime": tail(times),
        f"{head} /proc/spl/kstat/zfs/tank/txgs": tail(txgs),
        "zpool status": _JSON,
    }
    activity = Activity(ScriptedHost(answers), ("tank", "plain"))
    activity.look()
    activity.look()
    found = list(activity.events(NEW, Clock("real"), 25_850_000_000, 26_500_000_000))
    assert [(each.kind, each.text) for each in found] == [
        ("scrub", "scrub of the pool tank"),
        ("txg", "txg 15 of tank: sync, 1042432 bytes"),
    ]
    assert found[0].time_ns == 25_000_000_000 - 25_850_000_000 and found[0].end_ns == 150_000_000
