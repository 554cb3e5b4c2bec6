"""The expectations of a workload against the rows of a summary; latencies in microseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from kit.core.sample_size import sample_needed
from kit.store.checks.ids import id_of_expectation
from kit.store.latency import Latency
from kit.store.manifest import Expectation, Manifest
from kit.store.phase import Phase
from kit.store.summary import Reason, Row
from reports.published.share import share_inside
from reports.verdict.stalls import longest_gap_ns

Json = dict[str, Any]
# Key of a limit -> (field of the row, its quantile, how a reason calls it).
_PERCENTILES = {
    "p50_us_max": ("p50_us", 0.5, "p50"),
    "p95_us_max": ("p95_us", 0.95, "p95"),
    "p99_us_max": ("p99_us", 0.99, "p99"),
    "p999_us_max": ("p999_us", 0.999, "p99.9"),
}
_SHARES = ("share_min", "share_max")
_RATIOS = {f"{figure}_ratio_{end}": figure for figure in ("p50", "p99") for end in ("min", "max")}
LIMITS = (*_PERCENTILES, *_SHARES, "max_us_max", "stall_ms_max", *_RATIOS)


@dataclass(frozen=True)
class _Judged:
    """What an expectation is judged by: `row` and `phase` are None where the run has none."""

    expectation: Expectation
    row: Json | None
    rows: Sequence[Json]
    phase: Phase | None
    latency: Latency


def judge(manifest: Manifest, rows: Sequence[Json], latency: Latency) -> tuple[list[Json], list[Reason]]:
    """Each expectation of `manifest` with `ok` and why not, and all those reasons in one list.

    Where the server was not traced it is unknown which tier answered: `ok` of an expectation on a tier
    is then None, as of one on a phase that an appliance does not allow. `rows` are a summary's, made of
    `latency`. An expectation is met if all its limits are known
    to be: a percentile that is withheld, because the sample is too small for it, meets no limit. `ok` of a
    limit is None where the run cannot tell.
    """
    phases = {phase.name: phase for phase in manifest.phases}
    judged, unmet = [], []
    skipped = {each.phase for each in manifest.appliance.skipped} if manifest.appliance else set()
    for each in manifest.expect:
        value, reasons = _judged(each, rows, phases, latency)
        if each.phase not in skipped and (manifest.traced or each.tier == "all"):
            judged.append({**value, "ok": not reasons, "reasons": [*map(str, reasons)]})
            unmet += reasons
        else:
            judged.append({**value, "limits": [], "ok": None, "reasons": []})
    return judged, unmet


def _judged(
    expectation: Expectation, rows: Sequence[Json], phases: Mapping[str, Phase], latency: Latency
) -> tuple[Json, list[Reason]]:
    key = {"phase": expectation.phase, "op": expectation.op, "tier": expectation.tier}
    row = _row(rows, {"layer": expectation.layer, **key})
    count, needed, inside = (row["count"] if row else 0), expectation.min_count, expectation.inside
    # The range was published for other loads than this phase's: that says nothing about this row.
    unlike = row.get("not_published") if row and inside else None
    texts: list[tuple[str, str]] = []
    if count < needed:
        texts.append(("min_count", f"{count} I/Os, at least {needed} were expected."))
    elif inside and not row:
        texts.append(("inside", "no I/O that could be inside the published range."))
    least = expectation.inside_share_min if inside else None
    if inside and row and not unlike and (least is None or not row["published"]):
        texts += [("inside", text) for text in _outside(row)]
    asked = {name: getattr(expectation, name) for name in LIMITS}
    by = _Judged(expectation, row, rows, phases.get(expectation.phase), latency)
    limits = [_limit(name, limit, by) for name, limit in asked.items() if limit is not None]
    if least is not None and row and row["published"]:
        limits.append(_share_limit(least, row, latency.bins))
    reasons = [_reason(key, name, text) for name, text in texts]
    reasons += [
        _reason(key, each["name"], each["reason"], each.get("to")) for each in limits if each["reason"]
    ]
    value = {
        **key,
        "min_count": needed,
        "count": count,
        "inside": inside,
        "limits": limits,
        **({"not_published": unlike} if unlike else {}),
        "id": id_of_expectation(key),
    }
    return value, reasons


def _reason(key: Json, limit: str, text: str, to: Json | None = None) -> Reason:
    return Reason(
        id=id_of_expectation(key, limit, to), phase=key["phase"], text=f"{key['op']}/{key['tier']}: {text}",
        makes="invalid",
    )  # fmt: skip


def _row(rows: Sequence[Json], key: Json) -> Json | None:
    return next((row for row in rows if all(row[name] == value for name, value in key.items())), None)


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


def _limit(name: str, limit: float, by: _Judged) -> Json:
    """One limit: what was found and why it is not met, "" if it is."""
    if name in _PERCENTILES:
        return _percentile(name, limit, by.row)
    if name in _RATIOS:
        return _ratio(name, limit, by)
    if name == "max_us_max":
        return _longest(limit, by)
    if name == "stall_ms_max":
        return _stall(limit, by)
    found = by.row["share"] if by.row else 0.0
    if name == "share_min":
        reason = "" if found >= limit else f"{found:.4%} of the I/Os, at least {limit:.4%} were expected."
    else:
        reason = "" if found <= limit else f"{found:.4%} of the I/Os, at most {limit:.4%} were expected."
    return {"name": name, "limit": limit, "found": found, "ok": not reason, "reason": reason}


def _percentile(name: str, limit: float, row: Json | None) -> Json:
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
        reason = "" if found <= limit else f"{words} is {found:.5g} us, at most {limit:g} us were expected."
    return {"name": name, "limit": limit, "found": found, "ok": not reason, "reason": reason}


def _longest(limit: float, by: _Judged) -> Json:
    """The longest I/O. It is exact unless the run kept only its bin."""
    made: Json = {"name": "max_us_max", "limit": limit, "found": None, "ok": False}
    if by.row is None:
        return {**made, "reason": f"no I/O that could take at most {limit:g} us."}
    key = {name: by.row[name] for name in ("phase", "layer", "op", "tier")}
    mine = by.latency.bins.filter(
        *(pl.col(name) == value for name, value in key.items()), pl.col("count") > 0
    )
    found = least = by.row["max_us"]
    if not mine.is_empty() and mine["hi_ns"].max() == round(found * 1e3):
        least = mine["lo_ns"].max() / 1e3  # type: ignore[operator]
    made["found"] = found
    if found <= limit:
        return {**made, "ok": True, "reason": ""}
    if least > limit:
        words = f"the longest took {found:.6g} us, at most {limit:g} us were expected."
        return {**made, "reason": words}
    words = f"the longest took from {least:.6g} to {found:.6g} us, as the run kept its bin alone"
    return {**made, "ok": None, "reason": f"{words}: unknown whether it took at most {limit:g} us."}


def _stall(limit: float, by: _Judged) -> Json:
    """The longest time without an I/O that ended, of all ops and tiers of the phase at the layer."""
    made: Json = {"name": "stall_ms_max", "limit": limit, "found": None, "at_most": None, "ok": None}
    layer = by.expectation.layer
    span = longest_gap_ns(by.latency, by.phase, layer) if by.phase else None
    if span is None:
        words = f"unknown whether an I/O ended at least every {limit:g} ms: none did."
        return {**made, "ok": False, "reason": words}
    low, high = (edge / 1e6 for edge in span)
    made |= {"found": low, "at_most": high}
    if high <= limit:
        return {**made, "ok": True, "reason": ""}
    if low > limit:
        words = f"no I/O ended at the layer {layer} for at least {low:.5g} ms"
        return {**made, "ok": False, "reason": f"{words}, at most {limit:g} ms were expected."}
    words = f"unknown whether an I/O ended at the layer {layer} at least every {limit:g} ms"
    bounds = f"the longest time without is from {low:.5g} to {high:.5g} ms"
    return {**made, "reason": f"{words}: {bounds}; a shorter interval of the phase bounds it better."}


def _ratio(name: str, limit: float, by: _Judged) -> Json:
    """A percentile of the row, divided by that of another row of the layer."""
    expectation, figure = by.expectation, _RATIOS[name]
    to = expectation.ratio_to
    other = {part: getattr(to, part, None) or getattr(expectation, part) for part in ("phase", "op", "tier")}
    label = f"{other['phase']}: {other['op']}/{other['tier']}"
    pair = (by.row, _row(by.rows, {"layer": expectation.layer, **other}))
    made: Json = {"name": name, "limit": limit, "found": None, "to": other, "ok": None}
    for row, words in zip(pair, ("this row", label), strict=True):
        if row is None:
            return {**made, "reason": f"no ratio to {label}: {words} has no I/O."}
        if not row[f"{figure}_us"]:
            needed = sample_needed(_PERCENTILES[f"{figure}_us_max"][1])
            return {
                **made,
                "reason": f"no ratio to {label}: {figure} of {words} is withheld, {row['count']} I/Os of the "
                f"{needed} that it takes.",
            }
    mine, theirs = (row[f"{figure}_us"] for row in pair if row)
    found = mine / theirs
    met = found >= limit if name.endswith("_min") else found <= limit
    words = "at least" if name.endswith("_min") else "at most"
    reason = (
        f"{figure} is {found:.4g} times that of {label} ({mine:.5g} and {theirs:.5g} us), {words} {limit:g} "
        "times were expected."
    )
    return {**made, "found": found, "ok": met, "reason": "" if met else reason}
