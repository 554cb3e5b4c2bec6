"""Checks of this machine for the built-in lab; the lab is not started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.core.clock import ClockKind
from kit.core.errors import KitError
from kit.core.files import cache_dir
from kit.doctor.finding import Finding, State, Verdict, undetermined
from kit.lab.image.image import NEEDED_BYTES, ImageInputs, find
from kit.lab.image.tree import check_tools
from kit.lab.qemu import QEMU
from kit.lab.warm import QEMU_IMG

HERE = "this machine"
# A run with an existing image writes only a few logs.
_RUN_BYTES = 256 << 20
_KVM = Path("/dev/kvm")
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class LabFacts:
    """Facts of this machine for the lab. Fault texts are empty without a fault; None: unknown.

    `image`: its path; `image_fault`: damage of an image; `tools_fault`: why no image can be built.
    """

    qemu: str | None
    qemu_img: str | None
    image: str | None
    image_fault: str
    tools_fault: str
    free_bytes: int | None
    available_bytes: int | None
    kvm: str


def gather_lab(inputs: ImageInputs) -> LabFacts:
    """Read the facts; changes nothing."""
    path, image_fault = None, ""
    try:
        image = find(inputs)
        path = os.fspath(image.path) if image else None
    except KitError as error:
        image_fault = error.message
    tools_fault = ""
    try:
        check_tools()
    except KitError as error:
        tools_fault = error.message
    return LabFacts(
        qemu=shutil.which(QEMU),
        qemu_img=shutil.which(QEMU_IMG),
        image=path,
        image_fault=image_fault,
        tools_fault=tools_fault,
        free_bytes=_free_bytes(cache_dir()),
        available_bytes=_available_bytes(),
        kvm=_kvm_state(),
    )


def judge_lab(facts: LabFacts, memory_bytes: int, clock: ClockKind) -> Iterator[Finding]:
    """Judge the facts; `memory_bytes` and `clock` are the testbed's. Pure."""

    def finding(check: str, state: State, observed: str) -> Finding:
        return Finding(HERE, check, state, observed)

    missing = [name for name, path in ((QEMU, facts.qemu), (QEMU_IMG, facts.qemu_img)) if not path]
    text = f"{' and '.join(missing)} not installed" if missing else str(facts.qemu)
    yield finding("lab-qemu", "fail" if missing else "ok", text)
    yield finding("lab-image", *_image(facts))
    if facts.free_bytes is None:
        yield finding("lab-space", *undetermined("the directory of images cannot be read"))
    else:
        needed_bytes = _RUN_BYTES if facts.image else NEEDED_BYTES
        text = f"{facts.free_bytes >> 20} MiB free, {needed_bytes >> 20} needed"
        yield finding("lab-space", "ok" if facts.free_bytes >= needed_bytes else "fail", text)
    if facts.available_bytes is None:
        yield finding("lab-memory", *undetermined("no MemAvailable in /proc/meminfo"))
    else:
        text = f"{facts.available_bytes >> 20} MiB available, the guest may take {memory_bytes >> 20}"
        yield finding("lab-memory", "ok" if facts.available_bytes >= memory_bytes else "warn", text)
    if clock == "real" and facts.kvm:
        yield finding("lab-kvm", "fail", f'{facts.kvm}, and the testbed has clock = "real"')
    else:
        yield finding("lab-kvm", "note", facts.kvm or f"{_KVM} exists; only a boot is proof")


def _image(facts: LabFacts) -> Verdict:
    if facts.image_fault:
        return "fail", facts.image_fault
    if facts.image:
        return "ok", facts.image
    if facts.tools_fault:
        return "fail", f"not built yet, and {facts.tools_fault}"
    return "note", "not built yet: the first run does it"


def _free_bytes(directory: Path) -> int | None:
    """Free bytes of the filesystem of `directory`, which may not exist yet; None if unknown."""
    for path in (directory, *directory.parents):
        try:
            return shutil.disk_usage(path).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def _available_bytes() -> int | None:
    try:
        text = _MEMINFO.read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"^MemAvailable: +([0-9]{1,15}) kB$", text, re.MULTILINE)
    return int(match[1]) << 10 if match else None


def _kvm_state() -> str:
    """Why KVM cannot be used; "" if it can be tried."""
    if not _KVM.exists():
        return f"there is no {_KVM}"
    return "" if os.access(_KVM, os.R_OK | os.W_OK) else f"this user must not use {_KVM}"
