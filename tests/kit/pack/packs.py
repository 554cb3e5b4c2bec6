"""Packs as people give them away: of a pool over NFS, and of `hsp slog`. Each is made once."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import reports
from kit.pack import archive
from kit.pack.build import pack
from kit.store.json_file import write_json
from kit.store.run_directory import RunDir
from kit.store.series import is_series
from tests.reports import synthetic, synthetic_series
from tests.reports.slog import slog_test, write_run

Json = dict[str, Any]
MEDIANS_NS = (150_000, 180_000, 210_000)


def device(number: int) -> Json:
    """A log device; each has its own model."""
    size = 400 * 10**9 * number
    return {
        "name": "log0", "role": "log", "size_bytes": size, "path": f"/dev/disk/by-id/nvme-{number}",
        "identity": {"model": f"ACME {number}", "transport": "nvme", "serial": f"S3CR3T{number}",
                     "size_bytes": size},
        "settings": {"firmware": f"F{number}"},
    }  # fmt: skip


@functools.cache
def of_pool(number: int = 1) -> bytes:
    """Of O_DSYNC writes to a pool with a log device; a larger number is slower."""
    manifest = {
        "testbed": {**synthetic.manifest()["testbed"], "emulated": False, "devices": [device(number)]},
        "versions": {"hsp": "0.1.0", "zfs": "2.3.9", "kernel": "6.12"},
    }
    with tempfile.TemporaryDirectory() as folder:
        phases = {"write-slog": MEDIANS_NS[number - 1]}
        name = synthetic_series.run(Path(folder), number, phases, manifest)
        return packed(Path(folder, "sizes", name))


@functools.cache
def of_slog() -> bytes:
    """Of a drive whose FLUSH takes 700 us."""
    test = slog_test("write back", lambda size: 10 + size / 4096, lambda size: 700 + size / 4096)
    with tempfile.TemporaryDirectory() as folder:
        return packed(Path(write_run(Path(folder, "20261124T100000Z-aaaaaa"), test)))


def packed(path: Path) -> bytes:
    return pack(path, (), _judge)[1]


def _judge(path: Path) -> None:
    """Without the page, which takes longest and which nothing of these tests reads."""
    if not is_series(path):
        write_json(path / "summary.json", reports.judged(RunDir(path)).as_json())


def member(content: bytes, name: str) -> Any:
    """A JSON file of a pack, whatever its directory."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return json.loads(file.read(next(each for each in file.namelist() if each.endswith(name))))


def changed(content: bytes, change: Callable[[Json, Json], Any]) -> bytes:
    """The pack of somebody who changed manifest and summary, with digests that are right."""
    manifest, summary = member(content, "manifest.json"), member(content, "summary.json")
    change(manifest, summary)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        root = json.loads(file.read(archive.LIST))["root"]
    files = {"manifest.json": manifest, "summary.json": summary}
    return archive.packed(root, (), {f"{root}/{n}": json.dumps(v).encode() for n, v in files.items()})


def preconditioned(**entry: Any) -> Callable[[Json, Json], None]:
    """A change: what was done to the log device before."""

    def change(manifest: Json, _: Json) -> None:
        manifest["precondition"] = {"fresh": False, "devices": [{"device": "log0", **entry}]}

    return change


def put(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
