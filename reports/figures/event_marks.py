"""What happened at the server (and to any host's CPU and clock) while a phase ran, as marks on the time axis.

From the manifest: `"events": [{"time_ns", "end_ns", "kind", "text"}]` of a phase; times in ns since the
run began, `end_ns` null for what has no length. Events of the run itself (faults that were injected) are in
the same form at the manifest's top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kit.store.phase import Event, Phase
from reports.figures import palette
from reports.figures.heat_map import CountGrid
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text

# One per column of the longest time axis; more would hide the heat map.
MOST = 4000
_KINDS = 12
# What the legend calls them; the first are drawn whatever else there is. Other kinds go by their own name.
KNOWN = {
    "fault": "fault",
    "recover-by": "recovery limit",
    "expected": "expected event",
    "scrub": "scrub",
    "resilver": "resilver",
    "trim": "trim",
    "throttling": "CPU throttling",
    "drive-throttling": "drive throttling",
    "drive-report": "report of a drive",
    "clock-step": "clock step",
    "suspend": "suspend",
    "txg": "txg sync",
    "l2arc-feed": "L2ARC feed",
    "gap": "not measured",
}


@dataclass(frozen=True)
class EventMark:
    """Seconds since the axis starts; `to_s`: None where it has no length."""

    from_s: float
    to_s: float | None
    kind: str
    text: str


def marks(events: Iterable[Event], start_ns: int, last_ns: int) -> tuple[list[EventMark], int]:
    """Those of `events` that touch the time axis from `start_ns` to `last_ns`, and how many are left out.

    An event that ends before it begins is left out.
    """
    touching: list[tuple[str, Event]] = []
    ignored = 0
    for event in events:
        if event.end_ns is not None and event.end_ns < event.time_ns:
            ignored += 1
        elif event.time_ns < last_ns and (event.end_ns or event.time_ns) >= start_ns:
            kind = KNOWN.get(event.kind) or plotly_text(event.kind or "event", 40) or "event"
            touching.append((kind, event))
    touching.sort(key=lambda mark: (mark[1].time_ns, mark[0]))
    names = list(KNOWN.values())
    kinds = list(dict.fromkeys(kind for kind, _ in touching))
    kinds.sort(key=lambda kind: names.index(kind) if kind in names else len(names))
    # A crowd of unknown kinds does not push out a known kind, and nothing pushes out a fault.
    rank = {kind: number for number, kind in enumerate(kinds[:_KINDS])}
    kept = sorted((mark for mark in touching if mark[0] in rank), key=lambda mark: rank[mark[0]])[:MOST]
    kept.sort(key=lambda mark: mark[1].time_ns)
    drawn = [
        EventMark(
            (max(event.time_ns, start_ns) - start_ns) / 1e9,
            None if event.end_ns is None else (min(event.end_ns, last_ns) - start_ns) / 1e9,
            kind,
            plotly_text(event.text, 120),
        )
        for kind, event in kept
    ]
    return drawn, ignored + len(touching) - len(kept)


def faults_of(phase: Phase) -> Iterator[Event]:
    """The declared faults of a phase that happened, and until when it should have recovered from each."""
    for each in phase.schedule.actions if phase.schedule else ():
        if each.kind == "fault" and each.begin_ns is not None:
            end_ns = each.end_ns if each.end_ns is not None else phase.end_ns
            yield Event(time_ns=each.begin_ns, end_ns=end_ns, kind="fault", text=each.text)
            if each.recover_within_ns is not None:
                by_ns = (each.begin_ns if each.lasted else end_ns) + each.recover_within_ns
                yield Event(time_ns=by_ns, kind="recover-by", text=f"{each.text}: recovered by then")


_DASHES = ("dot", "dash", "dashdot", "longdash", "longdashdot", "solid")
# A fault is what a reader looks for first.
_OWN_LINES = {
    "fault": {"color": palette.FAULT, "width": 2.2, "dash": "solid"},
    "recovery limit": {"color": palette.FAULT, "width": 1.4, "dash": "dash"},
}
# So many of a kind are whole lines; more would be a fence in front of the map.
_LINES = 12


def over(events: Iterable[Event], stored: CountGrid, low_s: float, high_s: float) -> tuple[list[Trace], int]:
    """Traces over a map of `stored`, and how many events are left out (`marks`).

    One per kind of mark: lines, or frames, on a logarithmic axis of latency from `low_s` to `high_s`.
    """
    drawn, ignored = marks(events, stored.start_ns, stored.start_ns + stored.width_ns * stored.columns)
    made: list[Trace] = []
    for number, kind in enumerate(dict.fromkeys(mark.kind for mark in drawn)):
        mine = [mark for mark in drawn if mark.kind == kind]
        short = high_s * (low_s / high_s) ** 0.04
        foot = low_s if len(mine) <= _LINES or kind == "fault" else short
        x: list[float | None] = []
        y: list[float | None] = []
        texts: list[str] = []
        for mark in mine:
            begin, end = mark.from_s, mark.to_s
            until = f" to {end:.3f}" if end is not None else ""
            path = [(begin, foot), (begin, high_s)]
            if end is not None and end > begin:
                path += [(end, high_s), (end, foot)]
            x += [point[0] for point in path] + [None]
            y += [point[1] for point in path] + [None]
            texts += [f"{begin:.3f}{until} s: {mark.text or kind}"] * len(path) + [""]
        line = _OWN_LINES.get(kind) or {
            "color": palette.EVENTS[number % len(palette.EVENTS)], "width": 1.4,
            "dash": _DASHES[number % len(_DASHES)],
        }  # fmt: skip
        made.append({
            "type": "scatter", "mode": "lines", "name": kind, "x": x, "y": y, "text": texts, "line": line,
            "connectgaps": False, "hovertemplate": f"%{{text}}<extra>{kind}</extra>",
        })  # fmt: skip
    return made, ignored
