"""kit.instruments.read_history: shares of tiers by the server's counters, without a tracer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.hosts.base import CommandResult
from kit.hosts.local import LocalHost
from kit.instruments import read_history
from kit.instruments.arc_zil_counters import Counters
from kit.instruments.read_history import DemandReads
from kit.store.phase import Missing
from kit.zfs.tunables import HISTORY_ENTRIES
from tests.fakes import ScriptedHost

# Kinds of entries of /proc/spl/kstat/zfs/POOL/reads, as awk groups them:
# how many, objset, object, level, flags, process. Objset 0x36 is the dataset's, 2 its file.
GROUPS = """\
1650 0x36 2 0 0xe nfsd
30 0x36 2 0 0xa nfsd
1800 0x36 2 0 0x12 nfsd
7 0x36 2 1 0x12 nfsd
5 0x36 0 0 0x12 nfsd
11 0x36 2 0 0x12 dd
90 0x0 61 0 0x2 txg_sync
"""


def answer(text: str) -> CommandResult:
    return CommandResult("server", ("awk",), 0, text, "")


def test_only_demand_reads_of_file_blocks_by_nfsd_count() -> None:
    observed = read_history.parse(answer(GROUPS), 0x36)
    assert observed == DemandReads(hits=30, misses=1800, entries=1650 + 30 + 1800 + 7 + 5 + 11 + 90)
    assert read_history.parse(answer(GROUPS), 0x37) == DemandReads(0, 0, observed.entries)
    assert read_history.parse(answer(""), 0x36) == DemandReads(0, 0, 0)


@pytest.mark.parametrize("line", ["x", "1 0x36 2 0 0x2", "1 54g 2 0 0x2 nfsd", "many 0x36 2 0 0x2 nfsd"])
def test_a_malformed_list_is_an_error(line: str) -> None:
    with pytest.raises(HostError, match="is not understood"):
        read_history.parse(answer(GROUPS + line + "\n"), 0x36)


def test_shares_of_reads() -> None:
    change = Counters({"l2_hits": 650}, {})
    observed = read_history.shares("read", 3456, change, DemandReads(hits=1500, misses=1812, entries=4000))
    # 144 of them the dbuf cache answered: no read of the ARC, but from DRAM.
    assert observed.counts == {"dram": 1644, "l2arc": 650, "disk": 1162}
    assert observed.unit == "requests"


@pytest.mark.parametrize(("errors", "from_l2arc"), [((100, 100), 550), ((0, 100), 550), ((900, 0), 0)])
def test_a_read_that_the_l2arc_failed_is_the_disks(errors: tuple[int, int], from_l2arc: int) -> None:
    arc = {"l2_hits": 650, "l2_io_error": errors[0], "l2_cksum_bad": errors[1]}
    observed = read_history.shares("read", 3456, Counters(arc, {}), DemandReads(1500, 1812, 4000))
    assert observed.counts == {"dram": 1644, "l2arc": from_l2arc, "disk": 1812 - from_l2arc}


def test_with_several_records_per_request_the_unit_is_blocks() -> None:
    observed = read_history.shares("read", 100, Counters({"l2_hits": 50}, {}), DemandReads(700, 100, 800))
    assert observed.as_json() == {
        "unit": "blocks", "source": "kstat reads, arcstats l2_hits",
        "counts": {"dram": 700, "l2arc": 50, "disk": 50},
    }  # fmt: skip


counts = st.integers(0, 10**9)


@given(counts, counts, counts, counts)
def test_shares_are_not_negative_and_sum_to_the_total(calls: int, l2: int, hits: int, misses: int) -> None:
    share = read_history.shares(
        "read", calls, Counters({"l2_hits": l2}, {}), DemandReads(hits, misses, hits + misses)
    )
    assert all(count >= 0 for count in share.counts.values())
    assert sum(share.counts.values()) == (calls if share.unit == "requests" else hits + misses)


def test_shares_of_writes_are_the_zils() -> None:
    zil = {"zil_itx_metaslab_slog_count": 815, "zil_itx_metaslab_normal_count": 2}
    share = read_history.shares("write", 817, Counters({}, zil, "ZIL of all pools"), DemandReads(0, 0, 0))
    assert share.as_json() == {
        "unit": "log blocks",
        "source": "ZIL of all pools",
        "counts": {"slog": 815, "pool": 2},
    }


def test_entry_of_the_manifest() -> None:
    report = read_history.report(
        {"read": 3456}, Counters({"l2_hits": 0}, {}), DemandReads(3000, 456, 3456), "not traced"
    )
    assert report.entry["server_ios"] == 3456 and set(report.entry["shares"].counts)
    assert {check.name for check in report.checks} == {"I/Os by tier", "latency at the server"}
    assert all(isinstance(check, Missing) for check in report.checks)


def test_shares_of_a_phase_that_also_writes_are_those_of_its_reads() -> None:
    change = Counters({"l2_hits": 0}, {"zil_itx_metaslab_slog_count": 100})
    report = read_history.report(
        {"read": 3456, "write": 100}, change, DemandReads(3000, 456, 3456), "not traced"
    )
    assert report.entry["server_ios"] == 3556
    assert report.entry["shares"].counts == {"dram": 3000, "l2arc": 0, "disk": 456}


@pytest.mark.parametrize(
    ("op", "entries", "problems"),
    [("read", HISTORY_ENTRIES, 1), ("read", HISTORY_ENTRIES - 1, 0), ("write", HISTORY_ENTRIES, 0)],
)
def test_a_full_list_is_a_problem_of_reads(op: str, entries: int, problems: int) -> None:
    reads = read_history.parse(answer(f"{entries} 0x36 2 0 0x2 nfsd\n"), 0x36)
    assert len(read_history.report({op: 1}, Counters({}, {}), reads, "not traced").problems) == problems


# As spa_read_history_show() prints it; where a read came from is empty in most versions.
LIST = """\
UID      start            objset   object   level    blkid    aflags   origin                   pid      process         
1        17021904063      0x36     2        0        77       0x12                              1234     nfsd            
2        17021904064      0x36     2        0        78       0xa      arc_read                 1234     nfsd            
3        17021904065      0x36     2        0        79       0xa                               1234     nfsd            
4        17021904066      0x36     2        0        80       0xe      dbuf prefetch            1234     nfsd            
"""  # noqa: E501


def test_the_list_is_grouped_on_the_server(tmp_path: Path) -> None:
    path = tmp_path / "reads"
    path.write_text(LIST)
    grouped = LocalHost().run(["awk", read_history._GROUP, str(path)])
    assert read_history.parse(grouped, 0x36) == DemandReads(hits=2, misses=1, entries=4)


def test_the_list_of_the_pool_is_emptied_and_read() -> None:
    server = ScriptedHost({"sh": GROUPS})
    read_history.begin(server, "hsp-x")
    assert read_history.history(server, "hsp-x", 0x36).misses == 1800
    assert [argv[-1] for argv in server.calls] == ["/proc/spl/kstat/zfs/hsp-x/reads"] * 2
