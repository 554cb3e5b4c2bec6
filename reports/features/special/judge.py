"""What special vdevs answer, and where the log of a pool without a log device lies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kit.core.text import listed, whole
from kit.core.units import format_latency, format_percent
from kit.store.labels import EITHER_LOG, SERVER, tier_name
from kit.store.manifest import Manifest
from kit.store.parts.resource_use import SpecialRow, SpecialUse
from kit.store.phase import Phase
from kit.store.summary import Row, Summary
from reports.features.feature import Feature, Judged

_RESERVE, _RESERVE_PERCENT = "zfs_special_class_metadata_reserve_pct", 25
# Of its limit, from where on a special vdev counts as full: what is allocated in a txg counts at its end.
_NEARLY = 0.97
# Larger writes go into their place at once (zfs_immediate_write_sz).
_IN_PLACE_BYTES = 32 << 10
# Fewer are no tier of the phase.
_LEAST_SHARE = 0.001
# Then the log of a pool without a log device is on special vdevs (zil_special_is_slog).
_LOG_SINCE = (2, 4)


def describe(manifest: Manifest) -> list[SpecialRow]:
    """Of each phase of a pool with special vdevs, and of each with reads that fetched metadata first."""
    part = _small_blocks_part(manifest)
    return [
        SpecialRow(
            phase=each.name, small_blocks_part=part, in_place=_is_in_place(manifest, each),
            special=each.special, metadata_reads=each.metadata_reads,
        )
        for each in manifest.phases
        if each.special or each.metadata_reads
    ]  # fmt: skip


def _small_blocks_part(manifest: Manifest) -> float:
    number = whole(manifest.zfs_parameters.get(_RESERVE) or str(_RESERVE_PERCENT))
    return 1 - min(_RESERVE_PERCENT if number is None else number, 100) / 100


def _is_in_place(manifest: Manifest, phase: Phase) -> bool:
    """Of records on special vdevs, whether writes are large enough, or the dataset is for throughput."""
    properties = (manifest.dataset.properties if manifest.dataset else None) or {}
    record, small = (whole(properties.get(name, "")) for name in ("recordsize", "special_small_blocks"))
    on_special = record is not None and small is not None and record <= small
    large = (phase.block_bytes_by_op.get("write") or phase.block_bytes or 0) >= _IN_PLACE_BYTES
    return on_special and (large or properties.get("logbias") == "throughput")


def sentences(summary: Summary) -> Iterator[str]:
    """One of the reads of each phase that a special vdev answered, and one of the synchronous writes."""
    for each in summary.special:
        if each.special:
            rows = [row for row in summary.rows_of(SERVER) if row.phase == each.phase]
            reads = [row for row in rows if row.op == "read"]
            yield from _of_reads(reads, each.special, each.small_blocks_part)
            writes = [row for row in rows if row.op == "write"]
            yield from _of_writes(writes, summary, in_place=each.in_place)


def _of_reads(rows: Sequence[Row], use: SpecialUse, part: float) -> Iterator[str]:
    by_tier = {row.tier: row for row in rows if row.share >= _LEAST_SHARE}
    if "special" not in by_tier:
        return
    first, *others = (by_tier.pop("special"), *by_tier.values())
    own = f"the special vdev answers {format_percent(first.share)} of the reads{_p50(first)}"
    besides = [f"{tier_name(row.tier)} {format_percent(row.share)}{_p50(row)}" for row in others]
    text = listed([own, *besides])
    yield f"{text[0].upper()}{text[1:]}{_full(others, use, part)}."


def _full(others: Sequence[Row], use: SpecialUse, most: float) -> str:
    """Why disks answer as well."""
    if not any(row.tier == "disk" for row in others):
        return ""
    part = use.allocated_bytes / max(use.size_bytes, 1)
    full = f"the special vdev is {format_percent(part)} full"
    if part >= _NEARLY * most:
        return f": {full}, and from {format_percent(most)} on small blocks go to disks"
    older = "larger than special_small_blocks, or were written before it was set"
    return f"; {full}, so blocks on disks are {older}"


def _of_writes(rows: Sequence[Row], summary: Summary, *, in_place: bool) -> Iterator[str]:
    logs = [row for row in rows if row.tier in EITHER_LOG]
    if not logs or any(row.tier == "slog" for row in rows):
        return
    most = max(logs, key=lambda row: row.count)
    version = (summary.versions or {}).get("zfs", "")
    p50 = f"p50 {format_latency(most.p50_us)}" if most.p50_us else ""
    known = ", ".join(filter(None, [f"OpenZFS {version.split('-')[0]}" if version else "", p50]))
    said = f" ({known})" if known else ""
    part = "" if most.share > 1 - _LEAST_SHARE else f" for {format_percent(most.share)} of them"
    if most.tier == "special":
        yield f"Synchronous writes wait for the special vdev{said}{part}, which has their log."
    elif in_place:
        yield (
            f"Synchronous writes may go into their place on the special vdev at once{said}: which vdev they "
            f"wait for is not known."
        )
    else:
        yield f"Synchronous writes wait for the disks{said}{part}." + (
            " OpenZFS 2.4 and later have their log on the special vdev." if _is_older(version) else ""
        )


def _is_older(version: str) -> bool:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return found is not None and (int(found[1]), int(found[2])) < _LOG_SINCE


def _p50(row: Row) -> str:
    return f" (p50 {format_latency(row.p50_us)})" if row.p50_us else ""


def _answer(summary: Summary) -> Iterator[str]:
    yield from filter(None, [" ".join(dict.fromkeys(sentences(summary)))])


FEATURE = Feature(lambda manifest, _, __: Judged({"special": describe(manifest)}), answer=_answer)
