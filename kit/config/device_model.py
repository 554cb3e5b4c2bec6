"""What an emulated device is: a TOML file as a frozen model, and the lines that the C library takes.

A file has `format`, `model`, `title`, `source` and one table with the name of its model. Rates
(`..._per_s`) are sizes a second. Limits are those of the C library, so that what passes here is
made there.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo

from kit.config.toml import dotted, load, printable, read_text
from kit.core.errors import ConfigError
from kit.core.units import DurationNs, SizeBytes, format_duration_ns

PRESETS = Path(__file__).parents[1] / "emulation" / "presets"
SECTOR_BYTES = 512
MAX_DEVICE_BYTES = SECTOR_BYTES << 40

Ns = Annotated[DurationNs, Field(ge=0, le=4 * 10**9)]
SomeNs = Annotated[DurationNs, Field(ge=1, le=4 * 10**9)]
IdleNs = Annotated[DurationNs, Field(ge=0, le=1 << 50)]
BytesPerS = Annotated[SizeBytes, Field(ge=10**5, le=16 * 10**9)]
CacheBytes = Annotated[SizeBytes, Field(ge=0, le=1 << 40)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Disk(_Table):
    """A rotating disk. `average_seek` is over a third of the stroke, `settle` to the next track.

    `stroke_percent`: over how much of the way from edge to edge the emulated sectors are spread.
    `write_cache = "0B"`: writes are done when they are on the platter.
    """

    rpm: Annotated[int, Field(ge=100, le=100_000)]
    heads: Annotated[int, Field(ge=1, le=64)]
    zones: Annotated[int, Field(ge=1, le=64)]
    stroke_percent: Annotated[float, Field(ge=0, le=100)]
    settle: Annotated[DurationNs, Field(ge=1, le=10**9)]
    average_seek: Annotated[DurationNs, Field(ge=1, le=10**9)]
    full_seek: Annotated[DurationNs, Field(ge=1, le=10**9)]
    head_switch: Annotated[DurationNs, Field(ge=1, le=10**9)]
    write_settle: Ns
    outer_per_s: BytesPerS
    inner_per_s: BytesPerS
    link_per_s: BytesPerS
    command: Ns
    command_spread: Ns
    track_buffer: CacheBytes
    read_ahead: CacheBytes
    write_cache: CacheBytes
    destage_idle: IdleNs

    @field_validator("average_seek", "full_seek")
    @classmethod
    def _rises(cls, value: int, info: ValidationInfo) -> int:
        name = "settle" if info.field_name == "average_seek" else "average_seek"
        shorter = info.data.get(name)
        if shorter is not None and value < shorter:
            raise ValueError(
                f"{format_duration_ns(value)} is shorter than {name} ({format_duration_ns(shorter)}), "
                "which is part of every seek"
            )
        return value

    @field_validator("inner_per_s")
    @classmethod
    def _is_slower(cls, value: int, info: ValidationInfo) -> int:
        outer = info.data.get("outer_per_s")
        if outer is not None and value > outer:
            raise ValueError(f"{value} bytes/s is more than outer_per_s ({outer}): outer tracks are longer")
        return value

    @field_validator("write_cache")
    @classmethod
    def _holds_something(cls, value: int) -> int:
        if 0 < value < 64 << 10:
            raise ValueError(f'{value} bytes: a write cache has at least 64KiB; "0B" turns it off')
        return value

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield "rpm", self.rpm
        yield "heads", self.heads
        yield "zones", self.zones
        yield "stroke_ppm", round(self.stroke_percent * 10_000)
        for name in ("settle", "average_seek", "full_seek", "head_switch", "write_settle"):
            yield f"{name}_ns", getattr(self, name)
        for name in ("outer", "inner", "link"):
            yield f"{name}_bytes_per_s", getattr(self, f"{name}_per_s")
        for name in ("command", "command_spread", "destage_idle"):
            yield f"{name}_ns", getattr(self, name)
        for name in ("track_buffer", "read_ahead", "write_cache"):
            yield f"{name}_bytes", getattr(self, name)

    def state_bytes(self, sectors: int) -> int:
        return 8192 + 8 * (sectors + sectors // 64)


class Ssd(_Table):
    """A solid state disk with a page-mapped translation layer.

    `serial`: how long the firmware's one processor is busy with a command, so 1 / serial is the
    highest rate. `command`, `write_command`: what a command takes besides; `..._spread`: up to
    so much more, mostly little. `flush = "ignored"` is a device that lies about its cache.
    """

    channels: Annotated[int, Field(ge=1, le=64)]
    dies_per_channel: Annotated[int, Field(ge=1, le=64)]
    page: Annotated[SizeBytes, Field(ge=SECTOR_BYTES, le=64 * SECTOR_BYTES)]
    pages_per_block: Annotated[int, Field(ge=2, le=4096)]
    over_provisioning_percent: Annotated[float, Field(ge=0)]
    read: SomeNs
    read_spread: Ns
    program: SomeNs
    program_spread: Ns
    erase: SomeNs
    channel_per_s: BytesPerS
    link_per_s: BytesPerS
    serial: Ns
    command: Ns
    command_spread: Ns
    write_command: Ns
    write_command_spread: Ns
    buffer: CacheBytes
    destage_at_percent: Annotated[int, Field(ge=0, le=99)]
    destage_idle: IdleNs
    power_loss_protection: bool
    flush: Literal["honoured", "ignored"] = "honoured"
    flush_command: Ns

    @field_validator("page")
    @classmethod
    def _is_power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError(f"{value} bytes: a flash page is 512 bytes times a power of two")
        return value

    @field_validator("over_provisioning_percent")
    @classmethod
    def _is_below_all(cls, value: float) -> float:
        if value >= 100:
            raise ValueError(f"{value:g} %: over-provisioning must be below 100 % of the user's capacity")
        return value

    @field_validator("buffer")
    @classmethod
    def _holds_pages(cls, value: int, info: ValidationInfo) -> int:
        page = info.data.get("page")
        if page is not None and (value < 2 * page or value % page):
            raise ValueError(f"{value} bytes: a write buffer is two or more whole pages of {page} bytes")
        if page is not None and value // page > 1 << 24:
            raise ValueError(f"{value} bytes: more than 2^24 pages of {page} bytes")
        return value

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield "channels", self.channels
        yield "dies_per_channel", self.dies_per_channel
        yield "page_bytes", self.page
        yield "pages_per_block", self.pages_per_block
        yield "over_provisioning_permyriad", min(9999, round(self.over_provisioning_percent * 100))
        for name in ("read", "read_spread", "program", "program_spread", "erase"):
            yield f"{name}_ns", getattr(self, name)
        yield "channel_bytes_per_s", self.channel_per_s
        yield "link_bytes_per_s", self.link_per_s
        for name in ("serial", "command", "command_spread", "write_command", "write_command_spread"):
            yield f"{name}_ns", getattr(self, name)
        yield "flush_ns", self.flush_command
        yield "buffer_pages", self.buffer // self.page
        yield "destage_at_percent", self.destage_at_percent
        yield "destage_idle_ns", self.destage_idle
        yield "power_loss_protection", int(self.power_loss_protection)
        yield "flush", self.flush

    def state_bytes(self, sectors: int) -> int:
        pages = -(-sectors * SECTOR_BYTES // self.page)
        dies = self.channels * self.dies_per_channel
        user = -(-pages // dies)
        blocks = (
            max(-(-int(user * (1 + self.over_provisioning_percent / 100)) // self.pages_per_block), 1) + 4
        )
        flash = dies * (blocks * (4 * self.pages_per_block + 8) + 100)
        safety = 0 if self.power_loss_protection else 8 * (sectors + pages)
        return 4096 + 8 * pages + flash + 52 * (self.buffer // self.page) + safety


class Controller(_Table):
    """A controller in front of a device: `backing` is a preset, or a table `disk` or `ssd` is here."""

    cache: Literal["battery", "bypass"]
    cache_size: Annotated[CacheBytes, Field(ge=64 << 10)] = 64 << 20
    command: Ns
    command_spread: Ns
    link_per_s: BytesPerS
    destage_idle: IdleNs
    backing: str | None = None
    disk: Disk | None = None
    ssd: Ssd | None = None

    @field_validator("backing")
    @classmethod
    def _is_preset(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            model = find_preset(value).model
        except ConfigError as error:
            raise ValueError(error.message) from None
        if model == "controller":
            raise ValueError(f"'{value}' is a controller itself; it needs a disk or an SSD behind it")
        return value

    @model_validator(mode="after")
    def _has_one_device(self) -> Self:
        if [self.backing, self.disk, self.ssd].count(None) != 2:
            raise ValueError('one of backing = "PRESET", a table disk or a table ssd says what is behind it')
        return self

    @property
    def device(self) -> Disk | Ssd:
        """What is behind the controller."""
        table = self.disk or self.ssd or find_preset(str(self.backing)).table
        assert isinstance(table, (Disk, Ssd))
        return table

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield "cache", self.cache
        yield "cache_bytes", self.cache_size
        for name in ("command", "command_spread", "destage_idle"):
            yield f"{name}_ns", getattr(self, name)
        yield "link_bytes_per_s", self.link_per_s
        device = self.device
        yield "backing.model", "disk" if isinstance(device, Disk) else "ssd"
        for key, value in device.lines():
            yield f"backing.{key}", value

    def state_bytes(self, sectors: int) -> int:
        return 4096 + sectors // 8 + self.device.state_bytes(sectors)


class DeviceModel(_Table):
    """A device file: what it is, where its parameters are from, and the parameters."""

    format: Literal[1]
    model: Literal["disk", "ssd", "controller"]
    title: Annotated[str, Field(min_length=1, max_length=100)]
    source: tuple[str, ...] = ()
    disk: Disk | None = None
    ssd: Ssd | None = None
    controller: Controller | None = None

    @model_validator(mode="after")
    def _has_its_table(self) -> Self:
        tables = [name for name in ("disk", "ssd", "controller") if getattr(self, name) is not None]
        if tables != [self.model]:
            found = " and ".join(f"[{name}]" for name in tables) or "none"
            raise ValueError(f'model = "{self.model}" needs the table [{self.model}] alone, found {found}')
        return self

    @property
    def table(self) -> Disk | Ssd | Controller:
        table = self.disk or self.ssd or self.controller
        assert table is not None  # _has_its_table
        return table


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_path(name: str) -> Path:
    """Raises ConfigError that lists the known presets."""
    if name not in preset_names():
        known = ", ".join(preset_names())
        raise ConfigError(
            f"unknown preset '{printable(name[:60])}'; known presets: {known}",
            "`hsp device presets` shows what each is",
        )
    return PRESETS / f"{name}.toml"


def find_preset(name: str) -> DeviceModel:
    """Raises ConfigError that lists the known presets."""
    return load(preset_path(name), DeviceModel)


def resolve(
    preset: str | None = None,
    file: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    relative_to: Path | None = None,
) -> DeviceModel:
    """The device of a preset, or of a file (relative to the directory `relative_to`).

    `overrides` are keys of the model's table, with TOML's values; they pass the same validation.
    Raises ConfigError: neither or both given, an unknown preset, a mistake in the file or an override.
    """
    if (preset is None) == (file is None):
        raise ConfigError("a device model is either a preset or a file", "take one of the two out")
    path = preset_path(preset) if preset is not None else (relative_to or Path()) / str(file)
    model = load(path, DeviceModel)
    if not overrides:
        return model
    document = tomllib.loads(read_text(path))
    _merge(document[model.model], overrides)
    try:
        return DeviceModel.model_validate_json(json.dumps(document))
    except ValidationError as error:
        told = dict.fromkeys(
            printable(f"set.{dotted(detail['loc'][1:])}: {_say(detail['msg'])}")
            for detail in error.errors(include_url=False)
        )
        raise ConfigError("\n".join(told)) from None


def _say(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should ", "must ")


def _merge(table: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for key, value in overrides.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def to_spec(device: DeviceModel, seed: int = 1) -> str:
    """The device as lines of "key value" for the C library. `seed` tells devices of one model apart."""
    lines: list[tuple[str, int | str]] = [("model", device.model), ("seed", seed)]
    if device.controller:
        lines.append(("backing.seed", seed))
    lines += device.table.lines()
    return "".join(f"{key} {value}\n" for key, value in lines)


def state_bytes(device: DeviceModel, size_bytes: int) -> int:
    """Memory that the model of a device of `size_bytes` takes, without its content; a few percent more."""
    return device.table.state_bytes(-(-size_bytes // SECTOR_BYTES))
