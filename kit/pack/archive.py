"""The file of a pack: a ZIP with a digest of each member, and one of the whole file in its comment.

    pack.json    what it is, what was kept, size and SHA-256 of every other member
    ROOT/...     files of a run or series directory; runs of a series are beside it

A pack is a stranger's: nothing is unpacked before the whole file and its list have been checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from kit import __version__
from kit.core.errors import ConfigError
from kit.core.files import writing
from kit.core.own_file import is_of_kernel
from kit.core.seed import RUN_ID
from kit.core.text import safe_text
from kit.store.format import FORMAT, Format
from kit.store.stored import Count, Many, Stored

SUFFIX = ".hsp"
LIST = "pack.json"
# The copy of a plan that comparisons need: without commands and machines.
SETTINGS = "settings.json"
_DIRECTORY = f"(?:series-)?{RUN_ID}"
_NAME = re.compile(
    rf"{_DIRECTORY}/(?:(?:manifest|summary|series|plan|settings)\.json|report\.html|journal\.jsonl"
    r"|(?:latency|ageing|keys|capture)\.parquet|raw/[A-Za-z0-9_][\w.%+@=,-]{0,200})|sheet\.(?:json|html)",
    re.ASCII,
)
_MARK = b"hsp-pack sha256:"
_COMMENT_BYTES = len(_MARK) + 64
# The record at the end of a ZIP, before the comment: what it is, disks, members, directory, comment.
_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE, _ZIP64_LOCATOR = b"PK\x05\x06", b"PK\x06\x07"
_MOST_MEMBERS, _MOST_LIST_BYTES = 10_000, 4 << 20
# All members together as they are unpacked, and the file.
_MOST_BYTES = 2 << 30
_CHUNK = 1 << 20
_DAMAGED = "copy the file again, or ask its author for another"
# 1980 is where the time of ZIP begins: the same result is the same pack at any time.
_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = stat.S_IFREG | 0o644


class PackMember(Stored):
    """A file of a pack."""

    bytes: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class PackList(Stored):
    """pack.json. `root`: the directory or file that is read; `kept`: kinds that were not taken out."""

    format: Format = FORMAT
    kit: str
    root: Annotated[str, Field(pattern=rf"^(?:{_DIRECTORY}|sheet\.json)$")]
    kept: Many[str] = ()
    members: Annotated[dict[str, PackMember], Field(max_length=_MOST_MEMBERS)]


def packed(root: str, kept: tuple[str, ...], files: Mapping[str, bytes]) -> bytes:
    """The file, with `files` by name. The same arguments make the same bytes. Raises ConfigError."""
    if len(files) > _MOST_MEMBERS or sum(map(len, files.values())) > _MOST_BYTES:
        limits = f"{_MOST_MEMBERS} files and {_MOST_BYTES >> 30} GiB"
        raise ConfigError(f"{root} has more than {limits}, the most that a pack holds", "pack without raw/")
    members = {
        name: PackMember(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    }
    about = PackList(format=FORMAT, kit=__version__, root=root, kept=kept, members=members)
    if unknown := [name for name in files if not _NAME.fullmatch(name)]:
        raise ConfigError(
            f"{safe_text(unknown[0])}: no name of a file of a pack", "rename or remove the file"
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", allowZip64=False) as file:
        file.comment = bytes(_COMMENT_BYTES)
        for name, each in ((LIST, json.dumps(about.as_json(), indent=1).encode()), *sorted(files.items())):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system, info.external_attr = 3, _FILE_MODE << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, each)
    body = content.getvalue()[:-_COMMENT_BYTES]
    return body + _MARK + hashlib.sha256(body).hexdigest().encode()


def is_pack(path: Path) -> bool:
    """Whether a regular file calls itself a pack, or begins as a ZIP does."""
    with suppress(OSError), open(path, "rb") as file:
        return path.suffix == SUFFIX or file.read(4) == b"PK\x03\x04"
    return False


def unpack(path: Path, into: Path, only: Collection[str] = ()) -> Path:
    """Check the pack and write its files into the new directory `into`; returns the path of its root.

    `only`: names of files without their directory; none named: all. Raises ConfigError with what is wrong,
    HostError where `into` has no room.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "look at its permissions") from None
    with open(handle, "rb") as file:
        _check_file(path, file)
        try:
            with zipfile.ZipFile(file) as archive:
                about = _checked_list(path, archive)
                for name, member in about.members.items():
                    if not only or name.rpartition("/")[2] in only:
                        with writing(into):
                            _write(path, archive, name, member, into)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise _refused(path, f"not a readable ZIP ({error})") from None
    return into / about.root


