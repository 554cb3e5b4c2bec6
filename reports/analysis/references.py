"""Published latency ranges to set a run beside. Data in references/*.toml, all in microseconds."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from kit.core.errors import ConfigError
from kit.store.summary import PublishedRange, Reference

_DIRECTORY = Path(__file__).with_name("references")


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
        ranges = tuple(PublishedRange(**span.model_dump()) for span in self.ranges)
        return Reference(name=name, title=self.title, source=self.source, ranges=ranges)


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
        # JSON: only so do strict types take a list for a tuple.
        data = json.dumps(tomllib.loads(path.read_text("utf-8")))
        return Document.model_validate_json(data).reference(name)
    except ValueError as error:
        raise ConfigError(
            f"{path}: not a reference ({error!r})",
            "reports/analysis/references/sun-7410-2009.toml shows the form",
        ) from error
