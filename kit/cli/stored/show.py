"""`hsp show RUN`: a stored run as text, page, checks or counts, or as it goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli import complete
from kit.cli.options import RUN, AllOption, JsonOption, JunitOption, KnownOption, ResultsOption
from kit.cli.result import OutputOption, OutputTargets, format_option
from kit.cli.usage import loaded, refuse_unused
from kit.core.errors import ConfigError
from kit.core.output import check_target
from kit.pack.opened import find_run

Format = Literal["text", "json", "html", "csv", "parquet", "openmetrics"]
_COUNTS = ("csv", "parquet", "openmetrics")

_counts = partial(typer.Option, rich_help_panel="Counts (csv, parquet, openmetrics)")

ReferenceOption = Annotated[
    Path | None,
    typer.Option("--reference", metavar="FILE", help="A TOML file of latency ranges, not the workload's."),
]
PhaseOption = Annotated[
    list[str] | None,
    _counts("--phase", metavar="NAME", help="Only this phase. Repeatable.", autocompletion=complete.phases),
]
LayerOption = Annotated[
    list[str] | None, _counts("--layer", metavar="NAME", help="Only this layer. Repeatable.")
]
PercentilesOption = Annotated[
    bool, _counts("--percentiles", help="p50, p95, p99 and p99.9 of each interval instead.")
]
TotalsOption = Annotated[bool, _counts("--totals", help="OpenMetrics: one histogram a phase, without times.")]
EveryOption = Annotated[
    str | None, _counts("--every", metavar="DURATION", help="OpenMetrics: the length of a step, such as 15s.")
]
PerOctaveOption = Annotated[
    int | None, _counts("--per-octave", metavar="N", help="OpenMetrics: bins an octave, 1 to 32.")
]
PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="N", help="Of --live; 0: any that is free.")
]


def show(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        RUN(
            show_default="the newest",
            help="A workload (its latest run), the start of an id, or a directory. Several with --checks.",
        ),
    ] = None,
    checks: Annotated[bool, typer.Option("--checks", help="Each check with its id: what failed.")] = False,
    all_: AllOption = False,
    live: Annotated[
        bool, typer.Option("--live", help="A page of this machine's browser, while the run goes on.")
    ] = False,
    port: PortOption = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in your browser.")] = False,
    reference: ReferenceOption = None,
    known: KnownOption = None,
    phase: PhaseOption = None,
    layer: LayerOption = None,
    percentiles: PercentilesOption = False,
    totals: TotalsOption = False,
    every: EveryOption = None,
    per_octave: PerOctaveOption = None,
    output: OutputOption = None,
    kind: Annotated[Format | None, format_option(Format)] = None,
    json_output: JsonOption = False,
    junit: JunitOption = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Show a stored run or series: judged and drawn again from its files. Needs no host and no root.

    Exit code 1 if an expectation is not met; with --junit or --checks also 3 if the result is unknown.

    Examples:
      hsp show                              the newest run of results/
      hsp show top-speeds --open            its report in a browser
      hsp show top-speeds --checks          what failed
      hsp show 20261124 -o counts.parquet   counts of a run whose id begins so
    """  # fmt: skip
    result = OutputTargets.of(kind, output, json_output)
    to_count = {*result.kinds} & {*_COUNTS}
    mode = "a page that is served" if live else "counts" if to_count else "the report of a run"
    without_text = "text" not in result.kinds
    refuse_unused(context, {"checks" if checks else mode: True, "a result without text": without_text})
    check_target(junit)
    paths = [find_run(name, results, alone=live) for name in runs or [""]]
    if checks:
        loaded("kit.cli.stored.check").check(paths, known, result, junit, all_)
    elif len(paths) > 1:
        raise ConfigError(f"{len(paths)} runs", "name one of them, or add --checks")
    elif live:
        loaded("kit.cli.stored.watch").watch(paths[0], port)
    elif to_count:
        counts = loaded("kit.cli.stored.export")
        chosen = counts.ExportedCounts(phase or [], layer or [], percentiles, totals, every, per_octave)
        counts.export(context, paths[0], result, chosen)
    else:
        loaded("kit.cli.stored.report").report(context, paths[0], result, reference, known, junit, open_)
