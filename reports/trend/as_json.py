"""A trend for programs (docs/trend.md)."""

from __future__ import annotations

from kit.store.stored import Json
from reports.statistics.change_points import ALPHA
from reports.trend.analyse import ChangePoint, Trend, TrendLine
from reports.trend.recorded_changes import Mark
from reports.trend.sentences import headline, method, sentences
from reports.trend.slower_limit import Gate, reasons, verdict

FORMAT = 1
_UNITS = {"ios_per_s": "1/s", "bytes_per_s": "B/s"}


def as_json(trend: Trend, gate: Gate | None = None) -> Json:
    """`gate`: of --worse-than."""
    return {
        "format": FORMAT,
        "title": trend.title,
        "by": trend.by,
        "headline": headline(trend),
        "sentences": sentences(trend),
        "false_alarms": ALPHA,
        "method": method(trend),
        "runs": [
            {
                "run": point.run, "path": point.name, "started_utc": point.started_utc, "label": label,
                "verdict": point.verdict, "used": point.trusted,
            }
            for point, label in zip(trend.points, trend.labels, strict=True)
        ],
        "marks": [_mark(mark, trend) for mark in trend.marks],
        "figures": [_line(line, trend, gate) for line in trend.lines],
        "checks": [
            {"check": each.name, "states": list(each.states), "failing": each.failing, "known": each.known,
             "history": each.words, "reason": each.text}
            for each in trend.checks
        ],
        "gate": gate and {
            "worse_than": gate.limit, "outcome": gate.outcome, "verdict": verdict(gate),
            "reasons": list(reasons(trend, gate)),
        },
    }  # fmt: skip


def _mark(mark: Mark, trend: Trend) -> Json:
    runs = [trend.points[at].run for at in (mark.at - 1, mark.at)]
    return {"between": runs, "what": mark.what, "before": mark.before, "after": mark.after}


def _line(line: TrendLine, trend: Trend, gate: Gate | None) -> Json:
    means = [each.mean if each else None for each in line.values]
    found, slope, best, now = line.explained.found, line.explained.slope, line.best, line.now_to_past
    return {
        **dict(zip(("phase", "layer", "op", "tier", "figure"), line.key, strict=True)),
        "unit": _UNITS.get(line.key[4], "us"),
        "values": [each.value if each else None for each in means],
        "ranges": [each.range if each else None for each in means],
        "used": [i in line.used for i in range(len(line.values))],
        "judged": line.changes is not None,
        "scatter": found.scatter if found.freedom else None,
        "smallest_found": line.smallest,
        "fits": [fit.kind for fit in line.explained.fits] if best else [],
        "lag1": best and best.lag,
        "moved": line.moved or None,
        "now_to_past": now and {"ratio": now.value, "interval": now.range},
        "slope": slope and {"per_run": slope.value, "interval": slope.range, "runs": len(line.used)},
        "odd": [{"run": trend.points[at].run, "ratio": far} for at, far in line.odd],
        "changes": [_change(change, trend) for change in line.changes or ()],
        "gate": gate and gate.at(line),
    }  # fmt: skip


def _change(change: ChangePoint, trend: Trend) -> Json:
    return {
        "between": [trend.points[at].run for at in (change.before, change.at)],
        "ratio": change.ratio,
        "interval": list(change.interval),
        "first_runs": [trend.points[at].run for at in change.places],
        "marks": [str(mark) for mark in change.marks],
        "near": [str(mark) for mark in change.near],
        "worse": change.worse,
        "mended": change.mended,
    }
