"""The ageing curve and its heat maps in a real browser: drawn side by side, without an error."""

import numpy as np
import pytest

from kit.core.clock import Clock
from kit.precondition.latency_curve import frame, point
from tests.browser.page import plot, violations
from tests.reports import synthetic

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
TITLES = ("log0: latency as it ages", "log0: reads, fresh and aged", "log0: sync writes, fresh and aged")


def aged():
    spread = 1 + np.random.default_rng(3).random(4000)
    points = [
        point(stage, op, 4096, number << 30, (9e4 * (1 + number) * spread).astype(np.int64), Clock())
        for number, stage in enumerate(("purge", "fill 1", "round 1"))
        for op in ("write", "read")
    ]
    return frame("log0", "log", 1 << 30, points)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_curve_and_maps_are_drawn(opened, theme):
    manifest = synthetic.manifest()
    manifest["precondition"] = {"method": "fills", "fresh": False, "devices": []}
    page = opened(manifest, aged=aged(), color_scheme=theme)
    assert violations(page) == []
    for title in TITLES:
        kinds = page.evaluate(f"{plot(title)}._fullData.map(t => t.type)")
        assert kinds == (["scatter"] * 6 if "ages" in title else ["heatmap"] * 2 + ["scatter"])
        if "ages" not in title:
            count = "t.customdata.flatMap(r => [...r]).reduce((sum, n) => sum + n)"
            maps = page.evaluate(f"{plot(title)}._fullData.slice(0, 2).map(t => [t.zmin, t.zmax, {count}])")
            fresh, old = maps
            assert fresh == old and fresh[2] == 4000 and fresh[0] < fresh[1]
        layout = f"{plot(title)}._fullLayout"
        axes = page.evaluate(f"(l => [l.yaxis, l.yaxis2].map(a => a.range))({layout})")
        assert axes[0] == axes[1]
        placed = page.evaluate(f"(l => [l.xaxis._offset + l.xaxis._length, l.xaxis2._offset])({layout})")
        assert placed[0] < placed[1]
