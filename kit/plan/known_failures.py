"""Known failures of checks that the run does not have are refused with file and line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kit.config.sweep import AxisExpectation
from kit.config.tables.known_table import KnownFailure, KnownFile
from kit.config.toml import Place, placed_refusal, read_document, validate
from kit.plan.plan import Plan
from kit.store.checks.known_failures import NEVER_KNOWN, Known, names_something

_TEXT = (
    "names no check of this run: write an id of docs/verdict.md, ID:phase, or EXPECT:phase:op:tier:limit; "
    "`hsp show RUN --checks` lists those of a run"
)
_WIDE = "names nearly every check: write the id, or as much of it as a family has, such as POWER-LOSS-*"
_NEVER = "is never excused: nothing was measured, or the files are not what was stored; remove the entry"


def refuse_unknown(
    plan: Plan, place_of: Callable[[tuple[str | int, ...]], Place], on_axes: Sequence[AxisExpectation] = ()
) -> None:
    """Of a workload. `on_axes`: its expectations of a sweep. Raises ConfigError."""
    _refuse(plan.workload.known, *checks_of(plan, on_axes), place_of)


def checks_of(plan: Plan, on_axes: Sequence[AxisExpectation] = ()) -> tuple[list[str], list[dict[str, Any]]]:
    """Its phases, and its expectations with the keys that are set."""
    workload = plan.workload
    expected = [each.model_dump(mode="json", exclude_unset=True) for each in workload.expect]
    ratios = [each.model_dump(mode="json", by_alias=True) for each in on_axes]
    return [phase.name for phase in workload.phase], [*expected, *ratios]


def read_known(path: Path, phases: Iterable[str], expected: Sequence[Mapping[str, Any]]) -> tuple[Known, ...]:
    """The failures of the file of `--known`, of a run with these checks. Raises ConfigError."""
    document, lines = read_document(path)

    def place_of(key: tuple[str | int, ...]) -> Place:
        return path, lines.line_of(key)

    entries = validate(document, KnownFile, place_of).known
    return _refuse(entries, phases, expected, place_of)


def _refuse(
    entries: Sequence[KnownFailure],
    phases: Iterable[str],
    expected: Sequence[Mapping[str, Any]],
    place_of: Callable[[tuple[str | int, ...]], Place],
) -> tuple[Known, ...]:
    names = list(phases)
    problems = [
        (place_of(("known", number, "check")), f"known[{number}].check: '{each.check}' {_why(each)}")
        for number, each in enumerate(entries)
        if not names_something(each, names, expected)
    ]
    if problems:
        raise placed_refusal(problems)
    return tuple(Known.from_table(each) for each in entries)


def _why(known: Known) -> str:
    if known.is_too_wide:
        return _WIDE
    return _NEVER if known.check in NEVER_KNOWN else _TEXT
