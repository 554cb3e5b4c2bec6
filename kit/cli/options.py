"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON on stdout, nothing else.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Where run directories go.")]
SuiteOption = Annotated[str, typer.Option("--suite", help="The Debian release of the guest.")]
PinOption = Annotated[
    list[str] | None,
    typer.Option("--pin", help="SOURCE=VERSION or SOURCE/RELEASE, e.g. zfs-linux/trixie-backports."),
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", help="Also write a JUnit XML file, for a CI server.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
