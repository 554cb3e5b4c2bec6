"""pg_test_fsync itself beside the kit's forced writes, on the same device of the lab, within 5 %.

Its binary is Debian's (package postgresql-15 or another), copied into the guest. It prints the guest's time,
which is the experiment's times the lab's dilation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.tables.force_table import ForceTable
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.core.progress import Progress
from kit.hosts.base import Host
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.load.programs import force_load
from kit.load.programs.force_program import command, put_program, run_words, words_of
from kit.load.programs.program_load import lines_of
from kit.setup.site import Site
from tests.bench.conftest import Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

DEVICE = "log-battery"
# Of the guest's clock, for each of its tests.
SECONDS = 1
WITHIN = 0.05
_ROW = re.compile(r"^\s+(\S.*?)\s+([0-9.]+) ops/sec", re.MULTILINE)
_ONE = ("open_datasync", "fdatasync", "fsync", "open_sync")
_SIZES = ((16, 1), (8, 2), (4, 4), (2, 8), (1, 16))


def jobs() -> Iterator[ForceTable]:
    """What the rows of pg_test_fsync are, in its order."""

    def table(method: str, kib: int = 8, per_force: int = 1) -> ForceTable:
        keys = {"record": f"{kib}KiB", "per_force": per_force, "method": method, "file": "32KiB"}
        return ForceTable.model_validate({**keys, "direct": method.startswith("open_")})

    for per_force in (1, 2):
        yield from (table(method, per_force=per_force) for method in _ONE)
    yield from (table("open_sync", kib, count) for kib, count in _SIZES)
    yield from (table(method) for method in ("fsync_close", "close_fsync", "none"))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    progress = Progress(quiet=True)
    testbed = read_testbed(LAB_TESTBED)
    (device,) = (each for each in testbed.device if each.name == DEVICE)
    testbed = testbed.model_copy(update={"device": (device.model_copy(update={"idle": False}),)})
    with lab_site(testbed, build(ImageInputs(), progress), progress, 1) as made:
        yield made


@pytest.fixture(scope="module")
def theirs(site: Site) -> dict[str, float]:
    """us of the experiment by row, in its order."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_test_fsync"))
    if not found:
        pytest.skip("pg_test_fsync is missing: apt-get install postgresql-15")
    host = site.server
    assert host
    path = site.device_paths[DEVICE]
    host.put(found[-1].read_bytes(), "/tmp/pg_test_fsync")
    host.run(["chmod", "0755", "/tmp/pg_test_fsync"])
    # After each close of a device udev reads it again, in these tests for longer than they last. It takes
    # CPU from the test that forces nothing: 115 of 600 ms in one look at it.
    host.run(["udevadm", "control", "--exit"])
    # It removes its file at the end: this link.
    host.run(["ln", "-s", path, "/tmp/pg_test_fsync.out"])
    argv = ["/tmp/pg_test_fsync", "-s", str(SECONDS), "-f", "/tmp/pg_test_fsync.out"]
    text = host.run(argv, deadline_s=1200).stdout
    rows = [(name, 1e6 / float(rate) / site.clock.dilation) for name, rate in _ROW.findall(text)]
    return {f"{number} {name}": us for number, (name, us) in enumerate(rows)}


def ours_us(site: Site, host: Host, table: ForceTable) -> float:
    put_program(host, "/tmp")
    words = words_of(table, "p", site.device_paths[DEVICE], 64 << 20, 3, is_device=True)
    run = run_words(words, table, 64 << 20, 100_000_000, SECONDS * 10**9)
    text = host.run(command("/tmp", run), deadline_s=300).stdout
    counted = force_load.forces_of(table, lines_of(text, "it"), site.clock)
    return counted.group.mean_ns / 1e3


def test_each_row_agrees(site: Site, theirs: dict[str, float], tell: Tell) -> None:
    host = site.server
    assert host
    apart = {}
    tables = list(jobs())
    assert len(theirs) == len(tables) == 16
    for (name, us), table in zip(theirs.items(), tables, strict=True):
        mine = ours_us(site, host, table)
        tell("", f"{name}: ours / theirs ({us:.3g} us)", mine / us, "x")
        apart[name] = mine / us - 1
    assert {name: off for name, off in apart.items() if abs(off) > WITHIN} == {}
