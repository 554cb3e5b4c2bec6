"""The features, in the order of their sentences: a line each."""

from __future__ import annotations

from reports.features.cache_life import judge as cache_life
from reports.features.capacity import judge as capacity
from reports.features.faults import judge as faults
from reports.features.feature import Feature
from reports.features.forces import judge as forces
from reports.features.metadata import judge as metadata
from reports.features.network import judge as network
from reports.features.observed import judge as observed
from reports.features.observer_effect import judge as observer_effect
from reports.features.power_loss import judge as power_loss
from reports.features.slog import judge as slog
from reports.features.soak import judge as soak
from reports.features.special import judge as special
from reports.features.split import judge as split

FEATURES: tuple[Feature, ...] = (
    observed.FEATURE,
    soak.FEATURE,
    capacity.FEATURE,
    faults.FEATURE,
    power_loss.FEATURE,
    slog.FEATURE,
    forces.FEATURE,
    special.FEATURE,
    metadata.FEATURE,
    cache_life.FEATURE,
    network.FEATURE,
    split.FEATURE,
    observer_effect.FEATURE,
)
