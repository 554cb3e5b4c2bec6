"""How the page's tables write a value of a manifest or a summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from kit.core import units
from kit.core.text import commas
from kit.store.labels import tier_name
from kit.store.manifest import Device
from kit.store.parts.bands import PhaseBands
from kit.store.parts.judged import Limit
from kit.store.stored import Stored
from kit.store.summary import Row
from reports.analysis import band_labels
from reports.statistics.quantiles import percentile_text


def css(value: str) -> str:
    """Text inside a string of CSS: what could end it is a number and the space that ends it."""
    return "".join(each if each.isalnum() or each in " .,:;()+-" else f"\\{ord(each):06x} " for each in value)


def us(value: Any) -> str:
    """Microseconds for people; a withheld value says so."""
    if value is None:
        return "n too small"
    return units.format_latency(float(value)) if isinstance(value, (int, float)) else "?"


def percentile(row: Row, name: str) -> str:
    """Of a row of summary.json; a withheld one says so."""
    return percentile_text(row, name) or us(None)


def span(value: Any) -> str:
    """A range in microseconds for people."""
    return units.format_latency_range(*value) if isinstance(value, (list, tuple)) else "-"


def tier(value: Any) -> str:
    return tier_name(str(value))


def _of_numbers(write: Callable[[float], str]) -> Callable[[Any], str]:
    """`write`, and a dash for what is no number."""
    return lambda value: write(value) if isinstance(value, (int, float)) else "-"


def number(value: Any) -> str:
    return commas(value) if isinstance(value, int) else text(value)


def text(value: Any) -> str:
    """A value of the manifest in one line."""
    if value is None or isinstance(value, jinja2.Undefined):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(text(v) for v in value) or "-"
    return str(value)


def limit(value: Limit) -> str:
    """A limit of an expectation: its key, what was observed, and whether it is met."""
    observed = "not known" if value.found is None else f"{value.found:.4g}"
    observed += "" if value.at_most is None else f" to {value.at_most:.4g}"
    words = "not known" if value.ok is None else "met" if value.ok else "not met"
    return f"{text(value.name)} = {text(value.limit)}: {words} ({observed})"


def pairs(value: Any, prefix: str = "") -> Sequence[tuple[str, str]]:
    """A nested table of the manifest as (dotted name, value)."""
    value = value.as_json() if isinstance(value, Stored) else value
    if not isinstance(value, dict):
        return [(prefix or "value", text(value))] if value else []
    listed: list[tuple[str, str]] = []
    for key, inner in value.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        listed += pairs(inner, name) if isinstance(inner, dict) else [(name, text(inner))]
    return listed


def parameters(device: Device) -> str:
    """The numbers of an emulated device's model, as its preset has them; "-" for a real device."""
    shown = [] if device.latency_ns is None else [f"latency {device.latency_ns} ns"]
    for part in (device.parameters or {}).values():
        if isinstance(part, dict):
            shown += [f"{name} {text(value)}" for name, value in part.items() if value is not None]
    if device.bus:
        rest = {key: value for key, value in device.bus.as_json().items() if key != "name"}
        listed = ", ".join(f"{key} {text(value)}" for key, value in rest.items())
        shown.append(f"bus {text(device.bus.name)}: {listed}")
    return ", ".join(shown) or "-"


def misplaced(entry: PhaseBands) -> list[str]:
    """Sentences about I/Os in another tier's band."""
    try:
        return [each.sentence() for each in band_labels.misplaced(entry)]
    except (ArithmeticError, ValueError):
        return []  # a summary.json of somebody else's


ALL: Mapping[str, Callable[..., Any]] = {
    "ns": _of_numbers(lambda ns: units.format_latency(ns / 1e3)),
    "seconds": _of_numbers(units.format_time_s),
    "size": _of_numbers(units.format_binary_bytes),
    "rate": _of_numbers(units.format_rate),
    **{
        each.__name__: each
        for each in (css, limit, us, percentile, span, tier, number, text, pairs, parameters, misplaced)
    },
}
