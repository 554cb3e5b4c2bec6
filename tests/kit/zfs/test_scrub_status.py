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
        (
            "scrub repaired 0B in 00:00:10 with 0 errors on Thu Jan  1 00:01:00 2026",
            Scan("SCRUB", "FINISHED", T0 + 50, T0 + 60),
        ),
        (
            "scrub repaired 1.50M in 2 days 01:02:03 with 12 errors on Sat Jan 31 23:59:59 2026",
            Scan("SCRUB", "FINISHED", T0 + 31 * 86400 - 1 - 2 * 86400 - 3723, T0 + 31 * 86400 - 1),
        ),
        ("scrub canceled on Thu Jan  1 00:01:00 2026", Scan("SCRUB", "CANCELED", T0 + 60, T0 + 60)),
        (
            "scrub in progress since Thu Jan  1 00:00:05 2026\n\t1G scanned at 1G/s, 1G issued at 1G/s",
            Scan("SCRUB", "SCANNING", T0 + 5, 0),
        ),
        (
            "scrub paused since Thu Jan  1 00:00:09 2026\n\tscrub started on Thu Jan  1 00:00:05 2026",
            Scan("SCRUB", "PAUSED", 0, T0 + 9),
        ),
        ("resilver in progress since Thu Jan  1 00:00:05 2026", Scan("RESILVER", "SCANNING", T0 + 5, 0)),
        (
            "resilvered 10K in 00:00:01 with 0 errors on Thu Jan  1 00:00:05 2026",
            Scan("RESILVER", "FINISHED", T0 + 4, T0 + 5),
        ),
        (
            "resilvered (draid1-0) 10K in 00:00:01 with 0 errors on Thu Jan  1 00:00:05 2026",
            Scan("RESILVER", "FINISHED", T0 + 4, T0 + 5),
        ),
        (
            "resilver (mirror-1) in progress since Thu Jan  1 00:00:05 2026",
            Scan("RESILVER", "SCANNING", T0 + 5, 0),
        ),
        (
            "resilver (mirror-1) canceled on Thu Jan  1 00:00:05 2026",
            Scan("RESILVER", "CANCELED", T0 + 5, T0 + 5),
        ),
        ("resilver canceled on Thu Jan  1 00:00:05 2026", Scan("RESILVER", "CANCELED", T0 + 5, T0 + 5)),
    ],
)
def test_every_sentence_of_the_old_versions(sentence: str, scan: Scan | None) -> None:
    assert scrub_status.from_text(STATUS.format(sentence)) == {"tank": scan}


@pytest.mark.parametrize(
    ("sentence", "scan"),
    [
        (
            "scrubbed 3 error blocks in 0 days 00:00:02 on Thu Jan  1 00:00:05 2026",
            ("FINISHED", T0 + 3, T0 + 5),
        ),
        ("error scrub in progress since Thu Jan  1 00:00:05 2026", ("SCANNING", T0 + 5, 0)),
        ("error scrub canceled on Thu Jan  1 00:00:05 2026", ("CANCELED", T0 + 5, T0 + 5)),
    ],
)
def test_scrubs_of_errors_alone(sentence: str, scan: tuple[str, int, int]) -> None:
    text = STATUS.format("none requested").replace("config:", f" scrub: {sentence}\nconfig:")
    assert scrub_status.from_text(text) == {"tank": Scan("ERRORSCRUB", *scan)}


def test_a_running_scan_comes_before_an_ended_one() -> None:
    both = (
        "scrub repaired 0B in 00:00:10 with 0 errors on Thu Jan  1 00:01:00 2026\n"
        "  scan: resilver (mirror-0) in progress since Thu Jan  1 00:00:05 2026"
    )
    assert scrub_status.from_text(STATUS.format(both)) == {"tank": Scan("RESILVER", "SCANNING", T0 + 5, 0)}


def test_several_pools_and_none() -> None:
    two = (
        STATUS.format("none requested")
        + "\n"
        + STATUS.format("scrub in progress since Thu Jan  1 00:00:05 2026").replace("tank", "dose")
    )
    assert scrub_status.from_text(two) == {"tank": None, "dose": Scan("SCRUB", "SCANNING", T0 + 5, 0)}
    assert scrub_status.from_text("no pools available\n") == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "trim in progress",
        "scrub in progress since yesterday",
        "scrub in progress since Thu Foo  1 00:00:05 2026",
        "scrub repaired 0B in a moment with 0 errors on Thu Jan  1 00:01:00 2026",
        "scrub in progress since Thu Jan  1 00:00:05 2026 or so",
        "resilver-ish in progress since Thu Jan  1 00:00:05 2026",
    ],
)
def test_an_unknown_sentence_is_refused(sentence: str) -> None:
    with pytest.raises(HostError, match="is not understood"):
        scrub_status.read(ScriptedHost(default=STATUS.format(sentence)), openzfs_version.parse("2.1.11"))


def test_unknown_output_is_refused() -> None:
    with pytest.raises(HostError, match="is not understood"):
        scrub_status.read(ScriptedHost(default="Segmentation fault"), openzfs_version.parse("2.2.1"))


@given(st.text())
def test_any_other_sentence_is_a_value_error(text: str) -> None:
    try:
        scrub_status.from_text(text)
        scrub_status.from_text(STATUS.format(text))
    except ValueError:
        pass


def test_json_is_used_since_openzfs_2_3() -> None:
    observed = {"function": "SCRUB", "state": "FINISHED", "start_time": T0, "end_time": T0 + 9}
    server = ScriptedHost(default=json.dumps({"pools": {"tank": {"scan_stats": observed}, "other": {}}}))
    scans = scrub_status.read(server, openzfs_version.parse("2.4.1"))
    assert scans == {"tank": Scan("SCRUB", "FINISHED", T0, T0 + 9), "other": None}
    assert "-j" in server.calls[0]


SCRUBBED = {"function": "SCRUB", "state": "FINISHED", "start_time": T0, "end_time": T0 + 9}
ERRORS = {"err_scrub_func": "ERRORSCRUB", "err_scrub_state": "ERRORSCRUBBING", "err_scrub_start_time": T0,
          "err_scrub_end_time": 0, "err_scrub_pause": 0}  # fmt: skip
REBUILD = {"rebuild_stats": {"draid1-0": {"state": "ACTIVE", "start_time": T0 + 1, "end_time": 0}}}


@pytest.mark.parametrize(
    ("message", "scan"),
    [
        ({"function": "NONE", "state": "NONE", "start_time": 0, "end_time": 0}, None),
        (
            {**SCRUBBED, "state": "SCANNING", "end_time": 0, "scrub_pause": 0},
            Scan("SCRUB", "SCANNING", T0, 0),
        ),
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


def test_zpool_status_prints_utc() -> None:
    server = ScriptedHost(default="no pools available\n")
    assert scrub_status.read(server, openzfs_version.parse("2.2.6")) == {}
    assert "TZ=UTC" in server.calls[0][-1] and "-j" not in server.calls[0]


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"pools": {"tank": {"scan_stats": {"function": 1}}}}'])
def test_json_that_is_damaged_is_refused(answer: str) -> None:
    with pytest.raises(HostError, match="is not understood"):
        scrub_status.read(ScriptedHost(default=answer), openzfs_version.parse("2.3.0"))
