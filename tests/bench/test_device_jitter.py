"""How far answers of an emulated device stray from its model's own time, in the guest.

The model is given no randomness of its own, so what varies is the server, ublk and the guest.
Stated, not asserted: `pytest -s -m bench tests/bench/test_device_jitter.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.config.testbed_devices import EmulatedDevice, resolve_devices
from kit.core.clock import Clock
from kit.core.progress import Progress
from kit.emulation import compilation
from kit.emulation.devices_file import served_devices
from kit.emulation.served import ServedDevices
from kit.lab.image.image import ImageInputs, build
from kit.lab.qemu import LabSpec
from kit.lab.warm import open_lab
from tests.bench.conftest import Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

DILATION = 4
LIMIT_US = 15.0
STILL = {name: "0us" for name in ("read_spread", "program_spread", "command_spread", "write_command_spread")}


def test_answers_come_when_the_model_says(tell: Tell) -> None:
    device = EmulatedDevice(name="still", size="64MiB", preset="ssd-2009-read", set=STILL)
    devices = resolve_devices((device,), Path(__file__))
    image = build(ImageInputs(), Progress())
    spec = LabSpec(image.path, Clock("virtual", DILATION), memory_mib=2048)
    with open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()
        with lab.host() as guest:
            served = ServedDevices(guest)
            path = served.start(compilation.server(), served_devices(devices), DILATION)["still"]
            fill = ["fio", "--name=a", f"--filename={path}", "--rw=write", "--bs=128k", "--direct=1",
                    "--size=64M", "--output=/dev/null"]  # fmt: skip
            guest.run(fill, deadline_s=600)
            guest.run(["sleep", "5"])
            answer = guest.run(
                ["fio", "--name=a", f"--filename={path}", "--direct=1", "--rw=randread", "--bs=512",
                 "--number_ios=4000", "--ioengine=psync", "--output-format=json",
                 "--percentile_list=1:50:99:99.9"], deadline_s=600,
            )  # fmt: skip
            own_ns = served.status()[0]["own_cost_ns"]
            served.stop()
    read = json.loads(answer.stdout)["jobs"][0]["read"]
    assert read["total_ios"] == 4000
    # Microseconds of the guest (undilated).
    percentiles_us = {float(name): ns / 1e3 for name, ns in read["clat_ns"]["percentile"].items()}
    tell("", "512 B random read of a device, p50 as fio sees it", percentiles_us[50], "us")
    tell("", "the server's own cost (calibrated and subtracted)", own_ns / 1e3, "us")
    for percent, value_us in percentiles_us.items():
        limit_us = LIMIT_US if percent == 99 else None
        tell("", f"p{percent:g} less p50", value_us - percentiles_us[50], "us", at_most=limit_us)
