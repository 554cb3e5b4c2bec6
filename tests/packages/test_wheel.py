"""The wheel has what a user needs, and says what it is."""

from __future__ import annotations

import email.message
import email.parser
import subprocess
import zipfile
from pathlib import Path

import pytest

from kit import __version__
from tests.packages.bare import ROOT

_SHARED = f"zfs_hsp_kit-{__version__}.data/data/share"


@pytest.fixture
def content(wheel: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel)


@pytest.fixture
def metadata(content: zipfile.ZipFile) -> email.message.Message:
    (name,) = (each for each in content.namelist() if each.endswith(".dist-info/METADATA"))
    return email.parser.Parser().parsestr(content.read(name).decode())


def test_every_file_of_the_packages_is_in_it_as_it_stands(content: zipfile.ZipFile) -> None:
    words = ["git", "ls-files", "kit", "reports", "workloads"]
    tracked = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert {Path(each).suffix for each in tracked} >= {".c", ".sh", ".toml", ".bt", ".j2", ".fio"}
    assert [each for each in tracked if content.read(each) != (ROOT / each).read_bytes()] == []


def test_nothing_else_is_in_it(content: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in content.namelist()}
    prefix = f"zfs_hsp_kit-{__version__}"
    assert tops == {"kit", "reports", "workloads", f"{prefix}.data", f"{prefix}.dist-info"}


@pytest.mark.parametrize("package", ["kit", "reports"])
def test_a_type_checker_may_use_its_types(content: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in content.namelist()


def test_the_manual_page_and_the_scripts_of_shells_lie_where_they_are_looked_for(
    content: zipfile.ZipFile,
) -> None:
    places = {
        "man/man1/hsp.1": "docs/hsp.1",
        "bash-completion/completions/hsp": "docs/completions/hsp.bash",
        "fish/vendor_completions.d/hsp.fish": "docs/completions/hsp.fish",
        "zsh/site-functions/_hsp": "docs/completions/hsp.zsh",
    }
    for place, source in places.items():
        assert content.read(f"{_SHARED}/{place}") == (ROOT / source).read_bytes()


def test_every_document_is_in_it_as_messages_name_them(content: zipfile.ZipFile) -> None:
    inside = {name.removeprefix(f"{_SHARED}/doc/zfs-hsp-kit/") for name in content.namelist()}
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(documents) > 20 and documents | {"README.md"} <= inside
    assert not any(name.endswith((".png", ".jpg")) for name in inside)


def test_it_says_what_it_is_and_who_made_it(metadata: email.message.Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("zfs-hsp-kit", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "ZFS hybrid storage pool test kit authors"
    assert {"zfs", "nfs", "slog", "l2arc"} <= set(metadata["Keywords"].split(","))
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
