"""The last scrub, resilver, rebuild, evacuation or expansion of each pool, from `zpool status`.

OpenZFS 2.3 and later print JSON. For 2.1 and 2.2 the text is parsed (print_scan_status in
cmd/zpool/zpool_main.c), with times in UTC. An unknown sentence is an error.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass
from typing import Any

from kit.core.errors import HostError
from kit.core.text import json_value
from kit.hosts.base import Host
from kit.zfs.openzfs_version import ZfsVersion

# As ctime(3) has it.
_WHEN = r"(?P<when>\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4})"
_TOOK = r"(?:(?P<days>\d+) days )?(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d)"
_SUBJECT = r"(?P<subject>scrub|resilver|error scrub)(?: \([^()]+\))?"
_SENTENCES = {
    "FINISHED": re.compile(
        r"(?P<subject>scrub repaired|resilvered|scrubbed)(?: \([^()]+\))? \S+(?: error blocks)?"
        rf" in {_TOOK}(?: with \d+ errors)? on {_WHEN}"
    ),
    "CANCELED": re.compile(rf"{_SUBJECT} canceled on {_WHEN}"),
    "SCANNING": re.compile(rf"{_SUBJECT} in progress since {_WHEN}"),
    # A paused scrub reads nothing: the time of the pause counts as its end.
    "PAUSED": re.compile(rf"{_SUBJECT} paused since {_WHEN}"),
}
# print_removal_status() and print_raidz_expand_status(): of `zpool remove`, and of `zpool attach` to a RAIDZ.
_MOVES = {
    "FINISHED": re.compile(rf"(?:Removal of vdev|expanded) .+ copied .+ on {_WHEN}"),
    "CANCELED": re.compile(rf"Removal of .+ canceled on {_WHEN}"),
    "SCANNING": re.compile(rf"(?:Evacuation|expansion) of .+ in progress since {_WHEN}"),
    "PAUSED": re.compile(rf"expansion of .+ paused since {_WHEN}"),
}
_MOVE_FUNCTIONS = {"remove": "REMOVE", "expand": "EXPAND"}
_FUNCTIONS = {
    **dict.fromkeys(("scrub", "scrub repaired"), "SCRUB"),
    **dict.fromkeys(("resilver", "resilvered"), "RESILVER"),
    **dict.fromkeys(("error scrub", "scrubbed"), "ERRORSCRUB"),
}
# As text for a shell: sudo does not keep the caller's environment.
STATUS_TEXT = "LC_ALL=C TZ=UTC exec zpool status"
STATUS_JSON = ("zpool", "status", "-j", "--json-int")
WORDS = {
    "SCRUB": "scrub",
    "RESILVER": "resilver",
    "ERRORSCRUB": "errorscrub",
    "REMOVE": "evacuation",
    "EXPAND": "expansion",
}


@dataclass(frozen=True)
class Scan:
    """`function` is a key of WORDS; times are seconds since 1970, 0 if unknown."""

    function: str
    state: str
    start_s: int
    end_s: int

    @property
    def running(self) -> bool:
        return self.state == "SCANNING"


def read(server: Host, zfs: ZfsVersion) -> dict[str, Scan | None]:
    """The last scan of each pool, None if there was none. Raises HostError."""
    try:
        if zfs.has_json:
            return from_json(json_value(server.run(list(STATUS_JSON)).stdout))
        return from_text(server.run(["sh", "-c", STATUS_TEXT]).stdout)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise HostError(
            f"{server.name}: the output of `zpool status` of OpenZFS {zfs.text} is not understood: {error}",
            "without it a scrub, resilver or evacuation during the measurement cannot be detected",
        ) from error


def from_json(status: dict[str, Any]) -> dict[str, Scan | None]:
    """From JSON. Raises KeyError, TypeError, ValueError or AttributeError if it has another form."""
    return {name: _of_pool(entry) for name, entry in status.get("pools", {}).items()}


def _of_pool(entry: dict[str, Any]) -> Scan | None:
    latest = None
    for key, function in (("removal_stats", "REMOVE"), ("raidz_expand_stats", "EXPAND")):
        if (stats := entry.get(key)) and stats["state"] != "NONE":
            scan = Scan(function, str(stats["state"]), int(stats["start_time"]), int(stats["end_time"]))
            latest = _later(latest, scan)
    return _later(latest, _of_json(entry.get("scan_stats")))


def _of_json(status: dict[str, Any] | None) -> Scan | None:
    """The most relevant of scrub or resilver, error scrub, and rebuilds of vdevs."""
    if not status:
        return None
    latest = _scan(status, "function", "state", "start_time", "end_time", "scrub_pause")
    names = ("func", "state", "start_time", "end_time", "pause")
    latest = _later(latest, _scan(status, *(f"err_scrub_{name}" for name in names)))
    for rebuild in status.get("rebuild_stats", {}).values():
        state = {"ACTIVE": "SCANNING", "COMPLETE": "FINISHED"}.get(rebuild["state"], str(rebuild["state"]))
        scan = Scan("RESILVER", state, int(rebuild["start_time"]), int(rebuild["end_time"]))
        latest = _later(latest, scan)
    return latest


def _scan(status: dict[str, Any], function: str, state: str, start: str, end: str, pause: str) -> Scan | None:
    if status.get(function, "NONE") == "NONE":
        return None
    observed, begin_s, end_s = str(status[state]), int(status[start]), int(status[end])
    if observed in ("SCANNING", "ERRORSCRUBBING"):
        pause_s = int(status.get(pause) or 0)
        if pause_s:
            return Scan(status[function], "PAUSED", 0, pause_s)
        return Scan(status[function], "SCANNING", begin_s, 0)
    return Scan(str(status[function]), observed, begin_s, end_s)


def from_text(text: str) -> dict[str, Scan | None]:
    """From the text of OpenZFS 2.1 and 2.2. Raises ValueError for an unknown sentence."""
    scans: dict[str, Scan | None] = {}
    pool = None
    for line in text.splitlines():
        # Names of vdevs and advice have another indentation.
        label, colon, rest = line.partition(": ")
        if colon and label.strip() == "pool" and label.startswith("  "):
            pool = rest
            scans[pool] = None
        elif colon and label in ("  scan", "   scrub", " scrub") and pool is not None:
            scans[pool] = _later(scans[pool], _sentence(rest.strip()))
        elif colon and label in _MOVE_FUNCTIONS and pool is not None:
            scans[pool] = _later(_move(_MOVE_FUNCTIONS[label], rest.strip()), scans[pool])
    if not scans and text.strip() not in ("no pools available", ""):
        raise ValueError(f"no pool in {text[:200]!r}")
    return scans


def _later(first: Scan | None, second: Scan | None) -> Scan | None:
    """A running scan, else the one that ended last."""
    scans = [scan for scan in (first, second) if scan]
    return max(scans, key=lambda scan: (scan.running, scan.end_s)) if scans else None


def _sentence(text: str) -> Scan | None:
    if text == "none requested":
        return None
    for state, pattern in _SENTENCES.items():
        if match := pattern.fullmatch(text):
            function, time_s = _FUNCTIONS[match["subject"]], calendar.timegm(time.strptime(match["when"]))
            if state == "SCANNING":
                return Scan(function, state, time_s, 0)
            if state == "FINISHED":
                return Scan(function, state, time_s - _took(match), time_s)
            return Scan(function, state, time_s if state == "CANCELED" else 0, time_s)
    raise ValueError(f"{text[:200]!r}")


def _move(function: str, text: str) -> Scan:
    for state, pattern in _MOVES.items():
        if match := pattern.fullmatch(text):
            time_s = calendar.timegm(time.strptime(match["when"]))
            is_running = state == "SCANNING"
            # Its begin is in the status only while it runs.
            return Scan(function, state, time_s, 0 if is_running else time_s)
    raise ValueError(f"{text[:200]!r}")


def _took(match: re.Match[str]) -> int:
    days, hours, minutes, seconds = (int(match[key] or 0) for key in ("days", "hours", "minutes", "seconds"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
