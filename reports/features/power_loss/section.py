"""The page's figure and table of power losses: what was there after each, and of the control."""

from __future__ import annotations

from typing import Any

from kit.core.units import commas
from kit.store.manifest import Manifest, Moment, PowerLoss
from kit.store.summary import Summary
from reports.features.power_loss.judge import CLASSES, counts_of, lost_of, table
from reports.features.section import Section
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Trace

_HEIGHT_PX = 300
_THERE, _NOT = "as acknowledged", "lost, torn, old, foreign or gone"
_CONTROL = "control: lost, as it must be"


def section(manifest: Manifest, _: Summary) -> Section | None:
    """Of a run with power losses."""
    losses = manifest.power_loss
    if losses is None or not losses.moments:
        return None
    figures = [*filter(None, [bars(losses)])]
    return Section("power", "Power losses", "power_loss/power-loss.html.j2", table(losses), figures)


def bars(power_loss: PowerLoss) -> Figure | None:
    """Records that were looked for, and what was found; None where none was looked for."""
    own = [moment for moment in power_loss.moments if moment.looked_at]
    control = [moment for moment in power_loss.control_moments if moment.looked_at]
    if not own:
        return None
    # A place without a bar stands between them.
    places = [*range(1, len(own) + 1), *range(len(own) + 2, len(own) + 2 + len(control))]
    moments = [*own, *control]
    lost = [lost_of([moment]) for moment in moments]
    there = [(moment.looked_at or 0) - bad for moment, bad in zip(moments, lost, strict=True)]
    names = [f"power loss {number}" for number in range(1, len(own) + 1)] + ["control"] * len(control)
    bars_lost = [*zip(places, lost, names, strict=True)]
    traces = [
        _trace(_THERE, [*zip(places, there, names, strict=True)], palette.line("slog"), tier="slog"),
        _trace(_NOT, bars_lost[: len(own)], palette.FAULT),
        _trace(_CONTROL, bars_lost[len(own) :], palette.scale("")[0][1]),
    ]
    middle = (places[-1] + len(own) + 2) / 2
    titles = [("power losses", (1 + len(own)) / 2), *([("control", middle)] if control else [])]
    wide, narrow = ([1, *range(step, len(own) + 1, step)] for step in (-(-len(own) // 20), -(-len(own) // 4)))
    layout = figure.layout(
        _HEIGHT_PX, {"l": 62, "r": 16, "t": 34, "b": 60}, barmode="stack", bargap=0.25, dragmode=False,
        annotations=[
            {"x": x, "y": -0.13, "xref": "x", "yref": "paper", "yanchor": "top", "showarrow": False,
             "text": text, "font": {"size": 12}}
            for text, x in titles
        ],
        xaxis={"range": [0.4, places[-1] + 0.6], "tickvals": wide, "fixedrange": True,
               "showgrid": False},
        yaxis={"rangemode": "tozero", "title": {"text": "records"}, "fixedrange": True, "nticks": 5},
    )  # fmt: skip
    return Figure(
        "Records looked for after each power loss", traces, layout, _caption(power_loss, control),
        csv=_table(names, moments), narrow={"xaxis": {"tickvals": narrow}, "margin": {"l": 46, "r": 26}},
    )  # fmt: skip


def _caption(power_loss: PowerLoss, control: list[Moment]) -> str:
    """What the control is for."""
    caption = "Bar: records that were acknowledged before the power loss, and were looked for after it."
    if not control:
        return caption
    what = "are not synchronous" if power_loss.control == "no-sync" else "have no FLUSH"
    return f"{caption} Writes of the control {what}: some must be lost, or a loss could not be seen."


def _trace(name: str, shown: list[tuple[int, int, str]], colour: Any, **meta: str) -> Trace:
    """`shown`: place, records and name of each bar."""
    return {
        "type": "bar", "name": name, "x": [place for place, *_ in shown],
        "y": [records for _, records, _ in shown], "meta": meta,
        "marker": {"color": colour, "line": {"width": 0}},
        "customdata": [f"{each}: {commas(records)}" for _, records, each in shown],
        "hovertemplate": f"%{{customdata}} {name}<extra></extra>",
    }  # fmt: skip


def _table(names: list[str], moments: list[Moment]) -> list[list[Any]]:
    rows = [
        [name, moment.acknowledged, moment.looked_at, *counts_of(moment).values()]
        for name, moment in zip(names, moments, strict=True)
    ]
    return [["power_loss", "acknowledged", "looked_for", *CLASSES], *rows]
