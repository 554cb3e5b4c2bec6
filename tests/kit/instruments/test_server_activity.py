"""Server activity, from the files of a real server (Linux 6.12, OpenZFS 2.3.9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.instruments import server_activity
from kit.instruments.base import MeasuredPhase
from kit.instruments.server_activity import ServerConditions, Txg
from kit.store.phase import Check, Missing
from kit.zfs import openzfs_version
from kit.zfs.scrub_status import Scan
from tests.fakes import Command, ScriptedHost, tail

IOSTATS = """\
31 1 0x01 26 7072 22326418990 25979138282
name                            type data
trim_extents_written            4    0
trim_bytes_written              4    0
autotrim_extents_written        4    0
simple_trim_extents_written     4    0
arc_read_count                  4    7
arc_write_count                 4    2274
direct_read_count               4    0
direct_write_count              4    0
"""
TXGS = """\
txg birth state ndirty nread nwritten reads writes otime qtime wtime stime
14 25838393003 C 0 0 0 0 0 160249 780 24592 118076
15 25838553252 C 0 6656 1042432 7 42 51444415 780 20107 61089975
16 25889997667 S 0 0 0 0 0 61118400 780 1276857 0
17 25951116067 O 0 0 0 0 0 0 0 0 0
"""
NFSD = """\
rc 0 0 111
fh 0 0 0 0 0
io 51200 1024
th 4 0 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000
ra 0 0 0 0 0 0 0 0 0 0 0 0
net 111 0 111 2
rpc 111 0 0 0 0
proc3 22 2 2 0 1 2 0 100 2 0 0 0 0 0 0 0 0 0 0 0 2 1 3
proc4 2 0 0
proc4ops 76 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
wdeleg_getattr 0
"""  # noqa: E501
STAT = "cpu  100 5 200 1000 10 1 2 3 7 7\ncpu0 100 5 200 1000 10 1 2 3 7 7\nbtime 1767225600\n"
STATUS = """\
  pool: other
 state: ONLINE
  scan: none requested
config:

  pool: tank
 state: ONLINE
  scan: scrub in progress since Thu Jan  1 00:00:26 2026
