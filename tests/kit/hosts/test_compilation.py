"""Programs in C from the cache: those that the kit has compiled, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.hosts.compilation import compiled


def _said(folder: Path) -> tuple[Path, bytes]:
    program = compiled("told", folder, [folder / "told.c"], (), (), "tests")
    return program, subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize(
    "planted", ["a program", "a program and its digest", "a link", "for everybody", "no digest"]
)
def test_what_was_planted_or_changed_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "told.c").write_text('#include <stdio.h>\nint main(void) { puts("own"); return 0; }\n')
    program, said = _said(tmp_path)
    digest = program.with_name(f"{program.name}.sha256")
    assert said == b"own\n"
    before = program.stat().st_ino
    assert _said(tmp_path) == (program, said) and program.stat().st_ino == before, "it is compiled once"
    evil = tmp_path / "evil"
    evil.write_text("#!/bin/sh\necho evil\n")
    evil.chmod(0o755)
    if planted == "a program":
        program.write_bytes(evil.read_bytes())
    elif planted == "a program and its digest":
        program.unlink()
        program.symlink_to(evil)
        digest.unlink()
        digest.symlink_to(evil)
    elif planted == "a link":
        program.rename(tmp_path / "moved")
        program.symlink_to(tmp_path / "moved")
    elif planted == "for everybody":
        program.chmod(0o777)
    else:
        digest.unlink()
    assert _said(tmp_path) == (program, b"own\n")
    assert program.stat().st_mode & 0o022 == 0 and not program.is_symlink()
