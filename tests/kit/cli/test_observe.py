"""`hsp observe`: what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Called


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nas", "--split", "--local"), "--split is of NFS requests"),
        (("nas", "--keys", "64", "--local"), "--keys is of NFS requests"),
        (("nas", "--keys", "0"), "'--keys': it must be at least 1"),
        (("nas", "--keys", "1048577"), "'--keys': it must be at most 1048576"),
        (("nas", "--keys", "all"), "'--keys': it must be a whole number"),
        (("nas", "--cost-max", "little"), "--cost-max 'little' is no percentage"),
        (("nas", "--for", "10ms"), "--for 0.01s is too short"),
        (("nas", "--testbed", "mine.toml"), "nas and --testbed mine.toml are two servers"),
        (("--program", "3.0"), "the tracer is for OpenZFS 2.1 to 2.4"),
    ],
)
def test_refused(hsp_here: Called, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = hsp_here("observe", *words, "--results", str(tmp_path / "results"), COLUMNS="200")
    assert done.returncode == 2 and message in done.stderr
    assert done.stdout == "" and not (tmp_path / "results").exists()
