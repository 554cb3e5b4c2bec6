"""Durations and sizes: text with a unit ("130us", "96MiB") to and from integers (ns, bytes).

Values are exact: a decimal is accepted only if it is a whole number of nanoseconds or bytes.
In TOML both are strings with a unit; a bare number is refused, because its unit is unknown.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kit.core.text import commas as commas  # one of the formats for people

NS_PER_UNIT: Mapping[str, int] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
BYTES_PER_UNIT: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
# Unicode has two characters for micro; keyboards produce either.
_MICRO_NS = {"\N{MICRO SIGN}s": 10**3, "\N{GREEK SMALL LETTER MU}s": 10**3}

# Spellings of other tools, in lower case, and the unit that is most likely meant.
_DURATION_HINTS = {
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("u", "usec", "usecs", "microsec", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
}
# A bare K, M or G is a power of two in ZFS and fio.
_SIZE_HINTS = {
    **dict.fromkeys(("b", "byte", "bytes"), "B"),
    **dict.fromkeys(("k", "kib", "ki"), "KiB"),
    **dict.fromkeys(("m", "mib", "mi"), "MiB"),
    **dict.fromkeys(("g", "gib", "gi"), "GiB"),
    **dict.fromkeys(("t", "tib", "ti"), "TiB"),
    **{unit.lower(): unit for unit in ("kB", "MB", "GB", "TB")},
}

# In microseconds.
_LATENCY_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns"))

_QUANTITY = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[^0-9.\s].*)?", re.DOTALL)
_MOST_DIGITS = 9
_MAX_TEXT = 40  # keeps messages and arithmetic small
_MAX_VALUE = 2**63 - 1  # the integers of TOML, Parquet and the kernels
_EXACT = Context(prec=2 * _MAX_TEXT)


def parse_duration_ns(text: str) -> int:
    """`text` such as "130us", "1.5ms", "2min" in nanoseconds.

    Raises ValueError: no number, no unit, an unknown unit, a fraction of a nanosecond, beyond 2^63 - 1.
    """
    return _parse(text, "duration", "130us", {**NS_PER_UNIT, **_MICRO_NS}, _DURATION_HINTS)


def parse_size_bytes(text: str) -> int:
    """`text` such as "96MiB", "1.5GB", "512B" in bytes (kB, MB... are decimal, KiB, MiB... binary).

    Raises ValueError: no number, no unit, an unknown unit, a fraction of a byte, beyond 2^63 - 1.
    """
    return _parse(text, "size", "96MiB", BYTES_PER_UNIT, _SIZE_HINTS)


def utc_now() -> str:
    """The time as stored files have it, such as 2026-01-31T12:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def format_duration_ns(duration_ns: int) -> str:
    """`duration_ns` in the largest fitting unit, exact: `parse_duration_ns` gives it back.

    Raises ValueError if negative.
    """
    _require_natural(duration_ns)
    for unit in ("h", "min"):  # whole ones only: a decimal of an hour may be infinite
        if duration_ns and duration_ns % NS_PER_UNIT[unit] == 0:
            return f"{duration_ns // NS_PER_UNIT[unit]}{unit}"
    unit = next((unit for unit in ("s", "ms", "us") if duration_ns >= NS_PER_UNIT[unit]), "ns")
    whole, rest = divmod(duration_ns, NS_PER_UNIT[unit])
    digits = len(str(NS_PER_UNIT[unit])) - 1
    fraction = f".{rest:0{digits}d}".rstrip("0") if rest else ""
    return f"{whole}{fraction}{unit}"


