"""Copies of what `hsp host wipe` removes, in the results directory of the kit's machine.

    RESULTS/wiped/20260101T000000Z-SERIAL/wipe.json      what was there, and which file has which bytes
                                          sdb1-at-0.bin  bytes of /dev/sdb1 from offset 0 on

Copied are the begin and the end of the disk and of each partition (all four ZFS labels, both GPTs), and the
surroundings of each signature. To restore: `dd of=/dev/sdb1 if=FILE seek=OFFSET oflag=seek_bytes`; the
disk's own files first, then `partprobe`, then those of the partitions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.core.errors import SafetyRefusal
from kit.core.files import writing
from kit.core.own_file import own_directory
from kit.devices.check import Checked
from kit.devices.inventory import Node
from kit.devices.tool_output import Signature
from kit.hosts.base import Host

_HEAD_BYTES = 1 << 20
# A ZFS label, and the alignment of the two at the end (include/sys/vdev_impl.h, vdev_label_offset).
_LABEL_BYTES = 256 << 10
_AROUND_BYTES = 64 << 10
_PAGE_BYTES = 4096
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# Whether a read failed is seen by the length: dd's exit code is not that of the pipe.
_READ = 'dd if="$1" bs=64K skip="$2" count="$3" iflag=skip_bytes,count_bytes,fullblock status=none | base64'


@dataclass(frozen=True)
class Region:
    """`length_bytes` of /dev/`kernel_name` from `offset_bytes` on."""

    kernel_name: str
    offset_bytes: int
    length_bytes: int


def regions(nodes: Sequence[Node], signatures: Sequence[Signature]) -> tuple[Region, ...]:
    """What is copied of a disk and its partitions, in order, without overlaps. Pure."""
    result = []
    for node in sorted(nodes, key=lambda node: node.kernel_name):
        size = node.size_bytes
        tail = min(size // _LABEL_BYTES * _LABEL_BYTES - 2 * _LABEL_BYTES, size - _HEAD_BYTES)
        spans = [(0, _HEAD_BYTES), (tail, size)]
        for signature in signatures:
            if signature.kernel_name.replace("/", "!") == node.kernel_name:
                start = signature.offset_bytes // _PAGE_BYTES * _PAGE_BYTES
                spans.append((start - _AROUND_BYTES, start + _AROUND_BYTES))
        result += [Region(node.kernel_name, start, end - start) for start, end in _merged(spans, size)]
    return tuple(result)


def _merged(spans: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(start, 0), min(end, size)) for start, end in spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def save(
    host: Host, checked: Checked, items: Sequence[Signature], copied: Sequence[Region], results: Path
) -> Path:
    """Copy the regions into a new directory; returns it. Nothing is ever overwritten.

    Raises SafetyRefusal if the host does not give all bytes, HostError if they cannot be written.
    """
    assert checked.node is not None
    contents = [_read(host, checked.spec.path, region) for region in copied]
    folder = _new_folder(results / "wiped", checked.node.serial)
    files: list[dict[str, Any]] = []
    for region, content in zip(copied, contents, strict=True):
        name = f"{region.kernel_name}-at-{region.offset_bytes}.bin"
        _write(folder / name, content)
        files.append({"file": name, **asdict(region), "sha256": hashlib.sha256(content).hexdigest()})
    entry = {
        "format": 1,
        "host": host.name,
        "device": checked.node.identity() | {"path": checked.spec.path},
        "removed": [asdict(item) for item in items],
        "files": files,
    }
    _write(folder / "wipe.json", (json.dumps(entry, indent=1) + "\n").encode())
    _sync(folder)
    return folder


def _read(host: Host, path: str, region: Region) -> bytes:
    node = f"/dev/{region.kernel_name.replace('!', '/')}"
    argv = ["sh", "-c", _READ, "sh", node, str(region.offset_bytes), str(region.length_bytes)]
    result = host.run(argv)
    try:
        content = base64.b64decode("".join(result.stdout.split()), validate=True)
    except binascii.Error:
        content = b""
    if len(content) != region.length_bytes:
        raise SafetyRefusal(
            f"{path} on {host.name} is not touched: of {region.length_bytes} bytes of {node} at "
            f"{region.offset_bytes}, {len(content)} could be copied {result.stderr.strip()[-200:]}".rstrip(),
            "it is not wiped without a copy; does the disk have errors (dmesg there)?",
        )
    return content


def _new_folder(parent: Path, serial: str) -> Path:
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{_UNSAFE.sub('_', serial)[:60]}"
    with writing(parent):
        own_directory(parent.parent)
        own_directory(parent)
        for number in range(1, 1000):
            folder = parent / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder
        raise FileExistsError(0, "too many directories of this second", str(parent))


def _write(path: Path, content: bytes) -> None:
    """Write a new file for this user alone, down to the disk."""
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
