"""Model of an emulated device: a TOML file as a frozen value, and its spec for the C library.

A file has `format`, `model`, `title`, `source` and one table with the name of its model. Rates
(`..._per_s`) are sizes per second. The limits are those of the C library, so that it accepts
every valid file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ValidationInfo

from kit.config import named_files
from kit.config.toml import (
    STORED_IF_ANY,
    STORED_IF_SET,
    KeyProblem,
    Problems,
    Table,
    dotted,
    load,
    nearest,
    printable,
    read_text,
    stored_unless,
    suggested,
)
from kit.config.toml_lines import KeyPath
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import DurationNs, SizeBytes, format_duration_ns

PRESETS = Path(__file__).parents[1] / "emulation" / "presets"
SECTOR_BYTES = 512

Ns = Annotated[DurationNs, Field(ge=0, le=4 * 10**9)]
PositiveNs = Annotated[DurationNs, Field(ge=1, le=4 * 10**9)]
IdleNs = Annotated[DurationNs, Field(ge=0, le=1 << 50)]
BytesPerS = Annotated[SizeBytes, Field(ge=10**5, le=16 * 10**9)]


def _version(text: str) -> str:
    if not (0 < len(text.strip()) == len(text) <= 60 and text.isascii() and text.isprintable()):
        raise ValueError(
            f'expected a version of 1 to 60 printable ASCII characters, such as "1.2.3", found '
            f"'{safe_text(text)[:100]}'"
        )
    return text


# A version as its maker writes it.
VersionText = Annotated[str, AfterValidator(_version)]
CacheBytes = Annotated[SizeBytes, Field(ge=0, le=1 << 40)]


def _fields(table: Table, *keys: str) -> Iterator[tuple[str, int | str]]:
    """Lines of the spec: fields of `table`, where a key has its unit as suffix (`settle_ns`)."""
    for key in keys:
        yield (
            key,
            getattr(table, key.removesuffix("_ns").replace("_bytes_per_s", "_per_s").removesuffix("_bytes")),
        )


class Disk(Table):
    """A hard disk. `average_seek`: a third of the stroke; `settle`: to the next track.

    `stroke_percent`: part of the full stroke over which the emulated sectors are spread.
    `write_cache = "0B"`: a write completes when it is on the platter.
    `queue_depth`: the arm takes the nearest of so many requests (kit/emulation/models/queue.h); 1: in order.
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
    # SATA Native Command Queuing has 32 tags.
    queue_depth: Annotated[int, Field(ge=1, le=32), stored_unless(1)] = 1

    @field_validator("average_seek", "full_seek")
    @classmethod
    def _check_seek_order(cls, value: int, info: ValidationInfo) -> int:
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
    def _check_inner_rate(cls, value: int, info: ValidationInfo) -> int:
        outer = info.data.get("outer_per_s")
        if outer is not None and value > outer:
            raise ValueError(f"{value} bytes/s is more than outer_per_s ({outer}): outer tracks are longer")
        return value

    @field_validator("write_cache")
    @classmethod
    def _check_write_cache(cls, value: int) -> int:
        if 0 < value < 64 << 10:
            raise ValueError(f'{value} bytes: a write cache has at least 64KiB; "0B" turns it off')
        return value

    @property
    def read_cache(self) -> int:
        """Bytes of its own DRAM that answer reads of what it has read."""
        return self.track_buffer

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield from _fields(self, "rpm", "heads", "zones")
        yield "stroke_ppm", round(self.stroke_percent * 10_000)
        yield from _fields(self, "settle_ns", "average_seek_ns", "full_seek_ns", "head_switch_ns")
        yield from _fields(
            self, "write_settle_ns", "outer_bytes_per_s", "inner_bytes_per_s", "link_bytes_per_s"
        )
        yield from _fields(self, "command_ns", "command_spread_ns", "destage_idle_ns")
        yield from _fields(self, "track_buffer_bytes", "read_ahead_bytes", "write_cache_bytes")
        # Not by default: a kept state is for one spec.
        if self.queue_depth > 1:
            yield "queue_depth", self.queue_depth


