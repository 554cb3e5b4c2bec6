"""Files of devices to emulate: what they may say, and what their server is given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.testbed_devices import ages
from kit.core.errors import ConfigError
from kit.emulation import compilation
from kit.emulation.devices_file import load_states, read_emulation, served_devices
from kit.emulation.served import ServedDevices, description
from tests.conftest import Called
from tests.fakes import ScriptedHost
from tests.process import hsp

GOOD = '[[device]]\nname = "ssd0"\nsize = "64MiB"\npreset = "nvme-consumer"\n'


def written(tmp_path: Path, text: str, name: str = "devices.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_each_device_gets_its_spec_its_size_and_a_seed_of_its_own(tmp_path: Path) -> None:
    text = GOOD + GOOD.replace("ssd0", "ssd1") + "set = { dies_per_channel = 2 }\n"
    first, second = served_devices(read_emulation(written(tmp_path, text)).device)
    assert (first.name, first.size_bytes) == ("ssd0", 64 << 20)
    assert "dies_per_channel 4\n" in first.spec and "dies_per_channel 2\n" in second.spec
    assert "seed 1\n" in first.spec and "seed 2\n" in second.spec
    lines = description([first, second], 4).splitlines()
    assert lines[0] == "dilation 4"
    assert "device ssd1 131072" in lines and lines.count("end") == 2


BUS = '[bus.hba0]\nper_s = "300MB"\ncommand = "2us"\n'
ON_BUS = GOOD + 'bus = "hba0"\n'


def test_devices_of_one_bus_are_described_with_it(tmp_path: Path) -> None:
    text = ON_BUS + ON_BUS.replace("ssd0", "ssd1") + GOOD.replace("ssd0", "ssd2") + BUS
    emulation = read_emulation(written(tmp_path, text))
    lines = description(served_devices(emulation.device, emulation.bus), 4).splitlines()
    assert [line for line in lines if line.startswith("bus")] == ["bus hba0 300000000 2000"]
    assert lines.index("bus hba0 300000000 2000") < lines.index("device ssd0 131072 hba0")
    assert "device ssd1 131072 hba0" in lines and "device ssd2 131072" in lines


def test_a_file_beside_it_is_a_model_too(tmp_path: Path) -> None:
    preset = (compilation.HERE / "presets" / "disk-7200.toml").read_text()
    written(tmp_path, preset, "my-disk.toml")
    text = '[[device]]\nname = "d0"\nsize = "64MiB"\nfile = "my-disk.toml"\nset = { rpm = 5400 }\n'
    (device,) = read_emulation(written(tmp_path, text)).device
    assert device.emulated is not None and device.emulated.disk is not None
    assert device.emulated.disk.rpm == 5400


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace("nvme-consumer", "nonesuch"), "known presets: .*nvme-consumer"),
        (GOOD + "set = { channels = 0 }\n", "channels"),
        (GOOD + "set = { over_provisioning_percent = 100 }\n", "over_provisioning_percent"),
        (GOOD + "set = { nonesuch = 1 }\n", "nonesuch"),
        (GOOD.replace("nvme-consumer", "disk-7200") + 'set = { average_seek = "0.1ms" }\n', "average_seek"),
        (GOOD + 'file = "x.toml"\n', "found preset and file"),
        (GOOD.replace('preset = "nvme-consumer"\n', ""), "one of preset, file and emulated"),
        (GOOD.replace("64MiB", "1MiB"), "at least 64MiB"),
        (GOOD + GOOD, "two devices are called 'ssd0'"),
        (ON_BUS, r"devices.toml:5: device\[0\].bus: 'ssd0' is on 'hba0', and there is no table"),
        (ON_BUS.replace("hba0", "hba1") + BUS, "is on 'hba1', and there is hba0: add"),
        (GOOD + BUS, r'devices.toml:5: bus.hba0: no device has bus = "hba0"'),
        (ON_BUS + BUS.replace("300MB", "0MB"), r"devices.toml:7: bus.hba0.per_s"),
        (ON_BUS + BUS.replace("per_s", "rate"), r"bus.hba0.*per_s"),
        (GOOD.replace("ssd0", "../x"), "name"),
        (GOOD.replace("ssd0", "a b"), "name"),
        ("", "device"),
        ('[[device]]\nname = "d"\nsize = "64MiB"\nfile = "gone.toml"\n', "gone.toml"),
    ],
)
def test_what_cannot_be_is_refused_and_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_emulation(written(tmp_path, text))
    assert caught.value.exit_code == 2


TESTBED = """\
[server]
host = "lab"
[[client]]
host = "lab"
[lab]
memory = "1GiB"
[[device]]
name = "data0"
role = "data"
size = "{size}"
{how}
"""


@pytest.mark.parametrize(
    ("how", "is_aged"),
    [
        ('preset = "disk-7200"', False),
        ('preset = "nvme-consumer"', True),
        ('preset = "controller-battery"', True),
        ('model = "null_blk"\nlatency = "5ms"', False),
    ],
)
def test_flash_ages_and_nothing_else(tmp_path: Path, how: str, is_aged: bool) -> None:
    testbed = read_testbed(written(tmp_path, TESTBED.format(size="128MiB", how=how)))
    assert ages(testbed.device[0]) is is_aged


@pytest.mark.parametrize(
    ("size", "how", "complaint"),
    [
        ("2GiB", 'preset = "disk-7200"', "memory"),
        ("128MiB", 'preset = "disk-7200"\nlatency = "5ms"', "latency"),
        ("128MiB", 'model = "null_blk"', "latency"),
        ("128MiB", 'model = "null_blk"\nlatency = "1ms"\npreset = "disk-7200"', "has no preset"),
        ("128MiB", 'model = "null_blk"\nlatency = "1ms"\nset = { rpm = 1 }', "has no set"),
        ("128MiB", 'preset = "disk_7200"', "unknown preset"),
        ("128MiB", 'model = "null_blk"\nlatency = "1ms"\nbus = "hba0"\n' + BUS, "has no bus; remove it"),
        ("128MiB", 'preset = "disk-7200"\nbus = "hba1"', "bad.toml:12: .*there is no table"),
    ],
)
def test_a_testbed_with_impossible_devices_is_refused(
    tmp_path: Path, size: str, how: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_testbed(written(tmp_path, TESTBED.format(size=size, how=how), "bad.toml"))


def test_the_presets_are_listed_and_an_unknown_one_exits_2(hsp_here: Called, tmp_path: Path) -> None:
    listed = hsp_here("list", "presets")
    assert listed.returncode == 0
    assert "nvme-consumer" in listed.stdout and "disk-7200" in listed.stdout
    done = hsp_here(
        "lab", "up", "--here", os.fspath(written(tmp_path, GOOD.replace("nvme-consumer", "nvme")))
    )
    assert done.returncode == 2
    assert "known presets" in done.stderr


def test_more_than_the_machine_has_is_refused(hsp_here: Called, tmp_path: Path) -> None:
    done = hsp_here("lab", "up", "--here", os.fspath(written(tmp_path, GOOD.replace("64MiB", "64TiB"))))
    assert done.returncode == 5
    assert "memory free" in done.stderr


def test_without_ublk_it_says_what_is_missing(tmp_path: Path) -> None:
    if Path("/dev/ublk-control").exists() and os.geteuid() == 0:
        pytest.skip("this machine could really do it")
    done = hsp("lab", "up", "--here", os.fspath(written(tmp_path, GOOD)))
    assert done.returncode == 5
    assert "root" in done.stderr or "ublk" in done.stderr


def test_the_server_is_compiled_and_says_how_it_is_used() -> None:
    done = subprocess.run([os.fspath(compilation.server())], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "usage" in done.stderr
    cut_short = "dilation 1\nsocket /x\ndevice a 1000\n"
    no_bus = "dilation 1\nsocket /x\ndevice a 1000 hba0\nend\n"
    for bad in ("", "dilation 0\n", cut_short, no_bus, "dilation 1\nsocket /x\nnonsense\n"):
        refused = subprocess.run(
            [os.fspath(compilation.server()), "serve", "/dev/stdin"],
            input=bad, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert refused.returncode == 2, bad


@pytest.mark.parametrize("name", ["../kept", "/etc/shadow", ".bashrc", "a/b", ""])
def test_what_is_kept_is_beside_the_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"devices\.toml:5: device\[0\]\.keep: .* is a path"):
        read_emulation(written(tmp_path, f'{GOOD}keep = "{name}"\n'))


def to_shadow(path: Path) -> None:
    path.symlink_to("/etc/shadow")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(4 << 30)


@pytest.mark.parametrize("kind", [to_shadow, os.mkfifo, Path.mkdir, huge])
def test_only_an_own_file_of_a_likely_size_is_given_to_a_device(
    tmp_path: Path, kind: Callable[[Path], object]
) -> None:
    (device,) = read_emulation(written(tmp_path, f'{GOOD}keep = "kept"\n')).device
    kind(tmp_path / "kept")
    host = ScriptedHost(default="")
    with pytest.raises(ConfigError, match=r"a link, a FIFO or a device|larger than"):
        load_states(ServedDevices(host), [device])
    assert {command.argv[0] for command in host.commands} <= {"rm"}
