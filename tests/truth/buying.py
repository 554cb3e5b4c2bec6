"""hsp sheet: what it says of drives near a limit."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
