"""What a page's scripts read, the way encoding.js, cells.js and plotly.js read it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.bins import IntArray
from kit.store.stored import Json
from reports.figures import encoding

_SCRIPT = r'<script type="text/plain" id="({}-\d+(?:-data)?)">(.*?)</script>'
_DIGITS = np.zeros(128, dtype=np.uint64)
_DIGITS[list(encoding.ALPHABET)] = np.arange(85)


def unpacked(text: str) -> bytes:
    """What encoding.packed() was made of."""
    digits = _DIGITS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    missing = -len(digits) % 5
    rows = np.append(digits, np.full(missing, 84, dtype=np.uint64)).reshape(-1, 5)
    words = rows @ np.array([85**n for n in range(4, -1, -1)], dtype=np.uint64)
    data = words.astype(">u4").tobytes()
    return zlib.decompress(data[: len(data) - missing])


def numbers(text: str) -> IntArray:
    """What encoding.packed(encoding.varints(numbers)) was made of."""
    values, value, factor = [], 0, 1
    for byte in unpacked(text):
        value += (byte & 127) * factor
        factor *= 128
        if byte < 128:
            values.append(value)
            value, factor = 0, 1
    return np.array(values, dtype=np.int64)


def counts(block: Json, tier: str) -> dict[tuple[int, float], int]:
    """The I/Os of a tier by column and lower edge in us."""
    columns, packed = block["columns"], block["tiers"][tier]
    places = np.cumsum(numbers(packed["steps"]) + 1) - 1
    return {
        (int(place) % columns, block["edges_us"][int(place) // columns]): int(count)
        for place, count in zip(places, numbers(packed["counts"]), strict=True)
    }


def typed(value: Json) -> npt.NDArray[Any]:
    """A typed array as plotly.js has it."""
    flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=f"<{value['dtype']}")
    return flat.reshape([int(n) for n in value["shape"].split(",")]) if "shape" in value else flat


def _scripts(html: str, kind: str) -> dict[str, Json]:
    listed = re.findall(_SCRIPT.format(kind), html, re.DOTALL)
    return {name: json.loads(unpacked(text)) for name, text in listed}


def specs(html: str) -> list[Json]:
    """What figure.js reads of each figure, in the order of the page; `id` is that of its element."""
    return [{**spec, "id": name.removesuffix("-data")} for name, spec in _scripts(html, "figure").items()]


def cells(html: str) -> dict[str, Json]:
    """The blocks of stored counts by the name that figures have for them."""
    return _scripts(html, "cells")


# What the kit itself writes: lines, bold words, and places for values of a tooltip.
_MARKUP = re.compile(r"</?(?:b|br|extra)>|%\{(?:[xy]|(?:customdata|text)(?:\[\d\])?)(?::[+,.~\w]+)?\}")


def assert_plain(spec: Json) -> None:
    """Nothing that a figure shows has markup of HTML or of Plotly but what the kit itself writes."""
    # A tier is a key in these.
    traces = [{k: v for k, v in trace.items() if k not in ("meta", "legendgroup")} for trace in spec["data"]]
    about = [value for key, value in spec["about"].items() if key != "tier"]
    for text in _strings([spec["title"], spec["layout"], spec["narrow"], traces, about]):
        assert not set(_MARKUP.sub("", text)) & set("<>{}$\\"), text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def heat_maps(figure: Json) -> list[Json]:
    return [trace for trace in figure["data"] if trace["type"] == "heatmap"]
