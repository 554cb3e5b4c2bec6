"""The kit's own tracer output."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from tests.kit.importers.samples import KIT_DATA, imported, put


def test_our_own_trace_keeps_its_tiers() -> None:
    found = imported(KIT_DATA / "trace-read.json")
    assert {"dram", "l2arc", "disk"} <= set(found.frame["tier"])
    assert set(found.frame["layer"]) == {"nfs-server"}


def test_log_blocks_need_to_know_the_log_devices() -> None:
    path = KIT_DATA / "trace-write-slog.json"
    with pytest.raises(ConfigError) as caught:
        imported(path)
    assert "--log-vdev" in caught.value.hint
    for vdevs, tier in ((frozenset({1}), "slog"), (frozenset({-1}), "pool")):
        assert set(imported(path, log_vdevs=vdevs).frame["tier"]) == {tier}


def test_a_trace_that_was_cut_is_told_and_one_that_is_damaged_is_refused(tmp_path: Path) -> None:
    text = (KIT_DATA / "trace-read.json").read_text()
    found = imported(put(tmp_path, text[:-200], "x.txt"))
    assert any("died before its end" in w for w in found.section["warnings"])
    lines = text.splitlines(keepends=True)
    lines[3] = lines[3][:30] + "\n"
    with pytest.raises(ConfigError, match="line 4"):
        imported(put(tmp_path, "".join(lines), "x.txt"))
