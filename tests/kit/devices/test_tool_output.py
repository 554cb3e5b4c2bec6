"""kit.devices.tool_output: output of zdb and smartctl."""

from __future__ import annotations

import json

import pytest

from kit.devices import tool_output


def test_output_of_zdb() -> None:
    none = "".join(f"failed to unpack label {n}\n" for n in range(4))
    assert tool_output.parse_zdb("sda", 2, none) == () == tool_output.parse_zdb("sda", 0, none)
    both = "LABEL 0\n    name: 'a'\n    state: 0\n    pool_guid: 5\nLABEL 2\n    name: 'b'\n    state: 2\n"
    assert [(label.state, label.pool, label.guid) for label in tool_output.parse_zdb("sda", 0, both)] == [
        (0, "a or b", "5"),
        (2, "a or b", "5"),
    ]
    for code, text in ((0, ""), (2, "failed to read label 0"), (1, "cannot open"), (0, "LABEL 0\nname: 'a'")):
        with pytest.raises(ValueError):
            tool_output.parse_zdb("sda", code, text)


def test_output_of_smartctl() -> None:
    wear = {"name": "Percentage Used Endurance Indicator", "value": 7, "flags": {"valid": True}}
    ata = {
        "temperature": {"current": 31},
        "smart_status": {"passed": False},
        "ata_device_statistics": {"pages": [{"table": [wear]}]},
    }
    assert tool_output.parse_smartctl(json.dumps(ata)) == tool_output.Health(7, 31, True)
    assert tool_output.parse_smartctl('{"temperature": {"current": 0}}') == tool_output.Health()
    sas = '{"scsi_percentage_used_endurance_indicator": 3, "smart_status": {"passed": true}}'
    assert tool_output.parse_smartctl(sas) == tool_output.Health(3, None, False)


def attribute(name: str, value: int, raw: int, **more: object) -> dict[str, object]:
    table = [{"name": "Power_On_Hours", "value": 93, "raw": {"value": 9}}]
    table.append({"name": name, "value": value, "raw": {"value": raw}})
    return {"ata_smart_attributes": {"table": table}, **more}


@pytest.mark.parametrize(
    ("log", "wear"),
    [
        ({"nvme_smart_health_information_log": {"percentage_used": 16}}, 16),
        ({"nvme_smart_health_information_log": {"percentage_used": 0}}, 0),
        ({"endurance_used": {"current_percent": 7}}, 7),
        (attribute("Wear_Leveling_Count", 88, 213), 12),
        (attribute("Media_Wearout_Indicator", 97, 0), 3),
        (attribute("Percent_Lifetime_Remain", 6, 94), 94),
        (attribute("Percent_Lifetime_Remain", 0, 120), 100),
        (attribute("SSD_Life_Left", 100, 0), 0),
        (attribute("Percent_Lifetime_Used", 95, 5), 5),
        # Values that are no percents, names that smartctl guesses, and what is not wear.
        (attribute("Wear_Leveling_Count", 200, 3), None),
        (attribute("SSD_Life_Left", 0, 0), None),
        (attribute("Percent_Lifetime_Used", 100, 5), None),
        (attribute("Wear_Leveling_Count", 88, 213, in_smartctl_database=False), None),
        (attribute("Average_Erase_Count", 88, 213), None),
        (
            {"ata_smart_attributes": {"table": [{"name": "Media_Wearout_Indicator", "id": 230, "value": 9}]}},
            None,
        ),
    ],
)
def test_wear_by_smartctl(log: dict[str, object], wear: int | None) -> None:
    assert tool_output.parse_smartctl(json.dumps(log)).wear_percent == wear