class Throttle(Table):
    """After so much data without a pause of `cool`, each request takes `factor` times as long, until one."""

    after: Annotated[SizeBytes, Field(ge=SECTOR_BYTES, le=1 << 50)]
    factor: Annotated[int, Field(ge=2, le=1000)]
    cool: Annotated[DurationNs, Field(ge=1, le=1 << 50)] = 10**9


class Ssd(Table):
    """An SSD with a page-mapped flash translation layer.

    `serial`: time of the single firmware processor per command; 1 / serial is the highest command
    rate. `command`, `write_command`: additional latency of a command; `..._spread`: largest random
    extra latency, mostly small. `flush = "ignored"`: completes flushes without writing its cache.
    `write_cache = "off"`: a write completes when it is in the flash; for a cache that is volatile.
    `throttle`: it makes itself slower because of heat, and counts that.
    """

    channels: Annotated[int, Field(ge=1, le=64)]
    dies_per_channel: Annotated[int, Field(ge=1, le=64)]
    page: Annotated[SizeBytes, Field(ge=SECTOR_BYTES, le=64 * SECTOR_BYTES)]
    pages_per_block: Annotated[int, Field(ge=2, le=4096)]
    over_provisioning_percent: Annotated[float, Field(ge=0)]
    read: PositiveNs
    read_spread: Ns
    program: PositiveNs
    program_spread: Ns
    erase: PositiveNs
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
    write_cache: Literal["on", "off"] = "on"
    flush_command: Ns
    throttle: Annotated[Throttle | None, STORED_IF_SET] = None

    @field_validator("page")
    @classmethod
    def _check_page(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError(f"{value} bytes: a flash page is 512 bytes times a power of two")
        return value

    @field_validator("over_provisioning_percent")
    @classmethod
    def _check_over_provisioning(cls, value: float) -> float:
        if value >= 100:
            raise ValueError(f"{value:g} %: over-provisioning must be below 100 % of the user's capacity")
        return value

    @field_validator("buffer")
    @classmethod
    def _check_buffer(cls, value: int, info: ValidationInfo) -> int:
        page = info.data.get("page")
        if page is not None and (value < 2 * page or value % page):
            raise ValueError(f"{value} bytes: a write buffer is two or more whole pages of {page} bytes")
        if page is not None and value // page > 1 << 24:
            raise ValueError(f"{value} bytes: more than 2^24 pages of {page} bytes")
        return value

    def _problems(self) -> Problems:
        if self.write_cache == "off" and self.power_loss_protection:
            text = (
                '"off": with power_loss_protection the cache is not volatile, and stays on: set that to false'
            )
            yield "write_cache", f"{text}, or remove write_cache"

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield from _fields(self, "channels", "dies_per_channel", "page_bytes", "pages_per_block")
        yield "over_provisioning_permyriad", min(9999, round(self.over_provisioning_percent * 100))
        yield from _fields(self, "read_ns", "read_spread_ns", "program_ns", "program_spread_ns", "erase_ns")
        yield from _fields(self, "channel_bytes_per_s", "link_bytes_per_s", "serial_ns")
        yield from _fields(
            self, "command_ns", "command_spread_ns", "write_command_ns", "write_command_spread_ns"
        )
        yield "flush_ns", self.flush_command
        yield "buffer_pages", self.buffer // self.page
        yield from _fields(self, "destage_at_percent", "destage_idle_ns")
        yield "power_loss_protection", int(self.power_loss_protection)
        yield "flush", self.flush
        yield "write_cache", self.write_cache
        if self.throttle:  # not by default, as queue_depth of a disk
            yield "throttle_after_bytes", self.throttle.after
            yield "throttle_factor", self.throttle.factor
            yield "throttle_cool_ns", self.throttle.cool


class Controller(Table):
    """A controller in front of a device: a preset (`backing`), or a table `disk` or `ssd`.

    `cache = "write-through"`: a write completes when the device has it; the cache keeps what was written and
    read for reads. `read_ahead`: so much is read on after two reads in order, into the cache.
    """

    cache: Literal["battery", "bypass", "write-through"]
    cache_size: Annotated[CacheBytes, Field(ge=64 << 10)] = 64 << 20
    command: Ns
    command_spread: Ns
    link_per_s: BytesPerS
    destage_idle: IdleNs
    read_ahead: Annotated[CacheBytes, STORED_IF_ANY] = 0
    backing: str | None = None
    disk: Disk | None = None
    ssd: Ssd | None = None

    @field_validator("backing")
    @classmethod
    def _check_backing(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            model = find_preset(value).model
        except ConfigError as error:
            raise ValueError(error.message) from None
        if model == "controller":
            raise ValueError(f"'{value}' is a controller itself; it needs a disk or an SSD behind it")
        return value

    def _problems(self) -> Problems:
        if [self.backing, self.disk, self.ssd].count(None) != 2:
            key = tuple(k for k in ("disk", "ssd") if getattr(self, k) is not None)[:1]
            yield key, 'needs exactly one of backing = "PRESET", a table disk or a table ssd'
        if self.disk and self.disk.queue_depth > 1:
            text = f"{self.disk.queue_depth}: a controller gives its disk one request at a time"
            yield ("disk", "queue_depth"), f"{text}: remove queue_depth"
        if self.read_ahead and self.cache == "bypass":
            text = 'needs a cache, and "bypass" has none: set cache = "write-through" or "battery"'
            yield "read_ahead", f"{text}, or remove read_ahead"
        if self.read_ahead > self.cache_size // 2:
            text = f"{self.read_ahead} bytes is more than half of cache_size ({self.cache_size} bytes)"
            yield "read_ahead", f"{text}: the cache holds two pieces at a time"

    @property
    def device(self) -> Disk | Ssd:
        """The device behind the controller."""
        table = self.disk or self.ssd or find_preset(str(self.backing)).table
        assert isinstance(table, (Disk, Ssd))
        return table

    @property
    def read_cache(self) -> int:
        """Bytes of DRAM that answer reads again: its own, if it keeps what was read, and the device's."""
        own = self.cache_size if self.cache == "write-through" or self.read_ahead else 0
        return own + (self.device.read_cache if isinstance(self.device, Disk) else 0)

    def lines(self) -> Iterator[tuple[str, int | str]]:
        yield "cache", self.cache
        yield "cache_bytes", self.cache_size
        if self.read_ahead:  # not by default, as queue_depth of a disk
            yield "read_ahead_bytes", self.read_ahead
        yield from _fields(self, "command_ns", "command_spread_ns", "destage_idle_ns", "link_bytes_per_s")
        device = self.device
        yield "backing.model", "disk" if isinstance(device, Disk) else "ssd"
        for key, value in device.lines():
            yield f"backing.{key}", value


class DeviceModel(Table):
    """A device file: title, sources of the parameters, and the parameters.

    `firmware`: the version that these parameters stand for; recorded, for `hsp trend`.
    """

    format: Literal[1]
    model: Literal["disk", "ssd", "controller"]
    title: Annotated[str, Field(min_length=1, max_length=100)]
    source: tuple[str, ...] = ()
    firmware: Annotated[VersionText | None, STORED_IF_SET] = None
    disk: Disk | None = None
    ssd: Ssd | None = None
    controller: Controller | None = None

    def _problems(self) -> Problems:
        tables = [name for name in ("disk", "ssd", "controller") if getattr(self, name) is not None]
        if tables != [self.model]:
            given = " and ".join(f"[{name}]" for name in tables) or "none"
            key = next((name for name in tables if name != self.model), "model")
            yield key, f'model = "{self.model}" needs the table [{self.model}] alone, found {given}'

    @property
    def table(self) -> Disk | Ssd | Controller:
        table = self.disk or self.ssd or self.controller
        assert table is not None  # _check_table
        return table

    @property
    def read_cache(self) -> int:
        """Bytes of its own DRAM that answer reads again: a disk's track buffer; an SSD's is for writes."""
        return 0 if isinstance(self.table, Ssd) else self.table.read_cache


def has_write_cache(model: DeviceModel | None) -> bool:
    """Whether the device has a volatile write cache, which can be switched; None: a null_blk."""
    if model is None:
        return False
    if model.controller is not None and model.controller.cache == "battery":
        return False
    device = model.controller.device if model.controller else model.table
    if isinstance(device, Disk):
        return device.write_cache > 0
    return isinstance(device, Ssd) and not device.power_loss_protection and device.write_cache == "on"


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_path(name: str) -> Path:
    """Path of a preset's file. Raises ConfigError that lists the known presets."""
    if name not in preset_names():
        close = suggested(name, preset_names())
        known = f"known presets: {', '.join(preset_names())}"
        raise ConfigError(
            f"unknown preset '{printable(name[:60])}'; {f'{close} ' if close else ''}{known}",
            "`hsp list presets` describes each of them",
        )
    return PRESETS / f"{name}.toml"


def find_preset(name: str) -> DeviceModel:
    """Read a preset. Raises ConfigError that lists the known presets."""
    return load(preset_path(name), DeviceModel)


class OverridesRefused(ConfigError):
    """What of `set` the model cannot have. `problems`: the key below `set`, () for all of it, and text."""

    def __init__(self, problems: Sequence[tuple[KeyPath, str]]) -> None:
        super().__init__("\n".join(f"{dotted(('set', *key))}: {text}" for key, text in problems))
        self.problems = problems


def resolve(
    preset: str | None = None,
    file: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    by: Path | None = None,
) -> DeviceModel:
    """Read the model of a preset, or of a file, which a person names or the file `by`, beside it.

    `overrides` replace keys of the model's table; they pass the same validation. Raises ConfigError:
    neither or both given, an unknown preset, a mistake in the file; OverridesRefused: in an override.
    """
    if (preset is None) == (file is None):
        raise ConfigError("a device model is either a preset or a file", "remove one of the two")
    by = None if preset is not None else by
    path = preset_path(preset) if preset is not None else Path(str(file))
    if by:
        try:
            path = named_files.beside("testbed.device.[].file", by, str(file))
        except ValueError as error:
            raise ConfigError(str(error)) from None
    model = load(path, DeviceModel, by)
    if not overrides:
        return model
    document = tomllib.loads(read_text(path, by))
    _merge(document[model.model], overrides)
    try:
        return DeviceModel.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problems = dict.fromkeys(
            (_key(detail), printable(_reason(detail, model)).replace("Input should ", "must "))
            for detail in error.errors(include_url=False)
        )
        raise OverridesRefused([*problems]) from None


def _key(detail: ErrorDetails) -> KeyPath:
    """The key of a mistake in the model's table."""
    error = detail.get("ctx", {}).get("error")
    return (*detail["loc"][1:], *(error.key if isinstance(error, KeyProblem) else ()))


def _reason(detail: ErrorDetails, model: DeviceModel) -> str:
    if detail["type"] == "extra_forbidden":
        keys = list(type(model.table).model_fields)
        return f"unknown key, {nearest(str(detail['loc'][-1]), keys, 'valid keys')}"
    return detail["msg"].removeprefix("Value error, ")


def _merge(table: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for key, value in overrides.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def to_spec(device: DeviceModel, seed: int = 1) -> str:
    """Spec for the C library: lines of "key value". Devices of one model differ by their `seed`."""
    lines: list[tuple[str, int | str]] = [("model", device.model), ("seed", seed)]
    if device.controller:
        lines.append(("backing.seed", seed))
    lines += device.table.lines()
    return "".join(f"{key} {value}\n" for key, value in lines)
