"""Preparation of the site of a run: the lab, or the hosts of the testbed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from kit.config.testbed import Testbed
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.output import say
from kit.core.progress import Progress
from kit.core.seed import seed_of_run
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.load.programs import force_program
from kit.plan import notes
from kit.plan.plan import Plan
from kit.recovery.clean import is_made, shares_hosts, stored_hosts, unfinished
from kit.recovery.journal import held_by
from kit.session.agreement import commands
from kit.session.agreement.erasing import confirm_erasing
from kit.setup.remote_site import appliance_site, real_site
from kit.setup.site import Site
from kit.store.checks.known_failures import Known


@dataclass(frozen=True)
class SeriesMark:
    """The build of a series that a run measures; `round` from 1."""

    id: str
    build: str
    round: int


@dataclass(frozen=True)
class Request:
    """What the command line asks for beside the plan of a run. `seed`: None derives it from the run's id.

    `inputs`: of the lab's image. `erase_serials`: of the devices whose erasure was agreed to.
    `resume`: the directory of an interrupted run or series. `count`: runs of each side, or rounds of a sweep;
    `until`: an early end, where the 95 % interval of each ratio of A and B is within this share of it;
    `across`: the settings in which A and B may differ.
    `beside_other_pools`: settings of all pools may be changed although others are imported;
    `cut_other_pools`: and these may lose their power with the server. `despite_warm_up`: the phases are
    measured although the L2ARC is not warm. `observer_effect`: it is measured after the phases.
    `known`: failures beside those of the workload.
    `agreed`: what was agreed to, by what stands for it: commands of a testbed, a run to resume.
    `live`: what the tracer prints is fetched while a phase runs, so that it can be looked at.
    """

    results: Path = Path("results")
    inputs: ImageInputs = field(default_factory=ImageInputs)
    json_output: bool = False
    junit: Path | None = None
    erase_serials: tuple[str, ...] = ()
    resume: Path | None = None
    count: int = 1
    until: float | None = None
    across: tuple[str, ...] = ()
    seed: int | None = None
    age_again: bool = False
    beside_other_pools: bool = False
    cut_other_pools: bool = False
    despite_warm_up: bool = False
    observer_effect: bool = False
    live: bool = False
    series: SeriesMark | None = None
    known: tuple[Known, ...] = ()
    agreed: tuple[str, ...] = ()


# Opens the site for the run with the given id.
Place = Callable[[str], AbstractContextManager[Site]]


def prepare(plan: Plan, request: Request, progress: Progress) -> Place:
    """Confirm erasing, build the image, refuse unfinished runs. Raises KitError."""
    confirm([plan], plan.testbed, request)
    return agreed_place(plan, request, progress)


def agreed_place(plan: Plan, request: Request, progress: Progress) -> Place:
    """The same where the erasing is confirmed. Raises KitError."""
    testbed = plan.testbed
    if testbed.is_lab:
        image = build(request.inputs, progress)
        return lambda run_id: lab_site(testbed, image, progress, _seed(run_id, request), request.age_again)
    refuse_unfinished(plan, request)
    return place_of(plan, request, progress)


def confirm(plans: Iterable[Plan], testbed: Testbed, request: Request) -> None:
    """Ask before commands of the testbed are run and devices are erased. Raises SafetyRefusal.

    `testbed`: with the devices of all `plans`.
    """
    plans = tuple(plans)
    for text in dict.fromkeys(
        text for plan in plans for text in notes.of_server(plan.workload, plan.testbed)
    ):
        say(f"note: {text}")
    asks = ask if sys.stdin.isatty() else None
    commands.agree(plans, request.agreed, asks)
    confirm_erasing(testbed, request.erase_serials, asks)


def _seed(run_id: str, request: Request) -> int:
    return seed_of_run(run_id) if request.seed is None else request.seed


def place_of(plan: Plan, request: Request, progress: Progress) -> Place:
    """The hosts of a plan, which are not the lab. Raises HostError."""
    testbed = plan.testbed
    if any(phase.force or phase.open or phase.replay for phase in plan.workload.phase):
        force_program.program()  # Without a compiler here it is refused before anything is changed there.
    if testbed.is_appliance:
        others = request.cut_other_pools
        return lambda run_id: appliance_site(
            testbed, progress, _seed(run_id, request), cut_other_pools=others
        )
    return lambda run_id: real_site(
        testbed,
        run_id,
        progress,
        _seed(run_id, request),
        beside_other_pools=request.beside_other_pools,
        cut_other_pools=request.cut_other_pools,
    )


def refuse_unfinished(plan: Plan, request: Request) -> None:
    """Refuse hosts on which an interrupted run may have left something. Raises SafetyRefusal.

    A directory that does not say which hosts it used is only mentioned: the hosts are looked at too.
    """
    for left in unfinished(request.results):
        run = left.path
        if request.resume and run.resolve() == request.resume.resolve():
            continue
        try:
            addresses = stored_hosts(run).addresses
        except ConfigError as error:
            say(f"left out: {error.message}")
            continue
        if not shares_hosts(plan.hosts, addresses):
            continue
        if left.problem:
            raise SafetyRefusal(left.problem.message, left.problem.hint)
        goes_on = held_by(run / "journal.jsonl")
        if goes_on:
            raise goes_on
        resume = f", `hsp run --resume {run}` resumes the run" if is_made(run) else ""
        raise SafetyRefusal(
            f"the run {run} on this testbed was not finished: it may have left pools, exports or mounts",
            f"`hsp clean {run}` removes them{resume}",
        )


def ask(question: str) -> str:
    """Ask on the terminal; returns the answer."""
    say(question)
    return sys.stdin.readline()
