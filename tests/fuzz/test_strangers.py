"""A part of the inputs of tests.fuzz.strangers in each run, and 10,000 of each kind in a long one."""

from __future__ import annotations

import pytest

from tests.fuzz.strangers import KINDS, found

# polars ends the process where a damaged length makes it ask for more memory than there is: no code of Python
# can hinder that.
_ABORTED = "memory allocation of "


def _findings(kind: str, last: int) -> list[str]:
    return [each for each in found(kind, 0, last) if not (kind == "parquet" and _ABORTED in each)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_stranger_is_read_or_refused(kind: str) -> None:
    assert _findings(kind, 100) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files_of_strangers_are_read_or_refused(kind: str) -> None:
    assert _findings(kind, 10_000) == []
