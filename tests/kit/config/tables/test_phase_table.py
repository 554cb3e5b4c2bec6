"""A phase with `keys`: what it may be, and how a plan is stored with and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from tests.kit.config.tables.test_phase_splits import LINE, read

PHASE = '\n[[phase]]\nname = "sampled"\nbase = "write"\n'


def test_a_phase_is_stored_with_it_where_it_is_asked_for_alone(tmp_path: Path) -> None:
    _, write, sampled = read(tmp_path, PHASE + "keys = 8\n").phase
    # Plans of before the key are stored as they were.
    assert "keys" not in write.model_dump() and sampled.model_dump()["keys"] == 8
    assert sampled.model_copy(update={"keys": None, "name": write.name}) == write


def test_a_split_repeats_it_with_the_sample(tmp_path: Path) -> None:
    text = PHASE + 'keys = 8\n\n[[phase]]\nname = "why"\nsplit_of = "sampled"\n'
    assert read(tmp_path, text).phase[-1].keys == 8


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("keys = 0", "keys"), ("keys = -1", "keys"), ("keys = 1.5", "keys"), ('keys = "8"', "keys"),
        ("keys = true", "keys"), ("keys = 1048577", "keys"), ("keys = nan", "keys"),
        ('keys = 8\ntarget = "dataset"\ntiers = []', "keys: the blocks of requests over NFS are sampled"),
        ("keys = 8\nresumable = true", "keys: the sample of a part is lost"),
    ],
)  # fmt: skip
def test_what_cannot_be_sampled_is_refused(tmp_path: Path, key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, PHASE + key + "\n")
    message = caught.value.message.replace(f"{tmp_path}/", "")
    assert message.startswith("w.toml:") and f"phase[2].{words}" in message
    assert f"w.toml:{LINE + 1}:" in message