\t1M scanned at 1M/s, 1M issued at 1M/s, 2M total
"""
NEW, OLD = openzfs_version.parse("2.3.9-1"), openzfs_version.parse("2.1.11-1+deb12u1")
KSTATS = "/proc/spl/kstat/zfs"


def files(*pools: str) -> dict[str, str]:
    observed = {"/proc/uptime": "26.11 1.00\n", "/proc/net/rpc/nfsd": NFSD, "/proc/stat": STAT}
    observed[f"{KSTATS}/tank/txgs"] = "31 1 0x01 26 7072 1 2\n" + TXGS
    return observed | {f"{KSTATS}/{pool}/iostats": IOSTATS for pool in pools}


@pytest.fixture
def now() -> ServerConditions:
    return server_activity.parse(files("tank", "other"), {"tank": None, "other": None}, "tank")


def test_the_files_are_read(now: ServerConditions) -> None:
    assert now.uptime_ns == 26_110_000_000
    assert now.wall_s == 1767225626
    assert now.io_bytes == {"read": 51200, "write": 1024}
    assert now.calls == {"read": 100, "write": 2, "commit": 3}
    assert now.iostats["tank"]["arc_write_count"] == 2274
    assert now.scans == {}
    assert (now.cpu_ticks, now.steal_ticks) == (1321, 3)
    begin = 25838553252 + 51444415 + 780 + 20107
    assert now.txgs[1] == Txg(15, begin, begin + 61089975, 1042432)
    assert [txg.number for txg in now.txgs] == [14, 15]


def test_calls_of_nfs_4_count_as_well() -> None:
    counts = [0] * 76
    # 68 is READ_PLUS, which is how clients of NFS 4.2 read.
    counts[25], counts[68], counts[38], counts[5] = 11, 7, 12, 13
    four = NFSD.replace(NFSD.splitlines()[-2], "proc4ops 76 " + " ".join(map(str, counts)))
    observed = server_activity.parse(files("tank") | {"/proc/net/rpc/nfsd": four}, {"tank": None}, "tank")
    assert observed.calls == {"read": 118, "write": 14, "commit": 16}


def test_reads_and_writes_of_a_phase_are_checked_each(now: ServerConditions) -> None:
    ios, sizes = {"read": 7, "write": 3}, {"read": 512, "write": 4096}
    calls = {"read": 107, "write": 5, "commit": 3}
    after = replace(now, calls=calls, io_bytes={"read": 51200 + 7 * 512, "write": 1024 + 3 * 4096})
    observed = server_activity.checks(now, after, "tank", ios, sizes, NEW)
    assert [check.name for check in observed[:4]] == [
        "NFS READ calls", "bytes of NFS READ calls", "NFS WRITE calls", "bytes of NFS WRITE calls",
    ]  # fmt: skip
    assert all(isinstance(check, Missing) or check.ok for check in observed)
    # The sum is right, and each is wrong.
    swapped = replace(after, calls={**calls, "read": 106, "write": 6})
    wrong = [check for check in server_activity.checks(now, swapped, "tank", ios, sizes, NEW)[:4]]
    assert [check.name for check in wrong if not check.ok] == ["NFS READ calls", "NFS WRITE calls"]  # type: ignore[union-attr]


def failed(
    before: ServerConditions, after: ServerConditions, ios: int = 0, block_bytes: int = 512
) -> list[str]:
    observed = server_activity.checks(before, after, "tank", {"read": ios}, {"read": block_bytes}, NEW)
    return [f"{check.name}: {check.found}" for check in observed if not check.ok]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("2.1.11", {"direct I/O, past the ARC", "I/Os of another pool, other"}),
        ("2.2.9", {"direct I/O, past the ARC", "I/Os of another pool, other"}),
        ("2.3.9", set()),
    ],
)
def test_counters_that_an_older_openzfs_lacks(now: ServerConditions, version: str, names: set[str]) -> None:
    zfs = openzfs_version.parse(version)
    observed = server_activity.checks(now, now, "tank", {"read": 0}, {"read": 512}, zfs)
    missing = [check for check in observed if isinstance(check, Missing)]
    assert {check.name for check in missing} == names
    assert all(str(zfs) in check.why for check in missing)
    assert {"NFS READ calls", "trimmed extents"} <= {check.name for check in observed} - names


@pytest.mark.parametrize(
    ("calls", "read_bytes", "names"),
    [
        (40, 40 * 512, []),
        (5, 40 * 512, ["NFS READ calls: 5"]),  # the others were answered by the client's cache
        (40, 40 * 4096, [f"bytes of NFS READ calls: {40 * 4096}"]),
    ],
)
def test_the_clients_reads_are_checked_against_nfsd(
    now: ServerConditions, calls: int, read_bytes: int, names: list[str]
) -> None:
    io_bytes = {"read": 51200 + read_bytes, "write": 1024}
    after = replace(now, io_bytes=io_bytes, calls={**now.calls, "read": 100 + calls})
    assert failed(now, after, ios=40) == names


@pytest.mark.parametrize(
    ("pool", "counter", "by", "names"),
    [
        ("tank", "direct_read_count", 1, ["direct I/O, past the ARC: 1"]),
        ("tank", "direct_write_count", 3, ["direct I/O, past the ARC: 3"]),
        ("tank", "autotrim_extents_written", 2, ["trimmed extents: 2"]),
        ("tank", "trim_extents_written", 2, ["trimmed extents: 2"]),
        ("tank", "arc_read_count", 5000, []),
        ("other", "arc_read_count", 11, ["I/Os of another pool, other: 11"]),
        ("other", "arc_write_count", 4000, ["I/Os of another pool, other: 4000"]),
    ],
)
def test_other_use_of_the_pools_fails(
    now: ServerConditions, pool: str, counter: str, by: int, names: list[str]
) -> None:
    stats = {key: dict(value) for key, value in now.iostats.items()}
    stats[pool][counter] += by
    assert failed(now, replace(now, iostats=stats)) == names


def test_a_pool_that_appears_meanwhile_counts_from_zero(now: ServerConditions) -> None:
    stats = {**now.iostats, "new": {"arc_read_count": 50, "arc_write_count": 0}}
    assert failed(now, replace(now, iostats=stats)) == ["I/Os of another pool, new: 50"]


def test_steal_time(now: ServerConditions) -> None:
    assert failed(now, replace(now, cpu_ticks=2321, steal_ticks=14)) == []
    assert failed(now, replace(now, cpu_ticks=2321, steal_ticks=15)) == ["CPU steal time, in 10 ms: 12"]


SCRUB = Scan("SCRUB", "SCANNING", 1767225620, 0)


@pytest.mark.parametrize(
    ("before", "after", "reported"),
    [
        (None, None, False),
        (None, SCRUB, True),
        (SCRUB, SCRUB, True),
        (SCRUB, replace(SCRUB, state="FINISHED", end_s=1767225625), True),
        (None, replace(SCRUB, state="FINISHED", end_s=1767225625), True),
        (replace(SCRUB, state="FINISHED", end_s=1), replace(SCRUB, state="FINISHED", end_s=1), False),
    ],
)
def test_a_scrub_during_the_phase(
    now: ServerConditions, before: Scan | None, after: Scan | None, reported: bool
) -> None:
    earlier = replace(now, scans={"other": before} if before else {})
    then = replace(now, scans={"other": after} if after else {})
    observed = server_activity.problems(earlier, then)
    assert bool(observed) is reported
    if reported:
        assert "scrub of the pool other ran during the phase (zpool status: SCRUB" in observed[0]


def test_events_are_in_the_experiments_time_and_only_those_of_the_phase(now: ServerConditions) -> None:
    earlier = replace(now, uptime_ns=25_850_000_000)
    then = replace(now, scans={"tank": replace(SCRUB, start_s=1767225625)})
    phase = MeasuredPhase({"read": 512}, 1, 0, 1, {}, 20_000_000_000, Clock("virtual", 4))
    observed = server_activity.events(earlier, then, phase)
    assert [event.kind for event in observed] == ["txg", "scrub"]
    txg, scrub = observed
    assert (scrub.time_ns, scrub.end_ns) == (5_000_000_000 // 4, 6_110_000_000 // 4)
    assert txg.text == "txg 15: sync, 1042432 bytes"


@pytest.mark.parametrize(
    ("properties", "tiers", "names"),
    [
        ({"sync": "standard", "logbias": "latency", "primarycache": "all", "secondarycache": "all"},
         {"dram", "l2arc", "disk", "slog", "pool"}, []),
        ({"sync": "disabled"}, {"slog", "pool"}, ["pool", "slog"]),
        ({"logbias": "throughput"}, {"slog"}, ["slog"]),
        ({"logbias": "throughput"}, {"pool"}, []),
        ({"primarycache": "metadata"}, {"disk"}, []),
        ({"primarycache": "metadata"}, {"dram", "disk"}, ["dram"]),
        ({"secondarycache": "metadata"}, {"l2arc"}, ["l2arc"]),
        ({"secondarycache": "none"}, {"dram", "l2arc"}, ["l2arc"]),
    ],
)  # fmt: skip
def test_properties_with_which_a_tier_cannot_answer(
    properties: dict[str, str], tiers: set[str], names: list[str]
) -> None:
    observed = server_activity.property_problems(properties, tiers)
    assert [text.split()[2] for text in observed] == names


def test_changed_settings() -> None:
    assert server_activity.changed({"sync": "standard"}, {"sync": "standard", "more": "x"}, "d") == []
    assert server_activity.changed({"sync": "standard", "a": "1"}, {"sync": "disabled"}, "d") == [
        "d: sync was standard and is disabled at the end of the run",
        "d: a was 1 and is gone at the end of the run",
    ]


def server(missing: str = "") -> ScriptedHost:
    known = files("tank", "other")

    def counters(command: Command) -> str:
        return tail({name: known[name] for name in command.argv if name in known and name != missing})

    return ScriptedHost({"sh": STATUS}, default=counters)


def test_every_pool_is_read() -> None:
    observed = server_activity.read(server(), "tank", OLD)
    assert set(observed.iostats) == {"tank", "other"}
    assert observed.scans == {"tank": Scan("SCRUB", "SCANNING", 1767225626, 0)}


OBJSETS = """\
{0}/other/objset-0x36:writes                          4    {1}
{0}/other/objset-0x36:reads                           4    7
{0}/other/objset-0x1d:reads                           4    5
"""


@pytest.mark.parametrize("version", ["2.1.11", "2.2.2"])
@pytest.mark.parametrize(("writes", "is_ok"), [(100, True), (110, True), (111, False)])
def test_another_pool_before_openzfs_2_3_by_its_file_systems_and_zvols(
    version: str, writes: int, is_ok: bool
) -> None:
    zfs, host = openzfs_version.parse(version), server()
    host.answers["find"] = [OBJSETS.format(KSTATS, count) for count in (100, writes)]
    before, after = (server_activity.read(host, "tank", zfs) for _ in range(2))
    found = server_activity.checks(before, after, "tank", {}, {}, zfs)
    (other,) = (each for each in found if each.id == "OTHER-POOL")
    assert isinstance(other, Check) and (other.ok, other.found) == (is_ok, writes - 100)
    # Its own is not asked for, and OpenZFS 2.3 counts by pool.
    assert host.called("find")[0][1] == f"{KSTATS}/other" and f"{KSTATS}/tank" not in host.called("find")[0]
    new = server()
    new.answers["zpool"] = {"pools": {"tank": {}, "other": {}}}
    server_activity.read(new, "tank", NEW)
    assert new.called("find") == []


@pytest.mark.parametrize("missing", ["/proc/net/rpc/nfsd", "/proc/stat", f"{KSTATS}/tank/txgs"])
def test_missing_counters_are_an_error(missing: str) -> None:
    with pytest.raises(HostError, match="counters of the NFS server and pools of server cannot be read"):
        server_activity.read(server(missing), "tank", OLD)


def test_a_malformed_kstat_is_an_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        server_activity.parse(
            files("tank") | {f"{KSTATS}/tank/txgs": TXGS.replace("25838553252", "x")},
            {"tank": None}, "tank",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "moved", "release"),
    [
        (2**32 - 100, 1_024_000, ""),
        (5000, 1_024_000, "4.18.0-553.el8"),
        (5000, 5 << 30, "5.10.0-28-amd64"),
        (2**32 - 100, 9 << 30, "5.4.0"),
    ],
)
def test_bytes_of_a_counter_of_32_bits(before: int, moved: int, release: str) -> None:
    after = (before + moved) % 2**32
    assert server_activity._moved(before, after, moved, release) == moved
    # Bytes that were not seen stay missing.
    assert server_activity._moved(before, after, moved + 512, release) == moved


def test_bytes_of_a_counter_of_64_bits_are_as_they_are() -> None:
    assert server_activity._moved(5000, 9000, 5 << 30, "6.12.0") == 4000
    assert server_activity._moved(2**33, 5, 1 << 30, "6.12.0") == 5 - 2**33
