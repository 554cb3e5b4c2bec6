"""What the shell's Tab key completes: workloads, runs, phases, presets and devices."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from kit.core.errors import ConfigError
from kit.store.run_name import find_run, stored_ids

_KIT = Path(__file__).parents[1]
_MOST_BYTES = 16 << 20


def workloads(incomplete: str) -> Iterator[tuple[str, str]]:
    """Those of the kit, with their titles; the shell itself completes files."""
    for path in sorted((_KIT.parent / "workloads").glob(f"{_safe(incomplete)}*.toml")):
        yield path.stem, str(_read(path).get("title", ""))


def runs(context: typer.Context, incomplete: str) -> Iterator[str]:
    """Workloads that have runs, and ids of runs, the newest first."""
    ids = stored_ids(_results(context))
    names = dict.fromkeys(path.parent.name for path in ids.values())
    yield from (name for name in (*names, *sorted(ids, reverse=True)) if name.startswith(incomplete))


def phases(context: typer.Context, incomplete: str) -> Iterator[str]:
    """Of the run that is named, or the newest."""
    named = context.params.get("runs") or [None]
    with suppress(ConfigError):
        yield from _names(find_run(named[0], _results(context)) / "manifest.json", "phases", incomplete)


def presets(incomplete: str) -> Iterator[tuple[str, str]]:
    """The kit's models of devices."""
    for path in sorted((_KIT / "emulation" / "presets").glob(f"{_safe(incomplete)}*.toml")):
        yield path.stem, str(_read(path).get("title", ""))


def devices(context: typer.Context, incomplete: str) -> Iterator[str]:
    """Those of the testbed, or of the lab."""
    testbed = Path(context.params.get("testbed") or _KIT / "lab" / "testbed.toml")
    yield from _names(testbed, "device", incomplete)


def devices_or_presets(context: typer.Context, incomplete: str) -> Iterator[str]:
    """What `hsp slog` measures."""
    yield from devices(context, incomplete)
    yield from (name for name, _ in presets(incomplete))


def _results(context: typer.Context) -> Path:
    return Path(context.params.get("results") or "results")


def _safe(incomplete: str) -> str:
    """A name and nothing that a pattern of files would act on."""
    return "".join(letter for letter in incomplete if letter.isalnum() or letter in "-_")


def _names(path: Path, table: str, incomplete: str) -> Iterator[str]:
    """Those in a table of a file; what another program has damaged has none."""
    with suppress(AttributeError, LookupError, TypeError):
        yield from (each["name"] for each in _read(path)[table] if each["name"].startswith(incomplete))


def _read(path: Path) -> Any:
    """A file as TOML or JSON; nothing of one that cannot be read, as a prompt has no place for errors."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError):
        return {}
