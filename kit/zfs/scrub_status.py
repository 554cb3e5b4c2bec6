"""The last scrub, resilver or rebuild of each pool, from `zpool status`.

As JSON where OpenZFS has it (2.3 and later), else from the words for people: those of
cmd/zpool/zpool_main.c of 2.1 and 2.2 (print_scan_status and what it calls), with times in UTC.
A sentence that is none of them is refused.
"""

from __future__ import annotations

import calendar
import json
import re
from dataclasses import dataclass
from typing import Any

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.zfs.openzfs_version import ZfsVersion

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# As ctime(3) has it.
_WHEN = (
    r"(?P<when>\w{3} (?P<month>\w{3}) +(?P<day>\d{1,2}) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d) (?P<year>\d{4}))"
)
_TOOK = r"(?:(?P<days>\d+) days )?(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d)"
_SENTENCES = {
    "FINISHED": re.compile(
        rf"(?P<what>scrub repaired|resilvered)(?: \([^()]+\))? \S+ in {_TOOK} with \d+ errors on {_WHEN}"
    ),
    "CANCELED": re.compile(rf"(?P<what>scrub|resilver)(?: \([^()]+\))? canceled on {_WHEN}"),
    "SCANNING": re.compile(rf"(?P<what>scrub|resilver)(?: \([^()]+\))? in progress since {_WHEN}"),
    # A paused scrub reads nothing. When it was paused is as good as its end.
    "PAUSED": re.compile(rf"(?P<what>scrub) paused since {_WHEN}"),
}
_ERROR_SCRUBS = {
    "FINISHED": re.compile(
        rf"scrubbed \d+ error blocks in (?P<days>\d+) days (?P<hours>\d\d):(?P<minutes>\d\d):"
        rf"(?P<seconds>\d\d) on {_WHEN}"
    ),
    "CANCELED": re.compile(rf"error scrub canceled on {_WHEN}"),
    "SCANNING": re.compile(rf"error scrub in progress since {_WHEN}"),
    "PAUSED": re.compile(rf"error scrub paused since {_WHEN}"),
}
_NEVER = "none requested"
# One word for hosts whose user is no root: sudo keeps no variables of its caller's.
_STATUS = "LC_ALL=C TZ=UTC exec zpool status"


@dataclass(frozen=True)
class Scan:
    """`function` is SCRUB, RESILVER or ERRORSCRUB; times are seconds since 1970, 0 if not known."""

    function: str
    state: str
    start_s: int
    end_s: int

    @property
    def running(self) -> bool:
        return self.state == "SCANNING"


def read(server: Host, zfs: ZfsVersion) -> dict[str, Scan | None]:
    """By pool, None for one that was never scanned. Raises HostError if the answer is not understood."""
    try:
        if zfs.has_json:
            return from_json(json.loads(server.run(["zpool", "status", "-j", "--json-int"]).stdout))
        return from_text(server.run(["sh", "-c", _STATUS]).stdout)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise HostError(
            f"{server.name}: what `zpool status` of OpenZFS {zfs.text} says is not understood: {error}",
            "without it nobody knows whether a scrub or a resilver disturbed the measurement",
        ) from error


def from_json(status: dict[str, Any]) -> dict[str, Scan | None]:
    """Raises KeyError, TypeError, ValueError or AttributeError for what is no such status."""
    return {name: _of_json(entry.get("scan_stats")) for name, entry in status.get("pools", {}).items()}


def _of_json(found: dict[str, Any] | None) -> Scan | None:
    """Of scrub or resilver, scrub of errors and rebuilds of vdevs, the one that matters."""
    if not found:
        return None
    latest = _scan(found, "function", "state", "start_time", "end_time", "scrub_pause")
    names = ("func", "state", "start_time", "end_time", "pause")
    latest = _later(latest, _scan(found, *(f"err_scrub_{name}" for name in names)))
    for rebuild in found.get("rebuild_stats", {}).values():
        state = {"ACTIVE": "SCANNING", "COMPLETE": "FINISHED"}.get(rebuild["state"], str(rebuild["state"]))
        one = Scan("RESILVER", state, int(rebuild["start_time"]), int(rebuild["end_time"]))
        latest = _later(latest, one)
    return latest


def _scan(found: dict[str, Any], function: str, state: str, start: str, end: str, pause: str) -> Scan | None:
    if found.get(function, "NONE") == "NONE":
        return None
    what, begun, ended = str(found[state]), int(found[start]), int(found[end])
    if what in ("SCANNING", "ERRORSCRUBBING"):
        paused = int(found.get(pause) or 0)
        return (
            Scan(found[function], "PAUSED", 0, paused)
            if paused
            else Scan(found[function], "SCANNING", begun, 0)
        )
    return Scan(str(found[function]), what, begun, ended)


def from_text(text: str) -> dict[str, Scan | None]:
    """Raises ValueError for a sentence that is none of OpenZFS 2.1's and 2.2's."""
    found: dict[str, Scan | None] = {}
    pool = None
    for line in text.splitlines():
        # Names of vdevs and words of advice are indented otherwise.
        label, colon, rest = line.partition(": ")
        if colon and label.strip() == "pool" and label.startswith("  "):
            pool = rest
            found[pool] = None
        elif colon and label in ("  scan", "   scrub", " scrub") and pool is not None:
            found[pool] = _later(found[pool], _sentence(rest.strip(), label == "  scan"))
    if not found and text.strip() not in ("no pools available", ""):
        raise ValueError(f"no pool in {text[:200]!r}")
    return found


def _later(one: Scan | None, two: Scan | None) -> Scan | None:
    """Of two the one that matters: what still runs, else what ended last."""
    scans = [scan for scan in (one, two) if scan]
    return max(scans, key=lambda scan: (scan.running, scan.end_s)) if scans else None


def _sentence(text: str, is_scan: bool) -> Scan | None:
    if text == _NEVER:
        return None
    for state, pattern in (_SENTENCES if is_scan else _ERROR_SCRUBS).items():
        if words := pattern.fullmatch(text):
            what = words.groupdict().get("what", "error scrub")
            function = {"scrub": "SCRUB", "error": "ERRORSCRUB"}.get(what.split()[0], "RESILVER")
            if what == "scrub repaired":
                function = "SCRUB"
            when = _seconds(words)
            if state == "SCANNING":
                return Scan(function, state, when, 0)
            if state == "FINISHED":
                return Scan(function, state, when - _took(words), when)
            return Scan(function, state, when if state == "CANCELED" else 0, when)
    raise ValueError(f"{text[:200]!r}")


def _seconds(words: re.Match[str]) -> int:
    if words["month"] not in _MONTHS:
        raise ValueError(f"{words['when']!r} is no time")
    parts = (int(words[key]) for key in ("day", "h", "m", "s"))
    return calendar.timegm((int(words["year"]), _MONTHS.index(words["month"]) + 1, *parts))


def _took(words: re.Match[str]) -> int:
    days, hours, minutes, seconds = (int(words[key] or 0) for key in ("days", "hours", "minutes", "seconds"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
