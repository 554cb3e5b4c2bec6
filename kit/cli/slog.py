"""`hsp slog`: one bare device as a log device, measured before it is bought or used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli import complete
from kit.cli.options import (
    EraseSerialOption,
    JsonOption,
    KernelOption,
    LabTestbedOption,
    PinOption,
    ResultsOption,
    SeedOption,
    SuiteOption,
    output,
)
from kit.cli.result import OutputTargets
from kit.cli.usage import refuse_unused
from kit.core.output import emit_json, emit_text, say
from kit.core.progress import Progress
from kit.core.terminal import terminal_width
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs
from kit.session.slog import SlogOptions, find_target, measure_each
from reports.output import slog_table
from reports.verdict.slog_write_cache import judge

_WRITES_HELP = "Writes of each size; of large ones, 256 MiB. A p99.9 takes 3688."


DevicesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DEVICE",
        autocompletion=complete.devices_or_presets,
        help="Devices of the testbed, presets (in the lab), or paths below /dev/disk/by-id of this "
        "machine. All on them is lost. Several are put side by side.",
    ),
]


FormatOption = Annotated[
    Literal["text", "json", "row"] | None,
    output("--format", help="What to print; row: a line of JSON to share, without serial and host."),
]


def slog(
    context: typer.Context,
    devices: DevicesArgument,
    testbed: LabTestbedOption = None,
    state: Annotated[
        Literal["as-found", "fresh", "aged"],
        typer.Option("--state", help="Before: nothing, a purge, or a purge and two fills."),
    ] = "as-found",
    writes: Annotated[
        int, typer.Option("--writes", min=100, max=1_000_000, metavar="N", help=_WRITES_HELP)
    ] = 4000,
    seed: SeedOption = None,
    erase_serial: EraseSerialOption = None,
    results: ResultsOption = Path("results"),
    json_output: JsonOption = False,
    kind: FormatOption = None,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
) -> None:
    """Measure how fast a bare device makes writes durable: write, FLUSH, O_DSYNC, by size and by threads.

    Examples:
      hsp slog nvme-datacentre ssd-2009-write     two presets in the lab
      hsp slog log0 --testbed nas.toml            a device of a testbed
      hsp slog /dev/disk/by-id/nvme-A --state aged --erase-serial S5H9NS0N123456
    """
    (chosen,) = OutputTargets.of(kind, None, json_output).kinds
    json_output, row = chosen == "json", chosen == "row"
    targets = [find_target(device, testbed) for device in devices]
    in_lab = [target.is_lab for target in targets]
    refuse_unused(context, {"the lab": all(in_lab), "hosts of your own": not any(in_lab)})
    options, progress = SlogOptions(state, writes, seed), Progress()
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
