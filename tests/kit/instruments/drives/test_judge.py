"""What readings of drives show: transitions of a phase, and links that are slower than both ends."""

from __future__ import annotations

from typing import Any

import pytest

from kit.instruments.drives import judge, reading
from kit.instruments.drives.judge import DriveChange
from kit.store.phase import Check, Missing
from tests.kit.instruments.drives.test_logs import recorded

FULL, HALF, SLOW = "16.0 GT/s PCIe x4", "16.0 GT/s PCIe x2", "2.5 GT/s PCIe x4"


def nvme(link: str = FULL, port: str = FULL, drive: str = FULL, aer: Any = None, **health: int) -> Any:
    """A recorded drive with another link and other values, as the program prints it."""
    controller = {"address": "0000:01:00.0", "link": link, "link_max": drive, "port_max": port,
                  "driver": "nvme"}  # fmt: skip
    return {
        "logs": {"smart": recorded("nvme-smart-log-2.11", **health)},
        "controller": controller,
        "aer": aer,
    }


def sata(speed: str = "6.0 Gbps", limit: str = "<unknown>", crc: int = 0, **more: str) -> Any:
    text = recorded("smartctl-7.0-sata").replace('"value": 0, "string": "0"}}]', f'"value": {crc}}}}}]')
    return {"logs": {"smartctl": text}, "sata": {"speed": speed, "limit": limit, **more}}


def change(before: Any, after: Any, *under_load: Any, name: str = "log0") -> DriveChange:
    return DriveChange(name, reading.parse(before), reading.parse(after), [*map(reading.parse, under_load)])


def failed(*changes: DriveChange) -> list[str]:
    return [f"{each.id} {each.name}" for each in judge.checks(changes)
            if isinstance(each, Check) and not each.ok]  # fmt: skip


def missing(*changes: DriveChange) -> list[str]:
    return [f"{each.id} {each.name}" for each in judge.checks(changes) if isinstance(each, Missing)]


T1 = "DRIVE-THROTTLED slowdowns of log0 because of heat"
TIME = "DRIVE-THROTTLED time in which heat slowed log0 down, in ms"


@pytest.mark.parametrize(
    ("health", "found"),
    [
        ({}, []),
        # nvme-cli#3945: the temperature is always the same, and the transitions rise.
        ({"thm_temp1_trans_count": 4, "thm_temp1_total_time": 1480}, [T1, TIME]),
        ({"thm_temp2_trans_count": 1}, [T1]),
        # It began before the phase.
        ({"thm_temp1_total_time": 1500}, [TIME]),
        # Hot, and no transition: it proves nothing.
        ({"temperature": 360, "warning_temp_time": 5, "critical_comp_time": 2}, []),
        ({"media_errors": 3}, []),
    ],
)
def test_exactly_transitions_and_their_time_count(health: dict[str, int], found: list[str]) -> None:
    assert failed(change(nvme(), nvme(**health))) == found
    assert missing(change(nvme(), nvme(**health))) == []


def test_what_is_said_and_stored() -> None:
    after = nvme(thm_temp1_trans_count=5, thm_temp1_total_time=1488, media_errors=2, warning_temp_time=3,
                 aer={"corrected": 9, "nonfatal": 0, "fatal": 0})  # fmt: skip
    seen = change(nvme(aer={"corrected": 1, "nonfatal": 0, "fatal": 0}), after)
    assert [*judge.events([seen])] == [
        ("drive-throttling", "log0 made itself slower because of heat: 2 transitions, 14 s"),
        ("drive-report", "log0: 2 media errors"),
        ("drive-report", "log0: 3 min above its warning temperature, which proves no throttling"),
        ("drive-report", "log0: 8 errors on its PCIe link, all corrected"),
    ]
    stored = judge.report(seen).as_json()
    assert (stored["transitions"], stored["throttled_ms"], stored["warning_min"]) == (2, 14_000, 3)
    assert (stored["pcie_corrected"], stored["pcie_uncorrected"], stored["link"]) == (8, 0, "16 GT/s x4")
    assert "reallocated" not in stored and failed(seen) == [T1, TIME]


def test_a_counter_that_goes_back_is_unknown_with_its_numbers() -> None:
    back = change(nvme(), nvme(thm_temp1_trans_count=0, thm_temp1_total_time=0))
    assert failed(back) == ["DRIVE-THROTTLED counters of thermal management of log0, of which one went back"]
    assert judge.report(back).transitions is None


def test_drives_without_counters_are_said_once_and_prove_nothing() -> None:
    cut = {"logs": {"smartctl": recorded("smartctl-7.5-nvme")}}
    many = [change(cut, cut, name=f"d{number}") for number in range(6)]
    assert failed(*many) == []
    assert missing(*many) == [
        "DRIVE-THROTTLED slowdowns because of heat of d0, d1, d2, d3 and 2 more",
        "LINK-DEGRADED speed of the links of d0, d1, d2, d3 and 2 more",
    ]


