"""Of an observed server: by file system, op and tier the I/Os and how long they waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kit.core.units import commas, format_latency, format_percent
from kit.store.labels import op_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.observed import ObservedRow
from kit.store.summary import Row, Summary
from kit.store.tables import SERVER
from reports.features.feature import Feature, Judged

# Rows for the terminal.
_MOST_LINES = 6


def describe(manifest: Manifest) -> list[ObservedRow]:
    """From the exact sums; those that made clients wait longest come first."""
    sums = [each for phase in manifest.phases for each in phase.sums if each.layer == SERVER]
    all_ios, all_ns = sum(each.ios for each in sums), sum(each.sum_ns for each in sums)
    rows = [
        ObservedRow(
            file_system=each.host, op=each.op, tier=each.tier, ios=each.ios, share=each.ios / all_ios,
            waited_ns=each.sum_ns, waited_share=each.sum_ns / all_ns if all_ns else 0.0,
        )
        for each in sums if each.ios
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.waited_ns)


# Who answers, by tier.
_WHO = {
    "dram": "DRAM (ARC) answers",
    "l2arc": "The SSD cache (L2ARC) answers",
    "disk": "Disks answer",
    "slog": "The log device (SLOG) answers",
    "pool": "The log on the data disks (no SLOG) answers",
    "shared": "I/Os that other requests had begun answer",
    "indirect": "Disks, after a block of metadata, answer",
    "direct": "Disks, past the ARC, answer",
}


def answer(summary: Summary) -> Iterator[str]:
    """What made clients wait longest, over all file systems."""
    waited: Counter[tuple[str, str]] = Counter()
    ios: Counter[tuple[str, str]] = Counter()
    for row in summary.observed:
        waited[row.op, row.tier] += row.waited_ns
        ios[row.op, row.tier] += row.ios
    if not waited:
        return
    (op, tier), waited_ns = waited.most_common(1)[0]
    part = ios[op, tier]
    yield (
        f"{_WHO.get(tier, tier)} {format_percent(part / ios.total(), 1)} of the I/Os ({op_name(op)}), and "
        f"clients spend {format_percent(waited_ns / waited.total(), 1)} of their waiting on them: "
        f"{format_latency(waited_ns / part / 1e3)} each, in the mean."
    )


def lines(summary: Summary) -> Iterator[str]:
    """The file systems whose requests waited longest."""
    waited: Counter[str] = Counter()
    for row in summary.observed:
        waited[row.file_system] += row.waited_ns
    all_ns = waited.total() or 1
    for name, waited_ns in waited.most_common(_MOST_LINES) if len(waited) > 1 else ():
        yield f"{name}: {format_percent(waited_ns / all_ns, 1)} of the waiting"


def judge(manifest: Manifest, _: Latency, __: Sequence[Row]) -> Judged:
    """Requests of other file systems are said, and those that failed."""
    if manifest.observed is None:
        return Judged({})
    notes = []
    if other := manifest.observed.elsewhere:
        notes.append(f"{commas(other)} requests were to file systems that are not of ZFS: left out.")
    if failed := manifest.observed.failed:
        notes.append(f"{commas(failed)} requests failed before the server knew their file: left out.")
    if others := manifest.observed.others:
        notes.append(f"{commas(others)} requests were to other datasets than those asked for: left out.")
    return Judged({"observed": describe(manifest)}, notes=notes)


FEATURE = Feature(judge, answer, lines)
