"""Published latency ranges to set a run beside. Data in references/*.toml, all in microseconds."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kit.core.errors import ConfigError
from kit.store.summary import Summary

_DIRECTORY = Path(__file__).with_name("references")


@dataclass(frozen=True)
class Reference:
    """What somebody published. `ranges_us` maps (op, tier) to (low, high) in microseconds."""

    name: str
    title: str
    source: str
    ranges_us: Mapping[tuple[str, str], tuple[float, float]]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Span(_Table):
    """What `op` takes when `tier` answers it: low and high, in microseconds."""

    op: Literal["read", "write", "commit"]
    tier: Literal["dram", "l2arc", "disk", "slog", "pool", "shared", "indirect", "direct"]
    range_us: tuple[float, float]

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        low, high = self.range_us
        if not 0 <= low < high < math.inf:
            raise ValueError(f"range_us = [{low:g}, {high:g}] must be two numbers, 0 <= low < high")
        return self


class Document(_Table):
    """A file of ranges, as those in references/ are; for kit.config.toml.load."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    source: Annotated[str, Field(max_length=500)]
    ranges: Annotated[tuple[Span, ...], Field(min_length=1, max_length=100)]

    @field_validator("ranges")
    @classmethod
    def _says_each_once(cls, ranges: tuple[Span, ...]) -> tuple[Span, ...]:
        seen: dict[tuple[str, str], int] = {}
        for number, span in enumerate(ranges):
            if (first := seen.setdefault((span.op, span.tier), number)) != number:
                both = f"[{first}] and [{number}] are both"
                raise ValueError(f"{both} for op '{span.op}' and tier '{span.tier}'")
        return ranges

    def reference(self, name: str) -> Reference:
        """The same as a Reference called `name`."""
        return Reference(name, self.title, self.source, {(s.op, s.tier): s.range_us for s in self.ranges})


def told(reference: Reference | None) -> dict[str, Any] | None:
    """What summary.json says of the reference that was used: name, title, source and ranges."""
    if reference is None:
        return None
    ranges = [{"op": op, "tier": t, "range_us": list(r)} for (op, t), r in reference.ranges_us.items()]
    return {"name": reference.name, "title": reference.title, "source": reference.source, "ranges": ranges}


def of_summary(summary: Summary) -> Reference | None:
    """The reference that `summary` was made with. Raises LookupError or TypeError if that is damaged."""
    found = summary.reference
    if not found:
        return None
    ranges = {(str(r["op"]), str(r["tier"])): _range(r["range_us"]) for r in found["ranges"]}
    return Reference(str(found["name"]), str(found["title"]), str(found["source"]), ranges)


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
        raise ConfigError(
            f"{path}: not a reference ({error!r})",
            "reports/analysis/references/sun-7410-2009.toml shows the form",
        ) from error


def _range(value: list[float]) -> tuple[float, float]:
    """(low, high) in microseconds; 0 <= low < high."""
    low, high = (float(v) for v in value)
    if not 0 <= low < high < float("inf"):
        raise ValueError(f"{value} is not a range")
    return low, high