def test_smartctl_begins_to_print_a_counter_when_it_is_not_0() -> None:
    first = {"logs": {"smartctl": recorded("smartctl-7.5-nvme")}}
    hot = recorded("smartctl-7.5-nvme", thermal_mgmt_temperature_1_transition_count=1,
                   thermal_mgmt_temperature_2_transition_count=0)  # fmt: skip
    assert failed(change(first, {"logs": {"smartctl": hot}})) == [T1]


@pytest.mark.parametrize(
    ("before", "under_load", "after", "is_degraded"),
    [
        (FULL, [FULL], FULL, False),
        (HALF, [HALF], HALF, True),
        # Slow without a load, to save power: it is not accused.
        (SLOW, [FULL, FULL], SLOW, False),
        (SLOW, [], FULL, False),
        # It changed while it was used.
        (FULL, [FULL, SLOW], FULL, True),
        # Too short a phase for a look: what is right after it counts.
        (FULL, [], SLOW, True),
        ("Unknown x0", [], "Unknown x0", False),
    ],
)
def test_a_link_is_judged_under_load(
    before: str, under_load: list[str], after: str, is_degraded: bool
) -> None:
    seen = change(nvme(before), nvme(after), *map(nvme, under_load))
    assert bool(failed(seen)) == is_degraded
    assert [*judge.conditions([seen])] == []


def test_a_slot_that_is_slower_than_the_drive_is_a_condition() -> None:
    seen = change(
        nvme("8.0 GT/s PCIe x4", "8.0 GT/s PCIe x16"), nvme("8.0 GT/s PCIe x4", "8.0 GT/s PCIe x16")
    )
    assert failed(seen) == []
    assert [*judge.conditions([seen])] == [
        "log0 can do 16 GT/s x4 (PCIe), and the slot 8 GT/s x4: that is the limit on this server."
    ]


def test_disks_behind_one_controller_are_one_link() -> None:
    hba = nvme(HALF, aer={"corrected": 1}), nvme(HALF, aer={"corrected": 3})
    for each in hba:
        each["controller"]["driver"] = "mpt3sas"
    seen = [change(*hba, name=name) for name in ("d0", "d1")]
    (text,) = failed(*seen)
    named = "LINK-DEGRADED PCIe link of the controller of d0, d1"
    assert text.startswith(f"{named} (16 GT/s x2; both ends can do 16 GT/s x4)")
    assert [text for _, text in judge.events(seen)] == [
        "the controller of d0, d1: 2 errors on its PCIe link, all corrected"
    ]


@pytest.mark.parametrize(("kind", "is_degraded"), [("corrected", False), ("nonfatal", True), ("fatal", True)])
def test_errors_that_were_not_corrected(kind: str, is_degraded: bool) -> None:
    none = {"corrected": 0, "nonfatal": 0, "fatal": 0}
    assert bool(failed(change(nvme(aer=none), nvme(aer={**none, kind: 2})))) == is_degraded


LOWERED = sata("3.0 Gbps", "3.0 Gbps")
OF_3G = sata("3.0 Gbps", "3.0 Gbps", port_max="3.0 Gbps")


def test_errors_that_become_fewer_are_unknown() -> None:
    back = change(nvme(aer={"nonfatal": 3, "fatal": 0}), nvme(aer={"nonfatal": 0, "fatal": 0}))
    assert failed(back) == ["LINK-DEGRADED counters of PCIe errors of log0, of which one went back"]
    assert failed(change(sata(crc=4), sata(crc=1))) == [
        "LINK-DEGRADED CRC errors of log0, of which one went back"
    ]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (sata(), sata(), []),
        (sata(), sata(crc=2), ["CRC errors on the SATA link of log0"]),
        (sata(), sata("3.0 Gbps"), ["speed of the SATA link of log0, in Mb/s"]),
        # libata has lowered its limit before the phase.
        (LOWERED, LOWERED, ["speed of the SATA link of log0, in Mb/s"]),
        # A port of 3 Gb/s.
        (OF_3G, OF_3G, []),
        (sata("3.0 Gbps"), sata("3.0 Gbps"), []),
    ],
)  # fmt: skip
def test_sata_links(before: Any, after: Any, found: list[str]) -> None:
    assert failed(change(before, after)) == [f"LINK-DEGRADED {text}" for text in found]


def test_a_slower_sata_port_is_a_condition() -> None:
    assert [*judge.conditions([change(sata("3.0 Gbps"), sata("3.0 Gbps"))])] == [
        "log0 can do 6 Gb/s (SATA), its link 3: that is the limit here."
    ]


@pytest.mark.parametrize(
    ("after", "rise"),
    [({"slow_commands": 9, "ms": 5, "minutes": 12}, 2), ({"slow_commands": 9, "ms": 5, "minutes": 0}, None),
     ({"slow_commands": 3, "ms": 5, "minutes": 12}, None),
     ({"slow_commands": 9, "ms": 10, "minutes": 12}, None), ({}, None)],
)  # fmt: skip
def test_slow_commands_are_those_of_one_timer(after: dict[str, int], rise: int | None) -> None:
    assert judge.slow_commands({"slow_commands": 7, "ms": 5, "minutes": 10}, after) == rise
