"""plotly.js without what no page of the kit draws: a quarter of its size, and a quarter of its time to start.

The package plotly brings one bundle with all 47 kinds of traces. esbuild made it of CommonJS modules, each
`var NAME=wrap((exports,module)=>{...});`, and the last one registers the traces. What the registered traces
need is kept, as plotly.js's own partial bundles do. A bundle of another shape is used whole.
"""

from __future__ import annotations

import functools
import re
from collections import Counter

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

# `scatter` is a part of the core of plotly.js.
TRACES = ("bar", "heatmap")
_MODULE = re.compile(r"\bvar ([\w$]+)=([\w$]+)\((?=\(|[\w$]+=>)")
# esbuild has two wrappers, for CommonJS and for ES modules; other functions are rarely called like that.
_LEAST_WRAPPED = 10
_REGISTER = re.compile(r"\.register\(\[([\w$(),]+)\]\)")
_WORD = re.compile(r"[\w$]+")
_END = "});"


@functools.cache
def plotly_js() -> str:
    """The script that a page needs."""
    whole = str(get_plotlyjs())
    return reduced(whole) or whole


def reduced(bundle: str) -> str | None:
    """`bundle` with the traces of TRACES alone; None if it has another shape than expected."""
    modules = _modules(bundle)
    if not modules:
        return None
    _, text = modules.popitem()
    listed = _REGISTER.search(text)
    if listed is None:
        return None
    registered = [name.removesuffix("()") for name in listed[1].split(",")]
    wanted = [name for name in registered if _trace(modules, name) in TRACES]
    if len(wanted) != len(TRACES):
        return None
    head = bundle[: bundle.index(next(iter(modules.values())))]
    entry = text.replace(listed[1], ",".join(f"{name}()" for name in wanted))
    kept = {name for name, text in modules.items() if not text.endswith(_END)}
    waiting = [head, entry, *(modules[name] for name in kept)]
    while waiting:
        needed = set(_WORD.findall(waiting.pop())) & modules.keys() - kept
        kept |= needed
        waiting += [modules[name] for name in needed]
    return head + "".join(text for name, text in modules.items() if name in kept) + entry


def _modules(bundle: str) -> dict[str, str]:
    """The text of each module by its name; empty if two have one name."""
    calls = list(_MODULE.finditer(bundle))
    wrappers = Counter(call[2] for call in calls)
    starts = [call for call in calls if wrappers[call[2]] >= _LEAST_WRAPPED]
    ends = [*(start.start() for start in starts[1:]), len(bundle)]
    modules = {start[1]: bundle[start.start() : end] for start, end in zip(starts, ends, strict=False)}
    return modules if len(modules) == len(starts) else {}


def _trace(modules: dict[str, str], name: str) -> str:
    """The kind of trace that a registered module is; empty for none. It may only pass on another module."""
    for _ in range(3):
        text = modules.get(name, "")
        if found := re.search(r'moduleType:"trace",name:"(\w+)"', text):
            return found[1]
        inner = [word for word in re.findall(r"([\w$]+)\(\)", text) if word in modules]
        if len(inner) != 1:
            return ""
        name = inner[0]
    return ""
