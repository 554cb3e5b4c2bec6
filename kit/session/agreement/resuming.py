"""A run or series that is to be resumed, and that this machine's kit did not make: shown, and agreed to.

Its directory names a testbed, and a testbed is a program (kit.config.named_files).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.config.testbed import TABLES_WITH_COMMANDS
from kit.core.errors import ConfigError, KitError, SafetyRefusal
from kit.core.text import safe_text
from kit.recovery import registry
from kit.recovery.clean import describe, is_made
from kit.session.agreement import asking
from kit.session.agreement.erasing import Ask
from kit.session.side import Side

# Of these a directory is one of a run or a series.
_OF_A_RUN = ("plan.json", "series.json", "journal.jsonl")


def agree(path: Path, side: Side, given: Sequence[str], ask: Ask | None) -> None:
    """Have a person agree to go on with the run or series in `path`, unless this machine's kit made it.

    `given`: of --agree. Raises SafetyRefusal, ConfigError.
    """
    for source in (side.workload, side.testbed):
        _refuse_inside(path, Path(source))
    if is_made(path):
        return
    name = path.name
    title = f"{path} is not a run or series that this machine's kit knows it made. To resume it uses:"
    refusal = f"resuming {path} was not agreed to", "if you know where it comes from"
    asking.agree(name, given, ask, (title, _shown(path, side)), "this testbed and these hosts", refusal)
    registry.remember(name, path)


def _refuse_inside(path: Path, source: Path) -> None:
    """What came with a run directory is not used. Raises ConfigError."""
    if not source.is_absolute():
        raise ConfigError(
            f"{path} names the source '{safe_text(str(source))[:200]}', which is no whole path",
            "begin a new run",
        )
    for folder in (*source.parents, *source.resolve().parents):
        if any(os.path.lexists(folder / name) for name in _OF_A_RUN):
            raise ConfigError(
                f"{path} is from {safe_text(str(source))[:200]}, which is inside a run directory, {folder}",
                "files of a run directory are data: nothing is run or contacted because of them; begin a "
                "new run with your own workload and testbed",
            )


def _shown(path: Path, side: Side) -> Iterator[str]:
    yield f"workload: {side.workload}"
    yield f"testbed: {side.testbed}"
    if side.device:
        yield f"device: {side.device}"
    try:
        bed = side.read_testbed()
    except (ConfigError, SafetyRefusal) as error:
        yield f"  which cannot be read: {error.message}"
    else:
        yield f"  server: {bed.server.host}"
        yield from (f"  client: {client.host}" for client in bed.client)
        yield f"  ssh_config: {bed.ssh_config or 'none but your own'}"
        tables = [key for key in TABLES_WITH_COMMANDS if getattr(bed, key)]
        yield f"  tables with commands: {', '.join(tables) or 'none'}"
    if (path / "journal.jsonl").exists():
        try:
            yield from describe(path)
        except KitError as error:
            yield f"its journal: {error.message}"
