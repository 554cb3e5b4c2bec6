"""The command `hsp`: its commands, each imported only when it runs, its errors and exit codes."""

from __future__ import annotations

import ast
import errno
import sys
import traceback
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kit import __version__
from kit.cli.usage import loaded, refusal_of, shared_options, show_names
from kit.core.errors import ConfigError, HostError, KitError, error_text
from kit.core.output import drop_unwritten, emit, say, say_error
from kit.core.signals import interrupt_at_end

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
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
# The line of a docstring after which its examples stand, one a line.
_EXAMPLES = "\n\nExamples:\n"

# Errors of a full or read-only filesystem, or of a quota.
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
# Polars warns so, and then crashes (polars/_cpu_check.py).
_OLD_CPU = "Missing required CPU features"

# Words of a command to "module:function", in the order of the help.
TARGETS = {
    "demo": "kit.cli.run:demo",
    "run": "kit.cli.run:run",
    "observe": "kit.cli.observe:observe",
    "plan": "kit.cli.plan:plan_command",
    "list": "kit.cli.stored.list_:list_command",
    "show": "kit.cli.stored.show:show",
    "compare": "kit.cli.stored.compare:compare",
    "trend": "kit.cli.stored.trend:trend",
    "sheet": "kit.cli.stored.sheet:sheet",
    "size": "kit.cli.stored.size:size",
    "reproduce": "kit.cli.reproduce:reproduce",
    "import": "kit.cli.stored.import_:import_",
    "tag": "kit.cli.stored.tag:tag",
    "pack": "kit.cli.stored.pack:pack_command",
    "gallery": "kit.cli.stored.gallery:gallery_command",
    "clean": "kit.cli.clean:clean_command",
    "host check": "kit.cli.host.check:check",
    "host disks": "kit.cli.host.disks:disks",
    "host wipe": "kit.cli.host.disks:wipe_command",
    "slog": "kit.cli.slog:slog",
    "lab up": "kit.cli.lab:up",
    "lab shell": "kit.cli.lab:shell",
    "lab down": "kit.cli.lab:down",
    "lab fault": "kit.cli.lab:fault",
    "new": "kit.cli.new:new",
    "help": "kit.cli.help:help_command",
}
GROUPS = {
    "host": "Machines of a testbed: what would prevent a run, their disks, and old labels on these.",
    "lab": "The built-in lab: a virtual machine with emulated devices.",
}


class Commands(TyperGroup):
    """The commands of TARGETS below `prefix`, in their order; only the one that runs is imported."""

    def __init__(self, *, prefix: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.prefix = prefix
        below = [path.removeprefix(prefix) for path in TARGETS if path.startswith(prefix)]
        names = dict.fromkeys(path.split()[0] for path in below)
        self.commands = {name: TyperCommand(name=name, callback=None) for name in names}

    def get_params(self, ctx: Any) -> list[Any]:
        """Options, as the help shows them."""
        return show_names([*super().get_params(ctx), *shared_options()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a word the help is what was asked for."""
        parsed: list[str] = super().parse_args(ctx, args if args or ctx.resilient_parsing else ["--help"])
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Says that it was interrupted; Typer then ends with 130 and no word."""
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            # One of an option without its value does not know its command.
            if getattr(error, "ctx", None) is None and not hasattr(error, "command"):
                error.command = f"{ctx.command_path} {ctx.invoked_subcommand}"  # type: ignore[attr-defined]
            raise
        except KeyboardInterrupt as interrupt:
            by = f" ({interrupt})" if str(interrupt) else ""
            if not self.prefix:
                say(f"hsp: interrupted{by}")
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command for a list: only its help text."""
        listed = super().get_command(ctx, cmd_name)
        if listed is not None and listed.help is None:
            words = self.prefix + cmd_name
            listed.help = GROUPS.get(words) or _docstring(TARGETS[words]).split(_EXAMPLES)[0]
        return listed

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The real command, to run it or to show its options. Raises ConfigError."""
        name, *rest = args
        if name in self.commands:
            return name, command_of(self.prefix + name), rest
        if ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        where = f"hsp {self.prefix}".strip()
        close = get_close_matches(name, self.commands, 1, 0.7)
        meant = f"did you mean `{where} {close[0]}`? " if close else ""
        raise ConfigError(f"there is no command `{where} {name[:40]}`", f"{meant}`{where} --help` lists them")


def command_of(words: str) -> Any:
    """The real command or group, such as "lab up"."""
    if words in GROUPS:
        return Commands(name=words, prefix=f"{words} ", help=GROUPS[words], context_settings=_SETTINGS)
    module_name, _, function = TARGETS[words].partition(":")
    module = loaded(module_name)
    made = typer.Typer(add_completion=False)
    made.command(**getattr(module, "SETTINGS", {}).get(function, {}))(getattr(module, function))
    command = typer.main.get_command(made)
    command.name = words.split()[-1]
    text, _, examples = (command.help or "").partition(_EXAMPLES)
    command.help, command.epilog = text, f"Examples:\n{examples}" if examples else None
    command.params = [*command.params, *shared_options()]
    show_names(command.get_params(typer.Context(command, **_SETTINGS)))
    return command


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
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
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


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process: 2 for wrong usage, 130 when interrupted."""
    interrupt_at_end()
    warnings.filterwarnings("error", _OLD_CPU, RuntimeWarning)
    try:
        sys.exit(app(args=words, prog_name="hsp", standalone_mode=False))
    except (KeyboardInterrupt, SystemExit):
        raise
    # Not Exception: a panic of a library in Rust is none, and Python's exit code would be 1.
    except BaseException as error:
        shown = error if isinstance(error, KitError) else refusal_of(error) or _unexpected(error)
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
            "the hosts of a run, `hsp show RUN` draws it again",
        )
    # No other warning is made an error.
    if isinstance(error, RuntimeWarning):
        return HostError(
            "the CPU of this machine is too old: the kit needs x86-64-v2 (since about 2009)",
            "use another machine; a virtual machine has the CPU of its host with -cpu host of QEMU "
            "(Proxmox: type host)",
        )
    say("".join(traceback.format_exception(error)).rstrip())
    return HostError(
        f"a defect of hsp {__version__}: {error_text(error)}",
        "please report it with the lines above; `hsp clean` undoes what a run left on its hosts",
    )
