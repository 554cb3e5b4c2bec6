"""Whether the built-in lab can start on this machine, without starting it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.core.cache import cache_dir
from kit.core.clock import ClockKind
from kit.core.errors import KitError
from kit.doctor.finding import Finding, State, undetermined
from kit.lab.guest import QEMU
from kit.lab.image.image import NEEDED_BYTES, ImageInputs, find
from kit.lab.image.tree import check_tools
from kit.lab.warm import QEMU_IMG

HERE = "this machine"
# A run with an image that is there writes a few logs and, to the cache, nothing.
_LITTLE_BYTES = 256 << 20
_KVM = Path("/dev/kvm")
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class LabFacts:
    """What this machine has for the lab. Texts are empty where nothing is wrong; None: not known.

    `image`: where it is; `image_fault`: of one that is damaged; `tools_fault`: what cannot build one.
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
    """Changes nothing."""
    image, image_fault = None, ""
    try:
        found = find(inputs)
        image = os.fspath(found.path) if found else None
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
        image=image,
        image_fault=image_fault,
        tools_fault=tools_fault,
        free_bytes=_free_bytes(cache_dir()),
        available_bytes=_available_bytes(),
        kvm=_kvm_state(),
    )


def judge_lab(facts: LabFacts, memory_bytes: int, clock: ClockKind) -> Iterator[Finding]:
    """`memory_bytes` and `clock` are the testbed's. Pure."""

    def finding(check: str, state: State, found: str) -> Finding:
        return Finding(HERE, check, state, found)

    missing = [name for name, path in ((QEMU, facts.qemu), (QEMU_IMG, facts.qemu_img)) if not path]
    found = f"{' and '.join(missing)} not installed" if missing else str(facts.qemu)
    yield finding("lab-qemu", "fail" if missing else "ok", found)
    yield finding("lab-image", *_image(facts))
    if facts.free_bytes is None:
        yield finding("lab-space", "warn", undetermined("the directory of images cannot be looked into"))
    else:
        needed = _LITTLE_BYTES if facts.image else NEEDED_BYTES
        shown = f"{facts.free_bytes >> 20} MiB free, {needed >> 20} needed"
        yield finding("lab-space", "ok" if facts.free_bytes >= needed else "fail", shown)
    if facts.available_bytes is None:
        yield finding("lab-memory", "warn", undetermined("/proc/meminfo does not say"))
    else:
        shown = f"{facts.available_bytes >> 20} MiB available, the guest may take {memory_bytes >> 20}"
        yield finding("lab-memory", "ok" if facts.available_bytes >= memory_bytes else "warn", shown)
    if clock == "real" and facts.kvm:
        yield finding("lab-kvm", "fail", f'{facts.kvm}, and the testbed has clock = "real"')
    else:
        yield finding("lab-kvm", "note", facts.kvm or f"{_KVM} is there; only a boot proves it")


def _image(facts: LabFacts) -> tuple[State, str]:
    if facts.image_fault:
        return "fail", facts.image_fault
    if facts.image:
        return "ok", facts.image
    if facts.tools_fault:
        return "fail", f"not built yet, and {facts.tools_fault}"
    return "note", "not built yet: the first run does it"


def _free_bytes(directory: Path) -> int | None:
    """Where the directory is, or will be made."""
    for place in (directory, *directory.parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def _available_bytes() -> int | None:
    found = re.search(r"^MemAvailable: +([0-9]{1,15}) kB$", _read(_MEMINFO), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def _kvm_state() -> str:
    """Empty if it can be tried, else why not."""
    if not _KVM.exists():
        return f"there is no {_KVM}"
    return "" if os.access(_KVM, os.R_OK | os.W_OK) else f"{_KVM} is not yours to use"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
