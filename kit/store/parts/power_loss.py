"""Power losses in summary.json: what was acknowledged before them, and what was not there afterwards."""

from __future__ import annotations

from kit.store.stored import Count, Share, Stored


class Bound(Stored):
    """Which share of power losses lose data, with 95 % confidence; `of`: so many count."""

    of: Count
    low: Share
    high: Share


class Control(Stored):
    """Writes that a power loss must lose, or the test has no teeth."""

    kind: str | None = None
    acknowledged: Count
    looked_at: Count
    lost: Count


class PowerLossResult(Stored):
    """`lost`: records of acknowledged writes, in `moments_with_loss` of `moments` power losses.

    `looked_at`: records that no later one had replaced: of the others nothing is known. `after_ns`,
    `written_bytes`: at most, from the first write to a power loss. `devices`: that lost their power.
    `classes`: by kind.
    """

    moments: Count
    acknowledged: Count
    lost: Count
    moments_with_loss: Count
    bound: Bound | None = None
    looked_at: Count
    after_ns: Count
    written_bytes: Count
    devices: Count
    scope: str
    classes: dict[str, Count]
    proven: Count
    in_flight_torn: Count
    verified_again: Count
    control: Control
