"""Logs of drives: what real ones print, and what is no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.instruments.drives import logs

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str, **changed: Any) -> str:
    """What a real drive printed, but for these values of its health."""
    text: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    text.get("nvme_smart_health_information_log", text).update(changed)
    return json.dumps(text)


def test_a_recorded_nvme_drive_counts_its_thermal_management() -> None:
    assert logs.of_nvme(recorded("nvme-smart-log-2.11")) == {
        "thm_temp1_trans_count": 3, "thm_temp2_trans_count": 0, "thm_temp1_total_time": 1474,
        "thm_temp2_total_time": 0, "warning_temp_time": 0, "critical_comp_time": 0, "media_errors": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("hctma", "known"), [(0, False), (1, True), (None, True)])
def test_zeros_of_a_drive_without_thermal_management_say_nothing(hctma: int | None, known: bool) -> None:
    cool = recorded("nvme-smart-log-2.11", thm_temp1_trans_count=0, thm_temp1_total_time=0)
    found = logs.of_nvme(cool, json.dumps({} if hctma is None else {"hctma": hctma}))
    assert ("thm_temp1_trans_count" in found) == known and found["media_errors"] == 0
    # A drive that counts has it, whatever it says of itself.
    hot = logs.of_nvme(recorded("nvme-smart-log-2.11"), json.dumps({"hctma": hctma}))
    assert hot["thm_temp1_trans_count"] == 3


def test_smartctl_has_the_counters_since_2026_by_other_names() -> None:
    assert logs.of_smartctl(recorded("smartctl-7.5-nvme")) == {
        "warning_temp_time": 0, "critical_comp_time": 0, "media_errors": 0,
    }  # fmt: skip
    newer = recorded("smartctl-7.5-nvme", thermal_mgmt_temperature_1_transition_count=7)
    assert logs.of_smartctl(newer)["thm_temp1_trans_count"] == 7


def test_a_recorded_sata_disk() -> None:
    text = recorded("smartctl-7.0-sata")
    assert logs.of_smartctl(text) == {"reallocated": 0, "pending": 0, "crc_errors": 0}
    assert logs.sata_speeds(text) == {"speed": "6.0 Gb/s", "drive_max": "6.0 Gb/s"}


# As json_c3_log of plugins/ocp/ocp-print-json.c prints it (nvme-cli at e117ee68).
LATENCY = {
    "Feature Status": 1, "Active Bucket Timer": 10, "Active Bucket Timer Threshold": 10080,
    "Active Threshold A": 5, "Active Threshold B": 10, "Active Threshold C": 400, "Active Threshold D": 5000,
    "Active Bucket Counter: Bucket 0": {"Read": 4, "Write": 2, "Trim": 0},
    "Active Bucket Counter: Bucket 1": {"Read": 1, "Write": 0, "Trim": 0},
    "Active Bucket Counter: Bucket 2": {"Read": 0, "Write": 0, "Trim": 0},
    "Active Bucket Counter: Bucket 3": {"Read": 0, "Write": 0, "Trim": 0},
    "Active Latency Time Stamp: Bucket 0": {"Read": "NA", "Write": "NA", "Trim": "NA"},
}  # fmt: skip


def test_slow_commands_of_ocp() -> None:
    assert logs.slow_commands(json.dumps(LATENCY)) == {"slow_commands": 7, "ms": 5, "minutes": 10}


DAMAGED = (
    "", "[]", "{", "3", "[" * 100000, '{"interface_speed": 3}',
    '{"nvme_smart_health_information_log": {"media_errors": -1}}',
    '{"thm_temp1_trans_count": true, "media_errors": 1.5}',
    '{"ata_smart_attributes": {"table": [3, {"id": [5], "raw": {}}]}}',
)  # fmt: skip


@pytest.mark.parametrize("damaged", DAMAGED)
def test_what_is_no_count_is_none(damaged: str) -> None:
    found = [logs.of_nvme(damaged), logs.of_smartctl(damaged), logs.sata_speeds(damaged)]
    assert found == [{}, {}, {}] and logs.slow_commands(damaged) == {}
