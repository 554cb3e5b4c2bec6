"""`hsp schema`: the JSON Schemas of what the kit stores, prints and reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kit.core.errors import ConfigError
from kit.core.output import emit_json, emit_text, say, write_target
from kit.session import schemas


def schema_command(
    name: Annotated[str | None, typer.Argument(help="Of what: see the list without a name.")] = None,
    all_: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Write all of them into this directory.")
    ] = None,
) -> None:
    """Print the JSON Schema of a file of the kit, for editors and other programs."""
    if all_ is not None:
        if name is not None:
            raise ConfigError("a name and --all", "leave out one of them")
        if not all_.is_dir():
            raise ConfigError(f"{all_} is no directory", "make it first, or name another")
        for each in schemas.names():
            text = json.dumps(schemas.schema(each), indent=1) + "\n"
            write_target(all_ / schemas.file_name(each), text.encode())
        say(f"{len(schemas.names())} schemas are in {all_}")
    elif name is None:
        emit_text(f"{each:10} {title}" for each, title in schemas.names().items())
    else:
        emit_json(schemas.schema(name))
