"""kit.config.named_files: each key that may name a file, a host or a program has a class."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.config import named_files
from kit.config.named_files import CLASSES, beside
from kit.config.toml import read_text
from kit.core.errors import ConfigError
from kit.importers.source import Source
from kit.session import schemas

# Texts that are compared, shown, or passed on as a checked word; nothing is opened, contacted or run by them.
WORDS = {
    "workload": (
        "title precondition.filled pool.properties.* dataset.properties.* nfs.version nfs.options.[] "
        "tunables.* job.* phase.[].title phase.[].devices.[] phase.[].options.* phase.[].split_of "
        "phase.[].base expect.[].axis expect.[].op expect.[].tier expect.[].from expect.[].to known.[].check "
        "known.[].reason known.[].issue known.[].until fault.[].device event.[].device "
        "sweeps.cross.[].[] sweeps.quick.[]"
    ),
    "testbed": (
        "server.version device.[].emulated.title device.[].emulated.source.[] device.[].emulated.firmware "
        "device.[].price device.[].serial setting.[].pattern power.devices.[]"
    ),
    "device": "title source.[] firmware",
    "need": "title today budget",
}  # fmt: skip
# Files that the kit writes: keys with such a name. None but the classed is opened or run.
STORED = {
    "manifest": (
        "appliance.export command.[] findings.[].host host_settings.[].path import.files.[].file "
        "import.source.files import.source.program mount.source phases.[].checks.[].source "
        "phases.[].client_log.slowest.[].host phases.[].network.[].host "
        "phases.[].machines.[].host phases.[].clients.[].host phases.[].cpu.[].host "
        "observed.file_systems.[] observed.callers.[].file_system observed.files.[].file_system "
        "phases.[].extremes.[].host phases.[].shares.source "
        "phases.[].sums.[].host phases.[].unavailable.[].source testbed.devices.[].path testbed.file"
    ),
    "summary": (
        "accounting.phases.[].checks.[].source accounting.phases.[].shares.source "
        "accounting.phases.[].unavailable.[].source reference.source use.[].cpu.[].host clients.[].host "
        "network.[].clients.[].host observed.[].file_system observed.[].program"
    ),
    "series": "",
    "gallery": "rows.[].files.[] left_out.[].file",
    "slog": "host",
    "sheet": "",
    "size": "",
}
_TELLING = re.compile(r"path|file|source|argv|command|dir|host|ssh|program|url|export")
_PROBES = ("/bin/sh", "../x", "x.toml", "x y")
Schema = dict[str, Any]


def texts(schema: Schema, whole: Schema, key: str = "", seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The keys of a schema that take a text which could be a path."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name and name not in seen:
        yield from texts(whole["$defs"][name], whole, key, seen | {name})
    inner = [each for kind in ("anyOf", "oneOf", "allOf", "prefixItems") for each in schema.get(kind, ())]
    is_list = "prefixItems" in schema
    for each in inner:
        yield from texts(each, whole, f"{key}.[]" if is_list else key, seen)
    if schema.get("type") == "string" and not {"enum", "const"} & schema.keys():
        pattern = schema.get("pattern")
        if pattern is None or any(re.search(pattern, probe) for probe in _PROBES):
            yield key.removeprefix(".")
    for name, each in schema.get("properties", {}).items():
        yield from texts(each, whole, f"{key}.{name}", seen)
    for kind, sign in (("additionalProperties", "*"), ("items", "[]")):
        if isinstance(each := schema.get(kind), dict):
            yield from texts(each, whole, f"{key}.{sign}", seen)


@pytest.mark.parametrize("name", schemas.names())
def test_each_key_that_could_name_something_has_a_class(name: str) -> None:
    schema = schemas.schema(name)
    found = set(texts(schema, schema))
    if name in STORED:
        last = {key: re.sub(r"(\.(\[\]|\*))+$", "", key).rpartition(".")[2] for key in found}
        found = {key for key in found if _TELLING.search(last[key])}
    words = (WORDS | STORED)[name].split()
    classed = {key.partition(".")[2] for key in CLASSES if key.startswith(f"{name}.")}
    assert found == {*words, *classed}
    assert not classed & set(words)


@pytest.mark.parametrize("name", ["../x", "/etc/shadow", "a/b", "..", ".", "", ".x", "a\0b"])
def test_a_name_is_plain(name: str, tmp_path: Path) -> None:
    for key, kind in CLASSES.items():
        if kind in ("data", "kept"):
            with pytest.raises(ValueError, match=r"is a path; name a file beside w\.toml"):
                beside(key, tmp_path / "w.toml", name)
    assert beside("workload.base", tmp_path / "w.toml", "./x y.toml") == tmp_path / "x y.toml"


def test_what_is_a_program_is_never_read_as_data() -> None:
    for key, kind in CLASSES.items():
        if kind in ("kit", "program"):
            with pytest.raises(KeyError):
                beside(key, Path("w.toml"), "x")


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def another_users(path: Path) -> None:
    path.touch()
    os.chown(path, 12345, 12345)


def for_everybody(path: Path) -> None:
    path.touch()
    path.chmod(0o666)


def for_another_group(path: Path) -> None:
    path.touch()
    os.chown(path, -1, 12345)
    path.chmod(0o664)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.fspath(path))


def huge(path: Path) -> None:
    path.write_bytes(b"#" * ((1 << 20) + 1))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (link, "a link, a FIFO or a device"), (os.mkfifo, "a link, a FIFO or a device"),
        (a_socket, "a link, a FIFO or a device"), (Path.mkdir, "a link, a FIFO or a device"),
        (lambda path: os.mknod(path, 0o20644, os.makedev(1, 5)), "a link, a FIFO or a device"),
        (another_users, "belongs to"), (for_everybody, "written by everybody"),
        (for_another_group, "written by the group"), (huge, "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_a_file_that_a_file_names_is_regular_and_own(
    tmp_path: Path, kind: Callable[[Path], Any], reason: str
) -> None:
    by = tmp_path / "w.toml"
    by.touch()
    kind(tmp_path / "x.toml")
    with pytest.raises(ConfigError, match=reason):
        read_text(tmp_path / "x.toml", by)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_it_may_belong_to_whoever_wrote_the_file_that_names_it(tmp_path: Path) -> None:
    by, named = tmp_path / "w.toml", tmp_path / "x.toml"
    by.touch()
    named.write_text("a = 1\n")
    os.chown(by, 12345, 12345)
    assert read_text(named, by) == "a = 1\n"
    os.chown(named, 12345, 12345)
    assert read_text(named, by) == "a = 1\n"
    os.chown(by, 12346, 12346)
    with pytest.raises(ConfigError, match="belongs to"):
        read_text(named, by)


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/environ", "/sys/kernel/profiling", "/dev/zero"])
def test_no_file_of_the_kernel_is_read(path: str) -> None:
    """To read /proc/kmsg waits, and takes the messages away from whoever should have them."""
    for by in (None, Path("/proc/self/status")):
        with pytest.raises(ConfigError, match=r"not a file|no such file"):
            read_text(Path(path), by)
    with pytest.raises(ConfigError, match=r"not a regular file|cannot be read"):
        Source(Path(path))


def test_files_of_the_kit_are_as_trusted_as_the_kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout belongs to whoever made it, also where it is run with sudo."""
    for name in ("w.toml", "x.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "x.toml").chmod(0o666)
    monkeypatch.setattr(named_files, "_KIT", (tmp_path,))
    assert read_text(tmp_path / "x.toml", tmp_path / "w.toml") == ""
