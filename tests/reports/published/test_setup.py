"""The set-up of a publication beside that of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kit.config.device_model import PRESETS, find_preset, preset_names
from kit.core.errors import ConfigError
from kit.store.json_file import read_json
from reports.published import references
from reports.published.references import Setup, SetupNotes
from reports.published.setup import CHOSEN, SetupRow, SetupTable, setup_table
from tests.kit.store.mutations import mutated
from tests.reports import synthetic

SUN = references.load("sun-7410-2009")
SUN_SETUP = references.setup_of("sun-7410-2009")
MANIFESTS = Path(__file__).parents[2] / "kit" / "store" / "manifests"


def device(role: str, preset: str) -> dict[str, Any]:
    model = find_preset(preset)
    parameters = model.model_dump(mode="json")
    return {"name": role, "role": role, "model": model.title, "latency_ns": None, "parameters": parameters}


def lab(**changes: Any) -> dict[str, Any]:
    """The manifest of a run on the lab."""
    manifest = synthetic.manifest()
    devices = [
        device("data", "disk-10k"), device("data", "disk-10k"),
        device("cache", "ssd-2009-read"), device("log", "ssd-2009-write"),
    ]  # fmt: skip
    manifest["testbed"]["devices"] = devices
    aged = {"settings": {"method": "fills", "fills": 2}, "fresh": False, "devices": [{"device": "cache"}]}
    return {**manifest, "precondition": aged, **changes}


def table(manifest: dict[str, Any], setup: Setup | None = SUN_SETUP) -> SetupTable:
    made = setup_table(synthetic.parsed(manifest), SUN, setup)
    assert made
    return made


def rows(manifest: dict[str, Any], setup: Setup | None = SUN_SETUP) -> dict[str, SetupRow]:
    return {row.name: row for row in table(manifest, setup).rows}


def row(name: str, manifest: dict[str, Any], **stated: Any) -> SetupRow:
    return rows(manifest, Setup(**stated))[name]


def test_the_lab_beside_the_article() -> None:
    observed = {r.name: (r.published, r.run, r.same) for r in table(lab()).rows}
    disks, cache, log = (find_preset(n).title for n in ("disk-10k", "ssd-2009-read", "ssd-2009-write"))
    assert observed == {
        "Server": ("Sun Storage 7410 (Barcelona)", "the built-in lab", False),
        "Disks": ("not stated", f"2 ({disks})", None),
        "Disk speed": ("7,200 rpm", "10,000 rpm", False),
        "L2ARC devices": ("6 (Readzilla, read-optimised SSDs)", f"1 ({cache})", False),
        "SLOG devices": ("not stated (Logzilla, write-optimised SSDs)", f"1 ({log})", None),
        "Record size": ("512 B (stated for the reads)", "512 B", True),
        "I/O size": ("512 B", "512 B", True),
        "Protocol": ("NFSv3", "NFSv3", True),
        "Clients": ("1", "1", True),
        "Threads of a client": ("1", "1", True),
        "Working set": ("1 GB or more (stated as Gbytes)", "96 MiB", False),
        "Ageing of the SSDs": ("yes (completely filled, many times)", "yes (2 fills: cache)", None),
        "Duration of a phase": ("not stated", "12 s", None),
    }


def test_nothing_stated_is_nothing_compared() -> None:
    assert {(r.published, r.same) for r in table(lab(), Setup()).rows} == {("not stated", None)}


def test_what_was_chosen_is_named_with_its_value() -> None:
    chosen = table(lab()).chosen
    for words in (
        "settle 1.8 ms",
        "head_switch 1.8 ms",
        "command 38 µs",
        "write_command 96 µs",
        "no discovery",
    ):
        assert words in chosen
    assert chosen.count("settle") == 1
    slow = device("data", "disk-7200")
    testbed = {"emulated": True, "devices": [slow]}
    assert "stroke_percent 0.6 %" in table(lab(testbed=testbed)).chosen
    slow["parameters"]["disk"]["stroke_percent"] = 100.0
    assert "stroke_percent" not in table(lab(testbed=testbed)).chosen


def test_models_of_ones_own_and_real_devices() -> None:
    own = {**device("data", "disk-10k"), "model": "my disk"}
    assert "say nothing about hardware" in table(lab(testbed={"emulated": True, "devices": [own]})).chosen
    real = {"name": "d", "role": "data", "model": "serial X", "latency_ns": None, "parameters": None}
    made = table(lab(testbed={"emulated": False, "server": "nas", "devices": [real]}))
    assert made.chosen == ""
    observed = {r.name: (r.run, r.same) for r in made.rows}
    assert observed["Server"] == ("nas", None)
    assert observed["Disks"] == ("1", None)
    assert observed["Disk speed"] == ("not recorded", None)


@pytest.mark.parametrize("name", preset_names())
def test_the_presets_say_the_same_of_what_was_chosen(name: str) -> None:
    """A comment that speaks of the published range or the reference's, or of one that does ("as settle")."""
    text = (PRESETS / f"{name}.toml").read_text()
    lines = re.findall(r"^(\w+) = .*?# (.*)$", text, re.MULTILINE)
    chosen = [key for key, words in lines if re.search(r"published range|reference's range", words)]
    chosen += [key for key, words in lines if any(words == f"assumed: as {other}" for other in chosen)]
    model = find_preset(name)
    values = model.model_dump(mode="json")[model.model]
    assert {key: values[key] for key in chosen} == CHOSEN.get(model.title, {})


