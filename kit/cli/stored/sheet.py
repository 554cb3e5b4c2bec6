"""`hsp sheet SERIES|RUN... --need need.toml`: which of several drives to buy, from stored runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import JsonOption
from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN, ConfigError
from kit.core.output import check_target, emit, emit_json, emit_text, say, write_target
from kit.session.presentation import terminal_width
from kit.session.sheet import buyers_sheet
from reports.output import sheet_table
from reports.page import sheet_page


def sheet(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Series with an axis of devices, runs (a candidate each), and results of hsp slog.",
            metavar="SERIES|RUN...",
        ),
    ],
    need: Annotated[
        Path, typer.Option("--need", metavar="FILE", help="What you need (docs/sheet.md has its keys).")
    ],
    json_output: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown page on stdout.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page, to print or to send.")
    ] = None,
) -> None:
    """Say which drive to buy: candidates beside one another, each line against a need."""
    if json_output and markdown:
        raise ConfigError("--json and --markdown both print on stdout", "choose one of them")
    check_target(html)
    found = buyers_sheet(runs, need)
    if json_output:
        emit_json(found.as_json())
    elif markdown:
        emit(sheet_table.markdown(found).encode())
    else:
        emit_text(sheet_table.plain(found, terminal_width()))
    if html:
        write_target(html, sheet_page.render(found).encode())
        say(f"page: {html}")
    told = any(each.decision == "cannot-tell" for each in found.candidates)
    raise typer.Exit(EXIT_OK if found.choice else EXIT_UNKNOWN if told else EXIT_EXPECTATION)
