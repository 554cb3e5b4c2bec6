"""`hsp sheet SERIES|RUN... --need need.toml`: which of several drives to buy, from stored runs alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import RUN, AllOption, JsonOption, ResultsOption
from kit.cli.result import OutputOption, OutputTargets, format_option
from kit.cli.usage import refuse_unused
from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN
from kit.core.output import as_json
from kit.pack.opened import find_run
from kit.session.sheet import buyers_sheet
from reports.output import sheet_table
from reports.page import sheet_page

Format = Literal["text", "json", "markdown", "html"]


def sheet(
    context: typer.Context,
    runs: Annotated[
        list[str],
        RUN(help="Series with an axis of devices, runs (a candidate each), files of `hsp size`."),
    ],
    need: Annotated[
        Path, typer.Option("--need", metavar="FILE", help="What you need (docs/sheet.md has its keys).")
    ],
    all_: AllOption = False,
    output: OutputOption = None,
    kind: Annotated[Format | None, format_option(Format)] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Say which drive to buy: candidates beside one another, each line against a need.

    Exit code 1 if no candidate has what is needed, 3 if that cannot be told.

    Examples:
      hsp sheet candidates --need need.toml
      hsp sheet candidates --need need.toml -o sheet.html
      hsp sheet results/slog/A results/slog/B --need need.toml     runs of `hsp slog`
      hsp sheet candidates size.json --need need.toml       with `hsp size my-server -o size.json`
    """
    result = OutputTargets.of(kind, output, json_output)
    refuse_unused(context, {"a result without text": "text" not in result.kinds})
    found = buyers_sheet([os.fspath(find_run(name, results)) for name in runs], need)
    result.write({
        "text": lambda width: sheet_table.plain(found, width, all_=all_),
        "json": lambda _: as_json(found.as_json()),
        "markdown": lambda _: sheet_table.markdown(found),
        "html": lambda _: sheet_page.render(found),
    })  # fmt: skip
    told = any(each.decision == "cannot-tell" for each in found.candidates)
    raise typer.Exit(EXIT_OK if found.choice else EXIT_UNKNOWN if told else EXIT_EXPECTATION)