@pytest.mark.parametrize(
    ("devices", "run", "same"),
    [
        (["disk-7200", "disk-7200"], "7,200 rpm", True),
        (["disk-7200", "disk-10k"], "7,200 rpm, 10,000 rpm", False),
        (["nvme-datacentre"], "do not turn", False),
        ([], "not recorded", None),
    ],
)
def test_speed_of_the_disks(devices: list[str], run: str, same: bool | None) -> None:
    manifest = lab(testbed={"emulated": True, "devices": [device("data", name) for name in devices]})
    observed = row("Disk speed", manifest, disk_rpm=7200)
    assert (observed.run, observed.same) == (run, same)


def test_speed_behind_a_controller_and_of_a_null_blk() -> None:
    behind = device("data", "controller-battery")
    behind["parameters"]["controller"].update(
        backing=None, ssd=None, disk=find_preset("disk-7200").model_dump(mode="json")["disk"]
    )
    null_blk = {"name": "d", "role": "data", "model": "null_blk", "latency_ns": 5_000_000, "parameters": None}
    for each, run in ((behind, "7,200 rpm"), (null_blk, "do not turn")):
        assert row("Disk speed", lab(testbed={"emulated": True, "devices": [each]}), disk_rpm=1).run == run


def test_one_phase_that_differs_is_a_difference() -> None:
    manifest = lab()
    manifest["phases"][1].update(block_bytes=4096, outstanding=8)
    sizes = row("I/O size", manifest, io_size="512B")
    assert (sizes.run, sizes.same) == ("512 B, 4 KiB", False)
    assert row("Threads of a client", manifest, threads=1).same is False


@pytest.mark.parametrize(
    ("name", "change", "stated", "same"),
    [
        ("Working set", {"working_set": {"bytes": 1 << 30}}, {"working_set_min": "1GiB"}, None),
        ("Working set", {"working_set": {"bytes": 1 << 29}}, {"working_set_min": "1GiB"}, False),
        ("Working set", {"working_set": None}, {"working_set_min": "1GiB"}, None),
        ("Ageing of the SSDs", {"precondition": None}, {"aged": True}, None),
        ("Ageing of the SSDs", {"precondition": {"settings": {"method": "none"}}}, {"aged": True}, False),
        ("Ageing of the SSDs", {"precondition": {"settings": {"method": "none"}}}, {"aged": False}, None),
        ("Ageing of the SSDs", {}, {"aged": False}, False),
        ("Record size", {"dataset": None}, {"record_size": "512B"}, None),
        (
            "Record size",
            {"dataset": {"properties": {"recordsize": "131072"}}},
            {"record_size": "512B"},
            False,
        ),
        ("Protocol", {"mount": {"options": "rw,vers=4.2,hard"}}, {"nfs_version": "4.2"}, True),
        ("Protocol", {"mount": {"options": "rw,mountvers=3"}}, {"nfs_version": "3"}, None),
        ("Duration of a phase", {}, {"duration": "12s"}, True),
        ("Duration of a phase", {}, {"duration": "13s"}, False),
        ("Clients", {}, {"clients": 2}, False),
    ],
)
def test_rules_of_same(name: str, change: dict[str, Any], stated: dict[str, Any], same: bool | None) -> None:
    assert row(name, lab(**change), **stated).same is same


def test_some_ssds_that_were_not_aged_are_named() -> None:
    part = {"settings": {"method": "snia"}, "fresh": True, "devices": [{"device": "log0"}]}
    assert row("Ageing of the SSDs", lab(precondition=part)).run == "no (SNIA: log0 alone)"


def test_an_appliance_says_what_was_not_recorded() -> None:
    observed = rows(read_json(MANIFESTS / "appliance.json"))
    for name in ("Disks", "Disk speed", "L2ARC devices", "SLOG devices", "Record size", "Ageing of the SSDs"):
        assert (observed[name].run, observed[name].same) == ("not recorded", None)
    assert observed["Protocol"].same and observed["I/O size"].same


def test_no_table() -> None:
    imported = synthetic.parsed(read_json(MANIFESTS / "import.json"))
    assert setup_table(imported, SUN, SUN_SETUP) is None
    run = synthetic.parsed(lab())
    assert setup_table(run, SUN, None) is None
    assert setup_table(run, None, SUN_SETUP) is None


def test_a_note_without_a_value() -> None:
    stated = Setup(notes=SetupNotes(disks="dozens"))
    assert rows(lab(), stated)["Disks"].published == "not stated (dozens)"


@given(mutated(lab()))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_manifest_is_compared_or_refused_as_the_page_does(manifest: dict[str, Any]) -> None:
    try:
        parsed = synthetic.parsed(manifest)
    except ConfigError:
        return
    try:
        setup_table(parsed, SUN, SUN_SETUP)
    except (LookupError, TypeError, ValueError, AttributeError):
        pass  # reports.page.document.damage_refused makes a ConfigError of them
