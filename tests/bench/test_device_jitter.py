"""How far answers of an emulated device stray from its model's own time, in the guest.

The model is given no randomness of its own, so what varies is the server, ublk and the guest.
Printed, not asserted beyond its being a distribution: `pytest -s -m bench tests/bench/test_device_jitter.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.config.testbed import EmulatedDevice, resolve_devices
from kit.core.clock import Clock
from kit.core.progress import Progress
from kit.emulation import compilation
from kit.emulation.devices_file import served_devices
from kit.emulation.served import Served
from kit.lab.image.image import ImageInputs, build
from kit.lab.qemu import LabSpec
from kit.lab.warm import open_lab

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

DILATION = 4
LIMIT_US = 15.0
STILL = {name: "0us" for name in ("read_spread", "program_spread", "command_spread", "write_command_spread")}


def test_answers_come_when_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    device = EmulatedDevice(name="still", size="64MiB", preset="ssd-2009-read", set=STILL)
    devices = resolve_devices((device,), Path(__file__))
    image = build(ImageInputs(), Progress())
    spec = LabSpec(image.path, Clock("virtual", DILATION), memory_mib=2048)
    with open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()
        with lab.host() as guest:
            served = Served(guest)
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
    found = json.loads(answer.stdout)["jobs"][0]["read"]
    shares = {name: value / 1e3 for name, value in found["clat_ns"]["percentile"].items()}
    middle = shares["50.000000"]
    strays = {name: value - middle for name, value in shares.items()}
    assert found["total_ios"] == 4000
    with capsys.disabled():
        print(f"\n512 B random reads, {found['total_ios']} of them; microseconds of the guest (undilated)")
        print(f"  the model's own time      {middle:8.1f} (p50 as fio sees it)")
        print(f"  the server's own cost     {own_ns / 1e3:8.1f} (calibrated and taken off)")
        for name, value in strays.items():
            print(f"  p{float(name):<4g} less p50            {value:8.1f}")
        reached = "reached" if strays["99.000000"] <= LIMIT_US else "NOT REACHED"
        print(f"  limit for p99             {LIMIT_US:8.1f} {reached}")
