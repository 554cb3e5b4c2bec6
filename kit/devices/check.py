"""Checking the devices of a testbed, and once more before the first write: a plan is of what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.errors import SafetyRefusal
from kit.devices.inventory import Inventory, Node
from kit.devices.probe import probe
from kit.devices.reasons import CONTENT, Code, Reason, Wanted, reasons
from kit.hosts.base import Host

__all__ = ["Checked", "check", "judge", "recheck", "refuse_any"]


@dataclass(frozen=True)
class Checked:
    """A device as it was when it was looked at. `node` is None if there was none."""

    wanted: Wanted
    node: Node | None
    reasons: tuple[Reason, ...]

    def reasons_but(self, allowed: frozenset[Code]) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.code not in allowed)


def check(host: Host, wanted: Sequence[Wanted], *, content: bool = True) -> tuple[Checked, ...]:
    """Look at all devices of a testbed with one command. Raises SafetyRefusal if that is not possible."""
    return judge(probe(host, [one.path for one in wanted], content=content), wanted)


def judge(inventory: Inventory, wanted: Sequence[Wanted]) -> tuple[Checked, ...]:
    """Each device with all reasons not to use it, the others of the testbed taken into account. Pure."""
    return tuple(
        Checked(
            one,
            inventory.find(one.path),
            reasons(inventory, one, [other for other in wanted if other is not one]),
        )
        for one in wanted
    )


def refuse_any(host: str, checked: Sequence[Checked], allowed: frozenset[Code] = frozenset()) -> None:
    """Raises SafetyRefusal that names every device that may not be used, with all reasons."""
    texts, remedies = [], []
    for one in checked:
        found = one.reasons_but(allowed)
        if found:
            texts.append(f"{one.wanted.path} on {host} is not touched: " + "; ".join(r.text for r in found))
            remedies += [f"{one.wanted.path}: {r.remedy}" for r in found]
    if texts:
        raise SafetyRefusal("\n".join(texts), "\n".join(dict.fromkeys(remedies)))


def recheck(
    host: Host, checked: Sequence[Checked], paths: Sequence[str] | None = None, *, content: bool = True
) -> None:
    """That the devices are what they were when they were checked, and nothing came to be the matter since.

    For the moment before something is written, under the lock. `checked` are all devices of the testbed, of
    which those of `paths` (None: all) must be as they were. `content=False` leaves out what lies on them
    (for a device that the kit itself is filling). Raises SafetyRefusal: the plan is void.
    """
    now = judge(
        probe(host, [one.wanted.path for one in checked], content=content), [one.wanted for one in checked]
    )
    ignored = frozenset[Code]() if content else CONTENT
    changed = {
        before.wanted.path: changes
        for before, found in zip(checked, now, strict=True)
        if (paths is None or before.wanted.path in paths) and (changes := _changes(before, found, ignored))
    }
    if changed:
        raise SafetyRefusal(
            "\n".join(
                f"{path} on {host.name} is not touched: the plan is void, because {changes}"
                for path, changes in changed.items()
            ),
            "devices were changed since the plan was made; look with `hsp devices`, and begin again",
        )


def _changes(before: Checked, now: Checked, ignored: frozenset[Code]) -> str:
    """In words; empty if it is as it was."""
    if before.node is None or now.node is None:
        return "" if before.node is now.node else "it was there and is not" if before.node else "it is new"
    old, new = before.node.identity(), now.node.identity()
    changed = [f"{key} was '{old[key]}' and is '{new[key]}'" for key in old if old[key] != new[key]]
    known = {reason.text for reason in before.reasons}
    changed += [reason.text for reason in now.reasons_but(ignored) if reason.text not in known]
    return "; ".join(changed)
