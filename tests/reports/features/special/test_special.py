"""What special vdevs answer, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.manifest import Manifest
from reports.features.special.judge import describe, sentences
from tests.kit.store.stored_runs import stored
from tests.reports.synthetic import summary_of

MIB = 1 << 20


def said(
    rows: list[tuple[str, str, int, float]], used: int = 50, zfs: str = "2.3.9-0+deb13u1", **more: Any
) -> list[str]:
    """Of rows (op, tier, I/Os, p50 in us) of one phase. `used`: percent of the special vdev."""
    whole = {op: sum(ios for of, _, ios, _ in rows if of == op) for op, *_ in rows}
    made = [
        {"op": op, "tier": tier, "count": ios, "share": ios / whole[op], "p50_us": us}
        for op, tier, ios, us in rows
    ]
    use = {"size_bytes": 100 * MIB, "allocated_bytes": used * MIB, "device_reads": 1}
    special = [{"phase": "read", "special": use, "metadata_reads": {}, **more}]
    return [*sentences(summary_of(made, special=special, versions={"zfs": zfs}))]


READS = [("read", "special", 400, 101.0), ("read", "dram", 600, 6.5)]


def test_reads_are_by_tier_and_a_full_vdev_is_the_reason_of_reads_from_disks() -> None:
    alone = "The special vdev answers 40 % of the reads (p50 101 µs) and DRAM (ARC) 60 % (p50 6.5 µs)."
    assert said(READS) == [alone]
    disk = [*READS, ("read", "disk", 1000, 5190.0)]
    assert said(disk, 82)[0].endswith(
        "disk 50 % (p50 5.19 ms): the special vdev is 82 % full, and from 75 % on small blocks go to disks."
    )
    assert said(disk, 40)[0].endswith(
        "; the special vdev is 40 % full, so blocks on disks are larger than special_small_blocks, or were "
        "written before it was set."
    )
    assert said([("read", "dram", 600, 6.5)]) == []


@pytest.mark.parametrize(
    ("rows", "zfs", "text"),
    [
        (
            [("write", "pool", 465, 13800.0)], "2.3.9-0+deb13u1",
            "Synchronous writes wait for the disks (OpenZFS 2.3.9, p50 13.8 ms). "
            "OpenZFS 2.4 and later have their log on the special vdev.",
        ),
        (
            [("write", "pool", 460, 8790.0)], "2.4.4-1",
            "Synchronous writes wait for the disks (OpenZFS 2.4.4, p50 8.79 ms).",
        ),
        (
            [("write", "special", 2616, 150.6), ("write", "pool", 149, 8792.0)], "2.4.4-1",
            "Synchronous writes wait for the special vdev (OpenZFS 2.4.4, p50 151 µs) for 95 % of them, "
            "which has their log.",
        ),
        ([("write", "slog", 500, 59.0), ("write", "pool", 1, 8000.0)], "2.4.4-1", ""),
        ([("write", "dram", 500, 5.0)], "2.4.4-1", ""),
    ],
)  # fmt: skip
def test_the_log_is_where_most_writes_waited(
    rows: list[tuple[str, str, int, float]], zfs: str, text: str
) -> None:
    assert said(rows, zfs=zfs) == ([text] if text else [])


def test_what_goes_into_its_place_at_once_has_no_known_vdev() -> None:
    rows = [("write", "pool", 465, 13800.0)]
    assert said(rows, in_place=True) == [
        "Synchronous writes may go into their place on the special vdev at once "
        "(OpenZFS 2.3.9, p50 13.8 ms): which vdev they wait for is not known."
    ]


def test_the_limit_is_that_of_the_parameter() -> None:
    disk = [*READS, ("read", "disk", 1000, 5190.0)]
    assert said(disk, 52, small_blocks_part=0.5)[0].endswith(
        "52 % full, and from 50 % on small blocks go to disks."
    )
    assert "were written before" in said(disk, 80, small_blocks_part=1.0)[0]


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 400, "\u0663", "", "-1"])
def test_parameters_of_a_stranger_are_no_numbers(text: str) -> None:
    manifest = stored("mixed")
    use = {"size_bytes": 0, "allocated_bytes": 9, "device_reads": 0}
    manifest["phases"][0] |= {"special": use, "metadata_reads": {"special": 3}}
    manifest["modules"] = {"zfs": {"zfs_special_class_metadata_reserve_pct": text}}
    manifest["dataset"]["properties"] |= {"recordsize": text, "special_small_blocks": text}
    [row] = describe(Manifest.from_json(manifest, "manifest.json"))
    assert (row.small_blocks_part, row.in_place) == (0.75, False)
