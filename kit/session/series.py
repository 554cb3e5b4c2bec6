"""`hsp run --repeat`: the same again, or A and B in turn until the difference is known well enough."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kit.core.errors import EXIT_OK, EXIT_UNKNOWN, ConfigError, SafetyRefusal
from kit.core.output import emit_json, say
from kit.core.progress import Progress
from kit.lab.image.image import ImageInputs
from kit.plan.plan import Plan
from kit.run import manifest
from kit.session.comparison import StoredRun, comparison
from kit.session.measure import Measured, measure
from kit.session.place import prepare
from kit.session.side import Side
from kit.store.manifest import Manifest
from reports.analysis import comparability
from reports.output import comparison_table

Json = dict[str, Any]
# Before so many runs a side an interval over runs is not worth stopping for.
_LEAST_RUNS = 3
# What the stopping rule looks at; tails and shares of few I/Os would hardly ever be narrow.
_DECIDING = ("p50",)


def order(count: int) -> list[str]:
    """`count` runs of A and of B in turn, as ABBA ABBA ...: a drift of the machine falls on both."""
    return [("A", "B", "B", "A")[place % 4] for place in range(2 * count)]


def parse_width(text: str) -> float:
    """ "5%" as 0.05. Raises ConfigError."""
    try:
        value = float(text.removesuffix("%")) / 100 if text.endswith("%") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise ConfigError(f"--until {text}: not a width", 'give it as a percentage such as "5%"')
    return value


def narrow_enough(result: Json, width: float) -> bool:
    """Whether every deciding interval of the server's layer reaches at most `width` from its ratio.

    Of the clients' layer where the server could not be looked into.
    """
    seen = {row["layer"] for row in result["rows"]}
    layer = "nfs-server" if "nfs-server" in seen else "client"
    found = [
        row["interval"]
        for row in result["rows"]
        if row["layer"] == layer and row["figure"] in _DECIDING and row["interval"]
    ]
    return bool(found) and all(high / low <= (1 + width) ** 2 for low, high in found)


def repeat(
    sides: Sequence[Side],
    count: int,
    until: float | None,
    across: list[str],
    inputs: ImageInputs,
    results: Path,
    json_output: bool,
    progress: Progress,
    erase_serials: Sequence[str] = (),
) -> int:
    """Run one side `count` times, or two in turn; say and return what came of it. Raises KitError."""
    plans = dict(zip("AB", [side.plan() for side in sides], strict=False))
    _refuse_unknown(plans.values(), erase_serials)
    if len(plans) == 2:
        _refuse_unlike(plans["A"], plans["B"], across)
    places = {
        letter: prepare(plan, inputs, results, _of(plan, erase_serials), progress)
        for letter, plan in plans.items()
    }
    turns = order(count) if len(plans) == 2 else ["A"] * count
    done: dict[str, list[Measured]] = {letter: [] for letter in plans}
    code, result = EXIT_OK, None
    for number, letter in enumerate(turns, start=1):
        progress.note(f"run {number} of at most {len(turns)}: {letter}")
        measured = measure(plans[letter], places[letter], results, progress)
        done[letter].append(measured)
        say(f"{letter}: {measured.summary['verdict']}: {measured.run_dir.path}")
        if measured.failure:
            raise measured.failure
        code = max(code, measured.code)
        if measured.code not in (EXIT_OK, 1, EXIT_UNKNOWN):
            return measured.code
        if len(plans) == 2 and number % 2 == 0:
            result = _compared(done, across)
            if until is not None and result and number >= 2 * _LEAST_RUNS and narrow_enough(result, until):
                say(f"every interval of {' and '.join(_DECIDING)} is within {until:.0%}: enough")
                break
    _present(done, result, json_output)
    return code


def _of(plan: Plan, serials: Sequence[str]) -> list[str]:
    """Those of them that are devices of the plan."""
    return [serial for serial in serials if any(device.serial == serial for device in plan.testbed.device)]


def _refuse_unknown(plans: Iterable[Plan], serials: Sequence[str]) -> None:
    known = {device.serial for plan in plans for device in plan.testbed.device}
    unknown = sorted(set(serials) - {serial for serial in known if serial})
    if unknown:
        raise SafetyRefusal(
            f"neither A nor B has a device of the serial {', '.join(unknown)}",
            "`hsp devices` shows the serials; those of the testbeds are the ones that are erased",
        )


def _refuse_unlike(a: Plan, b: Plan, across: list[str]) -> None:
    """What the plans alone tell, before the first of many runs; the rest is found in the runs."""
    one, other = (
        comparability.settings(Manifest.from_json(manifest.planned(plan), "plan"), plan.as_json())
        for plan in (a, b)
    )
    comparability.check([("A", one)], [("B", other)], [key for key in across if key in {*one, *other}])


def _compared(done: dict[str, list[Measured]], across: list[str]) -> Json | None:
    """None as long as a side has no run that can be trusted."""
    stored = {letter: [StoredRun(str(m.run_dir.path)) for m in runs] for letter, runs in done.items()}
    trusted = {letter: [run for run in runs if run.trusted] for letter, runs in stored.items()}
    return comparison(trusted["A"], trusted["B"], across) if all(trusted.values()) else None


def _present(done: dict[str, list[Measured]], result: Json | None, json_output: bool) -> None:
    paths = {letter: [str(m.run_dir.path) for m in runs] for letter, runs in done.items()}
    if json_output:
        runs = {
            letter: [{"path": str(m.run_dir.path), "verdict": m.summary["verdict"]} for m in found]
            for letter, found in done.items()
        }
        emit_json(
            {
                "format": 1,
                "runs": runs,
                "spread": spread([m.summary for m in done["A"]]),
                "comparison": result,
            }
        )
        return
    if result:
        say(comparison_table.plain(result))
        parts = ["hsp", "compare", *paths["A"], "--", *paths["B"]]
        say(f"again: {shlex.join(parts)}")
        return
    if len(done) == 2:
        say("A or B has no run that can be trusted: nothing to compare")
    say(f"{'phase':12} {'op':6} {'tier':9} {'runs':>4} {'p50 us, least to most':>25}")
    for row in spread([m.summary for m in done["A"]]):
        low, high = row["p50_us"]
        say(f"{row['phase']:12} {row['op']:6} {row['tier']:9} {row['runs']:4} {low:12.2f}-{high:<12.2f}")
    say(f"again: {shlex.join(['hsp', *sys.argv[1:]])}")


def spread(summaries: Sequence[Json]) -> list[Json]:
    """Of the server's layer: the least and the most p50 (us) of each row over its runs."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for summary in summaries:
        for row in summary["rows"]:
            if row["layer"] == "nfs-server" and row["p50_us"] is not None:
                found.setdefault((row["phase"], row["op"], row["tier"]), []).append(row["p50_us"])
    return [
        {"phase": phase, "op": op, "tier": tier, "runs": len(values), "p50_us": [min(values), max(values)]}
        for (phase, op, tier), values in found.items()
    ]
