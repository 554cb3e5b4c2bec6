"""Options of several commands, and durations in options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.core.errors import ConfigError
from kit.core.seed import SEED_BITS
from kit.core.units import parse_duration_ns

# Panels of the help; "Options" is Typer's own.
A_AND_B = "A and B"
LAB = "Lab"
OUTPUT = "Output"
SAFETY = "Safety"
SWEEP = "Sweep"

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", rich_help_panel=OUTPUT, help="Print the summary as JSON on stdout, nothing else."
    ),
]  # fmt: skip
OneSerialOption = Annotated[
    str | None,
    typer.Option(
        "--erase-serial", metavar="SERIAL", rich_help_panel=SAFETY, help="Confirm erasing this device."
    ),
]
EraseSerialOption = Annotated[
    list[str] | None,
    typer.Option(
        "--erase-serial", metavar="SERIAL", rich_help_panel=SAFETY,
        help="Confirm erasing this device (repeatable).",
    ),
]  # fmt: skip
ResultsOption = Annotated[
    Path,
    typer.Option("--results", metavar="DIR", rich_help_panel=OUTPUT, help="Directory for run directories."),
]
SuiteOption = Annotated[
    str,
    typer.Option("--suite", metavar="NAME", rich_help_panel=LAB, help="The Debian release of the guest."),
]
PinOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pin", metavar="PACKAGE", rich_help_panel=LAB,
        help="SOURCE=VERSION or SOURCE/RELEASE, e.g. zfs-linux/trixie-backports. Repeatable.",
    ),
]  # fmt: skip
KernelOption = Annotated[
    str,
    typer.Option(
        "--kernel", metavar="NAME", rich_help_panel=LAB,
        help="The kernel of the guest, as its package is called behind linux-image-.",
    ),
]  # fmt: skip
JunitOption = Annotated[
    Path | None,
    typer.Option(
        "--junit", metavar="FILE", rich_help_panel=OUTPUT,
        help="Also write a JUnit XML file, for a CI server.",
    ),
]  # fmt: skip
KnownOption = Annotated[
    Path | None,
    typer.Option(
        "--known", metavar="FILE", rich_help_panel=OUTPUT,
        help="Known failures ([\\[known]]) beside those of the workload: they do not fail the exit code.",
    ),
]  # fmt: skip
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", min=0, max=(1 << SEED_BITS) - 1, metavar="N", show_default=False,
        help="Random numbers as in another run or series: the seed in its manifest. Default: a new seed.",
    ),
]  # fmt: skip
AgeAgainOption = Annotated[
    bool,
    typer.Option(
        "--age-again", rich_help_panel=LAB,
        help="Age the lab's SSDs again, even if an earlier run has aged them.",
    ),
]  # fmt: skip
ONLY_HELP = "Measure only these cells of a sweep and the base, e.g. 'threads=*'. Repeatable."
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CELL", rich_help_panel=SWEEP, help=ONLY_HELP, show_default=False),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", rich_help_panel=SWEEP, show_default=False,
        help="Another value of a key that can be swept, e.g. job.bs=4k. Repeatable.",
    ),
]  # fmt: skip
LengthOption = Annotated[
    str | None,
    typer.Option(
        "--length", metavar="LENGTH", show_default="full",
        help="smoke, sanity or full: as long as the workload's \\[lengths.LENGTH] says.",
    ),
]  # fmt: skip
QuickOption = Annotated[
    bool,
    typer.Option("--quick", rich_help_panel=SWEEP, help="Only the cells that the workload declares for it."),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="No progress on stderr.")
]


def duration_ns(option: str, text: str) -> int:
    """The duration `text` of a command line option in ns. Raises ConfigError."""
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}", f"for example: {option} 200ms") from None
