"""kit.zfs.properties: which properties and values each version of OpenZFS has."""

from __future__ import annotations

from typing import Any

import pytest

from kit.config.toml import Setting
from kit.zfs import properties
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.properties import Kind, record_problem, why_refused

OLD, NEW = ZfsVersion(2, 1, 11, "2.1.11-1"), ZfsVersion(2, 4, 0, "2.4.0-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recordsize", 512), ("recordsize", "128KiB"), ("recordsize", "16MiB"), ("atime", True),
        ("compression", "gzip-9"), ("compression", "zstd-19"), ("compression", "zstd-fast-1000"),
        ("compression", False), ("copies", 3), ("copies", "2"), ("quota", "10G"), ("quota", "10GiB"),
        ("quota", "none"), ("quota", 1 << 30), ("dnodesize", "16k"), ("dedup", "sha256,verify"),
        ("redundant_metadata", "some"), ("special_small_blocks", "32K"), ("special_small_blocks", 0),
        ("com.example:x", "anything"),
    ],
)  # fmt: skip
def test_what_every_version_has_is_accepted(name: str, value: Any) -> None:
    assert [why_refused("dataset", name, value, version) for version in (None, OLD, NEW)] == ["", "", ""]


@pytest.mark.parametrize(
    ("kind", "name", "value", "since"),
    [
        ("dataset", "direct", "always", "2.3"),
        ("dataset", "prefetch", "none", "2.2"),
        ("dataset", "checksum", "blake3", "2.2"),
        ("dataset", "dedup", "blake3,verify", "2.2"),
        ("pool", "dedup_table_quota", "auto", "2.3"),
        ("pool", "feature@fast_dedup", "enabled", "2.3"),
        ("pool", "feature@physical_rewrite", "disabled", "2.4"),
    ],
)
def test_what_a_server_is_too_old_for_is_refused_once_it_is_known(
    kind: Kind, name: str, value: str, since: str
) -> None:
    assert why_refused(kind, name, value) == why_refused(kind, name, value, NEW) == ""
    reason = why_refused(kind, name, value, OLD)
    assert "OpenZFS 2.1.11-1 of the server does not have" in reason and f"it came with {since}" in reason


@pytest.mark.parametrize(
    ("kind", "name", "value", "reason"),
    [
        ("dataset", "recordsize", 256, "out of range, expected a power of two from 512B to 16MiB"),
        ("dataset", "recordsize", "32MiB", "out of range"),
        ("dataset", "recordsize", True, "expected a power of two"),
        ("dataset", "compression", "zstd-fast-11", "did you mean 'zstd-fast-10'?"),
        ("dataset", "compression", "gzip-10", "did you mean 'gzip-9'?"),
        ("dataset", "compression", "snappy", "expected on, off, lz4"),
        ("dataset", "copies", 4, "expected 1, 2 or 3"),
        ("dataset", "quota", "ten", 'expected none or a size such as "1MiB"'),
        ("dataset", "quota", "10Q", "unknown unit 'Q'"),
        ("dataset", "quota", True, "expected none or a size"),
        ("dataset", "special_small_blocks", "1GiB", "up to 16MiB"),
        ("dataset", "logbias", "troughput", "did you mean 'throughput'?"),
        ("dataset", "ashift", 9, "write it into pool.properties"),
        ("dataset", "feature@lz4_compress", "enabled", "write it into pool.properties"),
        ("dataset", "snapdir", "hidden", "remove it, or use one of: aclinherit"),
        ("pool", "ashift", 8, "expected 0 or a number from 9 to 16"),
        ("pool", "ashift", "4KiB", "expected 0 or a number"),
        ("pool", "autotrim", "yes", "expected on or off"),
        ("pool", "comment", "x" * 33, "at most 32"),
        ("pool", "feature@lz4_compress", "on", "enabled and disabled"),
    ],
)
def test_what_no_version_takes_is_refused(kind: Kind, name: str, value: Any, reason: str) -> None:
    assert reason in why_refused(kind, name, value)


def test_large_records_need_a_tunable_before_2_2() -> None:
    assert record_problem(1 << 20, OLD, None) == record_problem(16 << 20, NEW, None) == ""
    assert "2MiB is above 1MiB, the most of OpenZFS 2.1 of the server" in record_problem(2 << 20, OLD, None)
    assert record_problem(2 << 20, OLD, 4 << 20) == ""
    assert "is above 512KiB" in record_problem(1 << 20, NEW, 512 << 10)


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("special_small_blocks", "64KiB", "65536"), ("special_small_blocks", 4096, "4096"),
        ("special_small_blocks", "8K", "8192"), ("quota", "1GB", "1000000000"), ("quota", "none", "0"),
        ("quota", "1GiB", "1073741824"), ("refreservation", "auto", "auto"), ("recordsize", "4KiB", "4096"),
        ("atime", False, "off"), ("compression", "lz4", "lz4"), ("org.own:label", "1GB", "1GB"),
    ],
)  # fmt: skip
def test_sizes_are_set_in_bytes_as_zfs_prints_them(name: str, value: Setting, printed: str) -> None:
    """OpenZFS takes 1GB for 1GiB; and what was set is compared with `zfs get -p`."""
    assert properties.exact(name, value) == printed


@pytest.mark.parametrize(
    ("value", "old"), [("48KiB", False), (12345, False), (256, False), (0, True), ("4KiB", True)]
)
def test_small_blocks_of_any_size_came_with_2_4(value: Setting, old: bool) -> None:
    """Before the devices are aged: `zfs set` would refuse it after that."""
    assert not why_refused("dataset", "special_small_blocks", value, ZfsVersion(2, 4))
    refused = why_refused("dataset", "special_small_blocks", value, ZfsVersion(2, 3))
    assert old != ("no power of two from 512 on: it came with 2.4" in refused), refused
