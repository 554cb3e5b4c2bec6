"""What happened at the server (and to any host's CPU and clock) while a phase ran, as marks on the time axis.

From the manifest: `"events": [{"time_ns", "end_ns", "kind", "text"}]` of a phase; times in ns since the
run began, `end_ns` null for what has no length. Events of the run itself (faults that were injected) are in
the same form at the manifest's top.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.store.phase import Event
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


def marks(events: Iterable[Event], start_ns: int, last_ns: int) -> tuple[list[Json], int]:
    """Those of `events` that touch the time axis from `start_ns` to `last_ns`, and how many are left out.

    Times of marks are seconds since the axis starts. An event that ends before it begins is left out.
    """
    found: list[Json] = []
    ignored = 0
    for event in events:
        if event.end_ns is not None and event.end_ns < event.time_ns:
            ignored += 1
        elif event.time_ns < last_ns and (event.end_ns or event.time_ns) >= start_ns:
            found.append(_mark(event))
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


def _mark(event: Event) -> Json:
    """The event with inert words."""
    return {
        "time_ns": event.time_ns,
        "end_ns": event.end_ns,
        "kind": KNOWN.get(event.kind) or plotly_text(event.kind or "event", 40) or "event",
        "text": plotly_text(event.text, 120),
    }


def _relative(event: Json, start_ns: int, last_ns: int) -> Json:
    end = event["end_ns"]
    return {
        "from_s": (max(event["time_ns"], start_ns) - start_ns) / 1e9,
        "to_s": None if end is None else (min(end, last_ns) - start_ns) / 1e9,
        "kind": event["kind"],
        "text": event["text"],
    }
