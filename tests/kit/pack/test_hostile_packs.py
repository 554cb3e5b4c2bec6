"""A pack is a stranger's file: it is refused with what is wrong, and writes into its own directory alone."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import ConfigError, KitError
from kit.pack import archive
from kit.pack.archive import packed, unpack

RUN = "20261121T053000Z-ab12cd"
FILES = {f"{RUN}/manifest.json": b'{"format": 1}' * 50, f"{RUN}/latency.parquet": bytes(range(256)) * 9}
PLAIN = (stat.S_IFREG | 0o644) << 16
Member = tuple[str, bytes, int, int]


def made(files: list[Member], root: str = RUN, comment: bytes | None = None, **changes: Any) -> bytes:
    """A ZIP with any members, and digests that are right."""
    listed = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data, *_ in files
    }
    about = {"format": 1, "kit": "0.1.0", "root": root, "members": listed, **changes}
    content, seen = io.BytesIO(), set[str]()
    with zipfile.ZipFile(content, "w") as file:
        file.comment = bytes(archive._COMMENT_BYTES)
        for name, data, mode, method in [("pack.json", json.dumps(about).encode(), PLAIN, 8), *files]:
            info = zipfile.ZipInfo("x", (1980, 1, 1, 0, 0, 0))
            info.filename, info.create_system, info.external_attr, info.compress_type = name, 3, mode, method
            with pytest.warns(UserWarning) if name in seen else io.BytesIO():
                file.writestr(info, data)
            seen.add(name)
    body = content.getvalue()[: -archive._COMMENT_BYTES]
    return body + (comment or archive._MARK + hashlib.sha256(body).hexdigest().encode())


def signed(body: bytes) -> bytes:
    return body + archive._MARK + hashlib.sha256(body).hexdigest().encode()


def refusal(tmp_path: Path, content: bytes) -> str:
    path, into = tmp_path / "a.hsp", tmp_path / "into"
    path.write_bytes(content)
    into.mkdir(exist_ok=True)
    with pytest.raises(ConfigError) as caught:
        unpack(path, into)
    assert str(path) in caught.value.message and caught.value.hint
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.hsp", "into"]
    return caught.value.message


def test_what_was_packed_is_unpacked(tmp_path: Path) -> None:
    content = packed(RUN, (), FILES)
    assert content == packed(RUN, (), dict(reversed(FILES.items())))
    (tmp_path / "a.hsp").write_bytes(content)
    (tmp_path / "into").mkdir()
    assert unpack(tmp_path / "a.hsp", tmp_path / "into") == tmp_path / "into" / RUN
    for name, data in FILES.items():
        assert (tmp_path / "into" / name).read_bytes() == data
    with zipfile.ZipFile(tmp_path / "a.hsp") as file:
        assert file.testzip() is None


def test_any_flipped_byte_is_refused(tmp_path: Path) -> None:
    content = packed(RUN, (), FILES)
    for at in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[at] ^= 1 << (at % 8)
        assert "digest" in refusal(tmp_path, bytes(damaged))
    assert not list((tmp_path / "into").iterdir())


def test_any_part_of_a_pack_is_refused(tmp_path: Path) -> None:
    content = packed(RUN, (), FILES)
    for length in {0, 1, 50, *range(0, len(content), 37)}:
        refusal(tmp_path, content[:length])
        refusal(tmp_path, content[length + 1 :])
    refusal(tmp_path, content + b"\n")


def one(name: str = f"{RUN}/manifest.json", data: bytes = b"x", mode: int = PLAIN, how: int = 8) -> Member:
    return (name, data, mode, how)


def summed(size: int) -> dict[str, Any]:
    return {f"{RUN}/manifest.json": {"bytes": size, "sha256": "0" * 64}}


HOSTILE: dict[str, Callable[[], bytes]] = {
    "a member is called ../../evil": lambda: made([one("../../evil")]),
    "a member is called /etc/evil": lambda: made([one("/etc/evil")]),
    f"a member is called {RUN}/../../evil": lambda: made([one(f"{RUN}/../../evil")]),
    f"a member is called {RUN}/raw/../x": lambda: made([one(f"{RUN}/raw/../x")]),
    f"a member is called {RUN}/raw/a?[2Jb": lambda: made([one(f"{RUN}/raw/a\x1b[2Jb")]),
    f"a member is called {RUN}/run.sh": lambda: made([one(f"{RUN}/run.sh")]),
    f"a member is called {RUN}/MANIFEST.json": lambda: made([one(f"{RUN}/MANIFEST.json")]),
    "not a plain file": lambda: made([one(data=b"/etc/passwd", mode=(stat.S_IFLNK | 0o777) << 16)]),
    "is not a plain file": lambda: made([one(mode=(stat.S_IFDIR | 0o755) << 16 | 16)]),
    "compressed in a way": lambda: made([one(how=zipfile.ZIP_LZMA)]),
    "two members are called": lambda: made([one(), one()]),
    "members, more than": lambda: made(
        [one(f"{RUN}/raw/{n}", b"", how=0) for n in range(10_002)], members={}
    ),
    "not in both": lambda: made([one()], members={}),
    "root: string should match": lambda: made([one()], root=".."),
    "is not what pack.json says": lambda: made([one()], members=summed(1)),
    "have more than 2 GiB": lambda: made([one()], members=summed(1 << 40)),
    "it has no pack.json of at most": lambda: with_list(bytes(5 << 20)),
    "pack.json is no JSON": lambda: with_list(b"{"),
    "recursion": lambda: with_list(b"[" * 100_000),
    "its digest is not at its end": lambda: made([one()], comment=b"y" * 80),
    "the end of the ZIP": lambda: signed(b"PK\x03\x04" + bytes(500)),
    "bytes that belong to no member": lambda: signed(
        bytes(100) + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 46, 0, archive._COMMENT_BYTES)
    ),
}


def with_list(listed: bytes) -> bytes:
    """A ZIP with that pack.json alone."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.comment = bytes(archive._COMMENT_BYTES)
        info = zipfile.ZipInfo("pack.json")
        info.create_system, info.external_attr = 3, PLAIN
        file.writestr(info, listed)
    return signed(content.getvalue()[: -archive._COMMENT_BYTES])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_pack_is_refused(tmp_path: Path, text: str) -> None:
    assert text in refusal(tmp_path, HOSTILE[text]())


def test_a_bomb_takes_neither_memory_nor_disk(tmp_path: Path) -> None:
    bomb = bytes(256 << 20)
    content = made([one(data=bomb)], members=summed(1000))
    del bomb
    assert len(content) < 1 << 20
    tracemalloc.start()
    try:
        assert "is not what pack.json says" in refusal(tmp_path, content)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert sum(each.stat().st_size for each in (tmp_path / "into").rglob("*") if each.is_file()) <= 1000


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_pack_with_a_right_digest_raises_no_other_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "a.hsp"
    for number in range(25):
        body = bytearray(packed(RUN, (), FILES)[: -archive._COMMENT_BYTES])
        for _ in range(chance.randrange(1, 8)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        path.write_bytes(signed(bytes(body)))
        into = tmp_path / f"into{number}"
        into.mkdir()
        try:
            unpack(path, into)
        except KitError as error:
            assert str(path) in error.message
    assert {each.name.rstrip("0123456789") for each in tmp_path.iterdir()} == {"a.hsp", "into"}


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.hsp")
    with pytest.raises(ConfigError, match="FIFO"):
        unpack(tmp_path / "a.hsp", tmp_path)
