"""Wrong usage in the kit's own words, and the options that every command has."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer

from kit.core.errors import ConfigError
from kit.core.signals import interrupt_waits
from kit.core.terminal import TERMINAL, Color

output = partial(typer.Option, rich_help_panel="Output")


def loaded(module: str) -> Any:
    """A module that a command imports late. Polars in it puts a handler of signals before Python's."""
    made = import_module(module)
    interrupt_waits()
    return made


def refusal_of(error: BaseException) -> ConfigError | None:
    """The error to show for one of the command line's parser; None for any other error."""
    if not isinstance(error, typer.TyperException):
        return None
    context = getattr(error, "ctx", None)
    text = getattr(error, "format_message", lambda: str(error))().replace("Value error, ", "")
    command = context.command_path if context else "hsp"
    close = [f"did you mean {each}? " for each in (getattr(error, "possibilities", None) or [])[:1]]
    said = f"{text[:1].lower()}{text[1:]}".partition(" (Possible options:")[0]
    return ConfigError(said.rstrip("."), f"{''.join(close)}`{command} --help` shows how")


def show_names(parameters: list[Any]) -> list[Any]:
    """The same parameters; the help shows their names of values, and no types of Python."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        elif each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: ""
    return parameters


def _set_quiet(context: typer.Context, quiet: bool) -> None:
    # Of `hsp -q run` the command's own default says nothing.
    if quiet or context.parent is None:
        TERMINAL.quiet = quiet


def _set_color(context: typer.Context, color: Color) -> None:
    if color != "auto" or context.parent is None:
        TERMINAL.color = color
    if color != "auto":
        from typer import rich_utils

        rich_utils.FORCE_TERMINAL = color == "always"


@cache
def shared_options() -> tuple[Any, ...]:
    """The options of all commands, which act here."""
    made = typer.Typer(add_completion=False)

    @made.command()
    def _shared(
        quiet: Annotated[
            bool,
            output("--quiet", "-q", callback=_set_quiet, expose_value=False, help="No progress on stderr."),
        ] = False,
        color: Annotated[
            Color,
            output(
                "--color",
                callback=_set_color,
                is_eager=True,
                expose_value=False,
                help="Colours on a terminal; auto: unless NO_COLOR is set.",
            ),
        ] = "auto",
    ) -> None: ...

    return tuple(typer.main.get_command(made).params)
