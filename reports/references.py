"""Published latency ranges to set a run beside. Data in references/*.toml, all in microseconds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.store import ConfigError  # type: ignore[attr-defined]

_DIRECTORY = Path(__file__).with_name("references")


@dataclass(frozen=True)
class Reference:
    """What somebody published. `ranges_us` maps (op, tier) to (low, high) in microseconds."""

    name: str
    title: str
    source: str
    ranges_us: Mapping[tuple[str, str], tuple[float, float]]


def known(directory: Path = _DIRECTORY) -> list[str]:
    """The names that load() takes."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def load(name: str, directory: Path = _DIRECTORY) -> Reference:
    """The reference called `name`. Raises ConfigError, which lists those that exist."""
    names = known(directory)
    if name not in names:
        raise ConfigError(f"no reference {name!r}", f"known are: {', '.join(names)}")
    path = directory / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        ranges = {(str(r["op"]), str(r["tier"])): _range(r["range_us"]) for r in data["ranges"]}
        return Reference(name, str(data["title"]), str(data["source"]), ranges)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a reference ({error!r})") from error


def _range(value: list[float]) -> tuple[float, float]:
    """(low, high) in microseconds; 0 <= low < high."""
    low, high = (float(v) for v in value)
    if not 0 <= low < high < float("inf"):
        raise ValueError(f"{value} is not a range")
    return low, high
