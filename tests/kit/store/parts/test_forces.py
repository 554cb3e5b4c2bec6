"""Forced writes of a stored phase: what cannot hold together is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import ConfigError
from kit.store.json_file import write_json
from kit.store.manifest import Manifest, read_manifest
from kit.store.parts.forces import Latencies
from kit.store.run_directory import RunDir
from tests.reports.features.forces.test_forces import FORCES, LATENCIES, manifest

GROUP = r"phases\[0\]\.forces\.group"


@pytest.mark.parametrize(
    ("forces", "phase", "message"),
    [
        ({}, {"client_ios": 999}, r"phases\[0\]: client_ios is 999, but forces.group has 1000 latencies$"),
        ({"forces": 7}, {}, r"phases\[0\]\.forces: forces is 7, but force has 1000 latencies$"),
        ({"records": 999}, {}, r"\.forces: records is 999, but group has 1000 latencies of 1 each"),
        ({"per_force": 2}, {}, r"\.forces: records is 1000, but group has 1000 latencies of 2 each"),
        ({"recovered": 1001}, {}, r"\.forces: recovered and damaged are 1001 and 0, more than the 1000"),
        ({"damaged": 1}, {}, r"\.forces: recovered and damaged are 1000 and 1, more"),
        ({"overwritten": 1}, {}, r"\.forces: recovered and damaged are 1000 and 0, more than the 999"),
        ({"overwritten": 1001, "recovered": None}, {}, r"\.forces: overwritten is 1001, more than records"),
        ({"elapsed_ns": 0}, {}, r"\.forces\.elapsed_ns: .* greater than or equal to 1, not 0"),
        ({"write": {**LATENCIES, "bins": [[400, 999]], "sum_ns": 99_900_000}}, {}, "write has 999 latencies"),
        ({"group": {**LATENCIES, "bins": [[400, 500], [400, 500]]}}, {}, f"{GROUP}: the bins do not ascend"),
        ({"group": {**LATENCIES, "bins": [[401, 500], [400, 500]]}}, {}, f"{GROUP}: the bins do not ascend"),
        ({"group": {**LATENCIES, "sum_ns": 5}}, {}, f"{GROUP}: sum_ns is 5, but 1000 latencies"),
        ({"group": {**LATENCIES, "sum_ns": 97_000_000}}, {}, f"{GROUP}: sum_ns is 97000000"),
        ({"group": {**LATENCIES, "sum_ns": 109_000_000}}, {}, f"{GROUP}: sum_ns is 109000000"),
        ({"group": {**LATENCIES, "bins": [[497, 1000]]}}, {}, f"{GROUP}: sum_ns is 100000000"),
        ({"group": {**LATENCIES, "min_ns": 100_001}}, {}, f"{GROUP}: sum_ns is 100000000"),
        ({"group": {**LATENCIES, "min_ns": 110_001}}, {}, f"{GROUP}: min_ns is 110001, above max_ns"),
        ({"group": {**LATENCIES, "bins": [[2**62, 1000]]}}, {}, rf"{GROUP}\.bins\[0\]\[0\]: .* less than"),
    ],
)  # fmt: skip
def test_counts_that_cannot_be_are_refused(
    run: RunDir, forces: dict[str, Any], phase: dict[str, Any], message: str
) -> None:
    write_json(run.path / "manifest.json", manifest(forces, **phase))
    with pytest.raises(ConfigError, match=message) as caught:
        read_manifest(run)
    assert caught.value.message.startswith(f"{run.path / 'manifest.json'}: ") and caught.value.hint


@pytest.mark.parametrize(
    ("forces", "phase"),
    [
        ({}, {}),
        ({"recovered": 900, "damaged": 100}, {}),
        ({"recovered": 0, "damaged": 0}, {}),
        # Killed: the counts of records are read after those of groups.
        ({"records": 1003, "recovered": None, "damaged": None}, {}),
        # A group commit; methods that force each write have no `force`.
        ({"forces": 10, "force": {**LATENCIES, "sum_ns": 10**6, "bins": [[400, 10]]}}, {}),
        ({"forces": 4000, "per_force": 4, "records": 4000, "force": None}, {}),
        # One of two clients failed.
        ({}, {"client_ios": 2000, "problems": [{"code": "load", "text": "failed on b"}]}),
    ],
)
def test_counts_that_runs_write_are_read(forces: dict[str, Any], phase: dict[str, Any]) -> None:
    (read,) = Manifest.from_json(manifest(forces, **phase), Path("m")).phases
    assert read.forces and read.forces.lost >= 0 and read.forces.group.ios == FORCES["group"]["bins"][0][1]


def test_a_force_that_is_longer_than_the_last_bin_is_read() -> None:
    """The program counts all above 17 s in its last bin."""
    value = {"sum_ns": 90 * 10**9, "min_ns": 25 * 10**9, "max_ns": 35 * 10**9, "bins": [[959, 3]]}
    assert Latencies.from_json(value, "m").ios == 3
