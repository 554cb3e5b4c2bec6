"""`hsp help`: the help of a command, JSON Schemas, and the manual page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from kit import __version__
from kit.cli.main import EXIT_CODES, TARGETS, command_of
from kit.cli.usage import refuse_unused
from kit.core.errors import ConfigError
from kit.core.output import as_json, emit, emit_json, emit_text, say, write_target
from kit.session import schemas

# What groff would take for its own.
_LEADING = re.compile(r"^(?=[.'])", re.MULTILINE)


def help_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND|schema|man", help="Of what; see the examples.")
    ] = None,
    all_: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Of schema: write all of them into DIR.")
    ] = None,
) -> None:
    """Show the help of a command, the JSON Schema of a file of the kit, or the manual page.

    Examples:
      hsp help lab up
      hsp help schema            which schemas there are
      hsp help schema testbed    for editors and other programs
      hsp help man | man -l -    all commands, as a page
    """
    first, *rest = words or [""]
    refuse_unused(context, {"the help of commands": first != "schema", "one schema": rest})
    if first == "schema":
        _schema(rest, all_)
    elif first == "man" and not rest:
        emit("".join(f"{line}\n" for line in _page(context.find_root())))
    else:
        root: Any = context.find_root().command
        root.main([*(words or []), "--help"], prog_name="hsp", standalone_mode=False)


def _schema(names: list[str], folder: Path | None) -> None:
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no directory", "make it first, or name another")
        for each in schemas.names():
            write_target(folder / schemas.file_name(each), as_json(schemas.schema(each)).encode())
        say(f"{len(schemas.names())} schemas are in {folder}")
    elif not names:
        emit_text(f"{each:10} {title}" for each, title in schemas.names().items())
    else:
        emit_json(schemas.schema(names[0]))


def _page(root: Any) -> Iterator[str]:
    """Source of the page hsp(1) for man(1), from the helps of all commands."""
    yield f'.TH HSP 1 "" "hsp {__version__}" "ZFS hybrid storage pool test kit"'
    yield from (".SH NAME", f"hsp \\- {_roff(root.command.help)}")
    yield from (".SH SYNOPSIS", ".B hsp", "COMMAND [OPTIONS] ...", ".SH COMMANDS")
    for words in TARGETS:
        command = command_of(words)
        context = typer.Context(command, info_name=words, parent=root)
        pieces = " ".join(command.collect_usage_pieces(context))
        yield from (f".SS hsp {words} {_roff(pieces)}", *map(_roff, command.help.split("\n\n")[:1]))
        for paragraph in command.help.split("\n\n")[1:]:
            yield from (".PP", _roff(paragraph))
        for each in command.get_params(context):
            if each.name != "help" and each.help:
                name = ", ".join(each.opts) if each.param_type_name == "option" else each.metavar or each.name
                value = "" if getattr(each, "is_flag", True) else each.metavar or each.display_type(context)
                yield from (".TP", f"\\fB{_roff(name)}\\fR {_roff(value)}".rstrip(), _roff(each.help))
        if command.epilog:
            yield from (".PP", ".nf", _roff(command.epilog.rstrip()), ".fi")
    yield from (".SH EXIT STATUS", ".nf", *map(_roff, EXIT_CODES.splitlines()[1:]), ".fi")
    yield from (".SH ENVIRONMENT", ".TP", "NO_COLOR", "No colours, as --color never.")


def _roff(text: str) -> str:
    """Text of a help, whose markup is rich's, with nothing that groff would obey."""
    plain = Text.from_markup(text).plain.replace("\\", "\\e").replace("-", "\\-")
    return _LEADING.sub(r"\\&", plain)
