"""The command `hsp`: its subcommands, each imported only when it runs, and exit codes."""

from __future__ import annotations

import ast
import errno
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from kit import __version__
from kit.core.errors import HostError, KitError, error_text
from kit.core.output import drop_unwritten, emit, say, say_error
from kit.core.signals import interrupt_at_end, interrupt_waits

EXIT_CODES = """\
Exit codes:
  0  ok
  1  an expectation was not met
  2  usage or configuration
  3  the result is unknown (not trustworthy)
  4  refused for safety
  5  a host or a tool failed
130  interrupted
"""
_HELP_OPTIONS = ["-h", "--help"]

# Errors of a full or read-only filesystem, or of a quota.
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class Commands(TyperGroup):
    """All commands, in the order of the help; only the one that runs is imported, for a fast start.

    `targets`: a command's name to "module:function". If the module has a Typer `app`, that is the command or
    group of commands; the function then provides only the help text.
    """

    targets: ClassVar[dict[str, str]] = {
        "demo": "kit.cli.run:demo",
        "plan": "kit.cli.plan:plan_command",
        "run": "kit.cli.run:run",
        "clean": "kit.cli.clean:clean_command",
        "report": "kit.cli.stored.stored_run:report",
        "check": "kit.cli.stored.check:check",
        "watch": "kit.cli.stored.watch:watch",
        "list": "kit.cli.stored.list_:list_command",
        "import": "kit.cli.stored.import_:import_",
        "compare": "kit.cli.stored.compare:compare",
        "trend": "kit.cli.stored.trend:trend",
        "baseline": "kit.cli.stored.baseline:baseline",
        "sheet": "kit.cli.stored.sheet:sheet",
        "doctor": "kit.cli.doctor:doctor",
        "devices": "kit.cli.devices:devices",
        "wipe": "kit.cli.devices:wipe_command",
        "export": "kit.cli.stored.stored_run:export",
        "new": "kit.cli.new:new_command",
        "schema": "kit.cli.schema:schema_command",
        "slog": "kit.cli.slog:slog",
        "device": "kit.cli.device:device",
        "lab": "kit.cli.lab:lab",
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name=name, callback=None) for name in self.targets}

    def get_params(self, ctx: Any) -> list[Any]:
        """Options, as the help shows them."""
        return _without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Says that it was interrupted; Typer then ends with 130 and no word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            by = f" ({interrupt})" if str(interrupt) else ""
            say(f"hsp: interrupted{by}")
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command for a list: only its help text."""
        listed = super().get_command(ctx, cmd_name)
        if listed is not None and listed.help is None:
            listed.help = _docstring(self.targets[cmd_name])
        return listed

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The real command, to run it or to show its options."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, imported(name) if name else None, rest


def imported(name: str) -> Any:
    """The real command `name`."""
    module_name, _, function = Commands.targets[name].partition(":")
    module = import_module(module_name)
    interrupt_waits()
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command()(getattr(module, function))
    command = typer.main.get_command(app)
    command.name = name
    _show_plain_flags(command)
    return command


def _show_plain_flags(command: Any) -> None:
    """Show no type for the flags of a command or group: they take no value."""
    _without_types(command.get_params(typer.Context(command, help_option_names=_HELP_OPTIONS)))
    for inner in getattr(command, "commands", {}).values():
        _show_plain_flags(inner)


def _without_types(options: list[Any]) -> list[Any]:
    """The same options; Typer would show <bool> for a flag."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _docstring(target: str) -> str:
    """Docstring of the function, read from the source: importing all commands would be slow."""
    module, _, function = target.partition(":")
    spec = find_spec(module)
    source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.get_docstring(node) or ""
    return ""


app = typer.Typer(
    cls=Commands,
    help="Measure which tier of a ZFS hybrid storage pool answers, and how fast, at the NFS server.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": _HELP_OPTIONS},
)


def _show_version(requested: bool) -> None:
    if requested:
        emit(f"hsp {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Typer ends the process: 2 for wrong usage, 130 when interrupted."""
    interrupt_at_end()
    try:
        app()
    except (KeyboardInterrupt, SystemExit):
        raise
    # Not Exception: a panic of a library in Rust is none, and Python's exit code would be 1.
    except BaseException as error:
        shown = error if isinstance(error, KitError) else _unexpected(error)
        say_error(shown)
        sys.exit(shown.exit_code)
    finally:
        drop_unwritten(sys.stderr)


def _unexpected(error: BaseException) -> HostError:
    """The error to show. Python's own exit code, 1, would mean that an expectation was not met."""
    if isinstance(error, OSError) and error.errno in _DISK:
        return HostError(
            f"{error.filename or 'a file of this machine'}: {error.strerror}",
            "free some space there, or use another directory; stored data is kept: `hsp clean RUN` cleans "
            "the hosts of a run, `hsp report RUN` draws it again",
        )
    say("".join(traceback.format_exception(error)).rstrip())
    return HostError(
        f"a defect of hsp {__version__}: {error_text(error)}",
        "please report it with the lines above; `hsp clean` undoes what a run left on its hosts",
    )
