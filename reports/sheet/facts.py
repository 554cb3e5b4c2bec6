"""All that is known of a candidate, read once, and the words for values that are not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.core.units import format_latency_range
from kit.store.manifest import Device
from kit.store.sheet import Need, SheetLine, SheetValue
from kit.store.summary import Range
from reports.devices.prices import price_of
from reports.sheet import evidence
from reports.sheet.evidence import ENOUGH_RUNS, ROLES, Alone, EvidenceSource, ServedLatency

NOT_KNOWN = "not known"
# What runs of one machine may differ by, where there are too few to say (docs/sheet.md has the shares).
APART = 0.1


@dataclass(frozen=True)
class DriveFacts:
    """`served`, `without`: at the NFS server, by role, with the device and without one; `alone`: aged."""

    need: Need
    source: EvidenceSource
    phases: Mapping[str, str | None]
    served: Mapping[str, ServedLatency | None]
    without: Mapping[str, ServedLatency | None]
    alone: Mapping[str, Alone | None]

    @property
    def devices(self) -> list[Device]:
        return [each for role in ROLES for each in self.source.devices(role)]

    def capacity(self, role: str) -> int | None:
        """A mirrored log holds as much as one of its devices; an L2ARC all of them. None: not known."""
        sizes = [each.size_bytes for each in self.source.devices(role)]
        known = [size for size in sizes if size]
        if not known or len(known) < len(sizes):
            return None
        return sum(known) if role == "cache" else min(known)

    @property
    def price(self) -> tuple[float, str] | None:
        """Of all its devices; None where one has none, or they have several currencies."""
        prices = [price_of(each.price) for each in self.devices]
        known = [each for each in prices if each]
        if not known or len(known) < len(prices) or len({currency for _, currency in known}) > 1:
            return None
        return sum(amount for amount, _ in known), known[0][1]


def facts_of(sources: Sequence[EvidenceSource], need: Need) -> list[DriveFacts]:
    """Of each candidate, in the same phases of all."""
    phases = {role: evidence.phase_of(sources, evidence.SERVED[role]) for role in ROLES}
    others = {role: evidence.phase_of(sources, evidence.WITHOUT[role]) for role in ROLES}
    return [
        DriveFacts(
            need,
            source,
            phases,
            {role: evidence.served(source, evidence.SERVED[role], phases[role]) for role in ROLES},
            {role: evidence.served(source, evidence.WITHOUT[role], others[role]) for role in ROLES},
            {role: evidence.alone(source, role, op) for role, op in evidence.OPS.items()},
        )
        for source in sources
    ]


def line(group: str, key: str, label: str, need: str = "") -> SheetLine:
    return SheetLine(key=key, group=group, label=label, need=need)


def unknown(why: str) -> SheetValue:
    return SheetValue(text=NOT_KNOWN, note=why)


def at_most(value: float, known: Range | None, limit: float | None, runs: int) -> bool | None:
    """Whether a value is within a limit; None where the limit is in what it can be, or there is none.

    Of fewer than ENOUGH_RUNS, another run may differ by APART.
    """
    if limit is None:
        return None
    low, high = known or (value, value)
    if runs < ENOUGH_RUNS:
        low, high = low / (1 + APART), high * (1 + APART)
    if high <= limit:
        return True
    return False if low > limit else None


def spread(known: Range | None, runs: int) -> str:
    """What a latency in us lies in, and by what; "" where that is not known."""
    if not known:
        return ""
    within = "within this run" if runs == 1 else "within these runs"
    if runs >= ENOUGH_RUNS:
        within = f"95 %, over {runs} runs"
    return f"{within}: {format_latency_range(*known)}"
