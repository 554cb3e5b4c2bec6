"""Options and arguments of several commands, and durations in options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kit.cli import complete
from kit.cli.usage import output as output
from kit.core.errors import ConfigError
from kit.core.seed import SEED_BITS
from kit.core.units import parse_duration_ns

# Panels of the help; "Options" is Typer's own.
A_AND_B = "A and B"
SAFETY = "Safety"
_lab = partial(typer.Option, rich_help_panel="Lab")
safety = partial(typer.Option, rich_help_panel=SAFETY)
sweep = partial(typer.Option, rich_help_panel="Sweep")
_PERCENT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?%?")

LiveOption = Annotated[
    bool,
    typer.Option("--live", help="Show each phase while it runs, on a terminal and for `hsp show --live`."),
]
JsonOption = Annotated[bool, output("--json", help="JSON on stdout, and nothing else there.")]
EraseSerialOption = Annotated[
    list[str] | None,
    safety("--erase-serial", metavar="SERIAL", help="Confirm erasing this device. Repeatable."),
]
ResultsOption = Annotated[Path, output("--results", metavar="DIR", help="Where runs are stored.")]
SuiteOption = Annotated[str, _lab("--suite", metavar="NAME", help="The Debian release of the guest.")]
PinOption = Annotated[
    list[str] | None,
    _lab(
        "--pin",
        metavar="PACKAGE",
        help="SOURCE=VERSION or SOURCE/RELEASE, e.g. zfs-linux/trixie-backports. Repeatable.",
    ),
]
KernelOption = Annotated[
    str,
    _lab(
        "--kernel",
        metavar="NAME",
        help="The kernel of the guest, as its package is called behind linux-image-.",
    ),
]
JunitOption = Annotated[
    Path | None, output("--junit", metavar="FILE", help="Also write a JUnit XML file, for a CI server.")
]
KnownOption = Annotated[
    Path | None,
    output(
        "--known",
        metavar="FILE",
        help="A file of \\[\\[known]] failures, beside the workload's: they do not fail the exit code.",
    ),
]


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << SEED_BITS:
        raise typer.BadParameter(f"{text[:40]} is not a number from 0 to 2^{SEED_BITS} - 1")
    return int(text)


SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        parser=_seed,
        metavar="N",
        help="Random numbers as in another run or series: the seed in its manifest. Default: a new seed.",
    ),
]
AgeAgainOption = Annotated[
    bool, _lab("--age-again", help="Age the lab's SSDs again, even if an earlier run has aged them.")
]
OnlyOption = Annotated[
    list[str] | None,
    sweep(
        "--only",
        metavar="CELL",
        help="Measure only these cells of a sweep and the base, e.g. 'threads=*'. Repeatable.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    sweep(
        "--set",
        metavar="KEY=VALUE",
        help="Another value of a key that can be swept, e.g. job.bs=4k. Repeatable.",
    ),
]
LengthOption = Annotated[
    str | None,
    typer.Option(
        "--length",
        metavar="LENGTH",
        show_default="full",
        help="smoke, sanity or full: as long as the workload's \\[lengths.LENGTH] says.",
    ),
]
QuickOption = Annotated[bool, sweep("--quick", help="Only the cells that the workload declares for it.")]
AllOption = Annotated[bool, output("--all", "--verbose", "-v", help="Also what passed, or is alike.")]
WORKLOAD = typer.Argument(
    metavar="WORKLOAD",
    autocompletion=complete.workloads,
    help="A workload of the kit (hsp list workloads), or a .toml file.",
)
RUN = partial(
    typer.Argument,
    metavar="RUN",
    autocompletion=complete.runs,
    help="A workload (its latest run), the beginning of an id, or a directory.",
)
DeviceArgument = Annotated[
    str, typer.Argument(metavar="DEVICE", help="Its name in the testbed.", autocompletion=complete.devices)
]
_testbed = partial(typer.Option, "--testbed", metavar="FILE", help="Server, clients and devices.")
TestbedOption = Annotated[Path, _testbed()]
LabTestbedOption = Annotated[Path | None, _testbed(show_default="the built-in lab")]
AcrossOption = Annotated[
    list[str] | None,
    typer.Option(
        "--across",
        metavar="KEY",
        help="Runs may differ in this and all keys below it, e.g. versions.zfs. Repeatable.",
    ),
]
WorseThanOption = Annotated[
    str | None,
    typer.Option(
        "--worse-than",
        metavar="PERCENT",
        help="Exit code 1 if a figure is slower now than before by more, as in 10%; 3 if not known.",
    ),
]
FigureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        metavar="NAME",
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
    return percentage("--worse-than", worse_than)


def percentage(option: str, text: str) -> float:
    """Such as 0.1 of "10%" or "10". Raises ConfigError."""
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ConfigError(f"{option} {text!r} is no percentage", f"for example: {option} 10%")
    return float(match[1]) / 100
