"""What special vdevs answer, and where the log of a pool without a log device lies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kit.core.text import listed
from kit.core.units import format_latency, format_percent
from kit.store.labels import EITHER_LOG, SERVER, tier_name
from kit.store.manifest import Manifest
from kit.store.parts.resource_use import SpecialRow, SpecialUse
from kit.store.summary import Row, Summary
from reports.features.feature import Feature, Judged

# Of their space, what small blocks may have: zfs_special_class_metadata_reserve_pct is 25 by default. What is
# allocated in a txg counts at its end.
_SMALL_BLOCKS_PART, _NEARLY = 0.75, 0.73
# Fewer are no tier of the phase.
_LEAST_SHARE = 0.001
# Then the log of a pool without a log device is on special vdevs (zil_special_is_slog).
_LOG_SINCE = (2, 4)


def describe(manifest: Manifest) -> list[SpecialRow]:
    """Of each phase of a pool with special vdevs, and of each with reads that fetched metadata first."""
    return [
        SpecialRow(phase=each.name, special=each.special, metadata_reads=each.metadata_reads)
        for each in manifest.phases
        if each.special or each.metadata_reads
    ]


def sentences(summary: Summary) -> Iterator[str]:
    """One of the reads of each phase that a special vdev answered, and one of the synchronous writes."""
    for each in summary.special:
        if each.special:
            rows = [row for row in summary.rows_of(SERVER) if row.phase == each.phase]
            yield from _of_reads([row for row in rows if row.op == "read"], each.special)
            yield from _of_writes([row for row in rows if row.op == "write"], summary)


def _of_reads(rows: Sequence[Row], use: SpecialUse) -> Iterator[str]:
    by_tier = {row.tier: row for row in rows if row.share >= _LEAST_SHARE}
    if "special" not in by_tier:
        return
    first, *others = (by_tier.pop("special"), *by_tier.values())
    parts = [f"the special vdev answers {_share(first)} of the reads{_p50(first)}"]
    parts += [f"{tier_name(row.tier)} {_share(row)}{_p50(row)}" for row in others]
    text = listed(parts)
    yield f"{text[0].upper()}{text[1:]}{_full(others, use)}."


def _full(others: Sequence[Row], use: SpecialUse) -> str:
    """Why disks answer as well."""
    if not any(row.tier == "disk" for row in others):
        return ""
    part = use.allocated_bytes / use.size_bytes
    if part >= _NEARLY:
        limit = format_percent(_SMALL_BLOCKS_PART)
        full = f"the special vdev is {format_percent(part)} full"
        return f": {full}, and from {limit} on small blocks go to disks"
    return (
        f"; the special vdev is {format_percent(part)} full, so blocks on disks are larger than "
        "special_small_blocks, or were written before it was set"
    )


def _of_writes(rows: Sequence[Row], summary: Summary) -> Iterator[str]:
    logs = [row for row in rows if row.tier in EITHER_LOG]
    if not logs or any(row.tier == "slog" for row in rows):
        return
    most = max(logs, key=lambda row: row.count)
    version = (summary.versions or {}).get("zfs", "")
    said = f" (OpenZFS {version.split('-')[0]})" if version else ""
    part = "" if most.share > 1 - _LEAST_SHARE else f" for {_share(most)} of them"
    if most.tier == "special":
        yield f"Synchronous writes wait for the special vdev{said}{part}, which has their log{_p50(most)}."
        return
    yield f"Synchronous writes wait for the disks{said}{part}, not for the special vdev{_p50(most)}." + (
        " OpenZFS 2.4 and later have their log on the special vdev." if _is_older(version) else ""
    )


def _is_older(version: str) -> bool:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return bool(found) and (int(found[1]), int(found[2])) < _LOG_SINCE  # type: ignore[index]


def _share(row: Row) -> str:
    return format_percent(row.share)


def _p50(row: Row) -> str:
    return f" (p50 {format_latency(row.p50_us)})" if row.p50_us else ""


def _answer(summary: Summary) -> Iterator[str]:
    if said := " ".join(dict.fromkeys(sentences(summary))):
        yield said


FEATURE = Feature(lambda manifest, _, __: Judged({"special": describe(manifest)}), answer=_answer)
