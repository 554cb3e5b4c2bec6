"""kit.core.clock: conversion between the experiment's time and a host's clock."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.clock import Clock

times = st.integers(0, 10**15)
dilations = st.integers(1, 64)


@given(times, dilations)
def test_the_host_waits_dilation_times_as_long(experiment_ns: int, dilation: int) -> None:
    clock = Clock("virtual", dilation)
    assert clock.to_host_ns(experiment_ns) == dilation * experiment_ns
    assert clock.from_host_ns(clock.to_host_ns(experiment_ns)) == experiment_ns


def test_durations_of_the_host_are_divided_and_rounded_down() -> None:
    assert Clock("virtual", 4).from_host_ns(1_000_003) == 250_000


@given(times)
def test_the_real_clock_changes_nothing(time_ns: int) -> None:
    assert Clock().to_host_ns(time_ns) == Clock().from_host_ns(time_ns) == time_ns


@pytest.mark.parametrize(("kind", "dilation"), [("real", 2), ("virtual", 0), ("virtual", -1), ("real", 0)])
def test_impossible_clocks_are_refused(kind: Any, dilation: int) -> None:
    with pytest.raises(ValueError, match=f"{kind} clock cannot have dilation {dilation}"):
        Clock(kind, dilation)


def test_a_clock_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Clock("virtual", 2).dilation = 3  # type: ignore[misc]
