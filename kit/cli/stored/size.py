"""`hsp size RUN|FILE`: what other caches, or a special vdev, would answer of the disks' reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from kit.cli.options import RUN, JsonOption, ResultsOption
from kit.cli.result import OutputOption, OutputTargets, format_option
from kit.core.errors import EXIT_UNKNOWN, ConfigError
from kit.core.output import as_json
from kit.core.units import parse_size_bytes
from kit.pack.opened import find_phase
from kit.session.sizing.size import AskedSizes, sized
from reports.output import size_table
from reports.page import size_page

Format = Literal["text", "json", "markdown", "html"]
_server = partial(typer.Option, rich_help_panel="Server of a list of keys (a run says these itself)")


def _size(option: str, text: str | None) -> int | None:
    """Raises ConfigError."""
    try:
        return None if text is None else parse_size_bytes(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}", f"for example: {option} 64GiB") from None


def _sizes(option: str, texts: list[str] | None) -> list[int]:
    return [_size(option, each) or 0 for each in texts or ()]


ArcOption = Annotated[
    list[str] | None, typer.Option("--arc", metavar="SIZE", help="An ARC to judge. Repeatable.")
]
L2arcOption = Annotated[
    list[str] | None, typer.Option("--l2arc", metavar="SIZE", help="An L2ARC to judge. Repeatable.")
]
SpecialOption = Annotated[
    list[str] | None, typer.Option("--special", metavar="SIZE", help="A special vdev to judge. Repeatable.")
]
ArcNowOption = Annotated[str | None, _server("--arc-now", metavar="SIZE", help="The ARC now.")]
L2arcNowOption = Annotated[str | None, _server("--l2arc-now", metavar="SIZE", help="The L2ARC now.")]
BlockOption = Annotated[str | None, _server("--block", metavar="SIZE", help="Of each block.")]
ZfsOption = Annotated[str | None, _server("--zfs", metavar="VERSION", help="Of OpenZFS.")]
TunableOption = Annotated[
    list[str] | None, _server("--tunable", metavar="NAME=N", help="Such as l2arc_write_max. Repeatable.")
]


def size(
    source: Annotated[
        str, RUN(metavar="RUN|FILE", help="A run or RUN:PHASE with sampled keys, or a list of keys (CSV).")
    ],
    arc: ArcOption = None,
    l2arc: L2arcOption = None,
    special: SpecialOption = None,
    arc_now: ArcNowOption = None,
    l2arc_now: L2arcNowOption = None,
    block: BlockOption = None,
    zfs: ZfsOption = None,
    tunable: TunableOption = None,
    compressratio: Annotated[
        float,
        typer.Option(
            "--compressratio", min=1, max=1000, metavar="X", help="As `zfs get` has it: 1.50x is 1.5."
        ),
    ] = 1.0,
    output: OutputOption = None,
    kind: Annotated[Format | None, format_option(Format)] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """Say what a larger ARC, an L2ARC, or a special vdev would answer of the reads that disks answer now.

    Exit code 3 if the sample cannot tell.

    Examples:
      hsp size my-server -o size.html           of a run or observation that sampled keys
      hsp size my-server --l2arc 400GB          of one size
      hsp size my-server --special 400GB        by special_small_blocks
      hsp size keys.csv --arc-now 64GiB --block 128KiB
    """
    result = OutputTargets.of(kind, output, json_output)
    path = find_phase(source, results)
    asked = AskedSizes(
        _sizes("--arc", arc), _sizes("--l2arc", l2arc), _sizes("--special", special),
        _size("--arc-now", arc_now), _size("--l2arc-now", l2arc_now), _size("--block", block),
        zfs, tunable or [], compressratio,
    )  # fmt: skip
    found = sized(Path(path), asked)
    result.write({
        "text": lambda width: size_table.plain(found, width),
        "json": lambda _: as_json(found.as_json()),
        "markdown": lambda _: size_table.markdown(found),
        "html": lambda _: size_page.render(found),
    })  # fmt: skip
    if not found.known:
        raise typer.Exit(EXIT_UNKNOWN)