def _refused(path: Path, text: str) -> ConfigError:
    return ConfigError(f"{path}: {text}", _DAMAGED)


def _check_file(path: Path, file: BinaryIO) -> None:
    """The end of the ZIP, and the digest of all bytes: what follows may be hostile, but is not damaged."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or is_of_kernel(status):
        raise ConfigError(f"{path}: not a file, but a FIFO or a device", "name the file of a pack")
    body_bytes = status.st_size - _COMMENT_BYTES
    if not _END.size <= body_bytes <= _MOST_BYTES:
        raise _refused(path, f"{status.st_size} bytes are no pack, or not all of one")
    digest = hashlib.sha256()
    left = body_bytes
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise _refused(path, "it became shorter while it was read")
        digest.update(chunk)
        left -= len(chunk)
    comment = file.read(_COMMENT_BYTES)
    if not comment.startswith(_MARK):
        raise _refused(path, "not a pack of hsp, or not all of one: its digest is not at its end")
    if comment != _MARK + digest.hexdigest().encode():
        raise _refused(path, "damaged: its content does not have the digest at its end")
    file.seek(max(body_bytes - _END.size - 20, 0))
    before, end = file.read(min(20, body_bytes - _END.size)), file.read(_END.size)
    signature, *_, members, list_bytes, list_at, comment_bytes = _END.unpack(end)
    is_whole = (signature, comment_bytes) == (_END_SIGNATURE, _COMMENT_BYTES)
    if not is_whole or before.startswith(_ZIP64_LOCATOR):
        raise _refused(path, "the end of the ZIP is not as hsp writes it")
    if members > _MOST_MEMBERS + 1 or list_bytes > _MOST_LIST_BYTES:
        raise _refused(path, f"{members} members, more than {_MOST_MEMBERS}")
    if list_at + list_bytes != body_bytes - _END.size:
        raise _refused(path, "bytes that belong to no member")


def _check_member(path: Path, info: zipfile.ZipInfo) -> None:
    shown = safe_text(info.orig_filename[:100])
    if info.orig_filename != LIST and not _NAME.fullmatch(info.orig_filename):
        raise _refused(path, f"a member is called {shown}: no file of a run has that name")
    if info.external_attr >> 16 != _FILE_MODE or info.flag_bits & 1:
        raise _refused(path, f"{shown} is not a plain file, but a link, a directory or encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refused(path, f"{shown} is compressed in a way that hsp does not use")


def _checked_list(path: Path, archive: zipfile.ZipFile) -> PackList:
    """pack.json, once each member of the ZIP is a file that it lists. Raises ConfigError."""
    seen: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in seen:
            raise _refused(path, f"two members are called {safe_text(info.filename[:100])}")
        _check_member(path, info)
        seen[info.filename] = info
    if LIST not in seen or seen[LIST].file_size > _MOST_LIST_BYTES:
        raise _refused(path, f"it has no {LIST} of at most {_MOST_LIST_BYTES >> 20} MiB")
    with archive.open(LIST) as file:
        content = file.read(_MOST_LIST_BYTES)
    try:
        about = PackList.from_json(json.loads(content), f"{path}: {LIST}")
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"{LIST} is no JSON ({error})") from None
    if about.members.keys() != seen.keys() - {LIST}:
        other = safe_text(min(about.members.keys() ^ (seen.keys() - {LIST})))
        raise _refused(path, f"{other} is in the file or in its {LIST}, not in both")
    if sum(member.bytes for member in about.members.values()) > _MOST_BYTES:
        raise _refused(path, f"its files have more than {_MOST_BYTES >> 30} GiB")
    return about


def _write(path: Path, archive: zipfile.ZipFile, name: str, member: PackMember, into: Path) -> None:
    target = into / name
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), member.bytes
    with archive.open(name) as source, open(target, "xb") as file:
        # One byte more than there should be: a bomb is longer.
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            digest.update(chunk)
            file.write(chunk)
    if left or digest.hexdigest() != member.sha256:
        raise _refused(path, f"{name} is not what {LIST} says: other bytes, or another number of them")
