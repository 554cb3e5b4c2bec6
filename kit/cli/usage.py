"""Wrong usage in the kit's own words, options without effect included, and the options of every command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any

import typer

from kit.core.errors import ConfigError
from kit.core.signals import interrupt_waits
from kit.core.terminal import TERMINAL, Color

output = partial(typer.Option, rich_help_panel="Output")

_B = "--versus --versus-workload --until --across"
_IMAGE = "--suite --pin --kernel"
_COUNTS = "--phase --layer --percentiles --totals --every --per-octave"
_JUDGED = "--reference --known --junit"

# What has no use for some options: which, why, and what to do beside leaving them out.
UNUSED = {
    "a run that is resumed": (
        f"WORKLOAD --testbed --set --length --only --quick --seed --repeat --capture --speed {_B}",
        "it goes on as it was planned, with its own seed", "begin a new run",
    ),
    "a run without B": ("--until --across", "they compare A and B", "add --versus or --versus-workload"),
    "so few runs": ("--until", "fewer than 3 of A and of B tell no width", "add --repeat 4 or more"),
    "A and B": (
        "--junit", "A and B are compared, not judged",
        "`hsp show RUN... --checks --junit FILE` writes it for stored runs",
    ),
    "several runs": (
        "--seed --age-again --observer-effect", "each has its own seed, and devices as they are kept",
        "use it for a single run, before or after them",
    ),
    "a sweep": (
        f"--observer-effect {_B}", "it is for runs, and a sweep has many",
        "`hsp compare SERIES_A -- SERIES_B` compares sweeps",
    ),
    "the lab": (
        "--erase-serial --beside-other-pools --cut-other-pools",
        "its devices are emulated, and its pool is alone", "name your own hosts with --testbed",
    ),
    "hosts of your own": (f"{_IMAGE} --age-again --boot", "the lab alone has these", "name no --testbed"),
    "a plan of a sweep": ("--commands", "each of its builds has its own", "add --build NAME"),
    "a workload that sweeps nothing": (
        "--only --quick --build", "it has no cells", "add a [sweep.NAME] to it (docs/sweeps.md)",
    ),
    "JSON": ("--commands --all", "all of it is in there", ""),
    "a result without text": ("--all", "other formats have all of it", ""),
    "a list of anything but runs": ("--number --workload --verdict", "they choose runs", ""),
    "a list of what is not stored": ("--results", "only runs and baselines are in there", ""),
    "the report of a run": (
        f"--all --port {_COUNTS}", "they are for checks, the browser and counts",
        "add --checks, --live, or --format csv, parquet or openmetrics",
    ),
    "the report of a series": ("--reference --known", "a series has those of its workload", ""),
    "checks": (f"--live --port --open --reference {_COUNTS}", "they show what passed and failed", ""),
    "a page that is served": (
        f"--all --open {_JUDGED} {_COUNTS} --output --format --json", "the browser shows what there is", "",
    ),
    "counts": (f"--all --port --open {_JUDGED}", "nothing is judged or drawn", ""),
    "counts of a series": (
        "--phase --layer --percentiles", "a series is exported whole", "export one of its runs",
    ),
    "counts that are not OpenMetrics": ("--totals --every --per-octave", "they are as stored", ""),
    "OpenMetrics": ("--percentiles", "Prometheus makes them of the histograms", "--format csv has them"),
    "totals": ("--every", "totals have no steps", ""),
    "a comparison of series": ("--across --worse-than --figure --all", "they are for runs", ""),
    "the lab's image": ("--testbed", "all labs have the same", ""),
    "devices of this machine": (f"--testbed --build --rebuild {_IMAGE}", "there is no lab", ""),
    "a fault other than stall": ("--for", "only a stall has an end", "`hsp lab fault DEVICE heal` ends it"),
    "a fault other than error": ("--sectors --of", "it is of the whole device", ""),
    "a new workload": (
        "--candidates --role --data --server --client --name", "they are for drives to choose from",
        "hsp new testbed --candidates DEVICE...",
    ),
    "a list of claims": ("--run --results", "nothing is judged", ""),
    "images of the lab": ("RUN --agree --results", "they are of no run", ""),
    "a clean-up of runs": ("--dry-run", "what it would undo is in their journals", "add --cache"),
    "all unfinished runs": ("--agree", "it is for one run", "name the run"),
    "the help of commands": ("--all", "it is for schemas", "hsp help schema --all DIR"),
    "one schema": ("--all", "it is for all of them", ""),
}  # fmt: skip

# What the parser says of values, and plainer words.
_PLAIN = {
    "Value error, ": "", "Input should be greater than or equal to": "it must be at least",
    "Input should be less than or equal to": "it must be at most",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
}  # fmt: skip


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
    text = getattr(error, "format_message", lambda: str(error))()
    for theirs, ours in _PLAIN.items():
        text = text.replace(theirs, ours)
    command = context.command_path if context else getattr(error, "command", "hsp")
    close = [f"did you mean {each}? " for each in (getattr(error, "possibilities", None) or [])[:1]]
    said = f"{text[:1].lower()}{text[1:]}".partition(" (Possible options:")[0].partition(". Choose from:")[0]
    hint = f"{''.join(close)}`{command} --help` shows how"
    # Of the parser's errors that of a missing parameter alone has its kind.
    if context and hasattr(error, "param_type"):
        hint = loaded("kit.cli.complete").further(context, error.param, hint)  # type: ignore[attr-defined]
    return ConfigError(said.rstrip("."), hint)


def refuse_unused(context: typer.Context, modes: Mapping[str, object]) -> None:
    """Raises ConfigError for the first option of the command line that has no effect in a mode that holds."""
    given: list[str] = []
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name == "COMMANDLINE":
            given += each.opts if each.param_type_name == "option" else [str(each.metavar)]
    for mode in (mode for mode, holds in modes.items() if holds):
        options, why, hint = UNUSED[mode]
        for option in given:
            if option in options.split():
                more = f", or: {hint}" if hint else ""
                raise ConfigError(f"{option} has no effect on {mode}: {why}", f"leave it out{more}")


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
