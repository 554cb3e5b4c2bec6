"""Errors that end a command, each with the exit code that design and README promise.

An error says what was found, where, what it means (`message`), and what to do (`hint`).
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_EXPECTATION = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_SAFETY = 4
EXIT_HOST = 5
EXIT_INTERRUPTED = 130


class KitError(Exception):
    """Base of every error that is meant for a person."""

    exit_code = EXIT_HOST

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(KitError):
    """A file or an option is wrong; nothing was started."""

    exit_code = EXIT_USAGE


class SafetyRefusal(KitError):
    """The kit will not do this to a device or a pool."""

    exit_code = EXIT_SAFETY


class HostError(KitError):
    """A host, a tool or the lab failed."""

    exit_code = EXIT_HOST


class MeasurementUnknown(KitError):
    """The load ran, but the result cannot be trusted."""

    exit_code = EXIT_UNKNOWN


def said(error: Exception) -> str:
    """What an error says, for a journal or a manifest; of one that is no KitError its type as well."""
    return error.message if isinstance(error, KitError) else f"{type(error).__name__}: {error}"
