"""What was recorded and changed from one point to the next. Pure.

A trend goes over versions and settings of the machines; what was measured must stay the same. So some keys
of reports.comparison.comparability are marks here, and all others refuse.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.comparison.comparability import covers, shown
from reports.trend.trend_point import TrendPoint

_DEVICE = re.compile(
    r"testbed\.devices\.([^.]+)\.(settings|parameters|bus)\.(.+)|testbed\.devices\.([^.]+)\.(latency_ns)"
)
_MARKED = ("versions.", "clock.", "host.", "machines.", "testbed.lab.dilation", "testbed.lab.clock")
_VERSIONS = {"hsp": "hsp", "zfs": "OpenZFS", "kernel": "kernel", "server": "version of the server"}
_KINDS = {
    "firmware": "firmware", "write_cache": "write cache", "nr_requests": "queue (nr_requests)",
    "max_sectors_kb": "largest request (max_sectors_kb)",
}  # fmt: skip
_CLOCK = {"kind": "clock", "dilation": "dilation of the clock"}
_MOST_CHARACTERS = 60
_DIGITS = 8


@dataclass(frozen=True)
class What:
    """What may change, by its name. `kind`: of what a point is labelled with."""

    text: str
    kind: Literal["server", "firmware", "other"] = "other"


@dataclass(frozen=True)
class Mark:
    """A change before the point number `at`. `before`, `after`: its values as text."""

    at: int
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what} {self.before} \N{RIGHTWARDS ARROW} {self.after}"


def is_marked(key: str) -> bool:
    """Whether a setting may change within a trend, and is marked."""
    return key.startswith(_MARKED) or key == "nfs.version" or _DEVICE.fullmatch(key) is not None


def values_of(point: TrendPoint, across: Sequence[str] = ()) -> dict[What, str]:
    """What a point has recorded of what is marked, as text.

    `across`: other keys that may change. Of an emulated device the model is one value: the digest of its
    parameters.
    """
    found: dict[What, str] = {}
    models: dict[str, dict[str, Any]] = {}
    for settings in point.settings.values():
        for key, value in settings.items():
            match = _DEVICE.fullmatch(key)
            is_shown = is_marked(key) and not key.startswith("testbed.lab.")
            if match and match[2] in ("parameters", "bus") and match[3] != "firmware":
                models.setdefault(match[1], {})[key] = value
            elif is_shown or any(covers(each, key) for each in across):
                found.setdefault(_what(key, point.names), _text(value))
    for device, parameters in models.items():
        text = json.dumps(parameters, sort_keys=True).encode()
        found[What(f"model of {device}")] = f"#{hashlib.sha256(text).hexdigest()[:_DIGITS]}"
    return found


def marks_of(points: Sequence[TrendPoint], across: Sequence[str] = ()) -> list[Mark]:
    """Every change, in order. What only one of two points recorded is no change of a device or setting."""
    every = [values_of(point, across) for point in points]
    return [
        Mark(at, what.text, value, after[what])
        for at, (before, after) in enumerate(itertools.pairwise(every), 1)
        for what, value in before.items()
        if what in after and value != after[what]
    ]


def version_labels(points: Sequence[TrendPoint]) -> list[str]:
    """The version that each point has: of the server where it varies, else firmware, else all else that does.

    Nothing where nothing varies.
    """
    every = [values_of(point) for point in points]
    varying = [
        what for what in dict.fromkeys(key for each in every for key in each)
        if len({each.get(what) for each in every}) > 1
    ]  # fmt: skip
    if not varying:
        return []
    by_kind = ([what for what in varying if what.kind == kind] for kind in ("server", "firmware"))
    chosen = next(filter(None, by_kind), varying)
    return [", ".join(_label(what, each.get(what, "?"), len(chosen)) for what in chosen) for each in every]


def _label(what: What, value: str, number: int) -> str:
    return value if number == 1 and what.kind != "other" else f"{what.text} {value}"


def _what(key: str, names: Mapping[str, str]) -> What:
    match = _DEVICE.fullmatch(key)
    if match and match[3] == "firmware":
        return What(_name_of(key, names), "firmware")
    return What(_name_of(key, names), "server" if key == "versions.server" else "other")


def _name_of(key: str, names: Mapping[str, str]) -> str:
    first, _, rest = key.partition(".")
    if match := _DEVICE.fullmatch(key):
        device, kind = match[1] or match[4], match[3] or "latency"
        return f"{_KINDS.get(kind, kind.replace('.', ' '))} of {device}"
    if first == "versions":
        return _VERSIONS.get(rest, rest)
    if first == "clock":
        return _CLOCK.get(rest, key)
    if first == "host":
        return names.get(rest, rest)
    if first == "machines":
        machine, _, setting = rest.partition(".")
        return f"{setting.rpartition('.')[2]} of the {machine}"
    return "NFS version" if key == "nfs.version" else key


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else shown(value, None)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def marked_keys(points: Sequence[TrendPoint]) -> list[str]:
    """All keys of the points that are marks."""
    keys = {key for point in points for settings in point.settings.values() for key in settings}
    return sorted(key for key in keys if is_marked(key))
