"""Errors that end a command, each with its documented exit code.

`message` says what was observed, where, and what it means; `hint` says what to do.
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
    """Base of all errors that are shown to the user. By default a host failed."""

    exit_code = EXIT_HOST

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(KitError):
    """A file or an option is wrong; nothing was started."""

    exit_code = EXIT_USAGE


class SafetyRefusal(KitError):
    """A safety check refused an operation on a device or a pool."""

    exit_code = EXIT_SAFETY


class HostError(KitError):
    """A host, a tool or the lab failed."""


class MeasurementUnknown(KitError):
    """The load ran, but its result is not trustworthy."""

    exit_code = EXIT_UNKNOWN


def error_text(error: BaseException) -> str:
    """The message of an error, for a journal or a manifest. Other errors than KitError: with their type."""
    return error.message if isinstance(error, KitError) else f"{type(error).__name__}: {error}"
