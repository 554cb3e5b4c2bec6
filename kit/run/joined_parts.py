"""The sum of two parts of a phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from kit.store.parts.resource_use import ArcUse, SpecialUse
from kit.store.phase import ClientLog, ClientRow, Event, Extreme, Phase, Problem, Shares, Sum

_Entry = TypeVar("_Entry")


def lasting(entry: Phase) -> tuple[Problem, ...]:
    """The problems of a phase but those that it is not whole."""
    return tuple(each for each in entry.problems if each.code != "interrupted" and not each.ended_early)


def joined(first: Phase, more: Phase) -> Phase:
    """Both parts as one phase, with a mark where nothing was measured."""
    gap = Event(
        time_ns=first.end_ns, end_ns=more.start_ns, kind="gap",
        text=f"not measured: the run was interrupted after part {first.parts[-1].number}, and resumed",
    )  # fmt: skip
    events = sorted((*first.events, gap, *more.events), key=lambda event: (event.time_ns, event.kind))
    return more.model_copy(
        update={
            "client_ios": first.client_ios + more.client_ios,
            "server_ios": _plus(first.server_ios, more.server_ios),
            "lost_events": _plus(first.lost_events, more.lost_events),
            "checks": (*first.checks, *more.checks),
            "unavailable": (*first.unavailable, *more.unavailable),
            "events": tuple(events),
            "extremes": _joined_each((*first.extremes, *more.extremes), _group, _both_extremes),
            "sums": _joined_sums(first, more),
            "clients": _joined_each((*first.clients, *more.clients), lambda row: row.host, _both_clients),
            "problems": (*lasting(first), *more.problems),
            "start_ns": first.start_ns,
            "machines": (*first.machines, *more.machines),
            "drives": (*first.drives, *more.drives),
            "shares": _joined_shares(first, more),
            "cpu": (*first.cpu, *more.cpu),
            "devices": (*first.devices, *more.devices),
            "arc": _joined_arc(first, more),
            "special": _joined_special(first, more),
            "metadata_reads": dict(Counter(first.metadata_reads) + Counter(more.metadata_reads)),
            "client_log": _joined_log(first, more),
            "parts": (*first.parts, *more.parts),
        }
    )


def _plus(first: int | None, more: int | None) -> int | None:
    return None if first is None or more is None else first + more


def _joined_each(
    entries: Iterable[_Entry], key: Callable[[_Entry], Hashable], both: Callable[[_Entry, _Entry], _Entry]
) -> tuple[_Entry, ...]:
    """Entries with the same key as one, made by `both` of the earlier and the later one."""
    held: dict[Hashable, _Entry] = {}
    for each in entries:
        at = key(each)
        held[at] = both(held[at], each) if at in held else each
    return tuple(held.values())


def _group(entry: Extreme | Sum) -> Hashable:
    return entry.layer, entry.host, entry.op, entry.tier


def _both_extremes(before: Extreme, more: Extreme) -> Extreme:
    ends = {"min_ns": min(before.min_ns, more.min_ns), "max_ns": max(before.max_ns, more.max_ns)}
    return more.model_copy(update=ends)


def _joined_sums(first: Phase, more: Phase) -> tuple[Sum, ...]:
    """None where a part has none: then the mean of all is not known."""
    if not (first.sums and more.sums):
        return ()
    return _joined_each((*first.sums, *more.sums), _group, _both_sums)


def _both_sums(before: Sum, more: Sum) -> Sum:
    return more.model_copy(update={"ios": before.ios + more.ios, "sum_ns": before.sum_ns + more.sum_ns})


def _both_clients(before: ClientRow, row: ClientRow) -> ClientRow:
    firsts = [at for at in (before.first_ns, row.first_ns) if at is not None]
    lasts = [at for at in (before.last_ns, row.last_ns) if at is not None]
    skews = [at for at in (before.skew_ns, row.skew_ns) if at is not None]
    return row.model_copy(
        update={
            "ios": before.ios + row.ios,
            "first_ns": min(firsts, default=None),
            "last_ns": max(lasts, default=None),
            "skew_ns": max(skews, default=None),
            "clock_error_ns": max(before.clock_error_ns, row.clock_error_ns),
        }
    )


def _joined_shares(first: Phase, more: Phase) -> Shares | None:
    if first.shares is None or more.shares is None:
        return None
    counts = {
        name: first.shares.counts.get(name, 0) + more.shares.counts.get(name, 0)
        for name in {**first.shares.counts, **more.shares.counts}
    }
    return more.shares.model_copy(update={"counts": counts})


def _joined_arc(first: Phase, more: Phase) -> ArcUse | None:
    """What it holds at the end, and what both have moved."""
    before, arc = first.arc, more.arc
    if before is None or arc is None:
        return arc or before
    moved = ("l2arc_written_bytes", "l2arc_read_bytes", "log_bytes", "log_block_bytes", "pool_log_bytes")
    sums = {name: _plus(getattr(before, name), getattr(arc, name)) for name in moved}
    return arc.model_copy(update={**sums, "span_ns": before.span_ns + arc.span_ns})


def _joined_special(first: Phase, more: Phase) -> SpecialUse | None:
    if first.special is None or more.special is None:
        return more.special or first.special
    reads = first.special.device_reads + more.special.device_reads
    return more.special.model_copy(update={"device_reads": reads})


def _joined_log(first: Phase, more: Phase) -> ClientLog | None:
    before, log = first.client_log, more.client_log
    if before is None or log is None:
        return log or before
    slowest = _joined_each(
        (*before.slowest, *log.slowest),
        lambda each: (each.host, each.op),
        lambda *both: max(both, key=lambda each: each.latency_ns),
    )
    return log.model_copy(
        update={
            "time_error_ns": max(before.time_error_ns, log.time_error_ns),
            "ios_guessed": before.ios_guessed + log.ios_guessed,
            "slowest": slowest,
        }
    )
