"""What the command line changes in a workload: keys (`--set`), and how long it measures (`--length`).

    [lengths.smoke]                     # keys as `--set` takes them, and how many I/Os are expected at most
    "phase.read.duration" = "4s"
    "precondition.fills" = 1
    min_count = 100

`full` is the workload as it stands. Shorter runs are marked everywhere, and are not compared with others.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from kit.config.sweep import class_of, known_keys, with_value
from kit.config.toml import describe, nearest, printable
from kit.config.workload_base import WorkloadSource, tables_of
from kit.core.errors import ConfigError

Length = Literal["smoke", "sanity", "full"]
FULL: Length = "full"
LENGTHS: tuple[str, ...] = get_args(Length)
# Of a --set in a message.
_MOST_SHOWN = 100
# As --set is stored, so that a run is resumed with it.
_SET = "length="


def as_set(length: str | None) -> tuple[str, ...]:
    """The length as a `--set`. Raises ConfigError."""
    if length is None or length == FULL:
        return ()
    if length not in LENGTHS:
        raise ConfigError(
            f"--length {printable(length[:40])}: no such length", f"one of {', '.join(LENGTHS)}"
        )
    return (f"{_SET}{length}",)


def split(sets: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The length in `sets`, and the others."""
    chosen = [each.removeprefix(_SET) for each in sets if each.startswith(_SET)]
    return (chosen[-1] if chosen else FULL), tuple(each for each in sets if not each.startswith(_SET))


def with_length(source: WorkloadSource, length: str) -> WorkloadSource:
    """The workload of that length. Raises ConfigError with file, line and key."""
    tables = source.lengths
    _check(source, tables)
    if length == FULL:
        return source
    if length not in tables:
        known = ", ".join((*sorted(tables), FULL))
        raise ConfigError(
            f"--length {length}: {source.path} has no [lengths.{length}]",
            f"its lengths: {known}; add the table (docs/formats/workload.md), or choose another",
        )
    settings: Mapping[str, Any] = tables[length]
    most = settings.get("min_count")
    document = copy.deepcopy(source.document)
    document["length"] = length
    for wish in tables_of(document.get("expect")) if most is not None else ():
        if isinstance(wish.get("min_count", 1), int):
            wish["min_count"] = min(wish.get("min_count", 1), most)
    source = replace(source, document=document, min_count=most)
    for key, value in settings.items():
        if key != "min_count":
            source = with_value(source, key, value, source.place_of(("lengths", length, key)))
    return source


def with_sets(source: WorkloadSource, sets: Sequence[str]) -> WorkloadSource:
    """The workload with the values of `--set KEY=VALUE`: a sweep of one value. Raises ConfigError."""
    for text in sets:
        key, equals, value = (part.strip() for part in text.partition("="))
        given = f"--set {printable(text if len(text) <= _MOST_SHOWN else f'{text[:_MOST_SHOWN]}...')}"
        if not equals or class_of(key) not in ("phase", "build") or key.startswith("use."):
            settable = [each for each in known_keys() if each != "phase" and not each.startswith("use.")]
            what = f"there is no key '{printable(key)}'" if equals else "expected KEY=VALUE"
            near = nearest(key, settable, "keys")
            raise ConfigError(f"{given}: {what}, {near}", "for example: --set job.bs=4k")
        place = Path(given), 1
        source = with_value(source, key, _parsed(value), place)
        if place not in source.set_at.values():
            table, _, name = key.rpartition(".")[0].partition(".")
            what = f"is called '{printable(name)}'" if table == "phase" else f"has {table}"
            hint = "this would change nothing; `hsp plan` shows the phases"
            raise ConfigError(f"{given}: no phase of the workload {what}", hint)
    return source


def _parsed(value: str) -> Any:
    """A value as TOML has it; a word needs no quotes. A day, and a number beyond Python's, stay words."""
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
        json.dumps(parsed)
    except (ValueError, TypeError, RecursionError):
        return value
    return parsed


def _check(source: WorkloadSource, tables: object) -> None:
    """Each table by itself, whichever is chosen. Raises ConfigError."""
    if not isinstance(tables, dict):
        source.refuse(("lengths",), f"expected tables [lengths.smoke], found {describe(tables)}")
    phases = [str(each.get("name")) for each in tables_of(source.document.get("phase"))]
    for length, settings in tables.items():
        place = ("lengths", length)
        if length not in LENGTHS or length == FULL:
            text = f"'{printable(length)}' is no shorter length: smoke or sanity; full is the workload itself"
            source.refuse(place, text)
        if not isinstance(settings, dict) or not settings:
            source.refuse(place, 'expected keys as --set takes them, such as "phase.duration" = "2s"')
        for key, value in settings.items():
            if problem := _problem(key, value, phases):
                source.refuse((*place, key), problem)


def _problem(key: str, value: object, phases: list[str]) -> str | None:
    """Of one key of a length."""
    if key == "min_count":
        ok = type(value) is int and value >= 1
        return None if ok else f"expected a number of I/Os from 1, found {describe(value)}"
    if isinstance(value, dict) and "." not in key:
        quoted = ".".join((key, *_first_path(value)))
        return f'a table; put the whole key in quotes: "{quoted}" = ...'
    if key == "phase" or class_of(key) not in ("phase", "build") or key.startswith("use."):
        keys = ["min_count", *(each for each in known_keys() if each != "phase")]
        return f"cannot be set, {nearest(key, keys, 'keys')}"
    phase = key.split(".")[1] if key.startswith("phase.") and key.count(".") > 1 else None
    if phase is not None and phase not in phases:
        return f"no phase '{printable(phase)}', {nearest(phase, phases, 'phases')}"
    return None


def _first_path(value: Any) -> tuple[str, ...]:
    """The keys that lead to the first value in nested tables."""
    if not isinstance(value, dict) or not value:
        return ()
    key, inner = next(iter(value.items()))
    return printable(key), *_first_path(inner)
