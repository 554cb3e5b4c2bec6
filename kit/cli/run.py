"""`hsp run`: a workload on a testbed, once, again and again, or in turn with another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import (
    AgeAgainOption,
    JsonOption,
    JunitOption,
    PinOption,
    QuietOption,
    ResultsOption,
    SeedOption,
    SuiteOption,
)
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.core.progress import Progress
from kit.lab.image.image import DEFAULT_SUITE, ImageInputs
from kit.run.resume import sources
from kit.session.measure import once
from kit.session.place import Asked
from kit.session.series import parse_width, repeat
from kit.session.side import Side

MAX_RUNS = 100


def run(
    workload: Annotated[
        str | None, typer.Argument(help="A workload of the kit, or a .toml file.", show_default=False)
    ] = None,
    testbed: Annotated[
        Path | None,
        typer.Option("--testbed", help="Server, clients and devices; without it, the built-in lab."),
    ] = None,
    erase_serial: Annotated[
        list[str] | None,
        typer.Option(
            "--erase-serial", metavar="SERIAL", help="Agree that this device is erased. Once per device."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run that was interrupted."),
    ] = None,
    count: Annotated[
        int, typer.Option("--repeat", min=1, max=MAX_RUNS, help="Runs of each side, interleaved ABBA.")
    ] = 1,
    versus: Annotated[
        Path | None, typer.Option("--versus", metavar="TESTBED", help="B: the same workload on this testbed.")
    ] = None,
    versus_workload: Annotated[
        str | None, typer.Option("--versus-workload", metavar="WORKLOAD", help="B: this workload instead.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="WIDTH", help="Stop when each p50 ratio is known to this, e.g. 5%."),
    ] = None,
    across: Annotated[
        list[str] | None,
        typer.Option("--across", metavar="KEY", help="A and B may differ in this. Repeatable."),
    ] = None,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
    junit: JunitOption = None,
    seed: SeedOption = None,
    age_again: AgeAgainOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a workload on a testbed."""
    inputs = ImageInputs(suite, tuple(pin or ()))
    one = _side(workload, testbed, resume)
    if resume and seed is not None:
        raise ConfigError("--resume goes on with the seed of that run", "leave --seed out")
    other = Side(versus_workload or one.workload, versus or one.testbed)
    two = versus is not None or versus_workload is not None
    if not two and (until or across):
        raise ConfigError(
            "--until and --across are about A and B, and there is no B",
            "name it with --versus TESTBED or --versus-workload WORKLOAD",
        )
    if not two and count == 1:
        asked = Asked(seed, age_again)
        code = once(one, inputs, results, json_output, quiet, junit, erase_serial or (), resume, asked)
        raise typer.Exit(code)
    if resume:
        raise ConfigError("--resume is for a single run", "the others of a series are runs of their own")
    if seed is not None or age_again:
        raise ConfigError(
            "--seed and --age-again are for a single run",
            "each run of a series has a seed of its own, and all begin with the devices that are kept; to "
            "age them anew, make one run with --age-again first",
        )
    if junit:
        raise ConfigError(
            "--junit is for a single run", "`hsp report RUN --junit FILE` makes it of a stored one"
        )
    width = parse_width(until) if until else None
    sides = [one, other] if two else [one]
    progress = Progress(quiet=quiet)
    code = repeat(
        sides, count, width, across or [], inputs, results, json_output, progress, erase_serial or ()
    )
    raise typer.Exit(code)


def _side(workload: str | None, testbed: Path | None, resume: Path | None) -> Side:
    """What is to be run; a run that goes on says itself what it was. Raises ConfigError."""
    if resume is None:
        if workload is None:
            raise ConfigError("no workload is named", "for example `hsp run top-speeds`")
        return Side(workload, testbed or LAB_TESTBED)
    if workload is not None or testbed is not None:
        raise ConfigError(
            "--resume goes on with the workload and testbed of that run", "name neither beside it"
        )
    workload_path, testbed_path = sources(resume)
    return Side(str(workload_path), testbed_path)
