"""From the cells of a sweep to builds. Pure: each build is an ordinary plan.

A cell is a phase with its values on the axes. Cells whose keys need only another phase are phases of one
build, beside the base; each other combination of values is a build of its own: another pool, run by run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kit.config.sweep import Sweep
from kit.config.testbed import Testbed, memory_problem
from kit.config.toml import OfKey, Refusal, printable, validate
from kit.config.workload import Workload, samples
from kit.config.workload_base import WorkloadSource
from kit.core.errors import ConfigError
from kit.core.units import format_size_bytes
from kit.plan.plan import Plan
from kit.plan.sweep.cells import PhaseCell, all_cells, check_selectors, chosen, lacks
from kit.plan.sweep.draft import At, Cell, draft, name_of, used
from kit.rules.fio_options import options_in_use
from kit.store.format import AGAIN
from kit.zfs.datasets import record_bytes

MOST_CELLS = 200
# Makes the plan of a workload of this source. Raises ConfigError.
Planner = Callable[[Workload, Testbed, WorkloadSource], Plan]


@dataclass(frozen=True)
class Build:
    """Cells that share a pool: an ordinary plan."""

    name: str
    plan: Plan
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class LeftOutCell:
    """A cell that cannot be, and why. `problem`: the reason without the key that is refused."""

    at: At
    phase: str
    reason: str
    problem: str


@dataclass(frozen=True)
class SweepPlan:
    """All builds, in order. `only`: selectors of cells that were asked for; `quick`: of `--quick`."""

    sweep: Sweep
    builds: tuple[Build, ...]
    skipped: tuple[LeftOutCell, ...]
    only: tuple[str, ...] = ()
    quick: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for build in self.builds for cell in build.cells)

    def in_use(self, testbed: Testbed) -> Testbed:
        """The testbed with the devices that a build uses. Raises ConfigError if the lab cannot have all."""
        names = {device.name for build in self.builds for device in build.plan.testbed.device}
        used = testbed.model_copy(
            update={"device": tuple(each for each in testbed.device if each.name in names)}
        )
        if used.is_lab and (text := memory_problem(used)):
            file = self.builds[0].plan.testbed_file
            raise ConfigError(f"{file}: lab.memory: {text}", "or leave out an axis of use.*")
        return used

    @property
    def digest(self) -> str:
        """Identifies what is measured."""
        return hashlib.sha256(" ".join(build.plan.digest for build in self.builds).encode()).hexdigest()


def plan_sweep(
    sweep: Sweep, testbed: Testbed, planner: Planner, only: Sequence[str] = (), *, quick: bool = False
) -> SweepPlan:
    """Expand and plan. `only`: selectors such as 'threads=*'. Raises ConfigError with file and line."""
    if quick and not sweep.sweeps.quick:
        sweep.source.refuse(
            ("sweeps",), '--quick: the workload declares no cells for it: add quick = ["AXIS=VALUE"]'
        )
    cells = all_cells(sweep)
    check_selectors(sweep, [at for at, _ in cells], only, quick=quick)
    if selectors := tuple(only) or (sweep.sweeps.quick if quick else ()):
        cells = chosen(sweep, cells, selectors)
    reasons = [(cell, lacks(sweep, *cell)) for cell in cells]
    missing = [LeftOutCell(*cell, text, text) for cell, text in reasons if text]
    cells = [cell for cell, text in reasons if not text]
    if len(cells) > MOST_CELLS:
        text = f"{len(cells)} cells, {MOST_CELLS} are the most: leave out values, or measure some with --only"
        sweep.source.refuse(("sweeps",) if sweep.sweeps.cross else ("sweep",), text)
    builds, skipped = _builds(sweep, cells, testbed, planner)
    skipped = (*missing, *skipped)
    _check_used(sweep, builds, skipped)
    planned = SweepPlan(sweep, builds, skipped, tuple(only), quick)
    # All builds share one lab, with the idle devices that any of them takes.
    if testbed.is_lab and (text := memory_problem(planned.in_use(testbed))):
        raise ConfigError(f"{sweep.source.path}: lab.memory of the testbed: {text}", "or use fewer of them")
    return planned


def _builds(
    sweep: Sweep, cells: Sequence[PhaseCell], testbed: Testbed, planner: Planner
) -> tuple[tuple[Build, ...], tuple[LeftOutCell, ...]]:
    groups: dict[tuple[tuple[str, str], ...], list[PhaseCell]] = {}
    for at, phase in cells:
        key = tuple((axis, value) for axis, value in at.items() if sweep.axes[axis].kind == "build")
        groups.setdefault(key, []).append((at, phase))
    builds: list[Build] = []
    builder = _Builder(sweep, testbed, planner)
    for key, group in groups.items():
        made = builder.build(dict(key), group, () if key else sweep.sweeps.also)
        builds += [made] if made else []
    if len(builds) > 1:
        swept = {cell.phase for build in builds[1:] for cell in build.cells}
        base = [(at, phase) for at, phase in cells if not at and phase in swept]
        if base and (again := builder.build({}, base)):
            cells_again = tuple(replace(cell, again=True) for cell in again.cells)
            builds.append(Build(AGAIN, again.plan, cells_again))
    return tuple(builds), tuple(builder.skipped)


@dataclass
class _Builder:
    """Makes builds. Each cell that cannot be is added to `skipped`."""

    sweep: Sweep
    testbed: Testbed
    planner: Planner
    skipped: list[LeftOutCell] = field(default_factory=list)

    def build(self, at: At, group: Sequence[PhaseCell], also: Sequence[str] = ()) -> Build | None:
        """With all its cells that can be; None without one. `also`: phases that are no cells.

        Raises ConfigError for the base, and for a value that no cell can have.
        """
        while True:
            source, use, cells = draft(self.sweep, at, group, also)
            try:
                return Build(name_of(at), _plan(source, use, self.testbed, self.planner, also), cells)
            except ConfigError:
                if not at and len({name_of(other) for other, _ in group}) == 1:
                    raise
                blamed = self._blamed(at, group)
                if not blamed:
                    raise
            self.skipped += blamed
            gone = [(each.at, each.phase) for each in blamed]
            group = [each for each in group if each not in gone]
            if not group:
                return None

    def _blamed(self, at: At, group: Sequence[PhaseCell]) -> list[LeftOutCell]:
        """The cells that cannot be planned by themselves, and why."""
        blamed = []
        for cell in group:
            source, use, _ = draft(self.sweep, at, [cell])
            try:
                _plan(source, use, self.testbed, self.planner)
            except ConfigError as error:
                if not cell[0]:
                    raise
                first, *more = error.texts if isinstance(error, Refusal) else [error.message]
                problem = first.text if isinstance(first, OfKey) else first
                reason, problem = (
                    "\n".join(printable(str(text)) for text in (each, *more)) for each in (first, problem)
                )
                blamed.append(LeftOutCell(*cell, reason, problem))
        return blamed


def _plan(
    source: WorkloadSource,
    use: Mapping[str, Any],
    testbed: Testbed,
    planner: Planner,
    also: Sequence[str] = (),
) -> Plan:
    """`also`: phases that are no cells. Raises ConfigError."""
    workload = validate(source.document, Workload, source.place_of, source.as_written)
    expected = {each.phase for each in workload.expect}
    more = samples(tuple(phase for phase in workload.phase if phase.name not in expected), source)
    workload = workload.model_copy(update={"expect": (*workload.expect, *more)})
    if problem := _below_sector(workload):
        raise ConfigError(problem)
    plan = planner(workload, used(testbed, use), source)
    for number, phase in enumerate(workload.phase):
        if phase.name not in {*also, *(each.name for each in plan.workload.phase)}:
            source.refuse(
                ("phase", number, "target"),
                f"'{phase.name}' takes several devices in turn, and a cell is one phase: name one in "
                'devices, or write each = "together"',
            )
    return plan


def _below_sector(workload: Workload) -> str:
    """Why a record cannot be smaller than a sector of the pool; "" if it is not."""
    ashift = workload.pool.properties.get("ashift", 0)
    record = record_bytes(workload.dataset.properties)
    if isinstance(ashift, int) and ashift and record < 1 << ashift:
        sector = format_size_bytes(1 << ashift)
        return (
            f"a record of {format_size_bytes(record)} takes a sector of {sector} (ashift = {ashift}): the "
            "devices would do what a larger record asks of them"
        )
    return ""


def _check_used(sweep: Sweep, builds: Sequence[Build], skipped: Sequence[LeftOutCell]) -> None:
    """An axis of which nothing is left but its base measures nothing. Raises ConfigError."""
    loads: dict[tuple[str, str], tuple[Cell, Build]] = {}
    for build in builds:
        for cell in build.cells:
            if not cell.again and len(cell.at) <= 1:
                same = loads.setdefault((cell.phase, _load(build, cell)), (cell, build))[0]
                if same is not cell:
                    (axis, value), *_ = cell.at.items()
                    text = (
                        f"{value} measures what {same.name} does, in the phase '{cell.phase}': the same "
                        "values, or keys that this phase does not use"
                    )
                    sweep.source.refuse(("sweep", axis, "to", value), text)
    for name in {axis: None for each in skipped for axis in each.at}:
        left = any(name in cell.at for build in builds for cell in build.cells)
        reasons = list(dict.fromkeys(each.reason for each in skipped if name in each.at))
        if not left:
            sweep.source.refuse(("sweep", name), f"none of its cells can be: {'; '.join(reasons)}")


def _load(build: Build, cell: Cell) -> str:
    """All that decides what a cell measures."""
    plan = build.plan
    phase = next(each for each in plan.workload.phase if each.name == cell.in_run)
    own = phase.model_dump(mode="json", exclude={"name", "title", "remove", "options"})
    shared = plan.workload.model_dump(mode="json", exclude={"phase", "expect"})
    sections = [options_in_use(section) for section in plan.jobs[phase.load].sections]
    return json.dumps([own, shared, sections, plan.testbed.model_dump(mode="json")], sort_keys=True)
