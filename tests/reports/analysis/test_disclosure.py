"""The disclosure of a run: what the manifest has, and that the rest is said to be not known."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.summary import Disclosure
from reports.analysis import disclosure
from tests.reports import synthetic


def described(**more: Any) -> Disclosure:
    found = disclosure.describe(synthetic.parsed({**synthetic.manifest(), **more}))
    assert found is not None
    return found


@pytest.mark.parametrize(("properties", "words"), [
    ({"sync": "disabled"}, "a crash of the server loses"),
    ({"sync": "always"}, "each write is acknowledged when it is in the ZIL"),
    ({"logbias": "throughput"}, "log devices are not used"), ({}, "sync is not known"),
    ({"sync": "new"}, "sync=new."),
])  # fmt: skip
def test_the_dataset(properties: dict[str, str], words: str) -> None:
    assert words in " ".join(described(dataset={"properties": properties}).stable_storage)


@pytest.mark.parametrize(("options", "words"), [
    ("10.0.0.2(rw,async,no_root_squash)", "The export is async"), ("10.0.0.2(sync,rw)", "The export is sync"),
    ("10.0.0.2(rw)", "not known"),
])  # fmt: skip
def test_the_export(options: str, words: str) -> None:
    assert words in " ".join(described(export={"lines": [f"/tank/bench {options}"]}).stable_storage)


def test_devices_are_counted_without_serial_numbers() -> None:
    device = {
        "name": "log0", "role": "log", "model": "Fast 400", "size_bytes": 1 << 30,
        "identity": {"serial": "S3CRET"}, "parameters": {"ssd": {"power_loss_protection": True}},
        "settings": {"firmware": "1.2", "write_cache": "write back"},
    }  # fmt: skip
    found = described(testbed={"emulated": False, "devices": [device, {**device, "name": "log1"}]})
    assert ("Log devices", "2 \N{MULTIPLICATION SIGN} Fast 400, 1 GiB, firmware 1.2") in found.materials
    text = " ".join(found.stable_storage)
    assert "Log devices: log0, log1" in text and "log0: its write cache is volatile" in text
    assert "sends FLUSH" not in text, "that the cache is volatile does not say so"
    assert "power-loss protection by its model" in text and "S3CRET" not in str(found)


def test_memory_of_each_machine() -> None:
    phase = synthetic.manifest()["phases"][0]
    cpu = [{"host": host, "cpus": 2, "samples": [], **more} for host, more in
           (("server", {"memory_bytes": 4_111_011_840}), ("client1", {}))]  # fmt: skip
    found = described(phases=[{**phase, "cpu": cpu}]).materials
    assert ("Memory (as the kernel has it)", "server: 3.8 GiB, client1: not known") in found
    assert ("Memory (as the kernel has it)", "not known") in described().materials


def test_what_was_tried_and_what_was_not() -> None:
    assert "No power loss was tried in this run." in described().stable_storage
    again = {"old": 1}
    moments = [{"acknowledged": 10, "lost": 1}, {"acknowledged": 5, "torn": 1, "again": again}]
    moments = [{**each, "looked_at": 5} for each in moments]
    found = described(power_loss={"moments": moments, "scope": "lab"}).stable_storage
    assert any("3 of 10 records looked for (15 ack" in each for each in found)


def test_an_appliance_and_an_import() -> None:
    (sentence,) = described(appliance={"export": "nas:/x"}).stable_storage
    assert "could not be looked into" in sentence
    imported = {**synthetic.manifest(), "import": {"format": "fio-log"}}
    assert disclosure.describe(synthetic.parsed(imported)) is None


def test_the_page_has_it() -> None:
    frame, manifest = synthetic.latency(), synthetic.manifest()
    html = synthetic.render(frame, manifest, synthetic.summarise(frame, manifest))
    assert 'id="disclosure"' in html and "No power loss was tried in this run." in html


@pytest.mark.parametrize(("fragmentation", "words"), [(30, "30 %"), (None, "not known")])
def test_how_full_and_fragmented_the_pool_is(fragmentation: int | None, words: str) -> None:
    space = {"size_bytes": 1 << 40, "allocated_bytes": 6 << 37, "fragmentation_percent": fragmentation}
    found = dict(described(pool={"name": "hsp-1", "space": space}).materials)
    text = "75 % of 1 TiB used; fragmentation"
    assert found["Pool when it was measured"] == f"{text} {words}"
    assert "Pool when it was measured" not in dict(described(pool={"name": "hsp-1"}).materials)
