"""One measurement, from a plan to a run with its report; used by `hsp demo` and `hsp run`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import reports
from kit.core.errors import EXIT_HOST, EXIT_INTERRUPTED, HostError, KitError, SafetyRefusal
from kit.core.output import check_target, emit_json, say
from kit.core.own_file import own_directory
from kit.core.progress import Progress
from kit.core.terminal import TERMINAL
from kit.doctor import of_run
from kit.hosts.base import HostLost
from kit.lab import expected_duration
from kit.plan.plan import Plan
from kit.recovery import registry
from kit.recovery.clean import clean
from kit.recovery.journal import Journal
from kit.run import observer_effect
from kit.run.execute import Execution, execute
from kit.run.resume import Earlier, read_earlier
from kit.session.live.terminal import LiveView, why_off
from kit.session.place import Place, Request, prepare
from kit.session.presentation import code_of, print_result, write_junit
from kit.session.side import Side
from kit.store import json_file, run_directory
from kit.store.summary import Summary

# Trace, logs and report of a short run need much less.
_NEEDED_BYTES = 256 << 20
_NEEDED_FILES = 256
_MOST_REASONS = 5


@dataclass(frozen=True)
class MeasuredRun:
    """A completed run. `code`: its exit code; `failure`: the error of a host or tool.

    `told`: reasons that are printed as messages.
    """

    run_dir: run_directory.RunDir
    analysed: reports.Analysed
    code: int
    failure: KitError | None
    told: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        return self.analysed.summary


@dataclass(frozen=True)
class ResumedRun:
    """A run that goes on. `journal` is locked until its site is closed."""

    run_dir: run_directory.RunDir
    earlier: Earlier
    journal: Journal


def once(side: Side, request: Request) -> int:
    """Measure once and print the result; returns the exit code. Raises KitError."""
    check_target(request.junit)
    plan, progress = side.plan(), Progress()
    if request.observer_effect:
        observer_effect.refuse(plan)
    with ExitStack() as stack:
        begun = None
        if request.resume:
            # Before anything else: the run may still go on.
            begun = stack.enter_context(going_on(run_directory.RunDir(request.resume), plan))
            observe = request.observer_effect or begun.earlier.observer_effect
            request = replace(request, seed=begun.earlier.seed, observer_effect=observe)
        place = prepare(plan, request, progress)
        if begun:
            clean_first(begun, request, progress)
        show = request.live and is_shown(progress, json_output=request.json_output)
        measured = measure(plan, place, request, progress, begun, show=show)
    # First: standard output may have no room.
    write_junit(request.junit, measured.summary)
    if isinstance(measured.failure, SafetyRefusal) and not measured.summary.rows:
        raise measured.failure
    _present(measured, request.json_output)
    if measured.failure:
        raise measured.failure
    return measured.code


@contextmanager
def going_on(run_dir: run_directory.RunDir, plan: Plan) -> Iterator[ResumedRun]:
    """What an interrupted run has done, with its journal locked. Raises KitError."""
    with Journal(run_dir.journal) as journal:
        yield ResumedRun(run_dir, read_earlier(run_dir, plan), journal)


def is_shown(progress: Progress, *, json_output: bool) -> bool:
    """Whether there is a live view; says in one line why not."""
    why = why_off(quiet=TERMINAL.quiet, json_output=json_output)
    if why:
        progress.note(f"--live: no view here ({why}); `hsp show RUN --live` shows the run in a browser")
    return not why


def clean_first(begun: ResumedRun, request: Request, progress: Progress) -> None:
    """Clean the hosts before a run is resumed. Raises HostError, SafetyRefusal."""
    run = begun.run_dir.path
    cleaned = clean(run, progress, run.name if run.name in request.agreed else "", begun.journal)
    if cleaned.left or cleaned.unreachable:
        reasons = [error.message for error in cleaned.unreachable] + [str(left) for left in cleaned.said]
        raise HostError(
            f"{run} cannot be resumed: {'; '.join(reasons)}", f"`hsp clean {run}` shows what to do"
        )


def measure(
    plan: Plan,
    place: Place,
    request: Request,
    progress: Progress,
    begun: ResumedRun | None = None,
    is_up: bool = False,
    show: bool = False,
) -> MeasuredRun:
    """Run the plan, analyse, draw. Raises KitError if the run has no manifest.

    `begun`: a run that is resumed. `is_up`: the lab runs already. `show`: a live view stands below the steps.

    What was asked for on the command line is stored at once, so that a killed run resumes with it.
    """
    run_dir = begun.run_dir if begun else _create_run(plan, request)
    if show:
        progress.show_below(LiveView(run_dir))
    failure: KitError | None = None
    outcome, started, waited_s = None, time.monotonic(), expected_duration.waited_s()
    with progress.numbered(_steps(plan) - is_up + request.observer_effect), ExitStack() as stack:
        journal = begun.journal if begun else stack.enter_context(Journal(run_dir.journal))
        try:
            with place(run_dir.path.name) as site:
                run_directory.point_latest(run_dir)
                command = ["hsp", *sys.argv[1:]]
                outcome = execute(
                    plan, site, run_dir, progress, command, begun.earlier if begun else None, journal,
                    despite_warm_up=request.despite_warm_up, observe=request.observer_effect,
                    live=request.live, look=partial(of_run.look, plan),
                )  # fmt: skip
                if outcome.failure:
                    raise outcome.failure
        except KitError as error:
            failure = error
            if not (run_dir.path / "manifest.json").exists():
                raise
        finally:
            _say_left(outcome)
        with progress.step("drawing the report"):
            analysed = reports.analyse(run_dir, known=request.known)
    if analysed.summary.verdict != "unknown" and not (failure or begun):
        taken_s, waited_s = time.monotonic() - started, expected_duration.waited_s() - waited_s
        expected_duration.learn(plan, taken_s, waited_s, aged=_was_aged(outcome))
    code = failure.exit_code if failure else _exit_code(outcome, analysed.summary)
    told = (
        *([failure.message] if failure else []),
        *(each.problem for each in (outcome.left if outcome else ())),
    )
    return MeasuredRun(run_dir, analysed, code, failure, told)


def _was_aged(outcome: Execution | None) -> bool:
    """Whether all devices had the state of an earlier ageing."""
    entries = outcome.record.manifest.precondition if outcome else None
    return all(entry.get("aged_in") for entry in entries.get("devices", ())) if entries else True


def _steps(plan: Plan) -> int:
    """Boot, check, precondition, pool, its age, export, fill, warm up, trace, phases, power, settings, end,
    report."""
    workload = plan.workload
    preconditioned = workload.precondition is not None and workload.precondition.writes
    phases = len(workload.phase) + (workload.pool.age is not None)
    # After each a tracer is started again.
    phases += sum(phase.restart is not None for phase in workload.phase) * (1 + plan.is_traced)
    # On devices there is no pool, no export and no fill, but the set-up of the devices.
    always = 6 if workload.on_devices else 8
    return (
        always + preconditioned + bool(workload.warmup) + plan.is_traced + phases + bool(workload.power_loss)
    )


def _create_run(plan: Plan, request: Request) -> run_directory.RunDir:
    given: dict[str, Any] = {} if request.seed is None else {"seed": request.seed}
    if request.series:
        given["series"] = asdict(request.series)
    if request.observer_effect:
        given["observer_effect"] = True
    return new_run(request.results, plan.workload.name, {**plan.as_json(), **given})


def new_run(results: Path, name: str, plan: dict[str, Any]) -> run_directory.RunDir:
    """A run directory below `results`/`name` with this plan.json, known to this machine. Raises HostError."""
    try:
        own_directory(results)
        run_directory.check_space(results, _NEEDED_BYTES, _NEEDED_FILES)
        run_dir = run_directory.create_run(results, name)
        json_file.write_json(run_dir.path / "plan.json", plan)
        registry.remember(run_dir.path.name, run_dir.path)
    except OSError as error:
        raise HostError(
            f"{error.filename or results}: {error.strerror}", "choose another place with --results"
        ) from error
    return run_dir


def _present(measured: MeasuredRun, json_output: bool) -> None:
    if json_output:
        emit_json(measured.summary.as_json())
        # A log of standard error alone has to tell why the exit code is not 0.
        say(f"verdict: {measured.summary.state}")
        for reason in measured.summary.shown_reasons[:_MOST_REASONS]:
            say(f"  {reason}")
        say(f"report: {measured.run_dir.report}")
    else:
        print_result(measured.analysed, measured.run_dir, measured.told)
    if line := next_command(measured.summary, measured.run_dir.path, measured.code, measured.failure):
        say(line)


def next_command(summary: Summary, run: Path, code: int, failure: KitError | None) -> str:
    """The line of a run that says by which command one goes on; "" where the error has said it."""
    if isinstance(failure, HostLost):
        return ""
    if any(each.id == "NOT-UNDONE" for each in summary.causes):
        return f"clean:  {shlex.join(['hsp', 'clean', str(run)])}"
    if code == EXIT_INTERRUPTED or (code == EXIT_HOST and summary.rows):
        return f"resume: {shlex.join(['hsp', 'run', '--resume', str(run)])}"
    return f"again:  {shlex.join(['hsp', *sys.argv[1:]])}"


def _say_left(outcome: Execution | None) -> None:
    """What could not be undone. What waits for a lost host is said by the error that ends the command."""
    advice = outcome.failure.hint if outcome and isinstance(outcome.failure, KitError) else ""
    for left in outcome.left if outcome else ():
        if str(left) == advice:
            continue
        say(left.problem)
        for command in left.by_hand:
            say(f"  {command}")


def _exit_code(outcome: Execution | None, summary: Summary) -> int:
    assert outcome is not None, "it ended without an error"
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    if outcome.left:
        return EXIT_HOST
    return code_of(summary)
