"""Where the time of requests went in phases with split_of, and what a faster device would save.

docs/why-slow.md says what each part is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kit.core.units import commas, format_latency, format_percent
from kit.store.labels import tier_name
from kit.store.manifest import Manifest
from kit.store.parts.split import (
    Device,
    Part,
    PhaseSplit,
    SplitPart,
    SplitPhase,
    SplitRow,
    SplitSaving,
    SplitTier,
)  # fmt: skip
from kit.store.summary import Row
from kit.store.tables import SERVER
from reports.features.feature import Feature, Judged

LEAST_JOINED = 0.95
"""Of the requests of a tier; with fewer its parts are withheld."""
MOST_OBSERVED = 1.1
"""A p50 that is larger than this many times that of the phase that was repeated is pointed out."""
WORDS: Mapping[Part, str] = {
    "nfs": "NFS server",
    "zfs": "ZFS, on the request's thread",
    "zil": "ZIL software",
    "log_wait": "waiting for the log block before",
    "log_write": "log write, device",
    "flush": "FLUSH, device",
    "wake_up": "wake-up after the log block",
    "read": "read, device",
    "verify": "checksum, decompression, wake-up",
    "unknown": "not known",
}
"""The parts, in the order of a request, for people."""
_LOG: tuple[Part, ...] = ("log_write", "flush")
# The ZIL waits for more records by a share of the last log block's latency, and for the log block before.
_AFTER_LOG: tuple[Part, ...] = ("log_wait", "zil")


def describe(manifest: Manifest, rows: Iterable[Row]) -> list[SplitPhase]:
    """Of each phase with split_of. `rows`: of the summary."""
    p50s = {
        (row.phase, row.op, row.tier): p50.us
        for row in rows
        if row.layer == SERVER and (p50 := row.interpolated.get("p50"))
    }
    return [
        SplitPhase(
            phase=phase.name, of=split.of, why=split.why, savings=tuple(_savings(split)),
            tiers=tuple(_tier(row, _ratio(p50s, phase.name, split.of, row)) for row in split.rows),
        )
        for phase in manifest.phases
        if (split := phase.split)
    ]  # fmt: skip


def _ratio(p50s: Mapping[tuple[str, str, str], float], name: str, of: str, row: SplitRow) -> float | None:
    split, model = (p50s.get((phase, row.op, row.tier)) for phase in (name, of))
    return split / model if split and model else None


def _tier(row: SplitRow, p50_ratio: float | None) -> SplitTier:
    parts = [(part, row.parts.get(part, 0)) for part in WORDS] if _is_known([row]) else []
    return SplitTier(
        op=row.op, tier=row.tier, ios=row.ios, joined=_joined([row]), p50_ratio=p50_ratio,
        mean_us=row.sum_ns / max(1, row.ios) / 1e3,
        parts=tuple(
            SplitPart(part=part, mean_us=ns / row.ios / 1e3, share=ns / max(1, row.sum_ns))
            for part, ns in parts
            if ns
        ),
    )  # fmt: skip


def _joined(rows: Sequence[SplitRow]) -> float:
    return 1 - sum(row.unjoined for row in rows) / max(1, sum(row.ios for row in rows))


def _is_known(rows: Sequence[SplitRow]) -> bool:
    return _joined(rows) >= LEAST_JOINED


def _savings(split: PhaseSplit) -> Iterator[SplitSaving]:
    """Of each op, by the device that its requests waited for."""
    for op in dict.fromkeys(row.op for row in split.rows):
        mine = [row for row in split.rows if row.op == op]
        all_ns = sum(row.sum_ns for row in mine)
        for device, tiers, parts, after in _devices(op, {row.tier for row in mine}):
            rows = [row for row in mine if row.tier in tiers]
            sum_ns, ios = sum(row.sum_ns for row in rows), sum(row.ios for row in rows)
            if not ios or not sum_ns:
                continue
            known: dict[str, float | None] = dict.fromkeys(("own_share", "share", "of_all", "saved_us"))
            if _is_known(rows):
                most_ns = _spent_ns(rows, (*parts, *after, "unknown"))
                known = {
                    "own_share": _spent_ns(rows, parts) / sum_ns, "share": most_ns / sum_ns,
                    "of_all": most_ns / all_ns, "saved_us": most_ns / ios / 1e3,
                }  # fmt: skip
            yield SplitSaving(op=op, device=device, mean_us=sum_ns / ios / 1e3, **known)


def _spent_ns(rows: Sequence[SplitRow], parts: Iterable[Part]) -> int:
    return sum(row.parts.get(part, 0) for part in parts for row in rows)


def _devices(
    op: str, tiers: set[str]
) -> Iterator[tuple[Device, set[str], tuple[Part, ...], tuple[Part, ...]]]:
    """Devices, the tiers of the requests that waited for them, the parts that are theirs, and those that can
    become shorter with them.

    A request that shared the log block of another thread waited for the device of the others. In ZFS reads
    wait in the queue of their vdev, and writes by the throttle of dirty data until the pool's disks have
    some.
    """
    if op == "read":
        yield "cache device", {"l2arc"}, ("read",), ("zfs",)
        yield "special vdev", {"special"}, ("read",), ("zfs",)
        yield "pool disk", {"disk"}, ("read",), ("zfs",)
        return
    # Where the log lies.
    holder = next((tier for tier in ("slog", "special") if tier in tiers), "pool")
    mine = {tier: {tier, "shared"} if tier == holder else {tier} for tier in ("slog", "special", "pool")}
    yield "log device", mine["slog"], _LOG, _AFTER_LOG
    yield "special vdev", mine["special"], _LOG, _AFTER_LOG
    yield "pool disk", mine["pool"], (*_LOG, "read"), (*_AFTER_LOG, "zfs")


def sentences(found: Iterable[SplitPhase]) -> Iterator[str]:
    """What each phase says, and what is not known."""
    for phase in found:
        if phase.why:
            yield f"{phase.phase}: where the time goes was not measured: {phase.why}."
        for each in sorted(phase.savings, key=lambda saving: -(saving.of_all or 0)):
            if each.share is None or each.saved_us is None or each.of_all is None:
                few = f"too few {each.op}s could be followed ({phase.phase})"
                yield f"A faster {each.device}: not known, {few}."
                continue
            alone = each.of_all > 0.995 * each.share
            rest = (
                f" Over all {each.op}s, those from other tiers too, it saves at most "
                f"{100 * each.of_all:.1f} % of the time."
            )
            own = each.share if each.own_share is None else each.own_share
            yield (
                f"{each.op.capitalize()}s wait for the {each.device}: a faster one saves at most "
                f"{format_latency(each.saved_us)} of the {format_latency(each.mean_us)} of a {each.op} "
                f"that waits for it (mean).{'' if alone else rest}"
            )
            rest = f"{format_latency(own * each.mean_us)} is its own time, the rest may shrink with it; "
            waits = rest if own < each.share else ""
            yield f"{phase.phase}, {each.device}: {waits}at the server, without the wait for an nfsd thread."
        yield from _doubts(phase)


def _doubts(phase: SplitPhase) -> Iterator[str]:
    for tier in phase.tiers:
        if tier.joined < LEAST_JOINED:
            yield (
                f"{phase.phase}: the parts of {_name(tier)} are withheld: only {100 * tier.joined:.1f} % of "
                f"{commas(tier.ios)} requests could be followed, {100 * LEAST_JOINED:.0f} % are needed."
            )
        if tier.p50_ratio is not None and tier.p50_ratio > MOST_OBSERVED:
            yield (
                f"{phase.phase}: the p50 of {_name(tier)} was {format_percent(tier.p50_ratio - 1)} longer "
                f"than in {phase.of}, by the probes of the split or by its moment: take its shares with care."
            )


def _name(tier: SplitTier) -> str:
    return f"{tier.op}s, {tier_name(tier.tier)}"


FEATURE = Feature(
    lambda manifest, _, rows: Judged({"split": describe(manifest, rows)}),
    lambda summary: sentences(summary.split),
    lambda summary: sentences(summary.split),
)
