"""`hsp tag RUN NAME`: a run that others are compared with, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kit.cli.options import RUN, JsonOption, ResultsOption
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.core.output import emit_json, emit_text, say
from kit.core.units import utc_now
from kit.session.comparison import ComparedRun
from kit.store.baselines import DEFAULT, set_baseline
from kit.store.run_name import find_phase


def tag(
    run: Annotated[str, RUN()],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The baseline's name.")] = DEFAULT,
    results: ResultsOption = Path("results"),
    json_output: JsonOption = False,
) -> None:
    """Make a stored run the baseline NAME of a results directory. Its files stay where they are.

    Examples:
      hsp tag top-speeds                      the newest run of this workload: baseline "default"
      hsp tag 20261124T05 fw1                 the run whose id begins so: baseline "fw1"
      hsp compare --baseline fw1 top-speeds   what has changed since
    """  # fmt: skip
    stored = ComparedRun(find_phase(run, results))
    if stored.phase is not None:
        raise ConfigError(f"{run}: a baseline is a whole run", "leave the phase out")
    if not stored.trusted:
        raise MeasurementUnknown(
            f"{stored.directory} is unknown: {' '.join(stored.summary.reasons)}",
            "nothing can be compared with it: choose another run",
        )
    made, before = set_baseline(results, name, stored.directory, utc_now())
    if before and before.path != made.path:
        say(f"baseline {name} was {before.path}, set {before.set_utc}")
    if json_output:
        emit_json({"format": 1, "name": name, **made.as_json()})
    else:
        emit_text([f"baseline {name}: {made.path}"])
