"""The verdict on power losses."""

from __future__ import annotations

from typing import Any

import pytest

from reports.analysis import power_loss


def manifest(*moments: tuple[int, int]) -> dict[str, Any]:
    return {
        "power_loss": {
            "moments": [
                {"at_ns": 1, "acknowledged": told, "lost": lost, "first_lost": 7 if lost else None}
                for told, lost in moments
            ]
        }
    }


def test_a_run_without_power_losses_says_nothing() -> None:
    assert power_loss.judge({}) == (None, [], "")


def test_everything_kept() -> None:
    told, broken, kept = power_loss.judge(manifest((10, 0), (20, 0)))
    assert told == {"moments": 2, "acknowledged": 30, "lost": 0, "moments_with_loss": 0}
    assert not broken
    assert "30 acknowledged writes survived 2 power losses" in kept


def test_one_lost_write_breaks_the_promise() -> None:
    told, broken, kept = power_loss.judge(manifest((10, 0), (20, 1)))
    assert told is not None and told["lost"] == 1
    assert "1 of 30 acknowledged" in broken[0] and "write 7 of power loss 2" in broken[0]
    assert not kept


@pytest.mark.parametrize("damaged", [{"moments": []}, {}, {"moments": [{"acknowledged": 0, "lost": 0}]}])
def test_what_cannot_be_judged_raises(damaged: Any) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        power_loss.judge({"power_loss": damaged})
