"""A stored run that is damaged is refused with what is wrong, never with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from kit.core.errors import ConfigError

# What code raises that meets another value than the kit writes.
_RAISED: tuple[type[BaseException], ...] = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)  # fmt: skip


@contextmanager
def damage_refused(what: str, hint: str, *more: type[Exception]) -> Iterator[None]:
    """Raise ConfigError where work fails because `what` of a stored run is damaged; also for `more`."""
    try:
        yield
    except (*_RAISED, *more) as error:
        raise ConfigError(f"{what} is damaged ({type(error).__name__}: {error})", hint) from error
