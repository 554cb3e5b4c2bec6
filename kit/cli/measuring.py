"""One measurement, from a plan to a run with its report; what `hsp demo` and `hsp run` share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reports
from kit import appliance, store
from kit import run as runner
from kit.clean import clean
from kit.cli.output import check_target, emit_json, say, write_junit
from kit.cli.places import Place, prepare
from kit.errors import (
    EXIT_EXPECTATION,
    EXIT_HOST,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNKNOWN,
    HostError,
    KitError,
)
from kit.lab.image import ImageInputs
from kit.plan import Plan, make_plan
from kit.progress import Progress
from kit.resume import Earlier, read_earlier
from kit.site import ApplianceSite, Site
from kit.testbed import read_testbed
from kit.workload import find_workload, read_workload

VERDICT_CODES = {"valid": EXIT_OK, "invalid": EXIT_EXPECTATION, "unknown": EXIT_UNKNOWN}
# Trace, logs and report of a short run are far below this.
_NEEDED_BYTES = 256 << 20
_NEEDED_FILES = 256


@dataclass(frozen=True)
class Side:
    """What is measured, and on what, as named on the command line."""

    workload: str
    testbed: Path

    def plan(self) -> Plan:
        """Raises ConfigError."""
        path = find_workload(self.workload)
        return make_plan(read_workload(path), read_testbed(self.testbed), path, self.testbed)


@dataclass(frozen=True)
class Measured:
    """A run that has ended: `code` as its process would exit, `failure` if a host or tool broke."""

    run_dir: store.RunDir
    summary: dict[str, Any]
    code: int
    failure: KitError | None


def once(
    side: Side,
    inputs: ImageInputs,
    results: Path,
    json_output: bool,
    quiet: bool,
    junit: Path | None,
    erase_serials: Sequence[str] = (),
    resume: Path | None = None,
) -> int:
    """Measure once and say what came of it; returns the exit code. Raises KitError."""
    check_target(junit)
    plan = side.plan()
    progress = Progress(quiet=quiet)
    earlier = read_earlier(store.RunDir(resume), plan) if resume else None
    place = prepare(plan, inputs, results, erase_serials, progress, resume)
    if resume:
        clean_first(resume, progress)
    measured = measure(plan, place, results, progress, resume, earlier)
    _present(measured, json_output)
    write_junit(junit, measured.summary)
    if measured.failure:
        raise measured.failure
    return measured.code


def clean_first(run: Path, progress: Progress) -> None:
    """A run that goes on begins on hosts that are as they were before it. Raises HostError."""
    left = clean(run, progress)
    if left.left or left.unreachable:
        why = [str(one) for one in left.left] + [error.message for error in left.unreachable]
        raise HostError(
            f"{run} cannot be gone on with: {'; '.join(why)}", f"`hsp clean {run}` says what to do"
        )


def measure(
    plan: Plan,
    place: Place,
    results: Path,
    progress: Progress,
    resume: Path | None = None,
    earlier: Earlier | None = None,
) -> Measured:
    """Run the plan, analyse, draw. Raises KitError if there is nothing to keep."""
    run_dir = store.RunDir(resume) if resume else _create_run(results, plan)
    failure: KitError | None = None
    outcome = None
    with progress.numbered(_steps(plan)):
        try:
            with place(run_dir.path.name) as site:
                outcome = _execute(plan, site, run_dir, progress, earlier)
        except KitError as error:
            failure = error
            if not (run_dir.path / "manifest.json").exists():
                raise
        with progress.step("drawing the report"):
            summary = reports.analyse(run_dir)
            reports.draw(run_dir)
    code = failure.exit_code if failure else _exit_code(outcome, summary)
    return Measured(run_dir, summary, code, failure)


def _execute(
    plan: Plan, site: Site | ApplianceSite, run_dir: store.RunDir, progress: Progress, earlier: Earlier | None
) -> runner.Outcome:
    command = ["hsp", *sys.argv[1:]]
    if isinstance(site, ApplianceSite):
        return appliance.execute(plan, site, run_dir, progress, command, earlier)
    return runner.execute(plan, site, run_dir, progress, command, earlier)


def _steps(plan: Plan) -> int:
    """Boot, check, precondition, pool, export, fill, warm up, trace, phases, power, settings, end, report."""
    workload = plan.workload
    preconditioned = workload.precondition is not None and workload.precondition.writes
    traced = not plan.testbed.is_appliance and plan.testbed.server.trace == "auto"
    phases = len(workload.phase)
    return 8 + preconditioned + bool(workload.warmup) + traced + phases + bool(workload.power_loss)


def _create_run(results: Path, plan: Plan) -> store.RunDir:
    try:
        results.mkdir(parents=True, exist_ok=True)
        store.check_space(results, _NEEDED_BYTES, _NEEDED_FILES)
        run_dir = store.create_run(results, plan.workload.name)
        store.write_json(run_dir.path / "plan.json", plan.as_json())
    except OSError as error:
        raise HostError(
            f"{error.filename or results}: {error.strerror}", "choose another place with --results"
        ) from error
    return run_dir


def _present(measured: Measured, json_output: bool) -> None:
    if json_output:
        emit_json(measured.summary)
    else:
        say_summary(measured.summary)
    say(f"report: {measured.run_dir.report}")
    say(f"again:  {shlex.join(['hsp', *sys.argv[1:]])}")


def say_summary(summary: dict[str, Any]) -> None:
    """The table of the server's rows, or else the clients', for people who read no JSON."""
    # Of a server that was not traced there is only what its clients saw.
    layer = "nfs-server" if any(row["layer"] == "nfs-server" for row in summary["rows"]) else "client"
    say(f"\nverdict: {summary['verdict']}")
    for note in summary.get("notes") or []:
        say(f"  - {note}")
    for reason in summary["reasons"]:
        say(f"  - {reason}")
    say(f"\n{'phase':12} {'op':6} {'tier':9} {'I/Os':>7} {'p50 us':>10} {'range us':>21} {'published':>13}")
    for row in summary["rows"]:
        if row["layer"] != layer:
            continue
        published = row["published"] or {}
        low, high = row["range_us"]
        p50 = f"{row['p50_us']:.1f}" if row["p50_us"] is not None else "n too small"
        shown = "{:g}-{:g}".format(*published["range_us"]) if published else ""
        inside = "" if not published else " inside" if published["inside"] else " OUTSIDE"
        say(
            f"{row['phase']:12} {row['op']:6} {row['tier']:9} {row['count']:7} {p50:>10} "
            f"{low:10.1f}-{high:<10.1f} {shown:>13}{inside}"
        )
    for phase in summary["accounting"]["phases"]:
        for tier, count in ((phase.get("shares") or {}).get("counts") or {}).items():
            say(f"{phase['phase']}: {count} {phase['shares']['unit']} from {tier}, by counters")
    for entry in summary["bands"]:
        for warning in (entry["kernel"] or {}).get("warnings", []):
            say(f"{entry['phase']}, {entry['op']}: {warning}")
    say("")


def _exit_code(outcome: runner.Outcome | None, summary: dict[str, Any]) -> int:
    assert outcome is not None, "it ended without an error"
    for left in outcome.left:
        say(f"not undone: {left}")
        for command in left.by_hand:
            say(f"  {command}")
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.left:
        return EXIT_HOST
    return VERDICT_CODES[summary["verdict"]]
