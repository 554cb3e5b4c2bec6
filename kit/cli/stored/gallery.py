"""`hsp gallery DIR`: one page of many packs, without a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import JsonOption
from kit.cli.result import OutputOption, OutputTargets
from kit.core.errors import EXIT_USAGE, ConfigError
from kit.core.output import as_json, say, say_error
from kit.core.text import counted
from kit.session.packs.gallery import HINT, gallery
from reports.page import gallery_page


def gallery_command(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Where packs (.hsp) are, also below it, and lines of `hsp slog` (.slog)."
        ),
    ],
    output: OutputOption = None,
    json_output: JsonOption = False,
) -> None:
    """Make one page of many packs, gallery.html: drives by model, interface, state and p99, without a server.

    Exit code 2 if a pack cannot be read: the page has the others, and why.

    Examples:
      hsp gallery packs                        gallery.html, which links to each pack
      hsp gallery packs -o packs/index.html    a directory to publish
      hsp gallery packs --json
    """
    page = Path("gallery.html")
    result = OutputTargets.of(None, output or ([] if json_output else [page]), json_output)
    found = gallery(directory)
    if found.rows:
        written = next((file for kind, file in result.targets if file and kind == "html"), page)
        where = os.path.relpath(directory.resolve(), written.absolute().parent.resolve())
        result.write({
            "html": lambda _: gallery_page.render(found, where),
            "json": lambda _: as_json(found.as_json()),
        })  # fmt: skip
    more = f"; {found.more:,} rows more are left out: name a sub-folder" if found.more else ""
    say(f"{counted(len(found.rows), 'row')} of {counted(found.packs, 'pack')}{more}")
    for each in found.left_out:
        say_error(ConfigError(f"{each.file}: {each.reason}", HINT))
    if found.left_out:
        raise typer.Exit(EXIT_USAGE)
