"""A pool that is filled and fragmented before it is measured, as `zpool list` then prints it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kit.lab.image.image import Image
from tests.lab.conftest import finish, hsp
from tests.lab.workloads import write_small, write_testbed

PROTECTS = ("kit/precondition/age_pool.py", "kit/remote/age_pool.py")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

# A smaller pool is in pieces by its metaslabs alone.
SIZE, CAPACITY, FRAGMENTATION = "384MiB", 40, 25


def test_it_is_as_full_and_as_fragmented_as_asked_for(image: Image, tmp_path: Path) -> None:
    workload, testbed = write_small(tmp_path, ("write", "write", "100ms")), write_testbed(tmp_path)
    testbed.write_text(testbed.read_text().replace('size = "128MiB"', f'size = "{SIZE}"'))
    age = f"pool.age = {{ capacity = {CAPACITY}, fragmentation = {FRAGMENTATION} }}\n"
    text = workload.read_text().replace('title = "small"\n', f'title = "small"\n{age}', 1)
    workload.write_text(text)
    words = ("run", os.fspath(workload), "--testbed", os.fspath(testbed), "--json")
    done = finish(hsp(*words, results=tmp_path), tmp_path, "small")
    assert done.code == 0, done.stderr
    space = done.manifest["pool"]["space"]
    used = 100 * space["allocated_bytes"] / space["size_bytes"]
    assert abs(used - CAPACITY) <= 3, space
    assert abs(space["fragmentation_percent"] - FRAGMENTATION) <= 5, space
    steps = [json.loads(line) for line in (done.run / "raw" / "age-pool.jsonl").read_text().splitlines()]
    # Blocks are freed in a pool that was fuller.
    assert max(each["allocated"] for each in steps) > space["allocated_bytes"] * 1.3
    assert steps[0]["fragmentation"] < steps[-1]["fragmentation"]
