"""Phases on md arrays: to the byte at each level, with a member that fails, and killed in the middle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import EXIT_HOST
from kit.devices.check import check
from kit.lab.guest import open_host
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Bed, Rig
from tests.lab.test_faults import start_run, wait_for
from tests.lab.test_real_testbed import bed_specs

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]
# A serial line that the run does not use.
_LINE = 1

HEAD = """\
format = 1
name = "arrays"
title = "Arrays"
precondition = "none"
"""
PHASE = """
[[phase]]
name = "{name}"
title = "{name}"
target = "array"
array = {{ {array} }}
job = "stripe.fio"
options = {{ bs = "{bs}" }}
duration = "{duration}"
interval = "20ms"
"""
ALONE = PHASE.replace('"array"\narray = {{ {array} }}', '"device:data"') + "in_order = true\n"
JOB = """\
[stripe]
filename=${HSP_DEVICE}
size=${HSP_SIZE}
rw=randwrite
bs=64k
direct=1
norandommap
time_based
runtime=${HSP_RUNTIME}
"""
SSD = '\n[[device]]\nname = "ssd{}"\nrole = "data"\nsize = "64MiB"\npreset = "ssd-2009-write"\n'


def write(folder: Path, *phases: str) -> tuple[str, ...]:
    """A workload and three SSDs in the lab; the words of its run."""
    (folder / "arrays.toml").write_text(HEAD + "".join(phases))
    (folder / "stripe.fio").write_text(JOB)
    (folder / "ssds.toml").write_text(
        LAB_TESTBED.read_text().split("[[device]]")[0] + "".join(map(SSD.format, range(3)))
    )
    return os.fspath(folder / "arrays.toml"), "--testbed", os.fspath(folder / "ssds.toml"), "--json"


def phase(level: str, bs: str, chunk: str = "64KiB", duration: str = "100ms") -> str:
    layout = f'level = "{level}"' + ("" if level == "raid1" else f', chunk = "{chunk}"')
    return PHASE.format(name=level, array=layout, bs=bs, duration=duration)


@pytest.fixture(scope="module")
def done(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("arrays")
    alone = ALONE.format(name="alone", bs="64k", duration="100ms")
    stripes = phase("raid0", "192k", duration="200ms") + "in_order = true\n"
    levels = phase("raid1", "64k"), phase("raid5", "128k"), phase("raid10", "64k")
    words = write(folder, alone, stripes, *levels)
    return finish(hsp("run", *words, results=folder), folder, "arrays")


def test_each_level_closes_to_the_byte(done: Finished) -> None:
    assert (done.code, done.summary["verdict"]) == (0, "valid"), (done.summary["reasons"], done.stderr)
    phases = {each["name"]: each for each in done.manifest["phases"]}
    members = ["ssd0", "ssd1", "ssd2"]
    for level, copies in (("raid0", 1), ("raid1", 3), ("raid10", 2)):
        of = phases[level]
        chunk = 512 << 10 if level == "raid1" else 64 << 10
        assert of["array"] == {"level": level, "chunk_bytes": chunk, "members": members}
        assert [row["host"] for row in of["clients"]] == ["array"]
        issued = of["client_ios"] * of["block_bytes"]
        found = {check["name"]: check["found"] for check in of["checks"] if check["name"].startswith("bytes")}
        assert found["bytes written to array"] == issued > 0
        assert found[f"bytes written to the members of the {level}"] == copies * issued
        # The models' counters, each beside the kernel's.
        assert sum(found[f"bytes written to {name}"] for name in members) == copies * issued
        assert not any(each for name, each in found.items() if name.startswith("bytes read"))
    unchecked = [each["name"] for each in phases["raid5"]["unavailable"]]
    assert "bytes written to the members of the raid5" in unchecked


def test_it_leaves_no_array(done: Finished) -> None:
    assert read_journal(done.run.resolve() / "journal.jsonl").finished
    assert "not-undone" not in [problem["code"] for problem in done.manifest["problems"]]
    journal = (done.run / "journal.jsonl").read_text()
    # Each right after its phase.
    order = [journal.index(text) for text in ('"phase raid0"', '"undone": ', '"phase raid1"')]
    assert order == sorted(order)


def test_stripes_are_beside_what_their_drives_do_alone(done: Finished) -> None:
    (alone,) = [each for each in done.manifest["phases"] if each["name"] == "alone-ssd0"]
    assert len(alone["in_order_ns"]) == alone["client_ios"] > 100
    assert any(note.startswith("Stripes of 3 drives, one on its way: ") for note in done.summary["notes"])
    report = (done.run / "report.html").read_text()
    assert "Stripes by number of drives" in report and "raid0: how busy each drive is" in report


def test_a_member_that_fails_ends_the_run_and_everything_is_undone(image: Image, tmp_path: Path) -> None:
    """Of the mirror, which goes on without it: what was measured is partly another array."""
    words = write(tmp_path, phase("raid1", "64k", duration="2s"), phase("raid10", "64k"))
    process, state = start_run(*words, results=tmp_path)
    journal = tmp_path / "arrays" / "latest" / "journal.jsonl"
    wait_for(lambda: journal.exists() and '"phase raid1"' in journal.read_text(), 200, "the phase")
    with open_host(state, _LINE) as guest:
        under_load = 'until pgrep -x fio; do sleep 0.1; done; sleep 1; shift; exec "$@"'
        tell = ["/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket", "ssd1", "fail"]
        guest.run(["sh", "-c", under_load, "sh", "-", *tell], deadline_s=200)
    done = finish(process, tmp_path, "arrays")
    assert done.summary["verdict"] == "unknown" and done.code == 3, done.stderr
    (measured,) = done.manifest["phases"]
    assert any("the array lost /dev/ublkb1 during the load" in each["text"] for each in measured["problems"])
    problems = done.manifest["problems"]
    assert any("stopped after phase raid1" in each["text"] for each in problems), problems
    assert "not-undone" not in [each["code"] for each in problems]
    assert measured["client_ios"] > 0, "what was measured until then is kept"
    assert read_journal(done.run.resolve() / "journal.jsonl").finished


# --- On a host as any other, whose devices are real to the kit ---


def test_killed_in_the_middle_clean_leaves_no_array_and_no_superblock(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"data": ("vd0", "vd1", "vd2")})
    write(tmp_path, phase("raid5", "128k", duration="300ms"))
    before = state_of(rig.host)
    words = bed.run_words(tmp_path / "arrays.toml")
    bed.hsp(*words, *bed.results, strike=("kill", "done:make array raid5"))
    assert "raid5" in rig.host.run(["cat", "/proc/mdstat"]).stdout
    (run,) = [path for path in (tmp_path / "arrays").iterdir() if not path.is_symlink()]
    cleaned = bed.hsp("clean", os.fspath(run))
    assert cleaned.returncode == 0, cleaned.stderr
    assert "raid5" not in rig.host.run(["cat", "/proc/mdstat"]).stdout.partition("\n")[2]
    for name in ("vd0", "vd1", "vd2"):
        found = rig.host.run(["mdadm", "--examine", rig.by_id[name]], check=False)
        assert "No md superblock detected" in found.stderr, (name, found)
    assert [each for each in differences(before, state_of(rig.host)) if "module" not in each] == []
    assert [each.reasons for each in check(rig.host, bed_specs(rig, "vd0", "vd1", "vd2"))] == [()] * 3
    again = bed.hsp(*words, *bed.results, "--json")
    assert again.returncode == 0, again.stderr


def test_without_mdadm_the_run_ends_before_it_writes(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, {"data": ("vd0", "vd1")})
    write(tmp_path, phase("raid0", "128k"))
    rig.host.run(["mv", "/usr/sbin/mdadm", "/usr/sbin/mdadm.away"])
    try:
        done = bed.hsp(*bed.run_words(tmp_path / "arrays.toml"), *bed.results)
    finally:
        rig.host.run(["mv", "/usr/sbin/mdadm.away", "/usr/sbin/mdadm"])
    assert done.returncode == EXIT_HOST, done.stderr
    assert "mdadm does not run on" in done.stderr and "install the package mdadm there" in done.stderr