def format_duration_s(duration_s: float) -> str:
    """A duration for people, in two units at most: "800 ms", "36 s", "1 min 55 s", "7 h 27 min"."""
    if duration_s < 59.95:
        return format_latency(duration_s * 1e6)
    minutes, seconds = divmod(round(duration_s), 60)
    hours, left = divmod(minutes, 60)
    parts = ((hours, "h"), (left, "min")) if hours else ((minutes, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def format_time_s(time_s: float) -> str:
    """A moment of a run for people, in seconds; from two minutes on as h:mm:ss."""
    if time_s < 120:
        return f"{time_s:.3g} s"
    minutes, rest = divmod(round(time_s), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def format_size_bytes(size_bytes: int) -> str:
    """`size_bytes` as the shortest whole number with a unit: `parse_size_bytes` gives it back.

    Raises ValueError if negative.
    """
    _require_natural(size_bytes)
    if size_bytes == 0:
        return "0B"
    factor, unit = max((factor, unit) for unit, factor in BYTES_PER_UNIT.items() if size_bytes % factor == 0)
    return f"{size_bytes // factor}{unit}"


def format_decimal_bytes(size_bytes: int, like: float | None = None) -> str:
    """A size in decimal units, as on data sheets: "1.6 TB". `like`: in the unit of this size."""
    of = size_bytes if like is None else like
    unit = next((unit for unit in ("TB", "GB", "MB", "kB") if of >= BYTES_PER_UNIT[unit]), "B")
    return f"{size_bytes / BYTES_PER_UNIT[unit]:.4g} {unit}"


def format_rate(bytes_per_s: float, like: float | None = None) -> str:
    """Bytes a second in decimal units, as bandwidths have: "162.4 MB/s". `like`: in the unit of this rate."""
    return f"{format_decimal_bytes(round(bytes_per_s), like)}/s"


def format_binary_bytes(size_bytes: float) -> str:
    """A size for people: a whole number of a unit, as "512 B" or "1 GB", or four digits of a binary unit."""
    exact = re.fullmatch(r"([0-9]{1,4})(\D+)", format_size_bytes(round(size_bytes)))
    if exact:
        return " ".join(exact.groups())
    return format_iec(size_bytes)


def format_iec(size_bytes: float) -> str:
    """A size with four digits of a binary unit, so that those of a list are of one family: "270.7 MiB"."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if size_bytes >= BYTES_PER_UNIT[unit]), "B")
    return f"{size_bytes / BYTES_PER_UNIT[unit]:.4g} {unit}"


def format_latency(value_us: float, digits: int = 3) -> str:
    """A latency for people, with three digits or more and the unit that suits it: "178 µs", "5.57 ms"."""
    if not value_us:
        return "0"
    factor, unit = _latency_unit(value_us)
    number = value_us / factor
    return f"{three_digits(number) if digits == 3 else f'{number:.{digits}g}'} {unit}"


def format_beside(value_us: float, limit_us: float) -> tuple[str, str]:
    """A latency and its limit, with as many digits as tell them apart."""
    for digits in range(3, _MOST_DIGITS):
        texts = format_latency(value_us, digits), format_latency(limit_us, digits)
        if texts[0] != texts[1]:
            break
    return texts


def format_latency_range(low_us: float, high_us: float) -> str:
    """A range of latencies for people, both in the unit of the upper one if that keeps two digits."""
    factor, unit = _latency_unit(high_us)
    if low_us and low_us / factor < 0.1:
        return f"{format_latency(low_us)} to {format_latency(high_us)}"
    low, high = (three_digits(value / factor) for value in (low_us, high_us))
    return f"{low} to {high} {unit}" if low != high else f"{high} {unit}"


def _latency_unit(value_us: float) -> tuple[float, str]:
    # 999.7 us has three digits as 1 ms.
    return next((each for each in _LATENCY_UNITS if value_us >= 0.9995 * each[0]), _LATENCY_UNITS[-1])


def format_percent(part: float, digits: int = 0) -> str:
    """A part of 1: "34 %"."""
    return f"{100 * part:.{digits}f} %"


def format_factor(ratio: float, digits: int = 3) -> str:
    """A ratio for people, as a factor: "1.29 times"."""
    exact = f"{ratio:#.{digits}g}".rstrip(".") if digits > 2 else f"{ratio:.{digits}g}"
    return f"{commas(ratio) if ratio >= 10 ** (digits - 1) else exact} times"


def format_change(ratio: float, more: str = "", less: str = "", as_: str = "") -> str:
    """A ratio for people as a change: "29.1 % longer", and from twice or half on "2.5 times as long"."""
    if not 0.5 <= ratio < 2:
        return f"{format_factor(ratio)} {as_}".rstrip()
    return f"{three_digits(abs(100 * (ratio - 1)))} % {more if ratio > 1 else less}".rstrip()


def three_digits(value: float) -> str:
    """Three significant digits, never an exponent: 11.3, 177, 999."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _parse(text: str, noun: str, example: str, units: Mapping[str, int], hints: Mapping[str, str]) -> int:
    if len(text) > _MAX_TEXT:
        raise ValueError(f'{text[:_MAX_TEXT]!r}...: expected a {noun} such as "{example}"')
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r}: expected a {noun} such as "{example}"')
    number, unit = match["number"], match["unit"]
    if unit is None:
        raise ValueError(f'{text!r}: a {noun} needs a unit, such as "{example}"')
    if unit not in units:
        raise ValueError(f"{text!r}: unknown unit {unit!r}, {_suggest(unit, units, hints)}")
    value = _EXACT.multiply(Decimal(number), Decimal(units[unit]))
    if value != value.to_integral_value(context=_EXACT):
        smallest = "nanoseconds" if noun == "duration" else "bytes"
        raise ValueError(f"{text!r}: not a whole number of {smallest}")
    if value > _MAX_VALUE:
        raise ValueError(f"{text!r}: too large for a {noun}")
    return int(value)


def _suggest(unit: str, units: Mapping[str, int], hints: Mapping[str, str]) -> str:
    names = [name for name in units if name.isascii()]
    nearest = hints.get(unit.lower())
    if nearest is None:
        lower = {name.lower(): name for name in names}
        close = difflib.get_close_matches(unit.lower(), [*lower, *hints], n=1, cutoff=0.75)
        nearest = (lower | dict(hints))[close[0]] if close else None
    return f"did you mean {nearest!r}?" if nearest else f"valid units: {', '.join(names)}"


def _require_natural(value: int) -> None:
    if value < 0:
        raise ValueError(f"{value}: a quantity cannot be negative")


def _text_only(parse: Callable[[str], int], noun: str, example: str) -> Callable[[object], int]:
    def validate(value: object) -> int:
        if not isinstance(value, str):
            # kit.config.toml adds the observed value as TOML has it.
            raise PydanticCustomError("unit_needed", f'expected a {noun} such as "{example}"')
        return parse(value)

    return validate


def _quantity(pattern: str, description: str) -> WithJsonSchema:
    """What a JSON Schema says of it: text, although the value is a number."""
    return WithJsonSchema({"type": "string", "pattern": pattern, "description": description})


_DURATION = _quantity(r"^[0-9.]+ ?[a-zµμ]+$", "a duration with its unit, such as 130us")
_SIZE = _quantity(r"^[0-9.]+ ?[A-Za-z]+$", "a size with its unit, such as 96MiB")
_AUTO_SIZE = _quantity(r"^(auto|[0-9.]+ ?[A-Za-z]+)$", 'a size with its unit, such as 96MiB, or "auto"')

# Input is a string, the value is an integer; dumped models are not validated again.
DurationNs = Annotated[int, BeforeValidator(_text_only(parse_duration_ns, "duration", "130us")), _DURATION]
SizeBytes = Annotated[int, BeforeValidator(_text_only(parse_size_bytes, "size", "96MiB")), _SIZE]

# "auto": whoever reads it replaces it by a size before anything uses it.
AUTO = -1
AutoSizeBytes = Annotated[
    int,
    BeforeValidator(
        _text_only(lambda text: AUTO if text == "auto" else parse_size_bytes(text), "size", "96MiB")
    ),
    _AUTO_SIZE,
]
