"""Whether a guest's memory barriers hold against a thread of the host (docs/decisions/0031).

Store buffering, the litmus test SB (J. Alglave, L. Maranget, M. Tautschnig, Herding Cats, TOPLAS 2014): each
side writes its own word and then reads the other's. With a barrier between the two at least one sees the
other's write. The guest is a boot sector, and its memory a file that store_order.c has mapped too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kit.core.clock import Clock
from kit.lab.qemu import QEMU, _clock_arguments
from tests.bench.conftest import Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300, func_only=True)]

SOURCE = Path(__file__).with_name("store_order.c")
MEMORY_BYTES = 16 << 20
SECONDS = 15
# 16 bits, at 7C00h. ECX counts the rounds; addresses are those of store_order.c.
CODE = (
    "fa 31c0 8ed8 6631c9"  # cli; xor ax,ax; mov ds,ax; xor ecx,ecx
    "66b8edfe0000 66a34081"  # mov eax,READY_VALUE; mov [READY],eax
    "6641"  # next: inc ecx
    "66390e8080 75f9"  # wait: cmp [BEGIN],ecx; jne wait
    "66890e0080"  # mov [GUEST],ecx
    "{barrier}"
    "66a14080 66a3c080"  # mov eax,[HOST]; mov [FOUND],eax
    "66890e0081"  # mov [END],ecx
    "{jump}"  # jmp next
)
BARRIERS = {"mfence": ("0faef0", "ebe0"), "lock add": ("66f08306808100", "ebdc")}


def boot_sector(barrier: str) -> bytes:
    code, jump = BARRIERS[barrier]
    return bytes.fromhex(CODE.format(barrier=code, jump=jump)).ljust(510, b"\0") + b"\x55\xaa"


def rounds(folder: Path, barrier: str, prefix: tuple[str, ...]) -> tuple[int, int]:
    """Rounds, and those in which both sides read the other's old value."""
    memory, disk, program = folder / "memory", folder / "disk", folder / "store_order"
    memory.write_bytes(b"")
    os.truncate(memory, MEMORY_BYTES)
    disk.write_bytes(boot_sector(barrier).ljust(1 << 20, b"\0"))
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
    argv = [
        *prefix, QEMU, "-nodefaults", "-display", "none", "-machine", "q35,memory-backend=m", "-m", "16M",
        "-object", f"memory-backend-file,id=m,size=16M,mem-path={memory},share=on",
        *_clock_arguments(Clock("virtual", 4)),
        "-drive", f"file={disk},format=raw,if=none,id=d", "-device", "ide-hd,drive=d,bootindex=0",
    ]  # fmt: skip
    guest = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        host = [*prefix, program, memory, str(SECONDS)]
        done = subprocess.run(host, capture_output=True, text=True, check=True, timeout=120)
    finally:
        guest.kill()
        guest.wait()
    total, both = map(int, done.stdout.split())
    assert total > 500
    return total, both


@pytest.mark.parametrize("barrier", BARRIERS)
def test_one_cpu_keeps_the_order(tmp_path: Path, tell: Tell, barrier: str) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    words = {"all CPUs": (), "one CPU": ("taskset", "--cpu-list", cpu)}
    for cpus, prefix in words.items():
        total, both = rounds(tmp_path, barrier, prefix)
        most = 0 if cpus == "one CPU" else None
        tell("order", f"{barrier}, {cpus}: of {total} rounds lost the order", both, "rounds", at_most=most)
        assert cpus == "all CPUs" or both == 0
