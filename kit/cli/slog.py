"""`hsp slog`: one bare device as a log device, measured before it is bought or used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import (
    OUTPUT,
    EraseSerialOption,
    KernelOption,
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
from kit.session.slog import SlogOptions, find_target, measure_each
from reports.output import slog_table
from reports.verdict.write_cache import judge

_WRITES_HELP = "Writes of each size; of large ones, 256 MiB. A p99.9 takes 3688."


def slog(
    devices: Annotated[
        list[str],
        typer.Argument(
            metavar="DEVICE...",
            help="Devices of the testbed, presets (in the lab), or paths below /dev/disk/by-id of this "
            "machine. All on them is lost. Several are put side by side.",
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
    erase_serial: EraseSerialOption = None,
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
    targets = [find_target(device, testbed) for device in devices]
    options, progress = SlogOptions(state, writes, seed), Progress(quiet=quiet)
    inputs, measured = ImageInputs(suite, tuple(pin or ()), kernel), []
    for test, file in measure_each(targets, options, inputs, results, erase_serial or [], progress):
        cache = judge(test)
        measured.append((test, cache))
        say(f"stored: {file}")
        if row:
            emit_json(slog_table.row(test, cache))
        elif not json_output:
            emit_text([*slog_table.text(test, cache, terminal_width()), *([""] if len(targets) > 1 else [])])
    if json_output:
        found = [
            {**test.as_json(), "power_loss_protection": {"code": cache.code, "why": cache.why}}
            for test, cache in measured
        ]
        emit_json(found[0] if len(targets) == 1 else {"format": 1, "tests": found})
    elif len(targets) > 1 and not row:
        emit_text(slog_table.side_by_side(measured, terminal_width()))
        say("`hsp sheet FILE... --need need.toml` holds these results against what you need")
