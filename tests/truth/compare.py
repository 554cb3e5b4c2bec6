"""hsp compare, of runs and of series, ratios to a base and the drift of a base."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
