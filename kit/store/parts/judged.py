"""Expectations of a workload as a run was judged by them: `expect` of summary.json. Latencies in us."""

from __future__ import annotations

from kit.store.stored import Count, Many, Stored


class OtherRow(Stored):
    """The row that a ratio is to."""

    phase: str
    op: str
    tier: str


class Limit(Stored):
    """A limit of an expectation, and what was found. `ok`: None where the run cannot tell; `reason`: why not.

    `to`: of a ratio; `at_most`: of a stall, which is from `found` to that, in ms.
    """

    name: str
    limit: float
    found: float | None = None
    at_most: float | None = None
    to: OtherRow | None = None
    ok: bool | None
    reason: str


class JudgedExpectation(Stored):
    """A row that the workload expects, and its I/Os. `ok`: None where it cannot be judged.

    `not_published`: why `inside` was not judged.
    """

    phase: str
    op: str
    tier: str
    min_count: Count = 0
    count: Count = 0
    inside: bool = False
    limits: Many[Limit] = ()
    not_published: str | None = None
    id: str | None = None
    ok: bool | None
    reasons: Many[str] = ()
