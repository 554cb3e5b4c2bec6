"""Warm guests: a guest that has booted, saved beside its image; labs resume it instead of booting.

    ~/.cache/hsp/warm/<digest>/  root-<token>  memory-<token>  manifest.json

`memory` is QEMU's migration stream (docs/devel/migration.rst of QEMU), `root` a qcow2 overlay with what the
guest has written to its disk by then. The token is of one boot: nobody gets the disk of one boot and the
memory of another. The digest is that of all that must be the same to resume: image, QEMU and the whole
command line (memory size, devices, CPU). If one of these differs, the digest differs, so a guest that does
not fit is never used. Any number of labs resume one saved guest at once: both files are only read.

A directory is there whole or not at all, and its files are checked before each use. What resumed labs share
and what they do not: docs/decisions/0015-warm-guests.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kit.core.cache import cache_dir, cannot_use, locked
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.lab import monitor
from kit.lab.guest import QEMU, Lab, LabSpec
from kit.lab.image.image import Image
from kit.lab.image.prune import is_still_made
from kit.lab.qemu import WAITING_LINE, Disk, Machine, Saved, command_line

FORMAT = 2
_TOKEN = re.compile(r"[0-9a-f]{8}")
QEMU_IMG = "qemu-img"
_SAVE_DEADLINE_S = 300.0
_SETTLE_S = 0.3
_POLL_S = 0.02
# A booted guest of 4 GiB has 0.3 GiB that are not zero.
NEEDED_BYTES = 1 << 30


def open_lab(spec: LabSpec, image: Image, progress: Progress) -> Lab:
    """A lab of `spec`, resumed if that can be. It is not yet ready (`Lab.wait_ready`). Raises HostError.

    Where no guest can be saved, such as on a full disk, the lab boots: that takes longer and shows the same.
    """
    resume = None
    if can_be_saved(spec):
        try:
            resume = saved(spec, image, progress)
        except HostError as error:
            progress.note(f"no guest can be saved, so the lab boots each time: {error.message}")
    return Lab(spec, resume=resume)


def can_be_saved(spec: LabSpec) -> bool:
    """Not with KVM: CPU and clock are the host's. Not with NVMe disks: QEMU saves none of these.

    Other kernel arguments are tests of booting.
    """
    nvme = any(disk.kind == "nvme" for disk in spec.extra_disks)
    return spec.clock.kind == "virtual" and not spec.extra_kernel_args and not nvme


def saved(spec: LabSpec, image: Image, progress: Progress, rebuild: bool = False) -> Saved:
    """The saved guest that fits, made if need be. Raises HostError.

    A second process that needs the same one waits for the first and uses its result.
    """
    digest, folder = digest_of(spec, image), cache_dir() / "warm"
    with locked(folder, digest, "another process that checks or saves the same guest", progress):
        place = folder / digest
        if not rebuild:
            why = damage(place)
            if not why:
                return _files(place)
            if place.exists():
                progress.note(f"the saved guest cannot be used and is made anew: {why}")
        # Whoever else saved here is dead: the lock is ours.
        for stale in folder.glob(f".build-{digest}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        _check_space(folder)
        work = folder / f".build-{digest}-{os.getpid()}"
        work.mkdir(mode=0o700)
        try:
            with progress.step("booting a guest, to be saved"):
                manifest = {"format": FORMAT, **_save(spec, image, work)}
            (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
            shutil.rmtree(place, ignore_errors=True)
            work.rename(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return _files(place)


def digest_of(spec: LabSpec, image: Image) -> str:
    """Of all that a guest and whoever resumes it must have in common."""
    machine = Machine(
        image_dir=image.path,
        state_dir=Path("{state}"),
        memory_mib=spec.memory_mib,
        clock=spec.clock,
        extra_disks=spec.extra_disks,
        ssh_ports=spec.ssh_ports,
    )
    sizes = [disk.size_bytes for disk in spec.extra_disks]
    parts = [FORMAT, image.manifest["files"], _qemu(), command_line(machine, QEMU), sizes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def damage(place: Path) -> str:
    """Why what is at `place` cannot be resumed; empty if it can."""
    try:
        manifest = json.loads((place / "manifest.json").read_text())
        if manifest["format"] != FORMAT:
            return f"it has format {manifest['format']}"
        for file in asdict(_files(place)).values():
            recorded = manifest["files"][file.name]
            if file.stat().st_size != recorded["bytes"]:
                return f"{file} has {file.stat().st_size} bytes, {recorded['bytes']} were written"
            if _sha256(file) != recorded["sha256"]:
                return f"{file} is not what was written"
    except OSError as error:
        return f"{error.filename or place}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{place / 'manifest.json'} is damaged"
    return ""


def _files(place: Path) -> Saved:
    manifest = json.loads((place / "manifest.json").read_text())
    token = str(manifest["token"])
    if not _TOKEN.fullmatch(token):
        raise ValueError("not a token")
    return Saved(place / f"root-{token}", place / f"memory-{token}")


def current(place: Path) -> bool:
    """Whether this version would resume what is at `place`, with the image and QEMU that are there now."""
    try:
        spec = json.loads((place / "manifest.json").read_text())["spec"]
        path = cache_dir() / "images" / spec["image"]
        if not is_still_made(path):
            return False
        image = Image(path, json.loads((path / "manifest.json").read_text()))
        disks = tuple(Disk(**disk) for disk in spec["extra_disks"])
        clock = Clock("virtual", spec["dilation"])
        wanted = LabSpec(path, clock, spec["memory_mib"], extra_disks=disks, ssh_ports=spec["ssh_ports"])
        return digest_of(wanted, image) == place.name
    except HostError:
        # Without QEMU nobody can say so.
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _save(spec: LabSpec, image: Image, work: Path) -> dict[str, Any]:
    """Boot a guest until it waits for keys, and leave `_FILES` in `work`."""
    token = secrets.token_hex(4)
    files = Saved(work / f"root-{token}", work / f"memory-{token}")
    _make_overlay(files.root, image.path / "root.img")
    started = time.monotonic()
    with Lab(replace(spec, seed=None), root=files.root) as lab:
        lab.wait_ready(line=WAITING_LINE)
        time.sleep(_SETTLE_S)
        # Not stopped before: QEMU would resume it stopped. As fast as it goes: the default of 128 MiB/s is
        # meant for networks.
        monitor.command(lab.state, "migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        part, target = (shlex.quote(os.fspath(path)) for path in (work / "part", files.memory))
        (work / "part").touch(mode=0o600)
        # QEMU has done when all is in the pipe; the file has its name when all is in it.
        monitor.command(lab.state, "migrate", uri=f"exec:cat >{part} && mv {part} {target}")
        _await_saved(lab, files.memory)
    return {
        "token": token,
        "spec": {
            "image": image.path.name,
            "memory_mib": spec.memory_mib,
            "dilation": spec.clock.dilation,
            "extra_disks": [asdict(disk) for disk in spec.extra_disks],
            "ssh_ports": spec.ssh_ports,
        },
        "seconds": round(time.monotonic() - started, 1),
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": _sha256(file)}
            for file in asdict(files).values()
        },
    }


def _await_saved(lab: Lab, memory: Path) -> None:
    end = time.monotonic() + _SAVE_DEADLINE_S
    state: dict[str, Any] = {}
    while state.get("status") != "completed" or not memory.exists():
        state = monitor.command(lab.state, "query-migrate")
        if state["status"] in ("failed", "cancelled") or time.monotonic() > end:
            raise HostError(
                f"the guest could not be saved: {state['status']} {state.get('error-desc', '')}".rstrip(),
                f"is there space in {cache_dir()}?",
            )
        time.sleep(_POLL_S)


def _make_overlay(path: Path, backing: Path) -> None:
    try:
        done = subprocess.run(
            [QEMU_IMG, "create", "-q", "-f", "qcow2", "-F", "raw", "-b", os.fspath(backing), os.fspath(path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise HostError(f"{QEMU_IMG} is not installed", "install it: apt-get install qemu-utils") from None
    except subprocess.TimeoutExpired as error:
        raise HostError(
            f"{QEMU_IMG} did not make {path} within {error.timeout:g} s", "does the disk hang?"
        ) from None
    if done.returncode:
        raise HostError(f"{QEMU_IMG} could not make {path}: {done.stderr.strip()}")


def _qemu() -> list[str]:
    """Which QEMU this is: its path, and size and time of its file."""
    path = shutil.which(QEMU)
    if path is None:
        raise HostError(f"{QEMU} is not installed", "install it: apt-get install qemu-system-x86")
    found = os.stat(path)
    return [os.path.realpath(path), str(found.st_size), str(found.st_mtime_ns)]


def _check_space(folder: Path) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise cannot_use(folder, error) from error
    if free < NEEDED_BYTES:
        raise HostError(
            f"{folder} has {free / 2**30:.1f} GiB free, saving a guest needs {NEEDED_BYTES >> 30} GiB",
            "free some space, or set XDG_CACHE_HOME to a place that has it",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
