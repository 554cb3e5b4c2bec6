"""`hsp pack RUN`: a stored result as one file that can be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import reports
from kit.cli.options import RUN, ResultsOption
from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.core.output import check_target, emit_text, say, write_target
from kit.pack.archive import SUFFIX
from kit.pack.build import KEPT_FILES, KEPT_KINDS, RAW, pack
from kit.pack.names import checked_kinds
from kit.store.run_directory import RunDir
from kit.store.run_name import find_run
from kit.store.series import is_series
from kit.store.sheet import Sheet
from kit.store.stored import read_versioned
from reports.page import sheet_page


def pack_command(
    run: Annotated[
        str | None,
        RUN(show_default="the newest", help="A run, a series, or a file of `hsp sheet`."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="KINDS", help=f"What stays: {', '.join(KEPT_KINDS)}; with commas."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help=f"Write there, not to ID{SUFFIX}.")
    ] = None,
    results: ResultsOption = Path("results"),
) -> None:
    """Put a result into one file to give away: without serials, names of hosts, addresses, paths and users.

    Equal names stay equal. `hsp show`, `compare`, `trend`, `size` and `sheet` read the file as a run.

    Examples:
      hsp pack top-speeds                      its latest run: ID.hsp
      hsp pack top-speeds --keep hosts,pools   with names of hosts and pools
      hsp show 20261124T053000Z-ab12cd.hsp     what the other one does
    """  # fmt: skip
    kept = checked_kinds(keep or [], KEPT_FILES)
    check_target(output)
    if output and output.suffix != SUFFIX:
        raise ConfigError(f"{output}: a pack ends in {SUFFIX}", f"-o {output.stem}{SUFFIX}")
    name, content = pack(find_run(run, results), kept, _draw)
    target = output or Path(name)
    write_target(target, content)
    if RAW in kept:
        say("raw/, journal and plan are in the pack as they are: with names, addresses and all commands")
    emit_text([f"pack: {target}"])


def _draw(path: Path) -> None:
    """Summary and page of a directory, or the page of a sheet. Raises ConfigError."""
    if path.is_file():
        page = sheet_page.render(Sheet.from_json(read_versioned(path), path))
        write_atomically(path.with_suffix(".html"), page.encode())
    elif is_series(path):
        reports.analyse_series(path)
    else:
        reports.analyse(RunDir(path))
