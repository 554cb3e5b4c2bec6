"""`hsp run --repeat`: repeated runs, or runs of A and B in turn until the difference is precise enough."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kit.core.errors import EXIT_OK, EXIT_UNKNOWN, ConfigError, SafetyRefusal
from kit.core.output import check_target, emit_json, emit_text, say, write_target
from kit.core.progress import Progress
from kit.core.table import TextTable
from kit.core.terminal import terminal_width
from kit.core.units import format_latency_range
from kit.plan.plan import Plan
from kit.session.comparison import ComparedRun, comparison
from kit.session.measure import MeasuredRun, measure
from kit.session.place import Request, prepare
from kit.session.side import Side
from kit.setup import manifest
from kit.store.labels import tier_name
from kit.store.parts.comparison import ComparedRow, Comparison
from kit.store.summary import Summary
from kit.store.tables import deciding_layer
from reports.comparison import comparability
from reports.output import comparison_table
from reports.output.junit import junit

Json = dict[str, Any]
# Fewest runs per side before the stopping rule applies: an interval over fewer runs is not reliable.
LEAST_RUNS = 3
# Figures of the stopping rule; intervals of tails and small shares would almost never be narrow.
_DECIDING = ("p50",)


def order(count: int) -> list[str]:
    """`count` runs of A and of B in turn, as ABBA ABBA ...: a drift of the machine affects both."""
    return [("A", "B", "B", "A")[position % 4] for position in range(2 * count)]


def parse_width(text: str) -> float:
    """Parse a percentage: "5%" is 0.05. Raises ConfigError."""
    try:
        value = float(text.removesuffix("%")) / 100 if text.endswith("%") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise ConfigError(f"--until {text}: not a width", 'give it as a percentage such as "5%"')
    return value


def narrow_enough(rows: Sequence[ComparedRow], width: float) -> bool:
    """Whether every deciding interval of the server layer is within `width` of its ratio.

    Uses the layer of clients for appliances, and that of devices where they are the target.
    """
    layer = deciding_layer({row.layer for row in rows})
    intervals = [
        row.interval for row in rows if row.layer == layer and row.figure in _DECIDING and row.interval
    ]
    return bool(intervals) and all(high / low <= (1 + width) ** 2 for low, high in intervals)


def repeat(sides: Sequence[Side], request: Request, progress: Progress) -> int:
    """Run one side several times, or two in turn; prints the result, returns the exit code."""
    check_target(request.junit)
    plans = dict(zip("AB", [side.plan() for side in sides], strict=False))
    _refuse_unknown(plans.values(), request.erase_serials)
    if len(plans) == 2:
        _refuse_unlike(plans["A"], plans["B"], request.across)
    places = {
        letter: prepare(plan, replace(request, erase_serials=_serials_of(plan, request)), progress)
        for letter, plan in plans.items()
    }
    turns = order(request.count) if len(plans) == 2 else ["A"] * request.count
    done: dict[str, list[MeasuredRun]] = {letter: [] for letter in plans}
    code, result = EXIT_OK, None
    for number, letter in enumerate(turns, start=1):
        progress.note(f"run {number} of at most {len(turns)}: {letter}")
        measured = measure(plans[letter], places[letter], request, progress)
        done[letter].append(measured)
        line = f"{letter}: {measured.summary.state}: {measured.run_dir.path}"
        say(line) if request.json_output else emit_text([line])
        if measured.failure:
            raise measured.failure
        code = max(code, measured.code)
        if measured.code not in (EXIT_OK, 1, EXIT_UNKNOWN):
            return measured.code
        if len(plans) == 2 and number % 2 == 0:
            result = _compared(done, request.across)
            if number >= 2 * LEAST_RUNS and _is_enough(result, request.until):
                break
    # First: standard output may have no room.
    if request.junit:
        # A suite for each run; B has no JUnit.
        write_target(request.junit, junit(*(each.summary for each in done["A"])))
    _present(done, result, request.json_output)
    return code


def _is_enough(result: Comparison | None, until: float | None) -> bool:
    """Whether the ratios are as precise as was asked for, which is said."""
    if until is None or result is None or not narrow_enough(result.rows, until):
        return False
    say(f"every interval of {' and '.join(_DECIDING)} is within {until:.0%}: stopping")
    return True


def _serials_of(plan: Plan, request: Request) -> tuple[str, ...]:
    """The serials whose erasure was agreed to, of devices of the plan."""
    own = {device.serial for device in plan.testbed.device}
    return tuple(serial for serial in request.erase_serials if serial in own)


def _refuse_unknown(plans: Iterable[Plan], serials: Sequence[str]) -> None:
    known = {device.serial for plan in plans for device in plan.testbed.device}
    unknown = sorted(set(serials) - {serial for serial in known if serial})
    if unknown:
        raise SafetyRefusal(
            f"neither A nor B has a device with the serial {', '.join(unknown)}",
            "`hsp host disks` shows the serials; only devices of the testbeds are erased",
        )


def _refuse_unlike(a: Plan, b: Plan, across: Sequence[str]) -> None:
    """Check before the first run that the plans are comparable; the runs are checked later."""
    of_a, of_b = (comparability.settings(manifest.planned(plan), plan.as_json()) for plan in (a, b))
    # Versions, for example, are known of the runs alone.
    known = [each for each in across if any(comparability.covers(each, key) for key in {*of_a, *of_b})]
    comparability.check([("A", of_a)], [("B", of_b)], known)


def _compared(done: dict[str, list[MeasuredRun]], across: Sequence[str]) -> Comparison | None:
    """Compare the trusted runs; None while a side has none."""
    stored = {letter: [ComparedRun(str(m.run_dir.path)) for m in runs] for letter, runs in done.items()}
    trusted = {letter: [run for run in runs if run.trusted] for letter, runs in stored.items()}
    return comparison(trusted["A"], trusted["B"], across) if all(trusted.values()) else None


def _present(done: dict[str, list[MeasuredRun]], result: Comparison | None, json_output: bool) -> None:
    paths = {letter: [str(m.run_dir.path) for m in runs] for letter, runs in done.items()}
    if json_output:
        runs = {
            letter: [{"path": str(m.run_dir.path), "verdict": m.summary.verdict} for m in measured]
            for letter, measured in done.items()
        }
        emit_json(
            {
                "format": 1,
                "runs": runs,
                "spread": spread([m.summary for m in done["A"]]),
                "comparison": result.as_json() if result else None,
            }
        )
        return
    if result:
        emit_text(comparison_table.plain(result, terminal_width()))
        parts = ["hsp", "compare", *paths["A"], "--", *paths["B"]]
        say(f"again: {shlex.join(parts)}")
        return
    if len(done) == 2:
        say("A or B has no trusted run: nothing to compare")
    rows = [
        (row["phase"], row["op"], tier_name(row["tier"]), row["runs"], format_latency_range(*row["p50_us"]))
        for row in spread([m.summary for m in done["A"]])
    ]
    head = ("phase", "op", "tier", "runs", "p50, lowest to highest")
    emit_text(TextTable(head, rows, (3,)).lines(terminal_width()))
    say(f"again: {shlex.join(['hsp', *sys.argv[1:]])}")


def spread(summaries: Sequence[Summary]) -> list[Json]:
    """Lowest and highest p50 (us) of each row of the server layer over the runs."""
    medians: dict[tuple[str, str, str], list[float]] = {}
    for summary in summaries:
        for row in summary.rows_of("nfs-server"):
            if row.p50_us is not None:
                medians.setdefault((row.phase, row.op, row.tier), []).append(row.p50_us)
    return [
        {"phase": phase, "op": op, "tier": tier, "runs": len(values), "p50_us": [min(values), max(values)]}
        for (phase, op, tier), values in medians.items()
    ]
