"""`soak` of a `[[phase]]`: one load for hours, in rows; how far it may drift, and what stops it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.config.toml import Table
from kit.core.units import DurationNs, SizeBytes

Drift = Annotated[float, Field(gt=0, le=10)]


class Soak(Table):
    """`row`: the time that a row of the result has. Every row is held against the first.

    `p50_drift_max`, `p99_drift_max`: the largest change of a tier's percentile, of 1; None: not judged.
    The load stops when a device got more than `written_max` bytes in the phase, or more than the part
    `endurance_max` (of 1) of its rated `endurance`, or is hotter than `temperature_max` (degrees Celsius).
    """

    row: Annotated[DurationNs, Field(gt=0)] = 3_600_000_000_000
    p50_drift_max: Drift | None = 0.1
    p99_drift_max: Drift | None = None
    written_max: Annotated[SizeBytes, Field(gt=0)] | None = None
    endurance_max: Annotated[float, Field(gt=0, le=1)] | None = None
    temperature_max: Annotated[float, Field(gt=0, le=150)] | None = None

    @property
    def limits(self) -> list[str]:
        """The keys of what stops the load."""
        keys = ("written_max", "endurance_max", "temperature_max")
        return [key for key in keys if getattr(self, key) is not None]
