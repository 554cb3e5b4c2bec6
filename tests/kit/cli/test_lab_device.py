"""`hsp lab fault`: what a person says, and what the devices are told."""

from __future__ import annotations

import pytest

from kit.cli.lab import fault_words
from kit.core.errors import ConfigError


@pytest.mark.parametrize(
    ("fault", "duration", "sectors", "of", "words"),
    [
        ("power-loss", "", "", "any", ["power-loss"]),
        ("fail", "", "", "any", ["fail"]),
        ("heal", "", "", "any", ["heal"]),
        ("stall", "50ms", "", "any", ["stall", "50000000"]),
        ("error", "", "2048+8", "read", ["error", "2048", "8", "read"]),
    ],
)
def test_faults_in_words(fault: str, duration: str, sectors: str, of: str, words: list[str]) -> None:
    assert fault_words(fault, duration, sectors, of) == words


@pytest.mark.parametrize(
    ("fault", "duration", "sectors", "of", "complaint"),
    [
        ("stall", "", "", "any", "--for"),
        ("stall", "-1ms", "", "any", "--for"),
        ("stall", "50", "", "any", "--for"),
        ("error", "", "", "any", "--sectors"),
        ("error", "", "8", "any", "--sectors"),
        ("error", "", "8+0", "any", "--sectors"),
        ("error", "", "8+x", "any", "--sectors"),
    ],
)
def test_what_is_no_fault_is_refused(
    fault: str, duration: str, sectors: str, of: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fault_words(fault, duration, sectors, of)
