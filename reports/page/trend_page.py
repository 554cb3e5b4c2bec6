"""One page of a trend: sentences, a figure for each phase and layer, marks, checks, a row for each figure."""

from __future__ import annotations

from collections import Counter

from kit.store.labels import LAYER_NAMES, verdict_name
from reports.figures.runs import trend as figures
from reports.page import document
from reports.trend.analyse import Trend
from reports.trend.sentences import headline, method, places, remarks, row_of
from reports.trend.slower_limit import Gate, badge, reasons, verdict


@document.damage_refused("a run of the trend", "look at each run with `hsp show`")
def render(trend: Trend, gate: Gate | None = None) -> str:
    """The page as HTML that needs nothing else. `gate`: of --worse-than. Raises ConfigError."""
    collected = document.Figures()
    drawn = [(layer, collected.add(figure, "trend")) for layer, figure in figures.figures(trend, gate)]
    said = headline(trend)
    return document.render(
        "trend.html.j2",
        collected,
        [said, f"{trend.points[0].run} to {trend.points[-1].run}"],
        trend=trend,
        said=said,
        places=places(trend),
        remarks=remarks(trend),
        method=method(trend),
        figures=drawn,
        layers=LAYER_NAMES,
        rows=[(line, row_of(line)) for line in trend.lines],
        gate=gate,
        badge=badge(gate) if gate else "",
        counted=verdict(gate) if gate else "",
        states=Counter(verdict_name(point.verdict or "not judged") for point in trend.points),
        reasons=list(reasons(trend, gate)) if gate else [],
    )
