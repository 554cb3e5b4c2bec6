"""hsp trend: change points, slopes, odd runs, and the gate."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
