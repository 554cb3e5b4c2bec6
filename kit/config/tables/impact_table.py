"""An `[[impact]]` of a workload: what another load does to the I/Os of a phase."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.config.tables.phase_table import Name, Op
from kit.config.toml import Problems, Table
from kit.store.parts import expectation as stored

Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=20)]


class Impact(stored.Impact, Table):
    """The I/Os of `op` in the phases `alone`, and the same beside another load, in the phases `beside`.

    The ratio of each tier's percentile, beside : alone, has a range; a limit is met if all of it is. With one
    phase on a side the range is that of this run alone, and decides nothing: the moment at which a phase ran
    may make the difference.
    """

    alone: Name | Names
    beside: Name | Names
    op: Op = "read"

    def _problems(self) -> Problems:
        alone, beside = self.sides
        for key, names, other in (("alone", alone, ()), ("beside", beside, alone)):
            for number, name in enumerate(names):
                if name in other:
                    text = "is a phase alone: name those with the other load"
                elif name in names[:number]:
                    text = "is there twice: each phase counts once"
                else:
                    continue
                yield key, f"'{name}' {text}"
