"""Phases with `split_of`: what they may repeat, and how. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kit.config.tables.phase_table import Phase
from kit.config.toml import nearest

# What such a phase may have of its own. `remove` is done by then.
_OWN = {"name", "title", "split_of", "remove"}
# A load of hours, and what happens beside a load: the two phases would not be alike.
_ALONE = ("soak", "resumable", "during")


def problem(phases: Sequence[Phase], number: int) -> tuple[str, str] | None:
    """Key and text of what is wrong with phase `number`, which has split_of; None if nothing is."""
    split = phases[number]
    at = next((n for n, phase in enumerate(phases) if phase.name == split.split_of), None)
    if at is None:
        names = [phase.name for phase in phases[:number] if not phase.split_of and phase.over_nfs]
        text = f"no phase is called '{split.split_of}', {nearest(split.split_of, names, 'phases')}"
        return "split_of", text
    if text := _unfit(phases, at, number):
        return "split_of", text
    model = phases[at]
    for name in Phase.model_fields:
        if name not in _OWN and getattr(split, name) != getattr(model, name):
            return (
                name,
                f"differs from that of '{model.name}', which this phase repeats (split_of): remove it",
            )
    return None


def _unfit(phases: Sequence[Phase], at: int, number: int) -> str:
    """Why phase `number` cannot repeat phase `at`; "" if it can."""
    model = phases[at]
    if at == number:
        return "a phase cannot repeat itself: name another one above it"
    if at > number:
        return f"'{model.name}' comes later, and the two are compared: put it above this phase"
    if model.split_of:
        return f"'{model.name}' is split itself: write split_of = \"{model.split_of}\""
    if not model.over_nfs:
        text = f"'{model.name}' goes to {model.target}, and only requests over NFS are traced"
        return f"{text}: name a phase over NFS, or remove it"
    for name in _ALONE:
        if getattr(model, name):
            return f"'{model.name}' has {name}, and cannot be repeated alike: name a phase without it"
    for each in phases[at + 1 : number + 1]:
        if each.remove:
            text = f"the {each.remove} device is removed after '{model.name}'"
            return f"{text}: put this phase right below that one"
    return ""
