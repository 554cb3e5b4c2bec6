"""kit.plan.notes: loads that draw the same random blocks, and loads of a part of the working set."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.config.fio_job import read_job
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.plan import notes
from kit.plan.plan import make_plan

WORKLOAD = """
format = 1
name = "mine"
title = "Mine"
base = "top-speeds"
{warmup}
{job}
[[phase]]
name = "read-1"
base = "read"
job = "read.fio"
[[phase]]
name = "read-2"
base = "read"
job = "read.fio"
{more}
"""
READ = (WORKLOADS / "top-speeds-read.fio").read_text()


def noted(
    folder: Path, read: str, *, warmup: str = "", job: str = "", more: str = "", clients: int = 1
) -> list[str]:
    file = folder / "mine.toml"
    shutil.copy(WORKLOADS / "top-speeds-warm-up.fio", folder)
    (folder / "read.fio").write_text(read)
    file.write_text(WORKLOAD.format(warmup=warmup, job=job, more=more))
    workload = read_workload(file)
    plan = make_plan(workload, read_testbed(LAB_TESTBED), file, LAB_TESTBED)
    found = notes.of(plan.workload, plan.jobs, clients)
    assert clients > 1 or found == plan.notes
    return found


def seed(text: str) -> str:
    return READ.replace("randseed=${HSP_SEED}\n", text)


@pytest.mark.parametrize(
    "text", ["", "randseed=${HSP_SEED}\n", "randseed=${HSP_SEED}\nnumjobs=4\n", "numjobs=4\n"]
)
@pytest.mark.parametrize("repeat", ["randrepeat=1", "randrepeat=0"])
def test_the_kit_s_seeds_differ(tmp_path: Path, text: str, repeat: str) -> None:
    assert noted(tmp_path, seed(text).replace("randrepeat=1", repeat), clients=3) == []


def test_a_number_as_seed_is_shared_by_phases(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, seed("randseed=7\n"))
    assert note.startswith("read.fio:12: [read] randseed=7: read-1 and read-2 draw the same random blocks")


def test_the_warm_up_shares_it_too(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, READ, job="[job]\nrandseed = 7")
    assert "mine.toml:8: [read] randseed=7: warm-up, read-1 and read-2 draw" in note


def test_clients_share_it_too(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, seed("randseed=7\n"), clients=3)
    assert "read-1 and read-2 as well as the 3 clients draw" in note


def test_other_numbers_of_jobs_share_what_both_have(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, seed("randseed=7\n"), more="options = { numjobs = 4 }")
    assert "read-1 and read-2 draw" in note


@pytest.mark.parametrize(
    "other", ["randseed = 8", 'size = "36m"', 'random_generator = "lfsr"', 'random_distribution = "zipf:1.1"']
)
def test_other_sequences_are_no_matter(tmp_path: Path, other: str) -> None:
    found = noted(tmp_path, seed("randseed=7\n"), more=f"options = {{ {other} }}")
    assert not any("draw" in note for note in found)


def test_the_jobs_of_a_phase_share_zero(tmp_path: Path) -> None:
    found = noted(tmp_path, seed("randseed=0\nnumjobs=4\n"))
    assert any("the 4 jobs of read-1 draw the same random blocks" in note for note in found)


def test_an_older_fio_has_a_constant_with_allrandrepeat(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, READ.replace("randrepeat=1", "allrandrepeat=1"))
    assert "allrandrepeat=1 (fio before 3.35): read-1 and read-2 draw" in note


def test_a_cache_of_the_client_is_noted(tmp_path: Path) -> None:
    (note,) = noted(tmp_path, READ.replace("direct=1", "direct=0"))
    assert note.startswith("read.fio:6: [read] direct=0: the page cache of the client answers some I/Os")


def test_reads_in_order_draw_nothing(tmp_path: Path) -> None:
    assert noted(tmp_path, seed("randseed=7\n").replace("rw=randread", "rw=read")) == []


@pytest.mark.parametrize(("size", "part"), [("18m", "18 MiB"), ("25%", "18 MiB")])
def test_a_part_of_the_working_set_is_noted(tmp_path: Path, size: str, part: str) -> None:
    (note,) = noted(tmp_path, READ.replace("size=${HSP_SIZE}", f"size={size}"))
    assert note.startswith(f"read.fio:9: [read] size={size}: only the first {part} of the set (72 MiB)")
    assert noted(tmp_path, READ.replace("size=${HSP_SIZE}", "size=100%")) == []


NAS = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
POWER = '[power]\nscope = "server"\noff = ["pdu", "off"]\non = ["pdu", "on"]\n'
RESTART = '[[fault]]\nat = "9s"\nwhat = "nfsd-restart"\nfor = "1s"\nphase = "read-1"\n'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", ""),
        (RESTART, "nfsd of ssh://root@nas is stopped for 1 s (fault nfsd-restart): all its exports stall"),
        ('[host]\ntune = "latency"\n', "CPUs of ssh://root@nas and of the clients neither sleep deeply"),
        ("[host]\nnfsd_threads = 8\n", "host.nfsd_threads = 8: all exports of ssh://root@nas"),
        ("[tunables]\nzfs_recover = 1\n", "zfs_recover of ssh://root@nas: for all its pools"),
        (
            '[power_loss]\nmoments = 1\ncontrol = "no-flush"\n',
            "zil_nocacheflush and zfs_nocacheflush of ssh://root@nas: for all its pools",
        ),
        (
            "[power_loss]\nmoments = 1\n",
            "the power of ssh://root@nas is cut, and with it that of all its pools",
        ),
    ],
)
def test_what_hits_more_than_the_own_pool_is_said(tmp_path: Path, more: str, words: str) -> None:
    shutil.copy(WORKLOADS / "top-speeds-warm-up.fio", tmp_path)
    (tmp_path / "read.fio").write_text(READ)
    file, bed = tmp_path / "mine.toml", tmp_path / "bed.toml"
    file.write_text(WORKLOAD.format(warmup="", job="", more='duration = "20s"\n' + more))
    bed.write_text(NAS.read_text() + (POWER if "power_loss" in more else ""))
    workload = read_workload(file).model_copy(update={"precondition": None})
    found = list(notes.of_server(workload, read_testbed(bed)))
    assert words in " ".join(found) and bool(found) == bool(words)
    # A guest has nobody else's pools and exports.
    assert list(notes.of_server(workload, read_testbed(LAB_TESTBED))) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("zero_buffers=1", "zero_buffers=1 writes zeros"),
        ("buffer_compress_percentage=50", "buffer_compress_percentage=50 writes data that compresses"),
        ("scramble_buffers=0", "scramble_buffers=0 writes the same data again and again"),
        ("buffer_compress_percentage=0", ""),
        ("scramble_buffers=0\nrefill_buffers=1", ""),
        ("zero_buffers=0", ""),
    ],
)
@pytest.mark.parametrize("target", ["nfs", "device"])
def test_data_that_shrinks_is_said(tmp_path: Path, options: str, said: str, target: str) -> None:
    """Over NFS, and on a bare device."""
    workload = read_workload(WORKLOADS / f"{'top-speeds' if target == 'nfs' else 'drives'}.toml")
    assert workload.on_devices is (target == "device")
    path = tmp_path / "write.fio"
    path.write_text(f"[w]\nrw=randwrite\nbs=4k\nsync=dsync\n{options}\n")
    loads = [phase.load for phase in workload.phase] + [workload.warmup.job if workload.warmup else ""]
    found = [
        note for note in notes.of(workload, dict.fromkeys(loads, read_job(path)), 1) if "compresses" in note
    ]
    assert len(found) == bool(said)
    assert not said or found[0].startswith(f"write.fio:5: [w] {said}: what compresses it")
    # What is only read was written by others.
    path.write_text(path.read_text().replace("randwrite", "randread").replace("sync=dsync\n", ""))
    assert "compresses" not in " ".join(notes.of(workload, dict.fromkeys(loads, read_job(path)), 1))
