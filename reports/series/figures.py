"""The figures of a cell in one run, by what they are of. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kit.store.series import CellRun
from kit.store.tables import CLIENT, ISSUERS
from reports.statistics.ratios import Realisation

# layer, op, tier, and "p50", "p99" or "ios_per_s".
Key = tuple[str, str, str, str]


def figures_of(run: CellRun) -> Mapping[Key, Realisation]:
    """All figures of a cell in one run."""
    figures: dict[Key, Realisation] = {}
    for row in run.rows:
        key = row.layer, row.op, row.tier
        for name, value, known in (
            ("p50", row.p50_us, row.p50_range_us),
            ("p99", row.p99_us, row.p99_range_us),
        ):
            if value:
                figures[(*key, name)] = Realisation.of(value, known)
    layer, op = next(((row.layer, row.op) for row in run.rows if row.layer in ISSUERS), (CLIENT, ""))
    if run.ios_per_s:
        figures[layer, op, "all", "ios_per_s"] = Realisation.of(run.ios_per_s, run.ios_per_s_range)
    return figures
