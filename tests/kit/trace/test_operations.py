"""Operations of NFS by their number, in @seen and in the counts of nfsd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.labels import NFS_METADATA
from kit.trace.operations import nfsd_operations, operation
from kit.trace.output import class_of, new_trace
from kit.trace.tier import Vdevs, tier_of

# Linux 6.12.
V3 = "proc3 22 1 20 3 40 5 6 70 80 9 10 11 12 13 14 15 16 17 18 19 20 21 220\n"
V4 = "proc4ops 76 0 0 0 3 4 5 6 7 8 9 " + " ".join(map(str, range(10, 76))) + "\n"
VDEVS = Vdevs(frozenset({2}), frozenset({1}))
PHASE = 1 << 11


def test_each_count_of_nfsd_has_its_operation_and_data_have_none() -> None:
    found = nfsd_operations("rc 0 0 0\nio 5 6\n" + V3)
    assert (found["null"], found["getattr"], found["create"], found["pathconf"]) == (1, 20, 9, 21)
    assert sum(found.values()) == sum(map(int, V3.split()[2:])) - 70 - 80 - 220
    found = nfsd_operations(V4)
    assert (found["access"], found["open"], found["readdir"], found["sequence"]) == (3, 18, 26, 53)
    assert sum(found.values()) == sum(range(3, 76)) - 5 - 25 - 38 - 68
    assert set(found) == set(NFS_METADATA)


def test_numbers_without_an_operation_are_refused() -> None:
    for code in (0, 7, 8, 22, 23, 128, 130, 128 + 5, 128 + 25, 128 + 38, 128 + 68, 256, 1023):
        with pytest.raises(ValueError, match="no operation"):
            operation(code)


@given(st.text())
def test_other_text_of_nfsd_raises_value_errors_alone(text: str) -> None:
    for line in (text, f"proc3 {text}", f"proc4ops 76 {text}"):
        try:
            assert set(nfsd_operations(line)) == set(NFS_METADATA)
        except ValueError:
            pass


def test_a_class_of_a_run_has_its_operation_and_one_of_an_observed_server_its_file_system() -> None:
    seen = 2 << 32 | 9 << 22 | PHASE | 64 | 128
    assert class_of(new_trace(), seen) == ("create", 64 | 128, 2)
    assert class_of(new_trace(observed=True), seen)[0] == "read"
    for wrong in (seen | 512, 9 << 22 | 1 << 56, 7 << 22, 300 << 22):
        with pytest.raises(ValueError, match=r"invalid class|no operation"):
            class_of(new_trace(), wrong)


@pytest.mark.parametrize(
    ("op", "seen", "vdev", "tier"),
    [
        ("create", 64 | 128, 2, "slog"),
        ("create", 64 | 128, 0, "pool"),
        ("open", 64 | 128, 1, "special"),
        ("remove", 64, 0, "shared"),
        # It read the directory first.
        ("remove", 64 | 128 | 16, 2, "indirect"),
        ("readdirplus", 0, 0, "dram"),
        ("readdir", 4, 0, "shared"),
        ("readdir", 16 | 4, 0, "disk"),
        ("readdir", 16, 1 << 12, "special"),
        ("getattr", 32, 0, "l2arc"),
        # Of several blocks the slowest.
        ("lookup", 16 | 32, 0, "disk"),
        ("readdir", 1 | 16, 1 << 12, "disk"),
    ],
)
def test_the_tier_is_where_dnodes_and_directories_were_or_where_the_log_is(
    op: str, seen: int, vdev: int, tier: str
) -> None:
    assert tier_of(op, seen, vdev, VDEVS) == tier


def test_without_a_log_a_change_is_answered_from_memory() -> None:
    assert tier_of("create", 64, 0, Vdevs(None)) == "dram"
