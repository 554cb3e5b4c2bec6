"""The md array of a phase: made right before it, stopped right after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kit.config.tables.phase_table import Phase
from kit.devices import array
from kit.plan import array_steps
from kit.setup.bench import Bench, PhaseArray
from kit.setup.context import Context


@contextmanager
def assembled(run: Context, bench: Bench, phase: Phase) -> Iterator[Bench]:
    """The bench with the phase's array, if it has one. Raises KitError.

    mdadm opens the members exclusively, as the array does: the claim is given up meanwhile. What cannot be
    undone here is pending still: the run's end tries again, and says so.
    """
    server, guard = run.site.server, run.site.guard
    if phase.array is None or server is None:
        yield bench
        return
    spec = array_steps.spec_of(run.names, phase)
    step = array_steps.make_array(run.plan, run.names, phase)
    with run.step(step) as number:
        held = [guard.held(path) for path in spec.members] if guard else []
        if guard:
            guard.release()
        size_bytes = array.create(server, spec, step.commands, [each for each in held if each])
    yield replace(bench, array=PhaseArray(spec, phase.array, phase.devices, size_bytes))
    run.undo_now(number)
    if guard:
        guard.claim()
