"""Settings of the user's own machine, such as of its RAID controller: commands that read and set one.

[[setting]]
name = "smartpath"
get = ["ssacli", "controller", "slot=0", "array", "a", "show"]
set = ["ssacli", "controller", "slot=0", "array", "a", "modify", "ssdsmartpath={value}"]
pattern = 'HP SSD Smart Path: (\\w+)'
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from kit.config.toml import Table
from kit.core.text import safe_text

PLACEHOLDER = "{value}"
# One argument of a command, or a part of one; never the begin of an option.
VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9_.,:/+= -]{0,60}[A-Za-z0-9_.,:/+=])?"

SettingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]


def checked_value(value: str | int) -> str:
    """A value that a setting may have, as text. Raises ValueError."""
    if isinstance(value, bool) or not re.fullmatch(VALUE, str(value)):
        raise ValueError(
            f"'{safe_text(str(value))[:60]}' is not a value that can be set: at most 62 letters, digits, "
            'spaces and _.,:/+=-, a letter or digit first; in quotes, such as "off"'
        )
    return str(value)


SettingValue = Annotated[str | int, AfterValidator(checked_value)]


def _checked_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    for word in argv:
        if not word or len(word) > 500 or not word.isprintable():
            raise ValueError("a word of a command is 1 to 500 printable characters")
    return argv


Argv = Annotated[tuple[str, ...], Field(min_length=1, max_length=50), AfterValidator(_checked_argv)]


class Setting(Table):
    """A setting of the server. `get` prints its value, `set` sets it; without a shell, as the run's user.

    `{value}` in `set` stands for the value. `pattern`: a regular expression whose group is the value in what
    `get` prints; without it all of that is, without white space around it.
    """

    name: SettingName
    get: Argv
    set: Argv
    pattern: Annotated[str, Field(min_length=1, max_length=300)] | None = None

    @field_validator("get")
    @classmethod
    def _check_get(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        if any(PLACEHOLDER in word for word in argv):
            raise ValueError(f"{PLACEHOLDER} is for set alone: get prints the value, and is run as it stands")
        return argv

    @field_validator("set")
    @classmethod
    def _check_set(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        if not any(PLACEHOLDER in word for word in argv[1:]):
            text = f"no {PLACEHOLDER} after the program: where does the value go?"
            raise ValueError(f'{text} such as "wc={PLACEHOLDER}"')
        if PLACEHOLDER in argv[0]:
            raise ValueError(f"{PLACEHOLDER} stands for the value, and cannot be in the name of the program")
        return argv

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        try:
            groups = re.compile(pattern).groups if pattern is not None else 1
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if groups != 1:
            raise ValueError(f"{groups} groups: exactly one, the value, as in 'Smart Path: (\\w+)'")
        return pattern

    def argv_for(self, value: str) -> list[str]:
        """The command that sets `value`."""
        return [word.replace(PLACEHOLDER, value) for word in self.set]
