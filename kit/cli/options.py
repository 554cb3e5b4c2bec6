"""Options of several commands, and durations in options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kit.cli import complete
from kit.core.errors import ConfigError
from kit.core.seed import SEED_BITS
from kit.core.units import parse_duration_ns

# Panels of the help; "Options" is Typer's own.
A_AND_B = "A and B"
LAB = "Lab"
OUTPUT = "Output"
SAFETY = "Safety"
SWEEP = "Sweep"
_PERCENT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?%?")

JsonOption = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=OUTPUT, help="JSON on stdout, and nothing else there."),
]
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
    typer.Option("--results", metavar="DIR", rich_help_panel=OUTPUT, help="Where runs are stored."),
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
        help="A file of \\[\\[known]] failures, beside the workload's: they do not fail the exit code.",
    ),
]  # fmt: skip


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << SEED_BITS:
        raise typer.BadParameter(f"{text[:40]} is not a number from 0 to 2^{SEED_BITS} - 1")
    return int(text)


SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", parser=_seed, metavar="N", show_default=False,
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
AllOption = Annotated[
    bool,
    typer.Option("--all", "--verbose", "-v", rich_help_panel=OUTPUT, help="Also what passed, or is alike."),
]
WorkloadArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD", autocompletion=complete.workloads,
        help="A workload of the kit (hsp list workloads), or a .toml file.",
    ),
]  # fmt: skip
TestbedOption = Annotated[
    Path,
    typer.Option("--testbed", metavar="FILE", help="Server, clients and devices."),
]
LabTestbedOption = Annotated[
    Path | None,
    typer.Option(
        "--testbed", metavar="FILE", help="Server, clients and devices.", show_default="the built-in lab"
    ),
]  # fmt: skip


WorseThanOption = Annotated[
    str | None,
    typer.Option(
        "--worse-than",
        metavar="PERCENT",
        show_default=False,
        help="Exit code 1 if a figure is slower now than before by more, as in 10%; 3 if not known.",
    ),
]
FigureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        metavar="NAME",
        show_default=False,
        help="Figure that --worse-than is for, as write-slog:slog:p99, or write-slog:p99. Repeatable.",
    ),
]


def duration_ns(option: str, text: str) -> int:
    """The duration `text` of a command line option in ns. Raises ConfigError."""
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}", f"for example: {option} 200ms") from None


def part_of(worse_than: str | None, figures: Sequence[str] | None) -> float | None:
    """Such as 0.1 of "10%" or "10". Raises ConfigError."""
    if worse_than is None:
        if figures:
            raise ConfigError("--figure chooses what --worse-than is for", "for example: --worse-than 10%")
        return None
    match = _PERCENT.fullmatch(worse_than)
    if match is None:
        raise ConfigError(f"--worse-than {worse_than!r} is no percentage", "for example: --worse-than 10%")
    return float(match[1]) / 100
