"""Comparison of two stored series, with what their runs differ in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError
from kit.session.comparison import ComparedRun
from kit.store.parts.comparison import ComparedSeries
from kit.store.series import Series, named_series, read_series
from reports.comparison import comparability
from reports.page import series_comparison_page
from reports.series.compare import compare_series


@dataclass(frozen=True)
class SeriesComparison:
    """`result` is for the terminal and for programs; `across`: settings that differ, key -> (A's, B's)."""

    a: Series
    b: Series
    result: ComparedSeries
    across: dict[str, tuple[Any, Any]]

    def page(self) -> str:
        """Both series as HTML: a figure for each axis that they share."""
        return series_comparison_page.render(self.result, self.a, self.b, self.across)


def series_comparison(a: Path, b: Path) -> SeriesComparison:
    """Compare the series in two directories. Raises ConfigError."""
    paths = [named_series(path) for path in (a, b)]
    first, second = (read_series(path) for path in paths)
    return SeriesComparison(first, second, compare_series(first, second), _across(paths, (first, second)))


def _across(paths: list[Path], sides: tuple[Series, Series]) -> dict[str, tuple[Any, Any]]:
    """What the first run of a build differs in that both series have; nothing where it cannot be read."""
    runs = [{build.name: build.runs[0].run for build in side.builds if build.runs} for side in sides]
    build = next((name for name in runs[0] if name in runs[1]), None)
    if build is None:
        return {}
    try:
        found = [
            (names[build], ComparedRun(str(path.parent / names[build])).settings)
            for path, names in zip(paths, runs, strict=True)
        ]
    except ConfigError:
        return {}
    free = {key.partition(".")[0] for _, settings in found for key in settings}
    return comparability.check(found[:1], found[1:], (), sorted(free))
