"""A run on a server that nobody could log into: what its clients can tell, and what nobody can.

From `appliance` of the manifest (docs/formats.md); other runs have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]
_MOUNTSTATS = "/proc/self/mountstats"
UNSEEN = (
    "The server is an appliance and could not be looked into: which tier answered is not known, "
    "nor what else it did meanwhile."
)


def section(manifest: Json) -> Json | None:
    """The part of the manifest that tells of an appliance; None for any other run."""
    found = manifest.get("appliance")
    return found if isinstance(found, dict) and found else None


def trouble(phase: Json, rows: Sequence[Json]) -> Iterator[str]:
    """What does not close of what the clients can tell of one phase, as sentences."""
    name = phase["name"]
    yield from (f"{name}: {problem}" for problem in phase.get("problems") or [])
    issued = int(phase["client_ios"])
    binned = sum(r["count"] for r in rows if r["phase"] == name and r["layer"] == "client")
    if not (issued and binned):
        yield f"{name}: the phase has no I/O."
    elif issued != binned:
        yield f"{name}: latency.parquet holds {binned} I/Os of the clients, the manifest says {issued}."
    for check in phase.get("checks") or []:
        if check["ok"] is not True:
            yield (
                f"{name}: {check['name']} ({check['source']}): expected {check['expected']}, "
                f"found {check['found']}, tolerance {check['tolerance']}."
            )


def verdict_reason(phases: Sequence[Any], closes: bool) -> str:
    """The one reason that every run on an appliance has. `closes`: nothing else is wrong."""
    # Those of the clients' clocks and CPUs say nothing of their calls.
    checks = [
        sum(_MOUNTSTATS in str(check.get("source")) for check in p.get("checks") or [])
        for p in phases
        if isinstance(p, dict)
    ]
    if not closes or not checks:
        return UNSEEN
    ios = sum(int(p["client_ios"]) for p in phases)
    if not all(checks):
        return f"{UNSEEN} Whether each of the {ios} I/Os of the clients went to it is not known either."
    return (
        f"{UNSEEN} What the clients can tell closes: each of their {ios} I/Os was one call that it answered."
    )


def listed(manifest: Json) -> Json:
    """The box of the report: sentences, and phases that were skipped. Damaged parts are left out."""
    found = section(manifest) or {}
    skipped = found.get("skipped")
    return {
        "export": found.get("export"),
        "not_seen": _sentences(found.get("not_seen")),
        "not_done": _sentences(found.get("not_done")),
        "skipped": [s for s in skipped if isinstance(s, dict)] if isinstance(skipped, list) else [],
    }


def _sentences(value: Any) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else []
