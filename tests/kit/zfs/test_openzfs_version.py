"""kit.zfs.openzfs_version: versions of module and tools, and their features."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.zfs import openzfs_version
from tests.fakes import ScriptedHost


def server(module: str | None, tools: str | None) -> ScriptedHost:
    absent = (1, "", "not there")
    return ScriptedHost({"cat": module or absent, "zfs": tools or absent})


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.3.9-0+deb13u1\n", (2, 3, 9)),
        ("2.1.11-1+deb12u1", (2, 1, 11)),
        ("2.2.2-0ubuntu9.4", (2, 2, 2)),
        ("zfs-2.4.4-1", (2, 4, 4)),
        ("zfs-kmod-2.2.0-rc3", (2, 2, 0)),
        ("2.4.99-123_gdeadbeef", (2, 4, 99)),
        ("2.3", (2, 3, 0)),
    ],
)
def test_versions_as_they_are_written(text: str, numbers: tuple[int, int, int]) -> None:
    observed = openzfs_version.parse(text)
    assert (observed.major, observed.minor, observed.patch) == numbers
    assert observed.text == text.strip()


@pytest.mark.parametrize("text", ["", "zfs", "two", "-2.1", "2", "2.3.4.5", "2.3.x.1 2.1", "9" * 400 + ".1"])
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        openzfs_version.parse(text)


@given(st.text())
def test_any_other_text_is_a_value_error(text: str) -> None:
    try:
        openzfs_version.parse(text)
    except ValueError as error:
        assert "is not a version of OpenZFS" in str(error)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("2.1.11", (False, False, False, False)),
        ("2.2.9", (False, True, True, False)),
        ("2.3.0", (True, True, True, True)),
        ("2.4.4", (True, True, True, True)),
        ("2.10.0", (True, True, True, True)),
        ("3.0.0", (True, True, True, True)),
    ],
)
def test_features_by_version(text: str, has: tuple[bool, ...]) -> None:
    zfs = openzfs_version.parse(text)
    assert (zfs.has_json, zfs.has_zil_by_dataset, zfs.has_arc_iohit, zfs.has_direct_io) == has


def test_the_module_that_is_loaded_counts() -> None:
    assert openzfs_version.read(server("2.1.11-1\n", "zfs-2.3.9-1\n")).minor == 1


@pytest.mark.parametrize(
    ("module", "message"), [(None, "no OpenZFS module"), ("new", "not a version"), ("2.0.7", "knows 2.1")]
)
def test_an_unusable_openzfs_version_is_an_error(module: str | None, message: str) -> None:
    with pytest.raises(HostError, match=message):
        openzfs_version.read(server(module, ""))


@pytest.mark.parametrize(
    ("module", "tools", "message"),
    [
        ("2.3.9-1", "zfs-2.3.9-1\nzfs-kmod-2.3.9-1\n", []),
        ("2.3.9-1", "zfs-2.3.2-2\nzfs-kmod-2.3.9-1\n", ["its tools are 2.3.2-2"]),
        ("2.3.9-1", None, ["is not known"]),
        ("2.3.9-1", "zfs-unknown\n", ["is not known"]),
        ("2.5.0-1", "zfs-2.5.0-1\n", ["newer than 2.4"]),
    ],
)
def test_remarks_about_the_version(module: str, tools: str | None, message: list[str]) -> None:
    observed = openzfs_version.notes(server(module, tools), openzfs_version.parse(module))
    assert len(observed) == len(message)
    assert all(part in note for part, note in zip(message, observed, strict=True))


def test_tools_of_another_series_are_refused() -> None:
    with pytest.raises(HostError, match=r"the zfs module is 2\.1\.11.*are 2\.3\.9-1"):
        openzfs_version.notes(server("2.1.11", "zfs-2.3.9-1\n"), openzfs_version.parse("2.1.11"))
