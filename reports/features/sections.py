"""The parts of a run's page that features have, in the order of the page: a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.cache_life import section as cache_life
from reports.features.capacity import section as capacity
from reports.features.faults import section as faults
from reports.features.metadata import section as metadata
from reports.features.network import section as network
from reports.features.observed import section as observed
from reports.features.power_loss import section as power_loss
from reports.features.section import Section
from reports.features.slog import section as slog
from reports.features.soak import section as soak
from reports.features.special import section as special
from reports.features.split import section as split

_SECTIONS: tuple[Callable[[Manifest, Summary], Section | None], ...] = (
    observed.section,
    power_loss.section,
    faults.section,
    soak.section,
    capacity.section,
    slog.section,
    special.section,
    metadata.section,
    cache_life.section,
    network.section,
    split.section,
)


def sections(manifest: Manifest, summary: Summary) -> Iterator[Section]:
    """Those that the run has."""
    for of_feature in _SECTIONS:
        if made := of_feature(manifest, summary):
            yield made
