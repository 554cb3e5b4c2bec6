"""A phase with split_of repeats another one; what it cannot repeat is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.workload import Workload, read_workload
from kit.core.errors import ConfigError

HEAD = """format = 1
name = "w"
title = "W"

[working_set]
file = "working-set"
size = "64MiB"

[[phase]]
name = "bare"
title = "Bare"
target = "device:data"
job = "w.fio"
duration = "1s"

[[phase]]
name = "write"
title = "Writes"
job = "w.fio"
tiers = ["slog"]
duration = "2s"
interval = "100ms"
options = { bs = "4k" }
"""
LINE = HEAD.count("\n") + 4


def read(tmp_path: Path, text: str) -> Workload:
    (tmp_path / "w.fio").write_text("[w]\nrw=write\n")
    file = tmp_path / "w.toml"
    file.write_text(HEAD + text)
    return read_workload(file)


def test_it_takes_over_all_but_name_title_and_removal(tmp_path: Path) -> None:
    removed = '\n[[phase]]\nname = "pool"\nbase = "write"\ntiers = ["pool"]\nremove = "log"\n'
    text = removed + '\n[[phase]]\nname = "why"\nsplit_of = "pool"\n'
    _, write, pool, why = read(tmp_path, text).phase
    assert why.remove is None and why.title == "Writes: where the time goes"
    same = {"name": "pool", "title": pool.title, "split_of": "", "remove": "log"}
    assert why.model_copy(update=same) == pool and pool.tiers != write.tiers
    # Plans of before the key are stored as they were.
    assert "split_of" not in write.model_dump() and why.model_dump()["split_of"] == "pool"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('split_of = "wirte"', "split_of: no phase 'wirte' above it or in the base, did you mean"),
        ('split_of = "why"', "split_of: no phase 'why' above it"),
        ('split_of = "bare"', "split_of: 'bare' goes to device:data, and only requests over NFS are traced"),
        (
            'split_of = "write"\nduration = "5s"',
            "duration: differs from that of 'write', which this phase repeats",
        ),
        ("split_of = 3", "split_of: no phase the integer 3 above it"),
    ],
)
def test_what_it_cannot_repeat_is_refused(tmp_path: Path, keys: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f'\n[[phase]]\nname = "why"\n{keys}\n')
    line = LINE if "duration" not in keys else LINE + 1
    assert f"w.toml:{line}: phase[2].{words}" in caught.value.message


def test_a_split_of_a_split_is_refused(tmp_path: Path) -> None:
    text = '\n[[phase]]\nname = "why"\nsplit_of = "write"\n'
    with pytest.raises(
        ConfigError, match=r"w\.toml:\d+: phase\[3\]\.split_of: 'why' is split itself"
    ) as caught:
        read(tmp_path, f'{text}\n[[phase]]\nname = "again"\nsplit_of = "why"\n')
    assert 'write split_of = "write"' in caught.value.message


def test_a_device_that_goes_between_the_two_is_refused(tmp_path: Path) -> None:
    text = '\n[[phase]]\nname = "pool"\nbase = "write"\nremove = "log"\n'
    text += '\n[[phase]]\nname = "why"\nsplit_of = "write"\n'
    with pytest.raises(
        ConfigError, match="the log device is removed after 'write': put this phase right below"
    ):
        read(tmp_path, text)


@pytest.mark.parametrize("key", ['during = ["scrub"]', "resumable = true", 'soak = { row = "2s" }'])
def test_a_load_that_cannot_be_repeated_alike_is_refused(tmp_path: Path, key: str) -> None:
    model = f'\n[[phase]]\nname = "long"\nbase = "write"\nduration = "9s"\n{key}\n'
    with pytest.raises(ConfigError, match=f"'long' has {key.split()[0]}, and cannot be repeated alike"):
        read(tmp_path, f'{model}\n[[phase]]\nname = "why"\nsplit_of = "long"\n')
