"""The cells of a sweep: which combinations of values are measured in which phases. Pure."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterator, Sequence

from kit.config.candidates import roles_of
from kit.config.sweep import Sweep, changed_keys
from kit.config.toml import nearest
from kit.core.errors import ConfigError
from kit.plan.sweep.draft import BASE, At, base_of, kind_of, name_of, with_bases

# The values of a cell, and its phase.
PhaseCell = tuple[At, str]


def all_cells(sweep: Sweep) -> list[PhaseCell]:
    """All cells and the phase of each, the base first. Raises ConfigError."""
    combinations = list(_combinations(sweep))
    cells: list[PhaseCell] = [
        ({**kind_of(sweep, phase), **at}, phase)
        for at in combinations
        for phase in phases_of(sweep)
        if covers(sweep, at, phase)
    ]
    for at in combinations:
        if at and not any(at.items() <= each.items() for each, _ in cells):
            sweep.source.refuse(("sweeps", "cross"), f"{name_of(at)}: its axes have no phase in common")
    return cells


def phases_of(sweep: Sweep) -> list[str]:
    """The phases that an axis is about, in the order of the workload."""
    names = [str(phase["name"]) for phase in sweep.source.document["phase"]]
    names = [name for name in names if name not in sweep.sweeps.also]
    axes = sweep.axes.values()
    return [
        name
        for name in names
        if kind_of(sweep, name) or any(name in (axis.phases or axis.named_phases or names) for axis in axes)
    ]


def _combinations(sweep: Sweep) -> Iterator[dict[str, str]]:
    """The base, each axis by itself around it, then what is crossed."""
    yield {}
    done = set()
    for name, axis in sweep.axes.items():
        if not axis.named_phases:
            yield from ({name: value} for value in list(axis.values)[1:])
    for group in sweep.sweeps.cross:
        order = [name for name in sweep.axes if name in group]
        for values in itertools.product(*(sweep.axes[name].values for name in order)):
            at = {n: v for n, v in zip(order, values, strict=True) if v != sweep.axes[n].base}
            if len(at) > 1 and (key := tuple(at.items())) not in done:
                done.add(key)
                yield at


def covers(sweep: Sweep, at: At, phase: str) -> bool:
    """Whether the phase is measured with these values; one that is a value itself only where it is named."""
    default = () if kind_of(sweep, phase) else (phase,)
    return all(phase in (sweep.axes[axis].phases or default) for axis in at)


def lacks(sweep: Sweep, at: At, phase: str) -> str:
    """Of a candidate of the testbed: why this phase does not measure it; "" if it does."""
    roles = roles_of(next(each for each in sweep.source.document["phase"] if each["name"] == phase))
    for axis, value in with_bases(sweep, at):
        for key, setting in changed_keys(sweep.axes[axis], value) if axis in sweep.source.expanded else ():
            if setting == 0 and (role := key.removeprefix("use.")) in roles:
                return f"the candidate {value} is no {role} device"
    return ""


def _selected(at: At, selectors: Sequence[str]) -> bool:
    """Whether a selector matches the cell's name, or one of its values."""
    names = [name_of(at), *(f"{axis}={value}" for axis, value in at.items())]
    return any(fnmatch.fnmatchcase(name, selector) for selector in selectors for name in names)


def chosen(sweep: Sweep, cells: Sequence[PhaseCell], selectors: Sequence[str]) -> list[PhaseCell]:
    """The cells that are selected, beside the bases of their phases; without one, all bases."""
    kept = [(at, phase) for at, phase in cells if at and _selected(at, selectors)]
    phases = {each for _, phase in kept or cells for each in (phase, base_of(sweep, phase))}
    return [(at, phase) for at, phase in cells if (at, phase) in kept or (not at and phase in phases)]


def check_selectors(sweep: Sweep, combinations: Sequence[At], only: Sequence[str], *, quick: bool) -> None:
    """Raises ConfigError for a selector that matches no cell.

    Those for `--quick` of a base are looked at where they are asked for: the workload may have other axes.
    """
    names = list(dict.fromkeys(name_of(at) for at in combinations))
    bases = {f"{name}={axis.base}" for name, axis in sweep.axes.items()} | {BASE}

    def problem(selector: str) -> str:
        if any(_selected(at, [selector]) for at in combinations if at) or selector in bases:
            return ""
        return f"no cell '{selector}', {nearest(selector, names, 'cells')}"

    for text in filter(None, map(problem, only)):
        raise ConfigError(f"--only: {text}", "`hsp plan` lists the cells; * stands for any text")
    for number, selector in enumerate(sweep.sweeps.quick):
        key = "sweeps", "quick", number
        if (quick or sweep.source.is_own(key)) and (text := problem(selector)):
            sweep.source.refuse(key, text)
