"""All that a run says, in one value: the page and the terminal are made of it and of the stored counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from kit.store.checks.known import Known
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.summary import Reference, Summary
from reports.analysis.damage import damage_refused
from reports.analysis.findings import Finding, findings
from reports.analysis.headline import Headline, headline
from reports.analysis.summary import summarise
from reports.published import references
from reports.published.references import Setup
from reports.published.setup import SetupTable, setup_table


@dataclass(frozen=True)
class Analysed:
    """`setup`: the run's set-up beside the published one, if that is known."""

    summary: Summary
    headline: Headline
    findings: tuple[Finding, ...]
    setup: SetupTable | None


def analysed(
    latency: Latency,
    manifest: Manifest,
    aged: pl.DataFrame,
    reference: Reference | None = None,
    setup: Setup | None = None,
    known: Sequence[Known] = (),
) -> Analysed:
    """`reference` takes the place of the published ranges that the workload names; `setup` is of it."""
    summary = summarise(latency, manifest, aged, reference, known=known)
    if reference is None and summary.reference:
        setup = references.setup_of(summary.reference.name)
    return described(latency, manifest, summary, setup)


@damage_refused(
    "manifest, latency or summary of the run",
    "make the summary anew with `hsp show`; what a run itself left damaged cannot be drawn",
)
def described(latency: Latency, manifest: Manifest, summary: Summary, setup: Setup | None = None) -> Analysed:
    """A run with its summary. Raises ConfigError if a part of it is damaged."""
    return Analysed(
        summary,
        headline(latency.bins, manifest, summary),
        findings(latency, manifest, summary),
        setup_table(manifest, summary.reference, setup),
    )
