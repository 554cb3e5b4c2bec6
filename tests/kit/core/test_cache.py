"""The cache: what others could put there is not used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.core.cache import cannot_use, locked
from kit.core.errors import HostError
from kit.core.progress import Progress


@pytest.mark.parametrize("level", ["hsp", "hsp/devices"])
@pytest.mark.parametrize("whose", ["everybody", "another", "a link"])
def test_a_level_that_others_can_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, whose: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / level
    (tmp_path / "hsp/devices").mkdir(parents=True)
    if whose == "everybody":
        place.chmod(0o777)
    elif whose == "another":
        if os.geteuid():
            pytest.skip("only root can give a directory away")
        os.chown(place, 12345, 12345)
    else:
        place.rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").chmod(0o777)
        place.symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(HostError, match="the cache is not used") as caught,
        locked(tmp_path / "hsp/devices", "0" * 16, "another", Progress(quiet=True)),
    ):
        pytest.fail("it was used")
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_cache_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with (
        pytest.raises(HostError, match="Not a directory"),
        locked(tmp_path / "x/y", "0" * 16, "another", Progress(quiet=True)),
    ):
        pytest.fail("it was used")
    assert "space" in cannot_use(tmp_path, OSError(28, "No space left on device")).hint
