"""Who may name a program, a host or a path: the class of each key that names something outside its file.

A testbed is a program. It is named on the command line, and nowhere else. A workload, a base, a run
directory, a series and an import are data: what they name is data too, a plain name beside the file, or a
name of the kit's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from kit.core.own_file import read_beside
from kit.core.text import safe_text

# "data": a file beside the one that names it. "kept": the same, and it is written. "kit": a name of the kit's
# own files. "program": what is run or contacted, or a file that says so.
Class = Literal["data", "kept", "kit", "program"]

# By kind of file and key, as in the kit's JSON schemas.
CLASSES: Mapping[str, Class] = {
    "workload.base": "data",
    "workload.lab": "data",
    "workload.reference": "kit",
    "workload.warmup.job": "data",
    "workload.phase.[].job": "data",
    "workload.phase.[].replay.capture": "data",
    "workload.tree.list": "data",
    "testbed.ssh_config": "program",
    "testbed.server.host": "program",
    "testbed.server.address": "program",
    "testbed.server.export": "program",
    "testbed.client.[].host": "program",
    "testbed.client.[].address": "program",
    "testbed.device.[].path": "program",
    "testbed.device.[].preset": "kit",
    "testbed.device.[].file": "data",
    "testbed.device.[].keep": "kept",
    "testbed.device.[].emulated.controller.backing": "kit",
    "testbed.device.[].set.*": "kit",
    "testbed.device.[].set.*.*": "kit",
    "testbed.setting.[].get.[]": "program",
    "testbed.setting.[].set.[]": "program",
    "testbed.power.off.[]": "program",
    "testbed.power.on.[]": "program",
    "testbed.power.count.[]": "program",
    "testbed.restart.command.[]": "program",
    "testbed.command.[].run.[]": "program",
    "testbed.command.[].undo.[]": "program",
    "device.controller.backing": "kit",
    # Of what is resumed: kit.session.agreement.resuming.
    "series.sources.[]": "program",
}
# Their files are as trusted as the program itself.
_KIT = tuple(Path(__file__).parents[2] / folder for folder in ("workloads", "kit/lab"))
_PLAIN = re.compile(r"(?!\.)[^/\0]{1,255}")
_KEPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


def beside(key: str, by: Path, name: str) -> Path:
    """The file that `key` (of CLASSES) of the file `by` names. Raises ValueError: not a plain name."""
    pattern = {"data": _PLAIN, "kept": _KEPT}[CLASSES[key]]
    name = name.removeprefix("./")
    if not pattern.fullmatch(name):
        text = f"name a file beside {by.name}, without / and without a dot first"
        raise ValueError(f"'{safe_text(name)[:100]}' is a path; {text}")
    return by.parent / name


def content(path: Path, by: Path, max_bytes: int) -> bytes:
    """Of a file that `by` names. Raises OSError, ConfigError as read_beside."""
    if by.parent in _KIT:
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    return read_beside(path, by, max_bytes)
