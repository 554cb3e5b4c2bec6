"""Power losses and FLUSH: what was looked at."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
