"""The C of the devices: compiled once for its sources, refused with reasons, and without warnings."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.emulation import compilation
from tests.kit.emulation.model_library import library


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, and models that take no time to compile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "other"):
        (tmp_path / name / "models").mkdir(parents=True)
        (tmp_path / name / "models" / "model.c").write_text(
            '#include "rng.h"\nint hsp_one(void) { return 1; }\n'
        )
        (tmp_path / name / "models" / "rng.h").write_text("\n")
    monkeypatch.setattr(compilation, "HERE", tmp_path / "one")
    return tmp_path / "cache" / "hsp" / "devices"


def made(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.startswith("."))


def test_it_is_compiled_once(cache: Path) -> None:
    first = library()
    made_ns = first.stat().st_mtime_ns
    assert library() == first and first.stat().st_mtime_ns == made_ns
    assert made(cache) == [first.name, f"{first.name}.sha256"]


def test_two_at_once_leave_one(cache: Path) -> None:
    threads = [threading.Thread(target=library) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (program, its_hash) = made(cache)
    assert its_hash == f"{program}.sha256"


def test_without_a_compiler_it_says_what_to_install(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError) as caught:
        compilation.server()
    assert caught.value.exit_code == 5
    assert "gcc libc6-dev liburing-dev" in caught.value.hint


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HostError, match="file/hsp") as caught:
        library()
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_other_sources_are_another_library(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = library().name
    monkeypatch.setattr(compilation, "HERE", tmp_path / "other")
    assert library().name == before
    with (tmp_path / "other" / "models" / "rng.h").open("a") as file:
        file.write("\n")
    assert library().name != before


def test_what_does_not_compile_is_told_and_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "one" / "models" / "wrong.c").write_text('#include "liburing.h"\n#error on purpose\n')
    with pytest.raises(HostError, match="on purpose"):
        library()
    assert not made(cache)


def test_it_compiles_without_warnings(tmp_path: Path) -> None:
    sources = [*compilation.models(), *(compilation.HERE / "server").glob("*.c")]
    strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        ["cc", *strict, *map(str, sources)], capture_output=True, text=True, timeout=100, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
