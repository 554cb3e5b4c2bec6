"""Base of the values that a run directory holds, and the one reader that checks them.

Types are strict: no text becomes a number. Keys that this version does not know are kept: a newer version
may have added them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from kit import __version__
from kit.core.errors import ConfigError
from kit.core.text import safe_text, some
from kit.store.format import FORMAT
from kit.store.json_file import DAMAGED, read_json

Json = dict[str, Any]
_BITS_63 = (1 << 63) - 1
Count = Annotated[int, Field(ge=0, le=_BITS_63)]
Nanoseconds = Annotated[int, Field(ge=-_BITS_63, le=_BITS_63)]
# Change of a counter, or anything else that fits 64 bits.
Signed = Nanoseconds
# A double holds every integer up to here, so that what was read is what is written again.
Number = Annotated[float, Field(ge=-(1 << 53), le=1 << 53)]
Positive = Annotated[float, Field(ge=0, le=1 << 53)]
Share = Annotated[float, Field(ge=0, le=1)]
Range = tuple[float, float]
T = TypeVar("T")
# The first element that is wrong is enough: a hostile file could have millions.
Many = Annotated[tuple[T, ...], FailFast()]
_SHOWN_PROBLEMS = 5
_SHOWN_CHARACTERS = 60
_CONTRADICTION = "contradiction"
_OTHER_FORMAT = (
    "use the version of the kit that wrote the file; what was written before version 0.1.0 is measured or "
    "imported again"
)


def contradiction(text: str) -> PydanticCustomError:
    """What a validator raises where keys of a value cannot hold together. `text` names them."""
    return PydanticCustomError(_CONTRADICTION, "{text}", {"text": text})


class Stored(BaseModel):
    """A frozen value of a stored file. `as_json` gives back what was read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", populate_by_name=True)

    @classmethod
    def from_json(cls, value: Any, where: str | Path) -> Self:
        """`value` checked. Raises ConfigError with `where`, the place in it and what was observed."""
        # JSON, not Python values: only so do strict types take a list for a tuple.
        return _checked(lambda: cls.model_validate_json(json.dumps(value)), where)

    @classmethod
    def made(cls, where: str | Path, **values: Any) -> Self:
        """Of values that follow from a stored file, which may have impossible ones. Raises as `from_json`."""
        return _checked(lambda: cls(**values), where)

    @classmethod
    def from_table(cls, table: Self) -> Self:
        """What is stored of a table of a workload, which is a subclass: its keys that are not None."""
        return cls(**table.model_dump(exclude_none=True))

    def as_json(self) -> Json:
        """The keys that were set, with the names of the file."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Printed(Stored):
    """What a command prints as JSON, for programs: with all keys, also those at their default."""

    def as_json(self) -> Json:
        return self.model_dump(mode="json", by_alias=True)


def _checked(make: Callable[[], T], where: str | Path) -> T:
    try:
        return make()
    except ValidationError as error:
        problems = [_problem(each) for each in error.errors(include_url=False)]
    except RecursionError:
        problems = ["nested too deep"]
    raise ConfigError(f"{where}: {some(problems, _SHOWN_PROBLEMS, '; ')}", DAMAGED)


def read_versioned(path: Path) -> Json:
    """The object of a JSON file whose `format` is FORMAT. Raises ConfigError."""
    value: Json = read_json(path)
    observed = value.get("format") if isinstance(value, dict) else None
    # JSON's true is 1 to Python, and 1.0 is too.
    if type(observed) is not int or observed != FORMAT:
        found = "no format" if observed is None else f"format {_shown(observed)}"
        raise ConfigError(f"{path}: {found}, hsp {__version__} reads format {FORMAT}", _OTHER_FORMAT)
    return value


def _problem(error: ErrorDetails) -> str:
    """The place in the file, what is wrong there and what was observed: `phases[0].name: ..., not 3`."""
    place = ""
    for part in error["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f"{'.' * bool(place)}{part}"
    message = error["msg"].removeprefix("Value error, ")
    observed = "" if error["type"] in ("missing", _CONTRADICTION) else f", not {_shown(error['input'])}"
    return f"{safe_text(place) or 'the file'}: {message[:1].lower()}{message[1:]}{observed}"


def _shown(value: Any) -> str:
    short = value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value
    text = safe_text(json.dumps(short, ensure_ascii=False, default=repr))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
