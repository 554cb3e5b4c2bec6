"""What happened at the server (and to any host's CPU and clock) while a phase ran, as marks on the time axis.

From the manifest: `"events": [{"time_ns", "end_ns", "kind", "text"}]` of a phase; times in ns since the
run began, `end_ns` null for what has no length. Events of the run itself (faults that were injected) are in
the same form at the manifest's top.
"""

from __future__ import annotations

from typing import Any

from reports.figures.text import plotly_text

Json = dict[str, Any]
# More than one per column of the longest time axis would be a wall.
MOST = 4000
_KINDS = 12
# What the legend calls them; the first are drawn whatever else there is. Other kinds go by their own name.
KNOWN = {
    "fault": "fault",
    "scrub": "scrub",
    "resilver": "resilver",
    "trim": "trim",
    "throttling": "CPU throttling",
    "clock-step": "clock step",
    "suspend": "suspend",
    "txg": "txg sync",
    "l2arc-feed": "L2ARC feed",
}


def with_those_of_the_run(phase: Json, manifest: Json) -> Json:
    """`phase` with the events that the manifest has for the whole run; what is damaged is left as it is."""
    own, of_run = phase.get("events") or [], manifest.get("events") or []
    if not of_run or not isinstance(own, list):
        return phase
    return {**phase, "events": [*own, *(of_run if isinstance(of_run, list) else [of_run])]}


def of_phase(phase: Json, start_ns: int, last_ns: int) -> tuple[list[Json], int]:
    """Events that touch the time axis from `start_ns` to `last_ns`, and how many are damaged or left out.

    Their times are seconds since the axis starts.
    """
    listed = phase.get("events") or []
    if not isinstance(listed, list):
        return [], 1
    found: list[Json] = []
    ignored = 0
    for entry in listed:
        event = _checked(entry)
        if event is None:
            ignored += 1
        elif event["time_ns"] < last_ns and (event["end_ns"] or event["time_ns"]) >= start_ns:
            found.append(event)
    found.sort(key=lambda event: (event["time_ns"], event["kind"]))
    names = list(KNOWN.values())
    kinds = list(dict.fromkeys(event["kind"] for event in found))
    kinds.sort(key=lambda kind: names.index(kind) if kind in names else len(names))
    # What is known is not pushed out by a crowd of what is not, nor a fault by anything.
    kept = sorted((e for e in found if e["kind"] in kinds[:_KINDS]), key=lambda e: kinds.index(e["kind"]))[
        :MOST
    ]
    kept.sort(key=lambda event: event["time_ns"])
    ignored += len(found) - len(kept)
    return [_relative(event, start_ns, last_ns) for event in kept], ignored


def _checked(entry: Any) -> Json | None:
    """The event with inert words, or None if it is damaged."""
    if not isinstance(entry, dict):
        return None
    time, end = entry.get("time_ns"), entry.get("end_ns")
    if type(time) is not int or not (end is None or (type(end) is int and end >= time)):
        return None
    return {
        "time_ns": time,
        "end_ns": end,
        "kind": _name(entry.get("kind")),
        "text": plotly_text(entry.get("text") or "", 120),
    }


def _name(kind: Any) -> str:
    known = KNOWN.get(kind) if isinstance(kind, str) else None
    return known or plotly_text(kind or "event", 40) or "event"


def _relative(event: Json, start_ns: int, last_ns: int) -> Json:
    end = event["end_ns"]
    return {
        "from_s": (max(event["time_ns"], start_ns) - start_ns) / 1e9,
        "to_s": None if end is None else (min(end, last_ns) - start_ns) / 1e9,
        "kind": event["kind"],
        "text": event["text"],
    }
