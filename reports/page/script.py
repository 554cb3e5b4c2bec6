"""The scripts of a page: ES modules, joined into one.

A report is one file that is opened from file://, where a browser lets no module import another, and the
page's policy admits no script but its own text. So the modules under js/ are put one after another, each
behind those it imports, without their import lines and without the word `export`. All share one scope: a
browser refuses a script that declares a name twice, and eslint sees each module as what it is.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_JS = Path(__file__).parent / "js"
_IMPORT = re.compile(r'^import \{([\w\s,]*)\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|let|class|function|async function) (\w+))", re.MULTILINE)
_REST = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


@functools.cache
def script(entry: str = "main.js") -> str:
    """All modules that `entry` imports, and itself, as the text of one script of type `module`."""
    return joined({path.name: path.read_text("utf-8") for path in _JS.glob("*.js")}, entry)


def joined(modules: dict[str, str], entry: str) -> str:
    """The text of `entry` behind all that it imports, each module once.

    Raises ValueError for an import of what is not exported, of a module that imports its importer, and for
    forms of import and export that are not `import {a, b} from "./name.js";` and `export const ...`.
    """
    order: list[str] = []
    _add(modules, entry, order, ())
    return "".join(_plain(name, modules[name]) for name in order)


def _add(modules: dict[str, str], name: str, order: list[str], importers: tuple[str, ...]) -> None:
    """Put `name` and what it imports at the end of `order`."""
    if name in importers:
        raise ValueError(f"modules import each other: {' -> '.join((*importers, name))}")
    if name in order:
        return
    for names, source in _IMPORT.findall(modules[name]):
        missing = {word.strip() for word in names.split(",")} - {"", *_EXPORT.findall(modules[source])}
        if missing:
            raise ValueError(f"{name} imports {', '.join(sorted(missing))}, which {source} does not export")
        _add(modules, source, order, (*importers, name))
    order.append(name)


def _plain(name: str, text: str) -> str:
    plain = _EXPORT.sub("", _IMPORT.sub("", text))
    if rest := _REST.search(plain):
        raise ValueError(f"{name}: {rest[0]!r} is no form of import or export that can be joined")
    return plain
