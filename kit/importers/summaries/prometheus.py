"""Histograms of Prometheus, in its text format or OpenMetrics: cumulative counts up to `le`, by labels.

Counts are those since the program began; where a series is there more than once (scrapes one after the
other), what was added from the first to the last counts. The last bucket, +Inf, has no upper edge: `_sum`, if
there is one, bounds the latencies in it. The unit is that of --unit, else in the metric's name (`_seconds`,
`_ms`); metrics without one are left out. Source: the text formats of Prometheus and OpenMetrics 1.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from kit.core.text import counted
from kit.importers.summaries.summary_file import SummaryFile, summary_format, units_of

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]{0,200}"
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]{0,100})\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_LINE = re.compile(rf'({_NAME})_(bucket|sum)(?:\{{((?:[^"}}]|"(?:[^"\\]|\\.)*")*)\}})?\s+(\S+)(?:\s.*)?')
_INF, _INFINITE = "+Inf", ("+inf", "inf")


@dataclass
class _Sample:
    """A scrape of a series: counts up to each limit (as text: le), the sum, and the line of the first."""

    line: int
    upto: dict[str, int] = field(default_factory=dict)
    total: Decimal | None = None


def read(file: SummaryFile) -> None:
    """Add one exposition. Raises ConfigError, with the line, for damage."""
    series: dict[tuple[str, str], list[_Sample]] = {}
    for number, line in file.lines():
        found = _LINE.fullmatch(line)
        if found and not line.startswith("#"):
            labels = _labels(file, number, found[3] or "")
            limit = labels.pop("le", None)
            key = found[1], ", ".join(f"{name}={value}" for name, value in labels.items())
            if found[2] == "bucket" and limit is not None:
                limit = (
                    _INF if limit.lower() in _INFINITE else f"{file.number(limit, number, 'le').normalize()}"
                )
                samples = series.setdefault(key, [_Sample(number)])
                if limit in samples[-1].upto:
                    samples.append(_Sample(number))
                samples[-1].upto[limit] = file.count(found[4], number)
            elif key in series and found[2] == "sum" and found[4][0] not in "-nN":
                series[key][-1].total = file.number(found[4], number, "a sum")
        elif "_bucket{" in line and not line.startswith("#"):
            raise file.bad_line(number, line, "a bucket of a histogram")
    if not series:
        raise file.fail(None, "no histogram with buckets (le)", "summaries and gauges have no counts")
    for (name, labels_text), samples in series.items():
        _add(file, name, labels_text, samples)


def _labels(file: SummaryFile, number: int, text: str) -> dict[str, str]:
    labels, at, text = {}, 0, text.rstrip()
    while at < len(text):
        found = _LABEL.match(text, at)
        if not found:
            raise file.bad_line(number, text[at:], "a label")
        labels[found[1]] = re.sub(r"\\(.)", r"\1", found[2])
        at = found.end()
    return labels


def _add(file: SummaryFile, name: str, labels: str, samples: list[_Sample]) -> None:
    """One series: its counts, or what was added from its first to its last sample."""
    first, last = samples[0], samples[-1]
    limits = sorted((each for each in last.upto if each != _INF), key=Decimal)
    if _INF not in last.upto or any(each.upto.keys() != last.upto.keys() for each in samples):
        raise file.fail(last.line, f"{name}: buckets are missing, up to +Inf", "is the file whole?")
    upto = [last.upto[limit] for limit in (*limits, _INF)]
    total = last.total
    if first is not last:
        upto = [n - first.upto[limit] for n, limit in zip(upto, (*limits, _INF), strict=True)]
        total = None if total is None or first.total is None else total - first.total
        file.warn(f"{counted(len(samples), 'scrape')}: what was added from the first to the last counts")
    if sorted(upto) != upto or upto[0] < 0:
        what = "counts fall from one limit to the next, or from one scrape to the next"
        raise file.fail(last.line, f"{name}: {what}", "did the program start again? give one scrape")
    if len(units_of(file.options.unit or name)) != 1:
        file.leave_out(f"of {name}: no unit of time in its name, and no --unit", upto[-1])
        return
    unit_ns = file.unit_ns(name)
    # Latencies exactly at a limit are counted below it, and told as at it: a nanosecond.
    edges = [0, *(int(Decimal(limit) * unit_ns) for limit in limits)]
    highs = [max(high, low + 1) for low, high in pairwise(edges)]
    counts = [high - low for low, high in pairwise([0, *upto])]
    title = f"{name}{{{labels}}}" if labels else name
    sum_ns = None if total is None else round(total * unit_ns)
    bins = zip(edges, [*highs, None], counts, strict=True)
    file.add(title, file.op(name, labels), bins, line=last.line, sum_ns=sum_ns)


FORMAT = summary_format(
    "prometheus", rb'[a-zA-Z_:][a-zA-Z0-9_:]*_bucket\{.*\ble="', read, files="Prometheus histograms",
    program="a program with a metrics page", uses=("op", "unit"),
    latency="as the program counted it, in the buckets (le) that it has, since it began",
)  # fmt: skip
