"""Whether writes that were acknowledged were there after a power loss (`power_loss` of the manifest)."""

from __future__ import annotations

from typing import Any

from kit.core.errors import MeasurementUnknown
from kit.store.manifest import PowerLoss
from kit.store.summary import Reason

Json = dict[str, Any]


def judge(power_loss: PowerLoss | None) -> tuple[Json | None, list[Reason], str]:
    """What the summary tells, why the promise was not kept (nothing if it was), and words for when it was.

    Raises MeasurementUnknown if no write was acknowledged.
    """
    if power_loss is None:
        return None, [], ""
    moments = power_loss.moments
    acknowledged = sum(moment.acknowledged for moment in moments)
    lost = sum(moment.lost for moment in moments)
    bad = [index for index, moment in enumerate(moments) if moment.lost]
    told = {
        "moments": len(moments),
        "acknowledged": acknowledged,
        "lost": lost,
        "moments_with_loss": len(bad),
    }
    if not moments or not acknowledged:
        raise MeasurementUnknown("no write was acknowledged before a power loss")
    if not lost:
        return told, [], f"All {acknowledged} acknowledged writes survived {len(moments)} power losses."
    first = moments[bad[0]].first_lost
    text = (
        f"{lost} of {acknowledged} acknowledged O_DSYNC writes were gone after the pool was imported, in "
        f"{len(bad)} of {len(moments)} power losses (the first: write {first} of power loss "
        f"{bad[0] + 1}). A device acknowledged what it did not keep."
    )
    return (
        told,
        [Reason(id="POWER-LOSS", text=text, makes="invalid")],
        "",
    )
