"""Bands and modes of latency."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
