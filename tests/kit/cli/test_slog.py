"""`hsp slog`: what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Called


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("log0", "--json", "--format", "row"), "leave out one of them"),
        (("log9",), "the lab has no device 'log9'"),
        (("nvme-consumer", "--writes", "99"), "invalid value for '--writes'"),
        (("nvme-consumer", "--state", "new"), "invalid value for '--state'"),
        (("log0", "--erase-serial", "S1"), "its devices are emulated"),
        (("log0", "--testbed", "gone.toml"), "gone.toml"),
    ],
)
def test_refused(hsp_here: Called, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = hsp_here("slog", *words, "--results", str(tmp_path / "results"), COLUMNS="200")
    assert done.returncode in (2, 4) and message in done.stderr
    assert done.stdout == "" and not (tmp_path / "results").exists()
