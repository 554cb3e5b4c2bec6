"""What devices say of the times that they lost their power."""

from __future__ import annotations

import json

import pytest

from kit.core.errors import HostError
from kit.instruments.machine import power_counters as counters
from tests.fakes import Answer, Command, ScriptedHost


def test_counts_of_nvme() -> None:
    assert counters.parse_nvme('{"unsafe_shutdowns": 12, "power_cycles": 40}') == {"unsafe_shutdowns": 12}
    # nvme-cli writes very large numbers as text.
    assert counters.parse_nvme('{"unsafe_shutdowns": "13"}') == {"unsafe_shutdowns": 13}


@pytest.mark.parametrize("key", ["PLP start count", "plp_start_count"])
def test_the_start_count_of_the_protection_in_either_spelling(key: str) -> None:
    assert counters.parse_ocp(json.dumps({key: 5, "Capacitor health": 100})) == {"plp_start_count": 5}


def test_attributes_of_sata() -> None:
    rows = [{"id": each, "raw": {"value": each + 1}} for each in (9, 174, 192)]
    text = json.dumps({"ata_smart_attributes": {"table": rows}})
    assert counters.parse_smartctl(text) == {"smart_174": 175, "smart_192": 193}


# Figures of drives that others have recorded with smartctl 7.1: github.com/AnalogJ/scrutiny,
# webapp/backend/pkg/models/testdata/smart-nvme.json (Intel 660p) and smart-scsi.json (Seagate ST4000NM0043).
_NVME = {
    "smartctl": {"version": [7, 1], "exit_status": 0},
    "device": {"type": "nvme", "protocol": "NVMe"},
    "model_name": "INTEL SSDPEKNW010T8",
    "nvme_smart_health_information_log": {
        "critical_warning": 0, "temperature": 36, "power_cycles": 266, "power_on_hours": 2401,
        "unsafe_shutdowns": 43, "media_errors": 0,
    },
    "power_cycle_count": 266,
}  # fmt: skip
_SAS = {
    "device": {"type": "scsi", "protocol": "SCSI"},
    "model_name": "SEAGATE ST4000NM0043",
    "smart_status": {"passed": True},
    "scsi_grown_defect_list": 56,
    "power_on_time": {"hours": 43549, "minutes": 33},
    "scsi_start_stop_cycle_counter": {"accumulated_start_stop_cycles": 80},
}
# Attributes as `smartctl --json` writes them for an SSD (12: power cycles, in order or not).
_SATA = {
    "device": {"type": "sat", "protocol": "ATA"},
    "ata_smart_attributes": {
        "revision": 16,
        "table": [
            {"id": 12, "name": "Power_Cycle_Count", "value": 96, "raw": {"value": 4627, "string": "4627"}},
            {
                "id": 192,
                "name": "Power-Off_Retract_Count",
                "value": 100,
                "raw": {"value": 88, "string": "88"},
            },
        ],
    },
    "power_cycle_count": 4627,
}


@pytest.mark.parametrize(
    ("found", "counts"), [(_NVME, {"unsafe_shutdowns": 43}), (_SATA, {"smart_192": 88}), (_SAS, {})]
)
def test_what_recorded_drives_say(found: object, counts: dict[str, int]) -> None:
    """A cycle in order raises none of these: power cycles and starts of the spindle are no proof."""
    assert counters.parse_smartctl(json.dumps(found)) == counts


class Drive(ScriptedHost):
    """An NVMe drive on a host that has these programs."""

    def __init__(self, programs: dict[str, str]) -> None:
        super().__init__()
        self.programs = programs

    def answer(self, command: Command) -> Answer:
        logs = {"smart": self.programs.get("nvme", ""), "smartctl": self.programs.get("smartctl", "")}
        return json.dumps({"device": {"logs": {name: text for name, text in logs.items() if text}}})


@pytest.mark.parametrize(
    ("programs", "counts"),
    [
        ({"nvme": json.dumps({"unsafe_shutdowns": 44}), "smartctl": json.dumps(_NVME)}, 44),
        ({"smartctl": json.dumps(_NVME)}, 43),
        ({}, None),
    ],
)
def test_nvme_is_read_by_either_program(programs: dict[str, str], counts: int | None) -> None:
    found = counters.read(Drive(programs), "/dev/disk/by-id/nvme-x")
    assert found == ({} if counts is None else {"unsafe_shutdowns": counts})


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "{", "3", "[" * 100000, '{"unsafe_shutdowns": -1}', '{"unsafe_shutdowns": true}',
     '{"unsafe_shutdowns": 1.5}', '{"unsafe_shutdowns": null, "ata_smart_attributes": {"table": 3}}',
     '{"nvme_smart_health_information_log": {"unsafe_shutdowns": "many"}}',
     '{"ata_smart_attributes": {"table": [3, {"id": 174}, {"id": 192, "raw": {"value": []}}]}}'],
)  # fmt: skip
def test_what_is_no_count_is_none(damaged: str) -> None:
    assert (
        counters.parse_nvme(damaged) == counters.parse_ocp(damaged) == counters.parse_smartctl(damaged) == {}
    )


def test_the_users_own_command_prints_one_number() -> None:
    assert counters.parse_own(" 7\n") == {"count": 7}
    for text in ("", "seven", "1 2", "-3", "1.0"):
        with pytest.raises(HostError, match="printed"):
            counters.parse_own(text)
