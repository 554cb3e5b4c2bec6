"""An L2ARC from its first block on, and after an import of its pool: with its content, and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from kit.store.summary import Summary
from reports.features.cache_life.judge import sentences
from tests.lab.conftest import ROOT, Finished, finish, hsp

PROTECTS = ("kit/setup", "kit/plan", "kit/run", "kit/instruments", "reports/features/cache_life")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

# One phase: cold, warm, and the pool exported and imported. Large records are fed soon.
WORKLOAD = """\
format = 1
name = "life"
title = "life"
base = "l2arc-life"
precondition = "none"
dataset.properties.recordsize = "128KiB"
job.bs = "128k"
[[phase]]
name = "cold"
duration = "13s"
[[event]]
at = "9s"
what = "export-import"
"""


def life_of(folder: Path, *options: str, text: str = WORKLOAD) -> tuple[Finished, dict[str, Any]]:
    path = folder / "life.toml"
    path.write_text(text)
    done = finish(hsp("run", str(path), "--json", *options, results=folder), folder, "life")
    assert done.code == 0 and done.summary["verdict"] == "valid", (done.summary["reasons"], done.stderr)
    [life] = done.summary["caches"]
    print(life)
    return done, life


def test_it_is_cold_gets_warm_and_is_warm_after_an_import(image: Image, tmp_path: Path) -> None:
    done, life = life_of(tmp_path)
    first, *_, last = [each for each in life["points"] if each["at_s"] < 8]
    # Metadata are in the ARC from the begin on; of the data nothing is.
    assert first["shares"].get("l2arc", 0) == 0 and first["shares"]["disk"] > 0.8
    assert last["shares"]["l2arc"] > 0.05 and last["l2arc_bytes"] > 10 * first["l2arc_bytes"]
    [phase] = done.manifest["phases"]
    # What it held at most, it was fed; and what it answered left the ARC before.
    assert phase["caches"][-1]["fed_bytes"] >= max(each["l2arc_bytes"] for each in phase["caches"])
    assert 0 < life["captured"] <= 1
    [imported] = life["imports"]
    # In the lab's time: it is read in while the pool is imported, or soon after.
    assert 0 < imported["rebuilt_s"] < imported["end_s"] - imported["begin_s"] + 2
    assert imported["share_after"] >= imported["share_before"] - 0.05 and not imported["failures"]
    text = [*sentences(Summary.from_json(done.summary, "summary.json"))]
    assert any("comes back warm" in each for each in text), text
    # No client saw an error, and nothing is left without its threads or its pool.
    assert phase["schedule"]["client_errors"] == 0


def test_without_a_rebuild_it_comes_back_cold(image: Image, tmp_path: Path) -> None:
    done, life = life_of(tmp_path, "--set", "tunables.l2arc_rebuild_enabled=0")
    [imported] = life["imports"]
    assert imported["rebuilt_s"] is None
    assert imported["share_after"] < 0.25 * imported["share_before"]
    text = [*sentences(Summary.from_json(done.summary, "summary.json"))]
    assert any("comes back cold" in each and "nothing was rebuilt" in each for each in text), text


# The job is in a file of its own, as a workload of a user's has it.
GATED = """\
format = 1
name = "life"
title = "life"
base = "l2arc-life"
precondition = "none"
event = []
dataset.properties.recordsize = "128KiB"
job.bs = "128k"
[warmup]
job = "l2arc-life-read.fio"
read_first = "auto"
duration = "10s"
l2arc_min = "24MiB"
feed_max = "2MiB"
windows = 2
window = "1s"
deadline = "60s"
[[phase]]
name = "warm"
title = "warm"
job = "l2arc-life-read.fio"
tiers = ["dram", "l2arc", "disk"]
duration = "4s"
interval = "500ms"
[[phase]]
name = "cold"
duration = "24s"
"""


@pytest.mark.long
def test_the_end_of_the_curve_is_what_a_warm_up_with_a_gate_gives(image: Image, tmp_path: Path) -> None:
    (tmp_path / "l2arc-life-read.fio").write_bytes((ROOT / "workloads" / "l2arc-life-read.fio").read_bytes())
    done, life = life_of(tmp_path, text=GATED)
    points = life["points"][-(len(life["points"]) // 5) :]
    ios = sum(each["ios"] for each in points)
    rows = [row for row in done.summary["rows"] if row["phase"] == "warm" and row["layer"] == "nfs-server"]
    warm = {row["tier"]: row["count"] for row in rows}
    assert life["settled"]
    for tier in ("dram", "l2arc", "disk"):
        last = sum(each["shares"].get(tier, 0) * each["ios"] for each in points) / ios
        # What the L2ARC holds goes up and down by a quarter while the feed makes room for itself.
        assert abs(warm[tier] / sum(warm.values()) - last) <= 0.05, (tier, warm, last)
