"""Arrays by their number of drives: measured, N times the mean and the slowest drive, bracket, prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.core.text import commas
from reports.devices.stripes import RUN, MeasuredArray, Scale, Stripes
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace

_TICKS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32]
_FEW_TICKS = [1, 2, 4, 8, 16, 32]
_SHARE, _BELOW = [0.46, 1.0], [0.0, 0.28]
_LEFT, _RIGHT = [0.0, 0.44], [0.56, 1.0]
_BAND = "rgba(79, 149, 230, 0.22)"
_NO_LINE: Trace = {"width": 0}
# Hues of the tiers: readers can tell those apart on light and dark pages.
_LOCK_STEP, _QUEUED, _ALONE = "slog", "pool", "l2arc"


def by_number(found: Stripes) -> Figure:
    """The share of N times the mean drive, MB/s, and latencies of a stripe."""
    traces = [*_shares(found), *_rates(found), *_latencies(found)]
    seen = [v for trace in traces if trace.get("yaxis") == "y3" for v in trace["y"]]
    low, high = min(seen, default=1e-3), max(seen, default=1e-2)
    most = found.scales[-1].number
    along, few = _ticks(_TICKS, most), _ticks(_FEW_TICKS, most)
    layout = figure.layout(
        560, {"l": 62, "r": 30, "t": 40, "b": 110}, dragmode="zoom",
        annotations=[
            figure.panel_title("Rate: % of N single drives", 0, 1),
            figure.panel_title("Bytes a second", _LEFT[0], _BELOW[1]),
            figure.panel_title("Latency of a stripe: p50 (solid), p99 (dashed)", _RIGHT[0], _BELOW[1]),
        ],
        legend={"orientation": "h", "x": 0, "y": -0.15, "yanchor": "top", "font": {"size": 11}},
        xaxis={**along, "anchor": "y"},
        yaxis={"anchor": "x", "domain": _SHARE, "tickformat": ".0%"},
        xaxis2={**few, "anchor": "y2", "domain": _LEFT},
        yaxis2={"type": "log", "anchor": "x2", "domain": _BELOW, "tickformat": ".3~s"},
        xaxis3={**few, "anchor": "y3", "domain": _RIGHT},
        yaxis3=figure.latency_axis(low / 1.5, high * 1.5, anchor="x3", domain=_BELOW),
    )  # fmt: skip
    caption = (
        f"From {commas(found.samples)} chunks of each drive alone. Beyond the measured arrays the expected "
        "rate is a prediction. Bars: 95 % range, within this run."
    )
    narrow = {"margin": {"l": 46, "r": 12}, "xaxis": few}
    return Figure("Stripes by number of drives", traces, layout, caption, csv=_table(found), narrow=narrow)


def _ticks(numbers: Sequence[int], most: int) -> Layout:
    """An axis of numbers of drives, up to `most`."""
    shown = [number for number in numbers if number <= most]
    return {"type": "log", "tickvals": shown, "ticktext": [str(n) for n in shown], "tickangle": 0}


def _line(x: Sequence[int], y: Sequence[float], name: str, axis: str = "", **values: Any) -> Trace:
    return {
        "type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "name": name, "legendgroup": name,
        "xaxis": f"x{axis}", "yaxis": f"y{axis}",
        "hovertemplate": "%{x} drives: %{y:.3~s}B/s<extra>" + name + "</extra>",
        **values,
    }  # fmt: skip


def _dotted(line: Trace, hue: str, size: int = 6, **values: Any) -> Trace:
    """`line` with a marker at each point."""
    marker = {"size": size, "color": palette.line(hue)}
    return {**line, "mode": "lines+markers", "marker": marker, **values}


def _shares(found: Stripes) -> list[Trace]:
    numbers = [scale.number for scale in found.scales]

    def share(name: str) -> list[float]:
        return [getattr(scale, name) / scale.mean for scale in found.scales]

    measured = max((each.number for each in found.lock_step()), default=1)
    percent = {"hovertemplate": "%{x} drives: %{y:.1%}<extra>%{fullData.name}</extra>"}
    ink: Trace = {"meta": {"ink": True}}
    traces = [
        _line(numbers, share("high"), "expected range", line=_NO_LINE, showlegend=False, **percent),
        _line(numbers, share("low"), "expected range", line=_NO_LINE, fill="tonexty", fillcolor=_BAND,
              **percent),
        _line(numbers, [1.0] * len(numbers), "N times the mean drive", line={"width": 1.5}, **ink, **percent),
        _line(numbers, share("slowest"), "N times the slowest", line={"width": 1.5, "dash": "dash"}, **ink,
              **percent),
        _line(numbers, share("run"), f"expected if buffers hold {RUN} chunks",
              line=_hue(_ALONE, width=1.5, dash="dot"), meta={"tier": _ALONE}, **percent),
        _line(numbers[measured - 1 :], share("single")[measured - 1 :],
              "expected if drives wait for each other",
              line=_hue(_ALONE, width=1.5, dash="dash"), meta={"tier": _ALONE}, **percent),
        _line(numbers[measured - 1 :], share("whole")[measured - 1 :], "expected if they catch up",
              line=_hue(_ALONE, width=1.5, dash="dashdot"), meta={"tier": _ALONE}, **percent),
        _points(found.lock_step(), [found.scale(each.number).mean for each in found.lock_step()],
                "measured, one request at a time", _LOCK_STEP),
    ]  # fmt: skip
    for depth, arrays in found.queued().items():
        if arrays[0].number == 1:
            whole = [arrays[0].bytes_per_s * each.number for each in arrays]
            traces.append(_points(arrays, whole, f"{depth} on their way, of N times one drive so", _QUEUED))
    return traces


def _points(arrays: Sequence[MeasuredArray], whole: Sequence[float], name: str, hue: str) -> Trace:
    """Measured rates over `whole`, with what their I/Os leave open."""
    shares = [each.bytes_per_s / of for each, of in zip(arrays, whole, strict=True)]
    around = [share * each.reach for each, share in zip(arrays, shares, strict=True)]
    numbers = [each.number for each in arrays]
    return _dotted(
        _line(numbers, shares, name, line=_hue(hue, width=2), meta={"tier": hue}), hue, 8,
        error_y={"type": "data", "array": around, "thickness": 1.5, "width": 4},
        hovertemplate="%{x} drives: %{y:.1%}<extra>" + name + "</extra>",
    )  # fmt: skip


def _rates(found: Stripes) -> list[Trace]:
    numbers = [scale.number for scale in found.scales]
    traces = [
        _line(numbers, [scale.mean for scale in found.scales], "N times the mean drive", "2",
              line={"width": 1.5}, meta={"ink": True}, showlegend=False),
    ]  # fmt: skip
    queued = [(f"{depth} on their way", _QUEUED, arrays) for depth, arrays in found.queued().items()]
    for name, hue, arrays in [("one on its way", _LOCK_STEP, found.lock_step()), *queued]:
        line = _line([each.number for each in arrays], [each.bytes_per_s for each in arrays], name, "2",
                     line=_hue(hue, width=2), meta={"tier": hue}, showlegend=False)  # fmt: skip
        traces.append(_dotted(line, hue))
    return traces


def _latencies(found: Stripes) -> list[Trace]:
    scales, arrays = found.scales, found.lock_step()
    numbers = [scale.number for scale in scales]
    traces = []
    for quantile, dash in (("p50_ns", "solid"), ("p99_ns", "dash")):
        words = quantile.removesuffix("_ns")
        hover = {"hovertemplate": "%{x} drives: %{y:.3~s}s<extra>" + words + "</extra>"}
        predicted, measured = ([getattr(each, quantile) / 1e9 for each in of] for of in (scales, arrays))
        alone = _line(
            numbers, predicted, f"predicted {words}", "3", line=_hue(_ALONE, width=1.5, dash=dash),
            showlegend=False, meta={"tier": _ALONE}, **hover,
        )  # fmt: skip
        line = _line(
            [each.number for each in arrays], measured, f"measured {words}", "3",
            line=_hue(_LOCK_STEP, width=2, dash=dash), showlegend=False, meta={"tier": _LOCK_STEP}, **hover,
        )  # fmt: skip
        traces += [alone, _dotted(line, _LOCK_STEP)]
    return traces


def _hue(tier: str, **line: Any) -> Trace:
    return {"color": palette.line(tier), **line}


def _table(found: Stripes) -> list[list[Any]]:
    head = ["drives", "mean_bytes_per_s", "slowest_bytes_per_s", "single_bytes_per_s",
            f"runs_of_{RUN}_bytes_per_s", "whole_records_bytes_per_s", "bracket_low_bytes_per_s",
            "bracket_high_bytes_per_s", "predicted_p50_us", "predicted_p99_us",
            "outstanding", "measured_bytes_per_s", "reach", "measured_p50_us", "measured_p99_us"]  # fmt: skip
    table: list[list[Any]] = [head]
    for scale in found.scales:
        mine = [each for each in found.arrays if each.number == scale.number]
        table += [[*_scale(scale), *_measured(each)] for each in mine] or [[*_scale(scale), *[""] * 5]]
    return table


def _scale(scale: Scale) -> list[float]:
    rates = [scale.mean, scale.slowest, scale.single, scale.run, scale.whole, scale.low, scale.high]
    return [scale.number, *rates, scale.p50_ns / 1e3, scale.p99_ns / 1e3]


def _measured(each: MeasuredArray) -> list[float]:
    return [each.outstanding, each.bytes_per_s, each.reach, each.p50_ns / 1e3, each.p99_ns / 1e3]
