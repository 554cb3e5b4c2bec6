"""The command `hsp`: its subcommands and exit codes."""

from __future__ import annotations

import errno
import sys
import traceback
from typing import Annotated, Any, ClassVar

import typer

from kit import __version__
from kit.cli.lazy import LazyGroup
from kit.core.errors import HostError, KitError, error_text
from kit.core.output import say, say_error
from kit.core.signals import interrupt_at_end

EXIT_CODES = """\
Exit codes: 0 ok · 1 an expectation was not met · 2 usage or configuration · 3 the result is
unknown (not trustworthy) · 4 refused for safety · 5 a host or a tool failed · 130 interrupted
"""

# Errors of a full or read-only filesystem, or of a quota.
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class Commands(LazyGroup):
    """All commands, in the order of the help."""

    targets: ClassVar[dict[str, str]] = {
        "demo": "kit.cli.demo:demo",
        "plan": "kit.cli.plan:plan_command",
        "run": "kit.cli.run:run",
        "clean": "kit.cli.clean:clean_command",
        "report": "kit.cli.report:report",
        "import": "kit.cli.import_:import_",
        "compare": "kit.cli.compare:compare",
        "doctor": "kit.cli.doctor:doctor",
        "devices": "kit.cli.devices:devices",
        "wipe": "kit.cli.wipe:wipe_command",
        "export": "kit.cli.export:export",
        "device": "kit.cli.device:device",
        "lab": "kit.cli.lab:lab",
    }

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Says that it was interrupted; Typer then ends with 130 and no word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            by = f" ({interrupt})" if str(interrupt) else ""
            say(f"hsp: interrupted{by}")
            raise


app = typer.Typer(
    cls=Commands,
    help="Measure which tier of a ZFS hybrid storage pool answers, and how fast, at the NFS server.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        sys.stdout.write(f"hsp {__version__}\n")
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
    except KitError as error:
        say_error(error)
        sys.exit(error.exit_code)
    except Exception as error:
        host_error = _disk_error(error) or _defect(error)
        say_error(host_error)
        sys.exit(host_error.exit_code)


def _disk_error(error: Exception) -> HostError | None:
    if not isinstance(error, OSError) or error.errno not in _DISK:
        return None
    return HostError(
        f"{error.filename or 'a file of this machine'}: {error.strerror}",
        "free some space there, or use another directory; stored data is kept: `hsp clean RUN` cleans the "
        "hosts of a run, `hsp report RUN` draws it again",
    )


def _defect(error: Exception) -> HostError:
    """Unexpected exception. Python's exit code 1 would mean that an expectation was not met."""
    say("".join(traceback.format_exception(error)).rstrip())
    return HostError(
        f"a defect of hsp {__version__}: {error_text(error)}",
        "please report it with the lines above; `hsp clean` undoes what a run left on its hosts",
    )
