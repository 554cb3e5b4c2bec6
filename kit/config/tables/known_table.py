"""A `[[known]]` of a workload or of a file of its own: a failure that is known."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from kit.config.toml import Problems, Table
from kit.store.checks.known_failures import Known


class KnownFailure(Known, Table):
    """`check`: an id of docs/verdict.md, `ID:phase` or an expectation's; `*` and `?` stand for others.

    `until`: the last day on which the failure is known, in UTC.
    """

    check: Annotated[str, Field(pattern=r"^[!-~]{1,300}$")]
    reason: Annotated[str, Field(min_length=1, max_length=300)]
    issue: Annotated[str, Field(max_length=300)] = ""

    def _problems(self) -> Problems:
        if self.until is not None:
            try:
                ok = date.fromisoformat(self.until).isoformat() == self.until
            except ValueError:
                ok = False
            if not ok:
                yield "until", f'"{self.until[:40]}": expected a day, such as "2027-01-31"'


class KnownFile(Table):
    """The file of `--known`."""

    known: Annotated[tuple[KnownFailure, ...], Field(max_length=1000)] = ()
