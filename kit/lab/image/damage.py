"""Damage of a finished image: each file is compared with the size and the digest of its build.

Digests cost seconds, so they are computed once for each state of the files: `checked.json` beside them
has the digests that held and the size, times and inode of each file at that moment.
"""

from __future__ import annotations

import contextlib
import json
import stat
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit.core.cache import sha256
from kit.core.errors import HostError
from kit.core.files import write_atomically

FILES = ("vmlinuz", "initrd.img", "root.img")
_CHECKED = "checked.json"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _File(_Strict):
    bytes: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Files(_Strict):
    vmlinuz: _File
    initrd: Annotated[_File, Field(alias="initrd.img")]
    root: Annotated[_File, Field(alias="root.img")]


class _Manifest(_Strict):
    """The keys of an image's manifest.json that the kit uses."""

    kernel: str
    zfs: str
    files: _Files


class DamagedImage(HostError):
    """A finished image that must not be booted."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"the lab image is damaged: {fault}", "build it again: hsp lab up --build")


def check(path: Path, manifest: dict[str, Any], remember: bool = False, anew: bool = False) -> None:
    """Compare the files of the image at `path` with its manifest. Raises DamagedImage.

    `remember`: store that they were checked; the caller holds the lock of the image. `anew`: read them even
    if that is stored, because a disk that fails changes a file without a trace.
    """
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise DamagedImage(f"{path / 'manifest.json'}: {key}: {first['msg']}") from error
    try:
        now, before = _states(path, manifest), read_json(path / _CHECKED)
        if now == before and not anew:
            return
        for name in FILES:
            if sha256(path / name) != manifest["files"][name]["sha256"]:
                raise DamagedImage(f"{path / name} was changed after it was built (its SHA-256 differs)")
    except OSError as error:
        raise DamagedImage(f"{error.filename or path}: {error.strerror or error}") from error
    if remember:
        with contextlib.suppress(HostError, OSError):  # without space it is checked again next time
            write_atomically(path / _CHECKED, json.dumps(now).encode())


def read_json(path: Path) -> Any:
    """The content of a regular file; None if there is none, or no JSON in it."""
    try:
        return json.loads(path.read_text()) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None


def _states(path: Path, manifest: dict[str, Any]) -> dict[str, list[Any]]:
    """What changes whenever a file does: digest, size, times and inode. Raises OSError, DamagedImage."""
    states = {}
    for name in FILES:
        file, built = path / name, manifest["files"][name]
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DamagedImage(f"{file} is not a regular file")
        if status.st_size != built["bytes"]:
            raise DamagedImage(f"{file} has {status.st_size} bytes, it was built with {built['bytes']}")
        times = [status.st_mtime_ns, status.st_ctime_ns]
        states[name] = [built["sha256"], status.st_size, *times, status.st_ino]
    return states
