"""The site of all runs of a series: one lab, or hosts whose devices are preconditioned once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from kit.config.tables.precondition_table import WHOLE, Precondition
from kit.config.testbed import Testbed
from kit.core.progress import Progress
from kit.core.seed import seed_of_run
from kit.core.units import utc_now
from kit.lab.image.image import Image, build
from kit.lab.site import lab_site
from kit.plan.plan import Plan
from kit.precondition.device import Preconditioned, Target
from kit.session.place import Place, Request, confirm, place_of, refuse_unfinished
from kit.setup.site import Site


class PreconditionedOnce:
    """Real devices of a series: what its first run has done to them holds for the others.

    A device that is filled in part is preconditioned before each run: the load may have written to the rest.
    """

    def __init__(self) -> None:
        # Of each device what was done last: other settings take it out of that state.
        self._done: dict[str, tuple[Precondition, Preconditioned]] = {}

    def restore(self, target: Target, settings: Precondition) -> Preconditioned | None:
        """The outcome of the run that preconditioned the device; None before."""
        done, outcome = self._done.get(target.name, (None, None))
        return outcome if done == settings and settings.filled == WHOLE else None

    def keep(self, target: Target, settings: Precondition, outcome: Preconditioned, run: str) -> None:
        """Remember it, unless it had problems."""
        self._done.pop(target.name, None)
        if outcome.problems or outcome.entry.get("stopped"):
            return
        entry = {**outcome.entry, "aged_in": {"run": run, "utc": utc_now(), "in_series": True}}
        self._done[target.name] = settings, replace(outcome, entry=entry)


class SharedSite:
    """Opens the site of each run of a series; closed with `stack`. `testbed`: the devices of all `plans`."""

    def __init__(
        self, plans: Iterable[Plan], testbed: Testbed, request: Request, progress: Progress, stack: ExitStack
    ) -> None:
        """Confirms erasing, builds the image. Raises KitError."""
        self._testbed, self._request, self._progress, self._stack = testbed, request, progress, stack
        self._lab: Site | None = None
        self._once = PreconditionedOnce()
        confirm(plans, testbed, request)
        self._image: Image | None = build(request.inputs, progress) if testbed.is_lab else None

    @property
    def is_up(self) -> bool:
        """Whether the lab runs."""
        return self._lab is not None

    def place(self, plan: Plan, resume: Path | None, seed: int | None) -> Place:
        """The place of one run. `seed`: of a run that is resumed. Raises KitError."""
        if self._image is not None:
            return lambda run_id: nullcontext(self._in_lab(plan, run_id, seed))
        request = replace(self._request, seed=seed, resume=resume)
        refuse_unfinished(plan, request)
        opened = place_of(plan, request, self._progress)
        return lambda run_id: self._prepared(opened(run_id))

    def _in_lab(self, plan: Plan, run_id: str, seed: int | None) -> Site:
        """The lab, started for the first run, with the clients that this one uses."""
        number = seed_of_run(run_id) if seed is None else seed
        if self._lab is None:
            assert self._image is not None, "only a lab has an image"
            self._lab = self._stack.enter_context(
                lab_site(self._testbed, self._image, self._progress, number, self._request.age_again)
            )
        clients = self._lab.clients[: len(plan.testbed.client)]
        used = {device.name for device in plan.testbed.device}
        paths = {name: path for name, path in self._lab.device_paths.items() if name in used}
        return replace(self._lab, seed=number, clients=clients, device_paths=paths)

    @contextmanager
    def _prepared(self, opened: AbstractContextManager[Site]) -> Iterator[Site]:
        with opened as site:
            yield replace(site, aged=self._once)
