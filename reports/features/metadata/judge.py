"""What operations of NFS on files and directories wait for, and whether all counts agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kit.core.text import listed
from kit.core.units import commas, format_latency, format_percent
from kit.store.labels import CLIENT, NFS_METADATA, SERVER
from kit.store.manifest import Manifest
from kit.store.parts.metadata import MetadataRow
from kit.store.summary import Row, Summary
from reports.features.feature import Feature, Judged

# The operation that an action is about; of several the first that the phase has (NFSv3 and NFSv4).
_MAIN = {
    "create": ("create", "open"), "untar": ("create", "open"), "rename": ("rename",), "remove": ("remove",),
    "rm": ("remove",), "stat": ("getattr",), "list": ("readdirplus", "readdir"),
    "ls": ("readdirplus", "readdir"),
}  # fmt: skip
_OPENS, _LOOKS = ("create", "untar"), ("stat", "list", "ls")
# What is counted at a client is a directory (kit/remote/load/metadata_load.py).
_OF_DIRECTORIES = ("list", "ls", "rm")
# Fewer are no tier of the operation.
_LEAST_SHARE = 0.01
_PLACES = {
    "slog": "with its log on the log device", "pool": "with its log on the data disks",
    "disk": "from the data disks", "l2arc": "from the L2ARC", "dram": "in memory (ARC)",
    "shared": "with an I/O of another request", "indirect": "after metadata from a device",
}  # fmt: skip


def describe(manifest: Manifest) -> list[MetadataRow]:
    """Of each phase with a tree."""
    return [
        MetadataRow(
            phase=each.name,
            title=each.title or "",
            load=each.metadata,
            matched=all(check.closes for check in each.checks if check.id == "NFS-OPERATIONS"),
        )
        for each in manifest.phases
        if each.metadata
    ]


def operations(summary: Summary, phase: str) -> list[Row]:
    """Of a phase, in the order of the table."""
    return [row for row in summary.rows_of(SERVER) if row.phase == phase and row.op in NFS_METADATA]


def sentences(summary: Summary, actions: Collection[str] = tuple(_MAIN)) -> Iterator[str]:
    """One a phase with one of these actions: how long a file takes at the client, and its operation where."""
    for each in summary.metadata:
        if each.load.action not in actions:
            continue
        rows = operations(summary, each.phase)
        op = next((op for op in _main(each) if any(row.op == op for row in rows)), None)
        mine = sorted(
            (row for row in rows if row.op == op and row.share >= _LEAST_SHARE), key=lambda row: -row.count
        )
        if op and mine:
            looks = each.load.action in _LOOKS
            whole = _at_client(summary, each)
            of_op = f"{op.upper()} takes {listed([_taken(row, looks) for row in mine])}."
            yield f"{each.title or each.phase}: {whole}{of_op}"


def _at_client(summary: Summary, row: MetadataRow) -> str:
    """Such as "a file takes 1.2 ms (p50) at the client; "; "" if they are too few for a p50."""
    mine = [
        each for each in summary.rows_of(CLIENT) if each.phase == row.phase and each.op == row.load.action
    ]
    if len(mine) != 1 or not mine[0].p50_us:
        return ""
    thing = "directory" if row.load.action in _OF_DIRECTORIES else "file"
    return f"a {thing} takes {format_latency(mine[0].p50_us)} (p50) at the client; "


def _main(row: MetadataRow) -> Sequence[str]:
    """CREATE of NFSv4 makes directories."""
    ops = _MAIN[row.load.action]
    return ops[1:] if row.load.action in _OPENS and row.load.version != "3" else ops


def _taken(row: Row, looks: bool) -> str:
    """Such as "8.21 ms (p50) with its log on the data disks"."""
    least, most = format_latency(row.min_us), format_latency(row.max_us)
    few = f"{least} to {most} ({commas(row.count)}, too few for a p50)"
    time = f"{format_latency(row.p50_us)} (p50)" if row.p50_us else few
    on_special = "from the special vdev" if looks else "with its log on the special vdev"
    place = on_special if row.tier == "special" else _PLACES.get(row.tier, row.tier)
    return f"{time} {place}{'' if row.share > 1 - _LEAST_SHARE else f', {format_percent(row.share)} of them'}"


def _answer(summary: Summary) -> Iterator[str]:
    """Renames and removals wait for the log as creations do."""
    yield from filter(None, [" ".join(sentences(summary, (*_OPENS, "list", "ls")))])


FEATURE = Feature(lambda manifest, _, __: Judged({"metadata": describe(manifest)}), answer=_answer)
