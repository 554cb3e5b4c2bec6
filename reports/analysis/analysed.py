"""All that a run says, in one value: the page and the terminal are made of it and of the stored counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from kit.core.errors import ConfigError
from kit.store.checks.known_failures import Known
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.summary import Reference, Summary
from reports.analysis.findings import PhaseFinding, findings
from reports.analysis.headline import Headline, headline
from reports.analysis.summary import summarise
from reports.devices.stripes import Stripes, stripes_of
from reports.published import references
from reports.published.references import Setup
from reports.published.setup import SetupTable, setup_table

# What code raises that meets another value than the kit writes.
_RAISED: tuple[type[BaseException], ...] = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)  # fmt: skip


@contextmanager
def damage_refused(what: str, hint: str, *more: type[Exception]) -> Iterator[None]:
    """Raise ConfigError where work fails because `what` of a stored run is damaged; also for `more`.

    A damaged run is refused with what is wrong, never with a traceback.
    """
    try:
        yield
    except (*_RAISED, *more) as error:
        raise ConfigError(f"{what} is damaged ({type(error).__name__}: {error})", hint) from error


@dataclass(frozen=True)
class Analysed:
    """`setup`: beside the published one; None: not known. `aged`: rows of ageing.parquet, if any."""

    summary: Summary
    headline: Headline
    findings: tuple[PhaseFinding, ...]
    setup: SetupTable | None
    stripes: Stripes | None
    aged: pl.DataFrame | None


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
    return described(latency, manifest, summary, setup, aged)


@damage_refused(
    "manifest, latency or summary of the run",
    "make the summary anew with `hsp show`; what a run itself left damaged cannot be drawn",
)
def described(
    latency: Latency,
    manifest: Manifest,
    summary: Summary,
    setup: Setup | None = None,
    aged: pl.DataFrame | None = None,
) -> Analysed:
    """A run with its summary. Raises ConfigError if a part of it is damaged."""
    stripes = stripes_of(latency.intervals, manifest.phases)
    found = findings(latency, manifest, summary)
    return Analysed(
        summary,
        headline(latency.bins, manifest, summary, stripes, aged, found),
        found,
        setup_table(manifest, summary.reference, setup),
        stripes,
        aged if aged is not None and aged.height else None,
    )
