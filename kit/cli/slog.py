"""`hsp slog`: one bare device as a log device, measured before it is bought or used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import (
    OUTPUT,
    KernelOption,
    OneSerialOption,
    PinOption,
    QuietOption,
    ResultsOption,
    SeedOption,
    SuiteOption,
)
from kit.core.errors import ConfigError
from kit.core.output import emit_json, emit_text, say
from kit.core.progress import Progress
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs
from kit.session.presentation import terminal_width
from kit.session.slog import SlogOptions, find_target, measure_slog
from reports.output import slog_table
from reports.verdict.write_cache import judge

_WRITES_HELP = "Writes of each size; of large ones, 256 MiB. A p99.9 takes 3688."


def slog(
    device: Annotated[
        str,
        typer.Argument(
            help="A device of the testbed, a preset (in the lab), or a path below /dev/disk/by-id of this "
            "machine. All on it is lost."
        ),
    ],
    testbed: Annotated[
        Path | None, typer.Option("--testbed", help="The testbed with the device. Default: the lab's.")
    ] = None,
    state: Annotated[
        Literal["as-found", "fresh", "aged"],
        typer.Option("--state", help="Before: nothing, a purge, or a purge and two fills."),
    ] = "as-found",
    writes: Annotated[
        int,
        typer.Option("--writes", min=100, max=1_000_000, help=_WRITES_HELP),
    ] = 4000,
    seed: SeedOption = None,
    erase_serial: OneSerialOption = None,
    results: ResultsOption = Path("results"),
    json_output: Annotated[
        bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print the result as JSON, nothing else.")
    ] = False,
    row: Annotated[
        bool,
        typer.Option("--row", rich_help_panel=OUTPUT, help="Print one row to share: no serial, no host."),
    ] = False,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
    quiet: QuietOption = False,
) -> None:
    """Measure how fast a bare device makes writes durable: write, FLUSH, O_DSYNC, by size and by threads."""
    if json_output and row:
        raise ConfigError("--json and --row both print on stdout", "choose one of them")
    target = find_target(device, testbed)
    options = SlogOptions(state, writes, seed)
    serials, progress = [erase_serial] if erase_serial else [], Progress(quiet=quiet)
    test, file = measure_slog(
        target, options, ImageInputs(suite, tuple(pin or ()), kernel), results, serials, progress
    )
    cache = judge(test)
    if json_output:
        emit_json({**test.as_json(), "power_loss_protection": {"code": cache.code, "why": cache.why}})
    elif row:
        emit_json(slog_table.row(test, cache))
    else:
        emit_text(slog_table.text(test, cache, terminal_width()))
    say(f"stored: {file}")
