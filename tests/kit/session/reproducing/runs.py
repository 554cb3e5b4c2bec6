"""A stored run of the main job with the latencies that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.core.bins import bin_edges, bin_index
from kit.session.reproducing.claims import claims
from kit.store.run_directory import RunDir
from tests.reports import synthetic

SECONDS, A_SECOND = 12, 100


def claimed_us() -> dict[str, float]:
    """The claimed p50 of each tier."""
    return {each.tier: each.p50_us for claim in claims() for each in claim.tiers}


def write(folder: Path, times: Mapping[str, float] | None = None, **manifest: Any) -> RunDir:
    """`times`: by tier, how many times the claimed p50 its I/Os take. `manifest`: other keys of it."""
    rows: list[synthetic.Row] = []
    starts = {name: index * 100 * synthetic.SECOND for index, (name, _) in enumerate(synthetic.PHASES)}
    for phase, op, tier, _ in synthetic.LOAD:
        place = bin_index(int(claimed_us()[tier] * (times or {}).get(tier, 1) * 1e3))
        low, high = (int(edge) for edge in bin_edges(place))
        for second in range(SECONDS):
            at = starts[phase] + second * synthetic.SECOND
            rows.append((at, phase, "nfs-server", "lab", op, tier, low, high, A_SECOND))
            ends = low + 20480, high + 20480
            rows.append((at, phase, "client", "lab/client0", op, "all", *ends, A_SECOND))
    frame = synthetic.table(rows)
    return synthetic.write(folder, synthetic.manifest(frame, SECONDS) | manifest, frame)
