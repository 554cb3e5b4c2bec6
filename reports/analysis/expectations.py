"""The expectations of a workload against the rows of a summary; latencies in microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from kit.core.sample_size import sample_needed
from kit.store.manifest import Expectation, Manifest
from kit.store.summary import Row
from reports.analysis.published_share import share_inside

Json = dict[str, Any]
# Key of a limit -> (field of the row, its quantile, how a reason calls it).
_PERCENTILES = {
    "p50_us_max": ("p50_us", 0.5, "p50"),
    "p95_us_max": ("p95_us", 0.95, "p95"),
    "p99_us_max": ("p99_us", 0.99, "p99"),
    "p999_us_max": ("p999_us", 0.999, "p99.9"),
}
LIMITS = (*_PERCENTILES, "share_min", "share_max")


def judge(manifest: Manifest, rows: Sequence[Json], latency: pl.DataFrame) -> tuple[list[Json], list[str]]:
    """Each expectation of `manifest` with `ok` and why not, and all those reasons in one list.

    Where the server was not traced it is unknown which tier answered: `ok` of an expectation on a tier
    is then None. `rows` are a summary's, made of `latency`. A limit on a percentile that is withheld, because
    the sample is too small for it, is not met.
    """
    judged = [_judged(each, rows, latency) for each in manifest.expect]
    if not manifest.traced:
        judged = [
            each if each["tier"] == "all" else {**each, "ok": None, "limits": [], "reasons": []}
            for each in judged
        ]
    return judged, [reason for each in judged for reason in each["reasons"]]


def _judged(expectation: Expectation, rows: Sequence[Json], latency: pl.DataFrame) -> Json:
    key = {"phase": expectation.phase, "op": expectation.op, "tier": expectation.tier}
    row = next(
        (r for r in rows if r["layer"] == expectation.layer and all(r[k] == key[k] for k in key)), None
    )
    count, needed, inside = (row["count"] if row else 0), expectation.min_count, expectation.inside
    reasons = []
    if count < needed:
        reasons.append(f"{count} I/Os, at least {needed} were expected.")
    elif inside and not row:
        reasons.append("no I/O that could be inside the published range.")
    least = expectation.inside_share_min if inside else None
    if inside and row and (least is None or not row["published"]):
        reasons += _outside(row)
    asked = {name: getattr(expectation, name) for name in LIMITS}
    limits = [_limit(name, limit, row) for name, limit in asked.items() if limit is not None]
    if least is not None and row and row["published"]:
        limits.append(_share_limit(least, row, latency))
    reasons += [each["reason"] for each in limits if each["reason"]]
    label = f"{key['phase']}: {key['op']}/{key['tier']}"
    return {
        **key,
        "min_count": needed,
        "count": count,
        "inside": inside,
        "limits": limits,
        "ok": not reasons,
        "reasons": [f"{label}: {reason}" for reason in reasons],
    }


def _outside(row: Json) -> Iterator[str]:
    published = row["published"]
    if not published:
        yield "there is no published range to be inside of."
    elif not published["inside"]:
        (a, b), (c, d) = row["range_us"], published["range_us"]
        yield f"95 % within {a:.4g}-{b:.4g} us, published are {c:g}-{d:g} us."


def _share_limit(limit: float, row: Json, latency: pl.DataFrame) -> Json:
    """The limit on the share of the I/Os of `row` inside the published range."""
    low, high = row["published"]["range_us"]
    found = share_inside(latency, Row.from_json(row, "row"), (low, high)) or 0.0
    words = f"{found:.2%} of the I/Os are within {low:g}-{high:g} us, at least {limit:.2%} were expected."
    met = found >= limit
    return {
        "name": "inside_share_min", "limit": limit, "found": found, "ok": met, "reason": "" if met else words,
    }  # fmt: skip


def _limit(name: str, limit: float, row: Json | None) -> Json:
    """One limit: what was found and why it is not met, "" if it is."""
    if name in _PERCENTILES:
        field, q, words = _PERCENTILES[name]
        found = row[field] if row else None
        if row is None:
            reason = f"no I/O that could have a {words} of at most {limit:g} us."
        elif found is None:
            reason = (
                f"{words} is withheld: {row['count']} I/Os, it takes {sample_needed(q)} to tell whether "
                f"it is at most {limit:g} us."
            )
        else:
            reason = (
                "" if found <= limit else f"{words} is {found:.5g} us, at most {limit:g} us were expected."
            )
        return {"name": name, "limit": limit, "found": found, "ok": not reason, "reason": reason}
    found = row["share"] if row else 0.0
    if name == "share_min":
        reason = "" if found >= limit else f"{found:.4%} of the I/Os, at least {limit:.4%} were expected."
    else:
        reason = "" if found <= limit else f"{found:.4%} of the I/Os, at most {limit:.4%} were expected."
    return {"name": name, "limit": limit, "found": found, "ok": not reason, "reason": reason}
