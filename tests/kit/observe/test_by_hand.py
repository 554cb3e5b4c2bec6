"""The tracer for a server where the kit cannot be."""

from __future__ import annotations

import pytest

from kit.core.errors import ConfigError
from kit.observe.by_hand import program
from kit.trace import support
from kit.zfs.openzfs_version import ZfsVersion


@pytest.mark.parametrize(
    ("version", "like"), [("2.1.11-1", (2, 1)), ("2.2", (2, 2)), ("zfs-2.4.1-1", (2, 4))]
)
def test_it_is_that_of_a_run_with_its_usage_before_it(version: str, like: tuple[int, int]) -> None:
    first, usage, rest = program(version).partition(" */\n")
    assert first.startswith("#!/usr/bin/env bpftrace\n/*\n") and "hsp import trace.json --log-vdev" in first
    assert rest == support.program(ZfsVersion(*like)).text.partition("\n")[2] and usage


@pytest.mark.parametrize("version", ["2.0.7", "3.0", "2", "x", ""])
def test_another_version_has_none(version: str) -> None:
    with pytest.raises(ConfigError, match="--program"):
        program(version)
