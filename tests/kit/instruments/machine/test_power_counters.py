"""What devices say of the times that they lost their power."""

from __future__ import annotations

import json

import pytest

from kit.core.errors import HostError
from kit.instruments.machine import power_counters as counters


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
    assert counters.parse_ata(text) == {"smart_174": 175, "smart_192": 193}


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "{", "3", "[" * 100000, '{"unsafe_shutdowns": -1}', '{"unsafe_shutdowns": true}',
     '{"unsafe_shutdowns": 1.5}', '{"unsafe_shutdowns": null, "ata_smart_attributes": {"table": 3}}',
     '{"ata_smart_attributes": {"table": [3, {"id": 174}, {"id": 192, "raw": {"value": []}}]}}'],
)  # fmt: skip
def test_what_is_no_count_is_none(damaged: str) -> None:
    assert counters.parse_nvme(damaged) == counters.parse_ocp(damaged) == counters.parse_ata(damaged) == {}


def test_the_users_own_command_prints_one_number() -> None:
    assert counters.parse_own(" 7\n") == {"count": 7}
    for text in ("", "seven", "1 2", "-3", "1.0"):
        with pytest.raises(HostError, match="printed"):
            counters.parse_own(text)
