"""Whether writes that were acknowledged were there after a power loss (manifest["power_loss"])."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def judge(manifest: Json) -> tuple[Json | None, list[str], str]:
    """What the summary tells, why the promise was not kept (nothing if it was), and words for when it was.

    Raises KeyError, TypeError or ValueError for entries that are damaged.
    """
    found = manifest.get("power_loss")
    if found is None:
        return None, [], ""
    moments = found["moments"]
    acknowledged = sum(int(moment["acknowledged"]) for moment in moments)
    lost = sum(int(moment["lost"]) for moment in moments)
    bad = [index for index, moment in enumerate(moments) if moment["lost"]]
    told = {
        "moments": len(moments),
        "acknowledged": acknowledged,
        "lost": lost,
        "moments_with_loss": len(bad),
    }
    if not moments or not acknowledged:
        raise ValueError("no write was acknowledged before a power loss")
    if not lost:
        return told, [], f"All {acknowledged} acknowledged writes survived {len(moments)} power losses."
    first = moments[bad[0]]["first_lost"]
    return (
        told,
        [
            f"{lost} of {acknowledged} acknowledged O_DSYNC writes were gone after the pool was imported, in "
            f"{len(bad)} of {len(moments)} power losses (the first: write {first} of power loss "
            f"{bad[0] + 1}). A device acknowledged what it did not keep."
        ],
        "",
    )
