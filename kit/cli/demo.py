"""`hsp demo`: the main job on the built-in lab."""

from __future__ import annotations

from pathlib import Path

import typer

from kit.cli.options import (
    AgeAgainOption,
    JsonOption,
    JunitOption,
    PinOption,
    QuietOption,
    ResultsOption,
    SeedOption,
    SuiteOption,
)
from kit.config.testbed import LAB_TESTBED
from kit.lab.image.image import DEFAULT_SUITE, ImageInputs
from kit.session.measure import once
from kit.session.place import Asked
from kit.session.side import Side


def demo(
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
    junit: JunitOption = None,
    seed: SeedOption = None,
    age_again: AgeAgainOption = False,
    quiet: QuietOption = False,
) -> None:
    """The main job on the built-in lab: every tier's latency, beside the published ranges."""
    inputs = ImageInputs(suite, tuple(pin or ()))
    side, asked = Side("top-speeds", LAB_TESTBED), Asked(seed, age_again)
    raise typer.Exit(once(side, inputs, results, json_output, quiet, junit, asked=asked))
