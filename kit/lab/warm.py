"""Saved guests: a guest is booted once and saved; labs resume it instead of booting.

    ~/.cache/hsp/warm/<digest>/  root-<token>  memory-<token>  manifest.json

`memory` is QEMU's migration stream (docs/devel/migration.rst of QEMU), `root` a qcow2 overlay with the
guest's disk writes until then. The token identifies one boot, so that disk and memory of two boots are never
mixed. The digest covers everything that must be equal to resume: image, QEMU and the whole command line
(memory size, devices, CPU); a different machine has a different digest. Any number of labs can resume one
saved guest at the same time: both files are only read.

A directory is complete or absent; its files are checked before each use. What resumed labs share:
docs/decisions/0015-warm-guests.md.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import struct
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kit.core.cache import check_space, content_digest, locked, replacing, sha256
from kit.core.errors import HostError
from kit.core.files import cache_dir
from kit.core.progress import Progress
from kit.hosts.local import LocalHost
from kit.lab.guest import RESUME_DEADLINE_S, RunningLab
from kit.lab.image.image import Image
from kit.lab.image.prune import is_still_made
from kit.lab.qemu import (
    QEMU,
    QEMU_PACKAGE,
    WAITING_LINE,
    LabSpec,
    SavedGuest,
    command_line,
    installed,
    monitor,
)

FORMAT = 1
_QCOW2, _EXTERNAL_DATA = struct.Struct(">4sIQI52xQ"), 1 << 2
_TOKEN = re.compile(r"[0-9a-f]{8}")
_SPEC = TypeAdapter(LabSpec)
QEMU_IMG = "qemu-img"
_SAVE_DEADLINE_S = 300.0
_TRIES = 3
_SETTLE_S = 0.3
_POLL_S = 0.02
# A booted guest of 4 GiB has about 0.3 GiB of non-zero memory.
NEEDED_BYTES = 1 << 30


def open_lab(spec: LabSpec, image: Image, progress: Progress) -> RunningLab:
    """Start a lab, resumed if possible. It is not ready yet (`Lab.wait_ready`). Raises HostError.

    If no guest can be saved, for example on a full disk, the lab boots, which only takes longer.
    """
    resume = None
    if can_be_saved(spec):
        try:
            resume = saved(spec, image, progress)
        except HostError as error:
            progress.note(f"no guest can be saved, so the lab boots each time: {error.message}")
    return RunningLab(spec, resume=resume)


def can_be_saved(spec: LabSpec) -> bool:
    """Whether a guest of `spec` can be saved.

    Not with KVM: CPU and clock are the host's. Not with NVMe disks: QEMU cannot save them. Not with extra
    kernel arguments: these are for tests of booting.
    """
    nvme = any(disk.kind == "nvme" for disk in spec.extra_disks)
    return spec.clock.kind == "virtual" and not spec.extra_kernel_args and not nvme


def saved(spec: LabSpec, image: Image, progress: Progress, rebuild: bool = False) -> SavedGuest:
    """The saved guest for `spec`, made if necessary. Raises HostError.

    A second process that needs the same guest waits for the first and uses its result.
    """
    digest, folder = digest_of(spec, image), cache_dir() / "warm"
    with locked(folder, digest, "another process that checks or saves the same guest", progress):
        path = folder / digest
        if not rebuild:
            reason = damage(path, image.path / "root.img")
            if not reason:
                return _files(path)
            if path.exists():
                progress.note(f"the saved guest cannot be used and is made again: {reason}")
        with replacing(path) as work:
            check_space(folder, NEEDED_BYTES, "saving a guest")
            manifest = {"format": FORMAT, **_tried(spec, image, work, progress)}
            (work / "manifest.json").write_text(json.dumps(manifest, indent=1, default=os.fspath) + "\n")
        return _files(path)


def digest_of(spec: LabSpec, image: Image) -> str:
    """Digest of everything that a saved guest and a lab that resumes it must have in common."""
    sizes = [disk.size_bytes for disk in spec.extra_disks]
    program = Path(installed(QEMU, QEMU_PACKAGE)).resolve()
    status = program.stat()
    qemu = [os.fspath(program), str(status.st_size), str(status.st_mtime_ns)]
    parts = [FORMAT, image.manifest["files"], qemu, command_line(replace(spec, seed=None)), sizes]
    return content_digest(json.dumps(parts))


def damage(path: Path, image_disk: Path | None = None) -> str:
    """Why the saved guest at `path` cannot be resumed; "" if it can.

    `image_disk`: what its disk must lie on.
    """
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        if manifest["format"] != FORMAT:
            return f"it has format {manifest['format']}"
        for file in asdict(_files(path)).values():
            recorded = manifest["files"][file.name]
            if file.stat().st_size != recorded["bytes"]:
                return f"{file} has {file.stat().st_size} bytes, {recorded['bytes']} were written"
            if sha256(file) != recorded["sha256"]:
                return f"{file} was changed after it was written"
        if image_disk is not None and (other := _foreign_file(_files(path).root, image_disk)):
            return f"{_files(path).root} is on {other}, not on {image_disk}"
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError, struct.error):
        return f"{path / 'manifest.json'} is damaged"
    return ""


def _foreign_file(overlay: Path, image_disk: Path) -> str:
    """What QEMU would open beside the overlay, but the image's disk; "" if nothing. Raises OSError,
    ValueError.

    Source: docs/interop/qcow2.rst of QEMU (magic, version, place and length of the backing file's name; from
    byte 72 the incompatible features, of which bit 2 is an external data file).
    """
    with overlay.open("rb") as file:
        header = file.read(_QCOW2.size)
        magic, version, place, length, features = _QCOW2.unpack(header)
        if (magic, version) != (b"QFI\xfb", 3):
            raise ValueError("not a qcow2 file")
        file.seek(place)
        backing = file.read(length)
    if features & _EXTERNAL_DATA:
        return "a data file of its own"
    return "" if backing == os.fsencode(image_disk) else repr(backing[:200].decode("utf-8", "replace"))


def _files(path: Path) -> SavedGuest:
    manifest = json.loads((path / "manifest.json").read_text())
    token = str(manifest["token"])
    if not _TOKEN.fullmatch(token):
        raise ValueError("not a token")
    return SavedGuest(path / f"root-{token}", path / f"memory-{token}")


def current(path: Path) -> bool:
    """Whether this version would resume the guest at `path`, with the present image and QEMU."""
    try:
        spec = _SPEC.validate_python(json.loads((path / "manifest.json").read_text())["spec"])
        if not is_still_made(spec.image_dir):
            return False
        image = Image(spec.image_dir, json.loads((spec.image_dir / "manifest.json").read_text()))
        return digest_of(spec, image) == path.name
    except HostError:
        # Unknown without QEMU: keep it.
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _tried(spec: LabSpec, image: Image, work: Path, progress: Progress) -> dict[str, Any]:
    """Save a guest that resumes; returns its manifest without format. Raises HostError.

    A guest was once saved that never came up again: it repeated a page fault, in each of nine labs. Each is
    therefore resumed once before it is kept.
    """
    for _ in range(_TRIES):
        token = secrets.token_hex(4)
        files = SavedGuest(work / f"root-{token}", work / f"memory-{token}")
        with progress.step("booting a guest, to be saved"):
            manifest = {"token": token, **_save(spec, image, files)}
        with progress.step("resuming it once"):
            reason = _failure(spec, files)
        if not reason:
            return manifest
        progress.note(f"the guest was saved in a state that does not resume, and is saved again: {reason}")
        for path in asdict(files).values():
            path.unlink()
    raise HostError(f"{_TRIES} saved guests did not resume: {reason}", "report the version of QEMU")


def _failure(spec: LabSpec, files: SavedGuest) -> str:
    """Why the saved guest does not resume; "" if it does."""
    try:
        with RunningLab(spec, resume=files) as lab:
            lab.wait_ready(RESUME_DEADLINE_S)
    except HostError as error:
        return error.message
    return ""


def _save(spec: LabSpec, image: Image, files: SavedGuest) -> dict[str, Any]:
    """Boot a guest until it waits for keys and save it in `files`; returns what the manifest has of it."""
    spec, work = replace(spec, seed=None), files.root.parent
    image_disk, root = os.fspath(image.path / "root.img"), os.fspath(files.root)
    qemu_img = installed(QEMU_IMG, "qemu-utils")
    LocalHost().run(
        [qemu_img, "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image_disk, root], deadline_s=60
    )
    started = time.monotonic()
    with RunningLab(spec, root=files.root) as lab:
        lab.wait_ready(line=WAITING_LINE)
        time.sleep(_SETTLE_S)
        # Do not stop the guest first: QEMU would resume it stopped. No bandwidth limit: the default of
        # 128 MiB/s is meant for networks.
        monitor(lab.state, "migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        part, target = (shlex.quote(os.fspath(path)) for path in (work / "part", files.memory))
        (work / "part").touch(mode=0o600)
        # QEMU is done when all data is in the pipe; the file gets its name when all data is in the file.
        monitor(lab.state, "migrate", uri=f"exec:cat >{part} && mv {part} {target}")
        _await_saved(lab, files.memory)
    return {
        "spec": asdict(spec),
        "seconds": round(time.monotonic() - started, 1),
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)}
            for file in asdict(files).values()
        },
    }


def _await_saved(lab: RunningLab, memory: Path) -> None:
    end = time.monotonic() + _SAVE_DEADLINE_S
    state: dict[str, Any] = {}
    while state.get("status") != "completed" or not memory.exists():
        state = monitor(lab.state, "query-migrate")
        if state["status"] in ("failed", "cancelled") or time.monotonic() > end:
            raise HostError(
                f"the guest could not be saved: {state['status']} {state.get('error-desc', '')}".rstrip(),
                f"check the free space in {cache_dir()}",
            )
        time.sleep(_POLL_S)
