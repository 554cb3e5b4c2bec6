"""`hsp demo` and `hsp run`: from a workload and a testbed to a report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import reports
from kit import run as runner
from kit import store
from kit.cli.output import check_target, emit_json, say, write_junit
from kit.errors import (
    EXIT_EXPECTATION,
    EXIT_HOST,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNKNOWN,
    HostError,
    KitError,
)
from kit.lab.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.plan import Plan, make_plan
from kit.progress import Progress
from kit.testbed import LAB_TESTBED, read_testbed
from kit.workload import find_workload, read_workload

_VERDICT_CODES = {"valid": EXIT_OK, "invalid": EXIT_EXPECTATION, "unknown": EXIT_UNKNOWN}
# Trace, logs and report of a short run are far below this.
_NEEDED_BYTES = 256 << 20

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON on stdout, nothing else.")
]
ResultsOption = Annotated[Path, typer.Option("--results", help="Where run directories go.")]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", help="Also write a JUnit XML file, for a CI server.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def demo(
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
    junit: JunitOption = None,
    quiet: QuietOption = False,
) -> None:
    """The main job on the built-in lab: every tier's latency, beside the published ranges."""
    raise typer.Exit(_run("top-speeds", LAB_TESTBED, results, json_output, quiet, junit))


def run(
    workload: Annotated[str, typer.Argument(help="A workload of the kit, or a .toml file.")],
    testbed: Annotated[Path, typer.Option("--testbed", help="Servers, clients and devices.")] = LAB_TESTBED,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
    junit: JunitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run a workload on a testbed."""
    raise typer.Exit(_run(workload, testbed, results, json_output, quiet, junit))


def _run(
    workload: str, testbed: Path, results: Path, json_output: bool, quiet: bool, junit: Path | None
) -> int:
    """Plan, build the lab if need be, run, analyse, draw."""
    check_target(junit)
    workload_path = find_workload(workload)
    plan = make_plan(read_workload(workload_path), read_testbed(testbed), workload_path, testbed)
    progress = Progress(quiet=quiet)
    image = build(ImageInputs(), progress)
    run_dir = _create_run(results, plan)
    failure: KitError | None = None
    outcome = None
    with progress.numbered(_steps(plan)):
        try:
            with lab_site(plan.testbed, image, progress) as site:
                command = ["hsp", *sys.argv[1:]]
                outcome = runner.execute(plan, site, run_dir, progress, command)
        except KitError as error:
            failure = error
            if not (run_dir.path / "manifest.json").exists():
                raise
        summary = _present(run_dir, json_output, progress)
    write_junit(junit, summary)
    if failure:
        raise failure
    assert outcome is not None
    return _exit_code(outcome, summary)


def _steps(plan: Plan) -> int:
    """Boot, check, pool, export, fill, warm up, each phase, clean up, report."""
    return 7 + bool(plan.workload.warmup) + len(plan.workload.phase)


def _create_run(results: Path, plan: Plan) -> store.RunDir:
    try:
        results.mkdir(parents=True, exist_ok=True)
        store.check_space(results, _NEEDED_BYTES)
        run_dir = store.create_run(results, plan.workload.name)
        store.write_json(run_dir.path / "plan.json", plan.as_json())
    except OSError as error:
        raise HostError(
            f"{error.filename or results}: {error.strerror}", "choose another place with --results"
        ) from error
    return run_dir


def _present(run_dir: store.RunDir, json_output: bool, progress: Progress) -> dict[str, Any]:
    with progress.step("drawing the report"):
        summary = reports.analyse(run_dir)
        reports.draw(run_dir)
    if json_output:
        emit_json(summary)
    else:
        say_summary(summary)
    say(f"report: {run_dir.report}")
    say(f"again:  {shlex.join(['hsp', *sys.argv[1:]])}")
    return summary


def say_summary(summary: dict[str, Any]) -> None:
    """The table of the server's rows, for people who read no JSON."""
    say(f"\nverdict: {summary['verdict']}")
    for reason in summary["reasons"]:
        say(f"  - {reason}")
    say(f"\n{'phase':12} {'op':6} {'tier':9} {'I/Os':>7} {'p50 us':>10} {'range us':>21} {'published':>13}")
    for row in summary["rows"]:
        if row["layer"] != "nfs-server":
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
    for entry in summary["bands"]:
        for warning in (entry["kernel"] or {}).get("warnings", []):
            say(f"{entry['phase']}, {entry['op']}: {warning}")
    say("")


def _exit_code(outcome: runner.Outcome, summary: dict[str, Any]) -> int:
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.teardown_failures:
        return EXIT_HOST
    return _VERDICT_CODES[summary["verdict"]]
