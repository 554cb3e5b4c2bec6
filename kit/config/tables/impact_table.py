"""An `[[impact]]` of a workload: what another load does to the I/Os of a phase."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from kit.config.tables.phase_table import Name, Op
from kit.config.toml import KeyProblem, Table
from kit.store.parts import expectation as stored


class Impact(stored.Impact, Table):
    """The I/Os of `op` in the phase `alone`, and the same beside another load, in the phase `beside`.

    The ratio of each tier's percentile, beside : alone, has an interval; a limit is met if all of it is.
    """

    alone: Name
    beside: Name
    op: Op = "read"

    @model_validator(mode="after")
    def _check_phases(self) -> Self:
        if self.alone == self.beside:
            raise KeyProblem(
                "beside", f"'{self.beside}' is the phase alone: name the one with the other load"
            )
        return self
