"""Where a plan runs: in its own lab, or on the hosts of its testbed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.output import say
from kit.core.progress import Progress
from kit.core.seed import seed_of_run
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.plan.plan import Plan
from kit.recovery.clean import shares_hosts, stored_hosts, unfinished
from kit.run.remote_site import appliance_site, real_site
from kit.run.site import Site
from kit.session.erase_confirmation import confirm_erasing


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that are not in its plan. `seed`: None for one from the run's id."""

    seed: int | None = None
    age_again: bool = False


AS_PLANNED = RunOptions()

# From a run's id to its site.
Place = Callable[[str], AbstractContextManager[Site]]


def prepare(
    plan: Plan,
    inputs: ImageInputs,
    results: Path,
    erase_serials: Sequence[str],
    progress: Progress,
    resuming: Path | None = None,
    options: RunOptions = AS_PLANNED,
) -> Place:
    """Confirmations, image and checks before a run. Raises SafetyRefusal, HostError, ConfigError."""
    testbed = plan.testbed
    if options.age_again and not testbed.is_lab:
        raise ConfigError(
            f"--age-again: the testbed '{testbed.name}' is not the lab",
            "leave it out: each run ages real devices anew, as the workload says",
        )

    def seed(run_id: str) -> int:
        return seed_of_run(run_id) if options.seed is None else options.seed

    confirm_erasing(testbed, erase_serials, ask if sys.stdin.isatty() else None)
    if testbed.is_lab:
        image = build(inputs, progress)
        return lambda run_id: lab_site(testbed, image, progress, seed(run_id), options.age_again)
    refuse_unfinished(plan, results, resuming)
    if testbed.is_appliance:
        return lambda run_id: appliance_site(testbed, progress, seed(run_id))
    return lambda run_id: real_site(testbed, run_id, progress, seed(run_id))


def refuse_unfinished(plan: Plan, results: Path, resuming: Path | None) -> None:
    """Raises SafetyRefusal if an unfinished run may have left changes on these hosts."""
    for run in unfinished(results):
        if not (resuming and run.resolve() == resuming.resolve()) and shares_hosts(
            plan.hosts, stored_hosts(run).addresses
        ):
            raise SafetyRefusal(
                f"the run {run} on this testbed is unfinished: its changes may still be there",
                f"`hsp clean {run}` undoes them, `hsp run --resume {run}` resumes the run",
            )


def ask(question: str) -> str:
    """A line from the terminal."""
    say(question)
    return sys.stdin.readline()
