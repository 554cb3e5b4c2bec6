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
    looked_at: Count | None = None
    lost: Count


class PowerLossResult(Stored):
    """`lost`: records of acknowledged writes, in `moments_with_loss` of `moments` power losses.

    `looked_at`: records that no later one had replaced: of the others nothing is known. `after_ns`,
    `written_bytes`: at most, from the first write to a power loss. `devices`: that lost their power.
    `classes`: by kind. From `scope` on: what older runs lack.
    """

    moments: Count
    acknowledged: Count
    lost: Count
    moments_with_loss: Count
    bound: Bound | None = None
    looked_at: Count | None = None
    after_ns: Count | None = None
    written_bytes: Count | None = None
    devices: Count | None = None
    scope: str | None = None
    classes: dict[str, Count] | None = None
    proven: Count | None = None
    in_flight_torn: Count | None = None
    verified_again: Count | None = None
    control: Control | None = None
