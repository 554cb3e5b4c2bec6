"""What is said within a run: soak, impact, faults, addresses, arrays."""

from __future__ import annotations

from tests.truth.trials import Trial

TRIALS: list[Trial] = []
