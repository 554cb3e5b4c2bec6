"""kit.hosts.known_hosts with files as OpenSSH's tools write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import asyncssh
import pytest

from kit.hosts.known_hosts import look_up

from .conftest import written

KEYS = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(4)]
A, B, C, D = (key.export_public_key().decode().strip() for key in KEYS)


def prints(keys: object) -> list[int]:
    """Which of the four they are."""
    return [[key.convert_to_public() for key in KEYS].index(key) for key in keys]  # type: ignore[attr-defined]


def test_keys_are_matched_by_name_not_by_address(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"nas {A}\n10.0.0.1 {B}\n")
    assert prints(look_up([file], "nas", 22).keys("")) == [0]


def test_an_entry_has_its_line_number(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"# mine\n\nother {B}\nx,nas {A}\n")
    [entry] = look_up([file], "nas", 22).entries
    assert (entry.path, entry.line) == (file, 4)
    assert str(entry) == f"{file}:4 ({KEYS[0].get_fingerprint()})"


def test_hashed_names(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"nas {A}\n[nas]:2222 {B}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "nas" not in file.read_text()
    assert prints(look_up([file], "nas", 22).keys("")) == [0]
    assert prints(look_up([file], "nas", 2222).keys("")) == [1]
    assert not look_up([file], "other", 22).entries


def test_a_port_has_its_own_lines_or_those_of_the_plain_name(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"nas {A}\n[nas]:2222 {B}\n")
    assert prints(look_up([file], "nas", 2222).keys("")) == [1]
    assert prints(look_up([file], "nas", 2200).keys("")) == [0]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*.example.org", True),
        ("*.example.org,!nas.example.org", False),
        ("NAS.Example.ORG", True),
        ("nas.example.or?", True),
        ("nas", False),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, matches: bool) -> None:
    file = written(tmp_path / "a", f"{pattern} {A}\n")
    assert bool(look_up([file], "nas.example.org", 22).keys("")) is matches


def test_files_together_and_files_that_are_not_there(tmp_path: Path) -> None:
    files = [written(tmp_path / "a", f"nas {A}\n"), tmp_path / "none", written(tmp_path / "b", f"nas {B}\n")]
    observed = look_up(files, "nas", 22)
    assert prints(observed.keys("")) == [0, 1]
    assert observed.files == tuple(files)


def test_a_revoked_key_is_trusted_nowhere(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"[nas]:2222 {A}\n[nas]:2222 {B}\n@revoked * {A}\n@revoked nas {D}\n")
    observed = look_up([file], "nas", 2222)
    assert prints(observed.keys("")) == [1]
    assert sorted(prints(observed.keys("revoked"))) == [0, 3]


def test_authorities_are_not_host_keys(tmp_path: Path) -> None:
    file = written(tmp_path / "a", f"@cert-authority *.example.org {C}\n")
    observed = look_up([file], "nas.example.org", 22)
    assert (prints(observed.keys("cert-authority")), observed.keys("")) == ([2], [])


@pytest.mark.parametrize(
    "line",
    ["garbage", "nas", "nas ssh-ed25519 !!!", "@unknown nas x y", "|1|x|y ssh-ed25519 AAAA", "\udcff \x00"],
)
def test_a_malformed_line_is_skipped(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a"
    file.write_text(f"{line}\nnas {A}\n", errors="surrogateescape")
    assert prints(look_up([file], "nas", 22).keys("")) == [0]
