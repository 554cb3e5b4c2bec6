"""`hsp run` and `hsp demo`: run a workload on a testbed, once, repeatedly, or in turn with another side."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kit.cli import complete, options
from kit.cli.plan_sweep import effort_lines
from kit.cli.usage import refuse_unused
from kit.config.overrides import as_set
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.core.output import say
from kit.core.progress import Progress
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs
from kit.plan.estimate import seconds
from kit.plan.known_failures import read_known
from kit.plan.sweep.builds import SweepPlan
from kit.run.resume import sources
from kit.session.agreement import resuming
from kit.session.measure import once
from kit.session.place import Request, ask
from kit.session.repeated_runs import LEAST_RUNS, parse_width, repeat
from kit.session.side import Side
from kit.session.sweep_runs import measure_sweep, resumed
from kit.store.checks.known_failures import Known
from kit.store.run_directory import named_run
from kit.store.run_name import find_run
from kit.store.series import Series, is_series

_MAX_RUNS = 100
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume", metavar="RUN", help="Resume an interrupted run or series.", autocompletion=complete.runs
    ),
]
_a_and_b = partial(typer.Option, rich_help_panel=options.A_AND_B)
CountOption = Annotated[
    int,
    _a_and_b(
        "--repeat",
        min=1,
        max=_MAX_RUNS,
        metavar="N",
        help="Runs of each side, interleaved ABBA; of a sweep, rounds of all its cells.",
    ),
]
VersusOption = Annotated[
    Path | None, _a_and_b("--versus", metavar="TESTBED", help="B: the same workload on this testbed.")
]
VersusWorkloadOption = Annotated[
    str | None,
    _a_and_b(
        "--versus-workload",
        metavar="WORKLOAD",
        help="B: this workload instead.",
        autocompletion=complete.workloads,
    ),
]
UntilOption = Annotated[
    str | None,
    _a_and_b("--until", metavar="WIDTH", help="Stop when each p50 ratio is this precise, e.g. 5%."),
]
AcrossOption = Annotated[
    list[str] | None, _a_and_b("--across", metavar="KEY", help="A and B may differ in this. Repeatable.")
]
AgreeOption = Annotated[
    list[str] | None,
    options.safety(
        "--agree",
        metavar="CODE",
        help="Agree to what hsp has shown: commands of a testbed, or the id of a run to resume. Repeatable.",
    ),
]
BesideOption = Annotated[
    bool,
    options.safety(
        "--beside-other-pools",
        help="Change settings of all pools (a smaller ARC, no flushes) although others are imported.",
    ),
]
CutOption = Annotated[
    bool,
    options.safety(
        "--cut-other-pools", help="Let other pools and exports lose their server: its power, or a restart."
    ),
]
CaptureOption = Annotated[
    Path | None,
    typer.Option("--capture", metavar="FILE", help="Of `replay`: the capture of `hsp observe`, or its run."),
]
SpeedOption = Annotated[
    float | None, typer.Option("--speed", metavar="N", help="Of `replay`: so many times as fast.")
]
DespiteOption = Annotated[
    bool,
    typer.Option(
        "--despite-warm-up", help="Measure although the L2ARC is not warm; the verdict is then unknown."
    ),
]
ObserverOption = Annotated[
    bool,
    typer.Option(
        "--observer-effect",
        help="After the phases, measure what the tracer adds to reads from DRAM: some minutes.",
    ),
]


def demo(
    suite: options.SuiteOption = DEFAULT_SUITE,
    pin: options.PinOption = None,
    kernel: options.KernelOption = DEFAULT_KERNEL,
    json_output: options.JsonOption = False,
    results: options.ResultsOption = Path("results"),
    junit: options.JunitOption = None,
    seed: options.SeedOption = None,
    age_again: options.AgeAgainOption = False,
    live: options.LiveOption = False,
) -> None:
    """Run the 2009 'top speeds' experiment on the built-in emulator.

    Examples:
      hsp demo
      hsp demo --live
      hsp show --open      its report
    """
    side = Side("top-speeds", LAB_TESTBED)
    Progress().note(_announcement(side))
    inputs = ImageInputs(suite, tuple(pin or ()), kernel)
    raise typer.Exit(once(side, Request(
        results, inputs, json_output, junit, seed=seed, age_again=age_again, live=live
    )))  # fmt: skip


def _announcement(side: Side) -> str:
    """What a demo does and how long that takes; the minutes are those of README.md."""
    plan = side.plan()
    return (
        f"{plan.workload.title}, in the built-in lab ({len(plan.workload.phase)} phases, "
        f"{seconds(plan)[0]:.0f} s of lab time): about 2 minutes on two cores, 6 the first time"
    )


def run(
    context: typer.Context,
    workload: Annotated[str | None, options.WORKLOAD] = None,
    testbed: options.LabTestbedOption = None,
    erase_serial: options.EraseSerialOption = None,
    agree: AgreeOption = None,
    resume: ResumeOption = None,
    count: CountOption = 1,
    versus: VersusOption = None,
    versus_workload: VersusWorkloadOption = None,
    until: UntilOption = None,
    across: AcrossOption = None,
    beside_other_pools: BesideOption = False,
    cut_other_pools: CutOption = False,
    despite_warm_up: DespiteOption = False,
    observer_effect: ObserverOption = False,
    capture: CaptureOption = None,
    speed: SpeedOption = None,
    only: options.OnlyOption = None,
    sets: options.SetOption = None,
    length: options.LengthOption = None,
    quick: options.QuickOption = False,
    suite: options.SuiteOption = DEFAULT_SUITE,
    pin: options.PinOption = None,
    kernel: options.KernelOption = DEFAULT_KERNEL,
    json_output: options.JsonOption = False,
    results: options.ResultsOption = Path("results"),
    junit: options.JunitOption = None,
    known: options.KnownOption = None,
    seed: options.SeedOption = None,
    age_again: options.AgeAgainOption = False,
    live: options.LiveOption = False,
) -> None:
    """Run a workload on a testbed.

    Examples:
      hsp run top-speeds --testbed nas.toml
      hsp run top-speeds --testbed a.toml --versus b.toml --repeat 5
      hsp run replay --capture results/observe/latest --speed 2
    """
    again = named_run(find_run(resume, results)).path if resume else None
    refuse_unused(context, {"a run that is resumed": resume})
    sets = [*(sets or ()), *_of_replay(capture, speed), *as_set(length)]
    side, series = _chosen(workload, testbed, again, sets, agree or ())
    sides = _sides(side, versus_workload or "", versus)
    _refuse_unused(context, sides, count)
    request = Request(
        results, ImageInputs(suite, tuple(pin or ()), kernel), json_output, junit,
        erase_serials=tuple(erase_serial or ()), resume=again, count=count,
        until=parse_width(until) if until else None, across=tuple(across or ()), seed=seed,
        age_again=age_again, beside_other_pools=beside_other_pools, cut_other_pools=cut_other_pools,
        despite_warm_up=despite_warm_up, observer_effect=observer_effect, live=live,
        known=_known(known, side, versus_workload or ""), agreed=tuple(agree or ()),
    )  # fmt: skip
    cells, quick = (series.only, series.quick) if series else (tuple(only or ()), quick)
    planned = side.sweep(cells, quick=quick) if len(sides) == 1 else None
    if planned is not None:
        raise typer.Exit(measure_sweep(side, planned, request, _told(planned)))
    is_one = len(sides) == 1 and count == 1
    raise typer.Exit(once(side, request) if is_one else repeat(sides, request, Progress()))


def _of_replay(capture: Path | None, speed: float | None) -> Iterator[str]:
    """Both options as `--set`."""
    if capture is not None:
        # As TOML has a string: a path may look like another value. No link: `latest` moves.
        yield f"replay.capture={json.dumps(os.path.realpath(capture))}"
    if speed is not None:
        yield f"replay.speed={speed:g}"


def _told(planned: SweepPlan) -> Progress:
    """Progress that has told what the sweep costs: before a person confirms that devices are erased."""
    progress = Progress()
    progress.note("\n".join(effort_lines(planned)))
    return progress


def _sides(a: Side, b: str, versus: Path | None) -> list[Side]:
    """A, and B if it is named: `b`, its workload ("": that of A), on `versus` (None: the testbed of A)."""
    if versus:
        return [a, Side(b or a.workload, versus, a.sets)]
    return [a, replace(a, workload=b)] if b else [a]


def _refuse_unused(context: typer.Context, sides: Sequence[Side], count: int) -> None:
    """Refuse options without effect. Raises ConfigError."""
    b = len(sides) > 1
    in_lab, sweeps = [each.read_testbed().is_lab for each in sides], [each.sweeps for each in sides]
    if context.params["live"] and (b or count > 1 or any(sweeps)):
        Progress().note("--live: no view of a series; `hsp show RUN --live` shows one of its runs")
    refuse_unused(context, {
        "a sweep": any(sweeps),
        "a workload that sweeps nothing": not any(sweeps),
        "A and B": b,
        "a run without B": not b,
        "so few runs": count <= LEAST_RUNS,
        "several runs": not any(sweeps) and (b or count > 1),
        "the lab": all(in_lab),
        "hosts of your own": not any(in_lab),
    })  # fmt: skip


def _known(path: Path | None, side: Side, b: str) -> tuple[Known, ...]:
    """The known failures of `--known`, of checks of either side's workload. Raises ConfigError."""
    if path is None:
        return ()
    checks = [each.checks() for each in _sides(side, b, None)]
    return read_known(path, [p for phases, _ in checks for p in phases], [e for _, of in checks for e in of])


def _chosen(
    workload: str | None, testbed: Path | None, resume: Path | None, sets: list[str], agreed: Sequence[str]
) -> tuple[Side, Series | None]:
    """What is measured where; of a series that is resumed, that, too. Raises ConfigError."""
    side, series = (
        resumed(resume)
        if resume is not None and is_series(resume)
        else (_side(workload, testbed, resume, sets), None)
    )
    if resume is not None:
        resuming.agree(resume, side, agreed, ask if sys.stdin.isatty() else None)
        say(f"resuming {resume} with {side.workload} on {side.testbed}")
    return side, series


def _side(workload: str | None, testbed: Path | None, resume: Path | None, sets: list[str]) -> Side:
    """Workload and testbed of the run; for a resumed run, those of its plan. Raises ConfigError."""
    if resume is None:
        if workload is None:
            raise ConfigError("no workload is given", "for example `hsp run top-speeds`")
        return Side.of(workload, testbed, sets)
    workload_path, testbed_path, stored_sets, device = sources(resume)
    return Side(str(workload_path), testbed_path, stored_sets, device=device)
