"""`hsp slog`: one bare device as a log device, measured before it is bought or used."""

from __future__ import annotations

from collections.abc import Iterator
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
from kit.core.errors import EXIT_INTERRUPTED, EXIT_OK
from kit.core.output import emit_json, emit_text, say
from kit.core.progress import Progress
from kit.core.terminal import terminal_width
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs
from kit.session.measure import MeasuredRun, next_command
from kit.session.place import Request
from kit.session.slog.measuring import State, measure_each, side_of
from kit.store.manifest import read_manifest
from kit.store.printed.slog import SlogTest
from kit.store.stored import Json
from reports.devices.slog import slog_tests
from reports.features.slog.write_cache import CacheVerdict, judge
from reports.output import slog_table

_WRITES_HELP = "Writes of each size; of large ones, 256 MiB. A p99.9 takes 3688."
_MOST_REASONS = 5
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
        State,
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
    plans = [side_of(device, testbed, state, writes).plan() for device in devices]
    in_lab = [plan.testbed.is_lab for plan in plans]
    refuse_unused(context, {"the lab": all(in_lab), "hosts of your own": not any(in_lab)})
    inputs = ImageInputs(suite, tuple(pin or ()), kernel)
    request = Request(results, inputs, erase_serials=tuple(erase_serial or ()), seed=seed)
    several, found, code = len(plans) > 1, list[tuple[SlogTest, CacheVerdict]](), EXIT_OK
    for measured in measure_each(plans, request, Progress()):
        for test, cache in _found(measured):
            found.append((test, cache))
            if chosen == "row":
                emit_json(slog_table.row(test, cache))
            elif chosen == "text":
                emit_text([*slog_table.text(test, cache, terminal_width()), *([""] if several else [])])
        if measured.failure:
            raise measured.failure
        code = max(code, measured.code)
        if code == EXIT_INTERRUPTED:
            break
    if chosen == "json":
        made = [_as_json(*each) for each in found]
        emit_json(made[0] if len(made) == 1 and not several else {"format": 1, "tests": made})
    elif several and chosen == "text":
        emit_text(slog_table.side_by_side(found, terminal_width()))
        say("`hsp sheet RUN... --need need.toml` holds these runs against what you need")
    raise typer.Exit(code)


def _found(measured: MeasuredRun) -> Iterator[tuple[SlogTest, CacheVerdict]]:
    """What a run says of its device; says where it is, and why its figures are not those of a valid run."""
    if not measured.summary.rows:
        return
    say(f"run:    {measured.run_dir.path}\nreport: {measured.run_dir.report.absolute().as_uri()}")
    if measured.summary.verdict != "valid":
        say(f"verdict: {measured.summary.state}")
        for reason in measured.summary.shown_reasons[:_MOST_REASONS]:
            say(f"  {reason}")
        if line := next_command(measured.summary, measured.run_dir.path, measured.code, measured.failure):
            say(line)
    yield from ((test, judge(test)) for test in slog_tests(read_manifest(measured.run_dir)))


def _as_json(test: SlogTest, cache: CacheVerdict) -> Json:
    return {**test.as_json(), "power_loss_protection": {"code": cache.code, "why": cache.why}}
