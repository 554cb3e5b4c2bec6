"""The verdict on power losses."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store.manifest import PowerLoss
from reports.verdict import power_loss
from tests.reports import synthetic


def losses(*moments: tuple[int, int]) -> PowerLoss:
    listed = [
        {"at_ns": 1, "acknowledged": told, "lost": lost, "first_lost": 7 if lost else None}
        for told, lost in moments
    ]
    return PowerLoss.from_json({"moments": listed}, "power_loss")


def test_a_run_without_power_losses_says_nothing() -> None:
    assert power_loss.judge(None) == (None, [], "")


def test_everything_kept() -> None:
    told, broken, kept = power_loss.judge(losses((10, 0), (20, 0)))
    assert told == {"moments": 2, "acknowledged": 30, "lost": 0, "moments_with_loss": 0}
    assert not broken
    assert "30 acknowledged writes survived 2 power losses" in kept


def test_one_lost_write_breaks_the_promise() -> None:
    told, broken, kept = power_loss.judge(losses((10, 0), (20, 1)))
    assert told is not None and told["lost"] == 1
    assert "1 of 30 acknowledged" in broken[0].text and "write 7 of power loss 2" in broken[0].text
    assert not kept


def test_a_power_loss_without_a_write_says_nothing() -> None:
    for moments in ((), ((0, 0),)):
        with pytest.raises(MeasurementUnknown, match="no write was acknowledged"):
            power_loss.judge(losses(*moments))
    manifest = {**synthetic.manifest(), "power_loss": {"moments": []}}
    found = synthetic.summarise(synthetic.latency(), manifest)
    assert found["verdict"] == "unknown" and "no write was acknowledged" in found["reasons"][0]


@pytest.mark.parametrize("damaged", [{}, {"moments": 3}, {"moments": [{"acknowledged": -1, "lost": 0}]}])
def test_damaged_moments_are_refused(damaged: Any) -> None:
    with pytest.raises(ConfigError, match=r"power_loss\.moments"):
        synthetic.parsed({"power_loss": damaged})
