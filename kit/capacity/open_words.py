"""How the program of an open loop, or of a replay, is called.

Without what reads its output, which a plan does not need.
"""

from __future__ import annotations

from kit.config.tables.capacity_table import NO_LIMIT_NS, OpenJob, ReplayJob
from kit.config.tables.force_table import ForceTable
from kit.core.clock import Clock
from kit.hosts.held_device import HeldDevice
from kit.load.programs.force_program import words_of
from kit.store.load.replayed import LATE_NS

_PAGE_BYTES = 4096


def open_words(
    job: OpenJob,
    place: str,
    size_bytes: int,
    seed: int,
    clock: Clock,
    times_ns: tuple[int, int],
    workers: int,
    device: HeldDevice | None = None,
) -> list[str]:
    """The program's arguments. `place`: see Worker; `times_ns`: of a window, and the most."""
    table, file = job.open, job.sections[0].options["filename"]
    is_device = place.startswith("/dev/")
    force = ForceTable.model_construct(
        record=table.block, method="read" if table.op == "read" else "open_datasync", threads=table.threads,
        file=size_bytes, direct=job.direct, check=False, random=table.op == "read",
    )  # fmt: skip
    # One file that is there is held as a device is.
    words = words_of(
        force, "", place if is_device else f"{place}/{file}", size_bytes, seed,
        is_device=True, device=device,
    )  # fmt: skip
    gap_ns = max(1, round(clock.to_host_ns(workers * 10**9) / (table.rate or 1)))
    numbers = *times_ns, gap_ns, clock.to_host_ns(job.limit_ns)
    return ["open", *words, *map(str, numbers)]


def replay_words(
    job: ReplayJob,
    place: str,
    size_bytes: int,
    seed: int,
    clock: Clock,
    times_ns: tuple[int, int],
    schedule: str,
) -> list[str]:
    """As `open_words`; `schedule`: the path of the file with the starts."""
    record = -(-max(job.capture.largest.values()) // _PAGE_BYTES) * _PAGE_BYTES
    force = ForceTable.model_construct(
        record=record, method="none", threads=job.replay.threads, file=size_bytes, direct=True, check=False,
    )  # fmt: skip
    words = words_of(force, "", f"{place}/{job.file}", size_bytes, seed, is_device=True)
    numbers = *times_ns, *map(clock.to_host_ns, (LATE_NS, NO_LIMIT_NS))
    return ["replay", *words, *map(str, numbers), schedule]
