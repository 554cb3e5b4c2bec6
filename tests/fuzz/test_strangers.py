"""A part of the inputs of tests.fuzz.strangers in each run, and 10,000 of each kind in a long one."""

from __future__ import annotations

import pytest

from tests.fuzz.strangers import KINDS, found

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_stranger_is_read_or_refused(kind: str) -> None:
    assert found(kind, 0, 100) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files_of_strangers_are_read_or_refused(kind: str) -> None:
    assert found(kind, 0, 10_000) == []
