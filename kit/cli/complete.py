"""What the shell's Tab key completes: workloads, runs, phases, presets and devices.

Typer leaves out what does not begin with the word; the shell itself completes files.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from kit.core.errors import ConfigError
from kit.core.text import some
from kit.store.run_name import NO_RUNS, find_run, stored_ids

_KIT = Path(__file__).parents[1]
_MOST_BYTES = 16 << 20
# Ids of runs, in nine lines of a terminal of 40 columns.
_MOST_NAMED = 12


def workloads() -> Iterator[tuple[str, str]]:
    """Those of the kit, with their titles."""
    return _titles(_KIT.parent / "workloads")


def runs(context: typer.Context) -> Iterator[str]:
    """Workloads that have runs, and ids of runs, the newest first."""
    ids = stored_ids(_results(context))
    yield from dict.fromkeys(path.parent.name for path in ids.values())
    yield from sorted(ids, reverse=True)


def claims() -> Iterator[str]:
    """Those of the kit."""
    yield from _names(_KIT / "session" / "reproducing" / "claims.toml", "claim")


def phases(context: typer.Context) -> Iterator[str]:
    """Of the run that is named, or the newest."""
    named = context.params.get("runs") or [None]
    with suppress(ConfigError):
        yield from _names(find_run(named[0], _results(context)) / "manifest.json", "phases")


def presets() -> Iterator[tuple[str, str]]:
    """The kit's models of devices."""
    return _titles(_KIT / "emulation" / "presets")


def devices(context: typer.Context) -> Iterator[str]:
    """Those of the testbed, or of the lab."""
    testbed = Path(context.params.get("testbed") or _KIT / "lab" / "testbed.toml")
    yield from _names(testbed, "device")


def devices_or_presets(context: typer.Context) -> Iterator[str]:
    """What `hsp slog` measures."""
    yield from devices(context)
    yield from (name for name, _ in presets())


def further(context: typer.Context, missing: Any, hint: str) -> str:
    """An example of the command, `hint`, and in a line of its own what `missing` can be."""
    _, _, example = (context.command.epilog or "").partition("\n")
    # Behind more than one space stands what an example is for.
    example = example.strip().partition("\n")[0].partition("  ")[0]
    names = [each.value for each in missing.shell_complete(context, "") if each.value]
    they = f"\n  there are: {some(names, _MOST_NAMED)}" if names else ""
    if not names and missing.metavar == "RUN":
        they = f"\n  there are no runs in {_results(context)}: {NO_RUNS}"
    return f"for example `{example}`; {hint}{they}"


def _results(context: typer.Context) -> Path:
    return Path(context.params.get("results") or "results")


def _titles(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem):
        yield path.stem, str(_read(path).get("title", ""))


def _names(path: Path, table: str) -> Iterator[str]:
    """Those in a table of a file; what another program has damaged has none."""
    with suppress(AttributeError, LookupError, TypeError):
        yield from (each["name"] for each in _read(path)[table] if isinstance(each["name"], str))


def _read(path: Path) -> Any:
    """A file as TOML or JSON; nothing of one that cannot be read, as a prompt has no place for errors."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError):
        return {}
