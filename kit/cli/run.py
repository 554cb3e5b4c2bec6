"""`hsp run`: run a workload on a testbed, once, repeatedly, or in turn with another side."""

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
from kit.core.output import say
from kit.core.progress import Progress
from kit.lab.image.image import DEFAULT_SUITE, ImageInputs
from kit.run.resume import sources
from kit.session.measure import once
from kit.session.place import Asked
from kit.session.series import parse_width, repeat
from kit.session.side import Side
from kit.store.run_directory import named_run

MAX_RUNS = 100


TestbedOption = Annotated[
    Path | None,
    typer.Option("--testbed", help="Server, clients and devices; without it, the built-in lab."),
]
EraseSerialOption = Annotated[
    list[str] | None,
    typer.Option(
        "--erase-serial", metavar="SERIAL", help="Confirm that this device is erased. Once per device."
    ),
]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", metavar="RUN", help="Resume an interrupted run.")
]
CountOption = Annotated[
    int, typer.Option("--repeat", min=1, max=MAX_RUNS, help="Runs of each side, interleaved ABBA.")
]
VersusOption = Annotated[
    Path | None, typer.Option("--versus", metavar="TESTBED", help="B: the same workload on this testbed.")
]
VersusWorkloadOption = Annotated[
    str | None, typer.Option("--versus-workload", metavar="WORKLOAD", help="B: this workload instead.")
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WIDTH", help="Stop when each p50 ratio is this precise, e.g. 5%."),
]
AcrossOption = Annotated[
    list[str] | None,
    typer.Option("--across", metavar="KEY", help="A and B may differ in this. Repeatable."),
]


def run(
    workload: Annotated[
        str | None, typer.Argument(help="A workload of the kit, or a .toml file.", show_default=False)
    ] = None,
    testbed: TestbedOption = None,
    erase_serial: EraseSerialOption = None,
    resume: ResumeOption = None,
    count: CountOption = 1,
    versus: VersusOption = None,
    versus_workload: VersusWorkloadOption = None,
    until: UntilOption = None,
    across: AcrossOption = None,
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
    if resume:
        resume = named_run(resume).path
    side_a = _side(workload, testbed, resume)
    if resume and seed is not None:
        raise ConfigError("--resume uses the seed of that run", "leave --seed out")
    side_b = Side(versus_workload or side_a.workload, versus or side_a.testbed)
    has_b = versus is not None or versus_workload is not None
    if not has_b and (until or across):
        raise ConfigError(
            "--until and --across compare A and B, and there is no B",
            "add --versus TESTBED or --versus-workload WORKLOAD",
        )
    if not has_b and count == 1:
        asked = Asked(seed, age_again)
        code = once(side_a, inputs, results, json_output, quiet, junit, erase_serial or (), resume, asked)
        raise typer.Exit(code)
    if resume:
        raise ConfigError("--resume is for a single run", "resume the interrupted run of a series alone")
    if seed is not None or age_again:
        raise ConfigError(
            "--seed and --age-again are for a single run",
            "each run of a series has its own seed, and all start with the kept devices; to age them again, "
            "make one run with --age-again first",
        )
    if junit:
        raise ConfigError(
            "--junit is for a single run", "`hsp report RUN --junit FILE` writes it for a stored run"
        )
    width = parse_width(until) if until else None
    sides = [side_a, side_b] if has_b else [side_a]
    progress = Progress(quiet=quiet)
    code = repeat(
        sides, count, width, across or [], inputs, results, json_output, progress, erase_serial or ()
    )
    raise typer.Exit(code)


def _side(workload: str | None, testbed: Path | None, resume: Path | None) -> Side:
    """Workload and testbed of the run; for a resumed run, those of its plan. Raises ConfigError."""
    if resume is None:
        if workload is None:
            raise ConfigError("no workload is given", "for example `hsp run top-speeds`")
        return Side(workload, testbed or LAB_TESTBED)
    if workload is not None or testbed is not None:
        raise ConfigError("--resume uses the workload and testbed of that run", "leave both out")
    workload_path, testbed_path = sources(resume)
    say(f"resuming {resume} with {workload_path} on {testbed_path}")
    return Side(str(workload_path), testbed_path)
