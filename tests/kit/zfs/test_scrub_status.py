"""kit.zfs.scrub_status: text of OpenZFS 2.1 and 2.2 (cmd/zpool/zpool_main.c), and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.zfs import openzfs_version, scrub_status
from kit.zfs.scrub_status import Scan
from tests.fakes import ScriptedHost

T0 = 1767225600  # Thu Jan  1 00:00:00 2026 UTC
T1, AT_T1 = T0 + 60, "Thu Jan  1 00:01:00 2026"
STATUS = """\
  pool: tank
 state: ONLINE
status: Some supported and requested features are not enabled on the pool.
\tThe pool can still be used: scan: none of it
action: Enable all features using 'zpool upgrade'.
  scan: {}
config:

\tNAME        STATE     READ WRITE CKSUM
\ttank        ONLINE       0     0     0
\t  /dev/vdb  ONLINE       0     0     0

errors: No known data errors
"""


@pytest.mark.parametrize(
    ("sentence", "scan"),
    [
        ("none requested", None),
        (f"scrub repaired 0B in 00:00:10 with 0 errors on {AT_T1}", Scan("SCRUB", "FINISHED", T1 - 10, T1)),
        (
            "scrub repaired 1.50M in 2 days 01:02:03 with 12 errors on Sat Jan 31 23:59:59 2026",
            Scan("SCRUB", "FINISHED", T0 + 31 * 86400 - 1 - 2 * 86400 - 3723, T0 + 31 * 86400 - 1),
        ),
        (f"scrub canceled on {AT_T1}", Scan("SCRUB", "CANCELED", T1, T1)),
        (
            f"scrub in progress since {AT_T1}\n\t1G scanned at 1G/s, 1G issued",
            Scan("SCRUB", "SCANNING", T1, 0),
        ),
        (f"scrub paused since {AT_T1}\n\tscrub started on {AT_T1}", Scan("SCRUB", "PAUSED", 0, T1)),
        (f"resilvered 10K in 00:00:01 with 0 errors on {AT_T1}", Scan("RESILVER", "FINISHED", T1 - 1, T1)),
        (
            f"resilvered (draid1-0) 10K in 00:00:01 with 0 errors on {AT_T1}",
            Scan("RESILVER", "FINISHED", T1 - 1, T1),
        ),
        (f"resilver in progress since {AT_T1}", Scan("RESILVER", "SCANNING", T1, 0)),
        (f"resilver (mirror-1) in progress since {AT_T1}", Scan("RESILVER", "SCANNING", T1, 0)),
        (f"resilver canceled on {AT_T1}", Scan("RESILVER", "CANCELED", T1, T1)),
        (f"resilver (mirror-1) canceled on {AT_T1}", Scan("RESILVER", "CANCELED", T1, T1)),
        (
            f"none requested\n scrub: scrubbed 3 error blocks in 0 days 00:00:02 on {AT_T1}",
            Scan("ERRORSCRUB", "FINISHED", T1 - 2, T1),
        ),
        (
            f"none requested\n scrub: error scrub in progress since {AT_T1}",
            Scan("ERRORSCRUB", "SCANNING", T1, 0),
        ),
        (f"none requested\n scrub: error scrub paused since {AT_T1}", Scan("ERRORSCRUB", "PAUSED", 0, T1)),
        (f"none requested\n scrub: error scrub canceled on {AT_T1}", Scan("ERRORSCRUB", "CANCELED", T1, T1)),
    ],
)
def test_every_sentence_of_the_old_versions(sentence: str, scan: Scan | None) -> None:
    assert scrub_status.from_text(STATUS.format(sentence)) == {"tank": scan}


def test_a_running_scan_comes_before_an_ended_one() -> None:
    ended = f"scrub repaired 0B in 00:00:10 with 0 errors on {AT_T1}"
    both = STATUS.format(f"{ended}\n  scan: resilver (mirror-0) in progress since Thu Jan  1 00:00:05 2026")
    assert scrub_status.from_text(both) == {"tank": Scan("RESILVER", "SCANNING", T0 + 5, 0)}


@pytest.mark.parametrize(
    ("line", "scan"),
    [
        (f"remove: Evacuation of /dev/sdb in progress since {AT_T1}", Scan("REMOVE", "SCANNING", T1, 0)),
        (
            f"remove: Removal of vdev 1 copied 1.2G in 0h3m, completed on {AT_T1}",
            Scan("REMOVE", "FINISHED", T1, T1),
        ),
        (f"remove: Removal of mirror-1 canceled on {AT_T1}", Scan("REMOVE", "CANCELED", T1, T1)),
        (f"expand: expansion of raidz1-0 in progress since {AT_T1}", Scan("EXPAND", "SCANNING", T1, 0)),
        (
            f"expand: expanded raidz1-0 copied 8.0G in 00:01:00, on {AT_T1}",
            Scan("EXPAND", "FINISHED", T1, T1),
        ),
    ],
)
def test_evacuations_and_expansions_are_activity(line: str, scan: Scan) -> None:
    text = STATUS.format("none requested").replace("config:", f"{line}\n\t1.0G copied\nconfig:")
    assert scrub_status.from_text(text) == {"tank": scan}
    key = "removal_stats" if scan.function == "REMOVE" else "raidz_expand_stats"
    stats = {"state": scan.state, "start_time": scan.start_s, "end_time": scan.end_s}
    scrub = {"scan_stats": SCRUBBED, key: stats}
    assert scrub_status.from_json({"pools": {"tank": scrub}}) == {"tank": scan}


def test_several_pools_and_none() -> None:
    second = STATUS.format(f"scrub in progress since {AT_T1}").replace("tank", "dose")
    scans = scrub_status.from_text(f"{STATUS.format('none requested')}\n{second}")
    assert scans == {"tank": None, "dose": Scan("SCRUB", "SCANNING", T1, 0)}
    assert scrub_status.from_text("no pools available\n") == {}


@pytest.mark.parametrize(
    ("version", "output"),
    [
        *(
            ("2.1.11", STATUS.format(sentence))
            for sentence in (
                "",
                "trim in progress",
                "scrub in progress since yesterday",
                "scrub in progress since Thu Foo  1 00:00:05 2026",
                f"scrub repaired 0B in a moment with 0 errors on {AT_T1}",
                f"scrub in progress since {AT_T1} or so",
                f"resilver-ish in progress since {AT_T1}",
            )
        ),
        ("2.2.1", "Segmentation fault"),
        *(
            ("2.3.0", text)
            for text in ("", "{", "[]", "[" * 100_000, '{"pools": {"tank": {"scan_stats": {"function": 1}}}}')
        ),
    ],
)
def test_unknown_output_is_refused(version: str, output: str) -> None:
    with pytest.raises(HostError, match="is not understood"):
        scrub_status.read(ScriptedHost(default=output), openzfs_version.parse(version))


@given(st.text())
def test_any_other_sentence_is_a_value_error(text: str) -> None:
    try:
        scrub_status.from_text(text)
        scrub_status.from_text(STATUS.format(text))
    except ValueError:
        pass


SCRUBBED = {"function": "SCRUB", "state": "FINISHED", "start_time": T0, "end_time": T0 + 9}
ERRORS = {"err_scrub_func": "ERRORSCRUB", "err_scrub_state": "ERRORSCRUBBING", "err_scrub_start_time": T0,
          "err_scrub_end_time": 0, "err_scrub_pause": 0}  # fmt: skip
REBUILD = {"rebuild_stats": {"draid1-0": {"state": "ACTIVE", "start_time": T0 + 1, "end_time": 0}}}


@pytest.mark.parametrize(
    ("message", "scan"),
    [
        ({"function": "NONE", "state": "NONE", "start_time": 0, "end_time": 0}, None),
        ({**SCRUBBED, "state": "SCANNING", "scrub_pause": 0}, Scan("SCRUB", "SCANNING", T0, 0)),
        ({**SCRUBBED, "state": "SCANNING", "scrub_pause": T0 + 5}, Scan("SCRUB", "PAUSED", 0, T0 + 5)),
        ({**SCRUBBED, **ERRORS}, Scan("ERRORSCRUB", "SCANNING", T0, 0)),
        ({**SCRUBBED, **REBUILD}, Scan("RESILVER", "SCANNING", T0 + 1, 0)),
        # A pool that was rebuilt and never scrubbed has nothing else.
        (REBUILD, Scan("RESILVER", "SCANNING", T0 + 1, 0)),
        (
            {"rebuild_stats": {"m": {"state": "COMPLETE", "start_time": T0, "end_time": T0 + 2}}},
            Scan("RESILVER", "FINISHED", T0, T0 + 2),
        ),
    ],
)
def test_scrubs_of_errors_pauses_and_rebuilds_in_json(message: dict[str, Any], scan: Scan | None) -> None:
    assert scrub_status.from_json({"pools": {"tank": {"scan_stats": message}}}) == {"tank": scan}


def test_json_is_used_since_openzfs_2_3() -> None:
    server = ScriptedHost(default=json.dumps({"pools": {"tank": {"scan_stats": SCRUBBED}, "other": {}}}))
    scans = scrub_status.read(server, openzfs_version.parse("2.4.1"))
    assert scans == {"tank": Scan("SCRUB", "FINISHED", T0, T0 + 9), "other": None}
    assert "-j" in server.calls[0]


def test_zpool_status_prints_utc() -> None:
    server = ScriptedHost(default="no pools available\n")
    assert scrub_status.read(server, openzfs_version.parse("2.2.6")) == {}
    assert "TZ=UTC" in server.calls[0][-1] and "-j" not in server.calls[0]
