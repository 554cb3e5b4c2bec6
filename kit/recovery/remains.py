"""What a run has left on its hosts, in as few lines as a person needs."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kit.core.text import counted, listed
from kit.recovery.journal import Leftover, Undo
from kit.recovery.undo import KINDS

# They are many, or on every host: what holds devices is said before them.
_LAST = ("device label", "setting", "directory")


def grouped(left: Sequence[Leftover], names: Mapping[str, str], run: Path) -> list[Leftover]:
    """What failed for a reason of its own, each reason once; then in one line what waits, and the command.

    `names`: of the hosts, by the journal's keys; `run`: the directory for `hsp clean`.
    """
    reasons: dict[tuple[str, str], list[Leftover]] = {}
    for each in left:
        if not each.waits:
            reasons.setdefault((each.item.host if each.item else each.text, each.why), []).append(each)
    said = [_one(alike, names) for alike in reasons.values()]
    waiting = [each for each in left if each.waits and each.item]
    if waiting:
        lost = {
            names.get(each.item.host, each.item.host): None for each in waiting if each.lost and each.item
        }
        when = (
            f"when {listed([*lost])} answer{'s' * (len(lost) == 1)} again" if lost else "once that is mended"
        )
        text = holds((each.item for each in left if each.item), names)
        said.append(Leftover(text, f"{when}, run `hsp clean {shlex.quote(os.fspath(run))}`", waits=True))
    return said


def _one(alike: Sequence[Leftover], names: Mapping[str, str]) -> Leftover:
    items = [each.item for each in alike if each.item]
    if len(alike) == 1 or not items:
        return alike[0]
    commands = tuple(command for each in alike for command in each.by_hand)
    return Leftover(holds(items, names), alike[0].why, commands)


def holds(items: Iterable[Undo], names: Mapping[str, str]) -> str:
    """Such as "nas still has a pool, an export and 9 settings of this run; c0 and c1 a mount"."""
    counts: dict[str, Counter[str]] = {}
    for item in sorted(items, key=lambda each: each.number):
        several = item.arguments.get("settings")
        number = len(several) if isinstance(several, list) else 1
        noun = KINDS[item.kind].noun if item.kind in KINDS else "unknown step"
        counts.setdefault(item.host, Counter())[noun] += number
    hosts: dict[str, list[str]] = {}
    for key in sorted(counts, key=lambda key: key != "server"):
        nouns = sorted(counts[key], key=lambda noun: noun in _LAST and _LAST.index(noun) + 1)
        text = listed([_counted(counts[key][noun], noun) for noun in nouns])
        hosts.setdefault(text, []).append(names.get(key, key))
    first, *others = [(listed(of), text, len(of)) for text, of in hosts.items()]
    begin = f"{first[0]} still {'has' if first[2] == 1 else 'have'} {first[1]} of this run"
    return "; ".join([begin, *(f"{of} {text}" for of, text, _ in others)])


def _counted(number: int, noun: str) -> str:
    return counted(number, noun) if number > 1 else f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
