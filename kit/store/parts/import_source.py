"""What the files of an import are, in words for people: `source` of `import` in manifest.json.

A format of kit.importers has its words. They are stored with the run: a report needs no list of formats.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.store.stored import Stored

_Words = Annotated[str, Field(min_length=1, max_length=300)]


class ImportSource(Stored):
    """What the files are, whose they are, and what a latency in them is (the end of a sentence).

    `timed` is False where the files have a sum over all time.
    """

    files: _Words
    program: _Words
    latency: _Words
    timed: bool


UNKNOWN = ImportSource(
    files="import", program="a program that is not recorded", latency="as the file says", timed=True
)
