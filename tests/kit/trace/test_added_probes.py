"""The trace programs that are more than that of a run: which probes, maps and lines each has."""

from __future__ import annotations

import re

import pytest

from kit.trace import local as local_calls
from kit.trace import split, support
from tests.kit.trace.test_support import NEW, OBSERVE, SPLIT, WHOLE, ZFS, code


@pytest.mark.parametrize("version", ZFS)
def test_only_begins_and_ends_differ_between_requests_of_nfsd_and_calls_of_programs(version: str) -> None:
    nfsd, local = (support.program(ZFS[version], local=local) for local in (False, True))
    calls = {"zpl_iter_read", "zpl_iter_write", "zpl_fsync"}
    beside = {"zfs_getpage", "zfs_putpage", "zfs_read", "zfs_write"}
    assert set(local.functions) - set(nfsd.functions) == calls | beside
    assert set(nfsd.functions) - set(local.functions) == {"nfsd_commit"}
    assert nfsd.tracepoints and not local.tracepoints
    text = code(local.text)
    assert not re.search(r"\b(NFSD|LOCAL|INCLUDE|OBSERVE|RUN)\b", text + code(nfsd.text))
    assert set(re.findall(r"@\w+", text)) == set(re.findall(r"(?<=clear\()@\w+", text))
    keys = {int(key) for key in re.findall(r"\(uint64\)(4\d{3})\b", text)}
    assert keys == {4000, 4003, *local_calls.KEYS}


def test_only_a_split_program_has_the_probes_of_the_split() -> None:
    probes = {
        "zil_lwb_write_done",
        "zil_lwb_flush_vdevs_done",
        "vdev_disk_io_start",
        "zio_interrupt",
        "zfs_read",
    }
    assert probes <= set(SPLIT.functions) and not probes & set(WHOLE.functions)
    assert set(WHOLE.functions) <= set(SPLIT.functions) and WHOLE.tracepoints == SPLIT.tracepoints
    # It is the ordinary program with lines added: nothing of it changes, and no line of SPLIT is left.
    lines = iter(SPLIT.text.splitlines())
    assert all(line in lines for line in WHOLE.text.splitlines())
    assert "SPLIT" not in code(WHOLE.text + SPLIT.text)


def test_each_part_has_a_key_of_counts_and_each_map_is_cleared() -> None:
    text = code(SPLIT.text)
    assert {int(key) for key in re.findall(r"@counts\[\$seen, \(uint64\)(4\d+)\]", text)} == {
        *split.PARTS, split.UNJOINED, 4000, 4002,
    }  # fmt: skip
    maps = set(re.findall(r"@\w+", text))
    assert maps == set(re.findall(r"(?<=clear\()@\w+", text))


def test_metadata_add_probes_and_lines_and_clear_no_map_less() -> None:
    usual, metadata = (support.program(NEW, metadata=each) for each in (False, True))
    assert set(metadata.functions) - set(usual.functions) == {"nfsd4_encode_operation"}
    probes = {"nfsd/nfsd_compound", "nfsd/nfsd_compound_status"}
    assert set(metadata.tracepoints) - set(usual.tracepoints) == probes
    assert "nfsd_dispatch [nfsd]" in metadata.traceable
    lines = iter(metadata.text.splitlines())
    assert all(line in lines for line in usual.text.splitlines())
    assert "METADATA" not in code(usual.text + metadata.text)
    text = code(metadata.text)
    assert set(re.findall(r"@\w+", text)) == set(re.findall(r"(?<=clear\()@\w+", text))
    # Only changes need the probes of the log, but each such phase has some.
    assert "zil_commit" in support.program(NEW, writes=False, metadata=True).functions


def test_an_observation_has_no_probe_that_only_a_read_or_write_would_pay_for() -> None:
    text = code(OBSERVE.text)
    assert not {"nfsd3_proc_read", "nfsd3_proc_write"} & set(OBSERVE.functions)
    assert "nfsd3_proc_getattr" in OBSERVE.functions and "nfsd_dispatch" not in text
    # Its own count of NFSv4 is what those of NFSv3 are told apart by.
    assert {"nfsd4_read", "nfsd4_write"} <= set(OBSERVE.functions) and "(uint64)4050" in text
    assert len(re.findall(r"@highest\[", text)) == text.count("if ($ns >> 20) { @highest[") > 0
    assert set(re.findall(r"@\w+", text)) == set(re.findall(r"(?<=clear\()@\w+", text))
