"""Files and directories over NFS: every operation counted, and what it waits for, with and without SSDs.

A mirror of disks that turn 7,200 times a minute, a log device, and SSDs as special vdev
(kit/lab/metadata-testbed.toml).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import Disk, find_preset
from kit.lab.image.image import Image
from kit.store.labels import NFS_METADATA
from kit.store.summary import Summary
from reports.features.metadata.judge import sentences
from tests.lab.conftest import ROOT, Finished, finish, hsp

PROTECTS = (
    "kit/trace",
    "kit/load",
    "kit/instruments",
    "kit/setup",
    "kit/remote",
    "reports/features/metadata",
)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

TURN_US = 8333
FILES, DIRECTORIES = 45, 3
EVEN = f'files = {FILES}, depth = 1, width = {DIRECTORIES - 1}, size = "1KiB", size_max = "8KiB"'
WORKLOAD = """\
format = 1
name = "tree"
title = "tree"
base = "metadata"
"""
PHASES = """
[[phase]]
name = "create"
[[phase]]
name = "rename"
[[phase]]
name = "ls"
[[phase]]
name = "remove"
[[phase]]
name = "untar-pool"
[[phase]]
name = "rm-pool"
"""
# NFSv4, and a special vdev beside the log device.
SPECIAL_PHASES = """\
lab = "ssds.toml"
[nfs]
version = 4.2
[[phase]]
name = "create"
[[phase]]
name = "list"
base = "ls"
metadata = "list"
[[phase]]
name = "rm"
metadata = "rm"
title = "rm -r"
duration = "60s"
interval = "500ms"
"""


def run(folder: Path, phases: str, tree: str = EVEN) -> Finished:
    path = folder / "tree.toml"
    path.write_text(WORKLOAD + f"tree = {{ {tree} }}\n" + phases)
    done = finish(hsp("run", str(path), "--json", results=folder), folder, "tree")
    assert done.code == 0 and done.summary["verdict"] == "valid", (done.summary["reasons"], done.stderr)
    print(*sentences(Summary.from_json(done.summary, "summary.json")), sep="\n")
    return done


@pytest.fixture(scope="module")
def whole(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run(tmp_path_factory.mktemp("tree"), PHASES)


@pytest.fixture(scope="module")
def special(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("special")
    testbed = (ROOT / "kit/lab/metadata-testbed.toml").read_text()
    assert testbed.count("idle = true\n") == 2
    (folder / "ssds.toml").write_text(testbed.replace("idle = true\n", ""))
    # The same numbers, of a list.
    listed = [
        f"{1000 + number} dir{number % DIRECTORIES}/{number}".replace("dir0/", "") for number in range(FILES)
    ]
    (folder / "files.txt").write_text("\n".join(listed))
    return run(folder, SPECIAL_PHASES, 'list = "files.txt"')


def counts(done: Finished, phase: str) -> dict[str, dict[str, Any]]:
    """The rows of each operation at the server, by tier."""
    found: dict[str, dict[str, Any]] = {}
    for row in done.summary["rows"]:
        if (row["phase"], row["layer"]) == (phase, "nfs-server") and row["count"]:
            found.setdefault(row["op"], {})[row["tier"]] = row
    return found


def numbers(done: Finished, phase: str) -> dict[str, int]:
    rows = counts(done, phase).items()
    return {op: sum(row["count"] for row in tiers.values()) for op, tiers in rows}


def check_counts(done: Finished) -> None:
    """Each operation of NFS: tracer = nfsd; what makes, renames or removes: = load."""
    for phase in done.manifest["phases"]:
        checks = [each for each in phase["checks"] if each["id"] == "NFS-OPERATIONS"]
        assert all(each["expected"] == each["found"] and not each["tolerance"] for each in checks)
        traced = {each["op"]: each["found"] for each in checks if each["name"].endswith("by the tracer")}
        found = numbers(done, phase["name"])
        assert traced == {op: n for op, n in found.items() if op in NFS_METADATA} and len(traced) > 1
        by_load = {each["op"]: each["found"] for each in checks if each["name"].endswith("by the load")}
        assert by_load.items() <= traced.items()
        assert by_load or phase["metadata"]["action"] in ("list", "ls")
    assert all(each["matched"] for each in done.summary["metadata"])


def test_every_count_of_nfsd_is_the_tracers_and_the_loads(whole: Finished) -> None:
    check_counts(whole)
    made, renamed, removed = (numbers(whole, name) for name in ("create", "rename", "remove"))
    assert (made["create"], made["mkdir"], made["write"]) == (FILES, DIRECTORIES, FILES)
    assert renamed["rename"] == removed["remove"] == FILES and removed["rmdir"] == DIRECTORIES
    tar = numbers(whole, "untar-pool")
    # The mode and the times of each file, as tar sets them; CREATE of Linux needs one more.
    assert (tar["create"], tar["mkdir"]) == (FILES, DIRECTORIES) and tar["setattr"] >= 2 * FILES
    gone = numbers(whole, "rm-pool")
    assert (gone["remove"], gone["rmdir"]) == (FILES, DIRECTORIES) and gone["readdirplus"] >= DIRECTORIES


def test_a_create_waits_for_the_log_device_and_without_it_for_a_turn_of_the_disk(whole: Finished) -> None:
    with_log, without = (counts(whole, name)["create"] for name in ("create", "untar-pool"))
    assert set(with_log) == {"slog"} and set(without) <= {"pool", "shared"}
    assert with_log["slog"]["p50_us"] < TURN_US / 10 < TURN_US / 2 < without["pool"]["p50_us"]
    for phase, op in (("rename", "rename"), ("remove", "remove"), ("create", "mkdir")):
        assert set(counts(whole, phase)[op]) == {"slog"}
    assert set(counts(whole, "rm-pool")["remove"]) <= {"pool", "shared"}


def test_after_an_import_directories_come_from_the_disks(whole: Finished) -> None:
    found = counts(whole, "ls")["readdirplus"]
    # Some are small enough to be in a block pointer, or share a block of dnodes with another.
    assert found["disk"]["count"] and not {"special", "l2arc"} & set(found)
    # Three reads may all be in the track buffer: no seek and no turn is sure, but the disk's command is.
    disk = find_preset("disk-7200").table
    assert isinstance(disk, Disk) and found["disk"]["min_us"] > disk.command / 1000
    said = [*sentences(Summary.from_json(whole.summary, "summary.json"))]
    assert any(
        text.startswith("ls -lR from empty caches on: ") and text.endswith("from the data disks.")
        for text in said
    ), said


def test_with_a_special_vdev_directories_come_from_it_over_nfs_4(special: Finished) -> None:
    check_counts(special)
    made = numbers(special, "create")
    # Of NFSv4: OPEN makes files, CREATE directories, and REMOVE removes both.
    assert (made["open"], made["create"]) == (FILES, DIRECTORIES)
    assert numbers(special, "rm")["remove"] == FILES + DIRECTORIES
    found = counts(special, "list")["readdir"]
    assert found["special"]["count"] and "disk" not in found
    assert found["special"]["max_us"] < TURN_US
    # The log is on the log device all the same.
    assert set(counts(special, "create")["open"]) == {"slog"}
