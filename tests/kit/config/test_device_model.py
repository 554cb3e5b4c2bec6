"""kit.config.device_model: presets, files, overrides, and each mistake with its field."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kit.config.device_model import PRESETS, DeviceModel, find_preset, preset_names, resolve, to_spec
from kit.core.errors import ConfigError
from tests.kit.emulation.model_library import ModelDevice

MIB = 1 << 20


def test_the_presets_are_those_that_the_issue_names() -> None:
    assert set(preset_names()) >= {
        "disk-7200",
        "disk-10k",
        "ssd-2009-read",
        "ssd-2009-write",
        "nvme-datacentre",
        "nvme-consumer",
        "ssd-lying",
        "controller-battery",
        "controller-bypass",
    }


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_loads_cites_and_makes_a_device(name: str) -> None:
    preset = find_preset(name)
    assert preset.title and preset.source
    with ModelDevice(preset, 64 * MIB) as device:
        assert device.submit(0, 0, 0, 1)[1] == 0
    for line in (PRESETS / f"{name}.toml").read_text().partition(f"[{preset.model}]")[2].splitlines():
        key = line.partition(" ")[0]
        if (
            key
            and not line.startswith("#")
            and key not in {"cache", "backing", "flush", "write_cache", "power_loss_protection"}
        ):
            assert "#" in line, f"{key} does not say where it is from"


def test_the_lying_drive_is_the_consumer_drive_but_for_its_flushes() -> None:
    honest, lying = find_preset("nvme-consumer").ssd, find_preset("ssd-lying").ssd
    assert honest and lying
    assert honest.model_copy(update={"flush": "ignored", "destage_idle": 0}) == lying


def test_a_firmware_is_recorded_and_is_no_parameter_of_the_model(tmp_path: Path) -> None:
    text = (PRESETS / "nvme-datacentre.toml").read_text()
    named = tmp_path / "a.toml"
    named.write_text(text.replace("title =", 'firmware = "GDC5602Q"\ntitle =', 1))
    preset, model = find_preset("nvme-datacentre"), resolve(None, str(named))
    assert "firmware" not in preset.model_dump(mode="json")
    assert model.model_dump(mode="json")["firmware"] == "GDC5602Q" and to_spec(model) == to_spec(preset)
    named.write_text(text.replace("title =", 'firmware = " "\ntitle =', 1))
    with pytest.raises(ConfigError, match="firmware: expected a version"):
        resolve(None, str(named))


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("ssd-2009\x1b[31m")
    assert caught.value.exit_code == 2
    assert all(name in caught.value.message for name in preset_names())
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("name", ["../presets/disk-10k", "", ".", "disk-10k.toml", "/etc/passwd"])
def test_a_preset_is_no_path(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown preset"):
        find_preset(name)


def test_one_of_preset_and_file() -> None:
    for arguments in ({}, {"preset": "disk-10k", "file": "x.toml"}):
        with pytest.raises(ConfigError, match="preset or a file"):
            resolve(**arguments)


def write(tmp_path: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = (PRESETS / f"{name}.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_is_found_beside_the_testbed(tmp_path: Path) -> None:
    write(tmp_path, "ssd-2009-read", ("dies_per_channel = 2", "dies_per_channel = 3"))
    bed = tmp_path / "bed.toml"
    bed.touch()
    device = resolve(file="mine.toml", by=bed)
    assert device.ssd and device.ssd.dies_per_channel == 3
    with pytest.raises(ConfigError, match="no such file"):
        resolve(file="other.toml", by=bed)


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ("channels = 0", "ssd.channels", "greater than or equal to 1"),
        ("dies_per_channel = 0", "ssd.dies_per_channel", "1"),
        ("dies_per_channel = true", "ssd.dies_per_channel", "integer"),
        ("over_provisioning_percent = 100", "ssd.over_provisioning_percent", "below 100"),
        ("over_provisioning_percent = 250.5", "ssd.over_provisioning_percent", "below 100"),
        ("over_provisioning_percent = -1", "ssd.over_provisioning_percent", "0"),
        ('page = "3KiB"', "ssd.page", "power of two"),
        ('page = "1000B"', "ssd.page", "power of two"),
        ('page = "256B"', "ssd.page", "512"),
        ('page = "64KiB"', "ssd.page", "32768"),
        ("page = 4096", "ssd.page", "expected a size"),
        ('read = "0s"', "ssd.read", "1"),
        ('read = "50"', "ssd.read", "needs a unit"),
        ('erase = "1h"', "ssd.erase", "4000000000"),
        ('buffer = "4KiB"', "ssd.buffer", "two or more"),
        ('buffer = "9KiB"', "ssd.buffer", "whole pages"),
        ("destage_at_percent = 100", "ssd.destage_at_percent", "99"),
        ('porgram = "900us"', "ssd.porgram", "did you mean 'program'?"),
        ('channel_per_s = "1TB"', "ssd.channel_per_s", "16000000000"),
        ('flush = "ignore"', "ssd.flush", "did you mean 'ignored'?"),
        ("format = 2", "format", "1"),
        ('model = "disk"', "", "needs the table [disk] alone, found [ssd]"),
        ('model = "tape"', "model", "tape"),
        ('average_seek = "700us"', "disk.average_seek", "shorter than settle"),
        ('full_seek = "3ms"', "disk.full_seek", "shorter than average_seek"),
        ('settle = "9ms"', "disk.average_seek", "shorter than settle"),
        ("rpm = 0", "disk.rpm", "100"),
        ("stroke_percent = 101", "disk.stroke_percent", "100"),
        ('inner_per_s = "286MB"', "disk.inner_per_s", "outer tracks are longer"),
        ('write_cache = "1KiB"', "disk.write_cache", "64KiB"),
        ('cache = "batery"', "controller.cache", "did you mean 'battery'?"),
        ('backing = "ssd-2009-wriet"', "controller.backing", "known presets: "),
        ('backing = "controller-bypass"', "controller.backing", "controller itself"),
        ("#backing", "controller", "needs exactly one of backing"),
        ("queue_depth = 0", "disk.queue_depth", "greater than or equal to 1"),
        ("queue_depth = 33", "disk.queue_depth", "less than or equal to 32"),
        ('read_ahead = "9MiB"', "controller.read_ahead", "more than half of cache_size (16777216 bytes)"),
    ],
)
def test_an_impossible_parameter_is_named(tmp_path: Path, changed: str, field: str, message: str) -> None:
    presets = {"disk": "disk-10k", "controller": "controller-battery"}
    text = (PRESETS / f"{presets.get(field.partition('.')[0], 'ssd-2009-read')}.toml").read_text()
    key = changed.partition(" ")[0].lstrip("#")
    text, count = re.subn(rf"(?m)^{key} = .*$", changed, text)
    path = tmp_path / "mine.toml"
    path.write_text(text if count else f"{text}{changed}\n")
    with pytest.raises(ConfigError) as caught:
        resolve(file=str(path))
    assert caught.value.exit_code == 2
    line = next(line for line in caught.value.message.splitlines() if message in line)
    assert f": {field}: " in line if field else line.startswith(f"{path}:")


def test_overrides_are_validated_like_the_file() -> None:
    device = resolve("ssd-2009-read", overrides={"dies_per_channel": 4, "read": "75us"})
    assert device.ssd and (device.ssd.dies_per_channel, device.ssd.read) == (4, 75_000)
    behind = resolve("controller-battery", overrides={"backing": "disk-7200", "cache_size": "1MiB"})
    assert behind.controller and behind.controller.device == find_preset("disk-7200").disk
    for overrides, message in (
        ({"dies_per_channel": 0}, "set.dies_per_channel: "),
        ({"over_provisioning_percent": 100}, "set.over_provisioning_percent: 100 %"),
        ({"colour": "red"}, "set.colour: "),
        ({"read": 50}, "set.read: expected a duration"),
        ({"page": "3KiB", "channels": 0}, "set.channels: "),
        ({"read": float("nan")}, "set.read: "),
    ):
        with pytest.raises(ConfigError) as caught:
            resolve("ssd-2009-read", overrides=overrides)
        assert message in caught.value.message


def test_a_controller_may_have_its_device_in_a_table(tmp_path: Path) -> None:
    ssd = (PRESETS / "nvme-consumer.toml").read_text().partition("[ssd]\n")[2]
    path = write(tmp_path, "controller-battery", ('backing = "ssd-2009-write"', f"[controller.ssd]\n{ssd}"))
    device = resolve(file=str(path))
    assert device.controller and device.controller.device == find_preset("nvme-consumer").ssd
    deeper = resolve(file=str(path), overrides={"ssd": {"channels": 2}})
    assert deeper.controller and deeper.controller.ssd and deeper.controller.ssd.channels == 2


def test_what_was_added_is_in_spec_and_dump_only_if_it_is_asked_for() -> None:
    """So a kept state and a stored run of a device without it stay what they are."""
    for name, key, value, line in (
        ("disk-7200", "queue_depth", 32, "\nqueue_depth 32\n"),
        ("controller-battery", "read_ahead", "1MiB", "\nread_ahead_bytes 1048576\n"),
    ):
        plain, changed = find_preset(name), resolve(name, overrides={key: value})
        assert line not in to_spec(plain) and line in to_spec(changed)
        assert key not in plain.table.model_dump(mode="json")
        assert key in changed.table.model_dump(mode="json")
    assert find_preset("disk-7200") == resolve("disk-7200", overrides={"queue_depth": 1})


def test_what_a_controller_cannot_have_is_refused() -> None:
    disk = {**tomllib.loads((PRESETS / "disk-7200.toml").read_text())["disk"], "queue_depth": 8}
    for overrides, message in (
        ({"read_ahead": "1MiB"}, 'set.read_ahead: needs a cache, and "bypass" has none'),
        ({"backing": None, "disk": disk}, "set.disk.queue_depth: 8: a controller gives its disk one request"),
        ({"cache": "through"}, "set.cache: "),
    ):
        with pytest.raises(ConfigError) as caught:
            resolve("controller-bypass", overrides=overrides)
        assert message in caught.value.message


def test_a_cache_that_keeps_what_was_read_counts_as_dram() -> None:
    buffer = find_preset("disk-7200").read_cache
    assert buffer == 16 * MIB
    behind = {"backing": "disk-7200"}
    assert resolve("controller-battery", overrides=behind).read_cache == buffer
    for more in ({"cache": "write-through"}, {"read_ahead": "1MiB"}):
        assert resolve("controller-battery", overrides={**behind, **more}).read_cache == buffer + 16 * MIB


def test_seeds_tell_devices_of_one_model_apart() -> None:
    device = find_preset("controller-bypass")
    assert to_spec(device, 1) != to_spec(device, 2)
    assert "\nbacking.seed 2\n" in to_spec(device, 2)


def test_a_device_model_cannot_be_changed() -> None:
    device = find_preset("disk-10k")
    assert isinstance(device, DeviceModel)
    with pytest.raises(ValueError, match="frozen"):
        device.title = "x"  # type: ignore[misc]
