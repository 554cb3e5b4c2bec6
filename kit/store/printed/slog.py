"""The result of `hsp slog`: what it prints as JSON, from the phases of a run on one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kit.store.format import Format
from kit.store.parts.forces import FLUSH_IDLE as FLUSH_IDLE
from kit.store.parts.forces import READ_CACHED as READ_CACHED
from kit.store.parts.forces import Forces
from kit.store.stored import Count, Many, Stored

# diskinfo(8) of FreeBSD: from a sector to 8 MiB.
SIZES = tuple(512 << n for n in range(15))
THREADS = (1, 2, 4, 8, 16)
# The method of each kind of test, and the size of those by threads and of the Ceph journal's.
FLUSHED = "fdatasync"
DSYNC = "open_datasync"
JOURNAL = "open_sync"
BLOCK = 4096


class SlogDevice(Stored):
    """The device. `write_cache`, `fua`: what the kernel says of it, None: it does not say.

    `emulated`: title of its model, None for a real device; `serial` is "" then. `capacitor_health`: in
    percent, None: it says nothing of capacitors.
    """

    name: str
    model: str
    firmware: str | None
    serial: str
    size_bytes: Count
    sector_bytes: Count | None
    transport: str
    rotational: bool | None
    write_cache: str | None
    fua: bool | None
    driver: str | None
    scheduler: str | None
    emulated: str | None = None
    capacitor_health: Count | None = None


class SlogState(Stored):
    """What was done before: nothing, a purge, or more. `filled_bytes`: proven by the device's counter.

    `aged_in`: the earlier run that filled an emulated device.
    """

    kind: Literal["as-found", "fresh", "aged"]
    purge: str | None = None
    filled_bytes: Count = 0
    aged_in: str | None = None


class SlogRow(Stored):
    """Of a device in summary.json: `code` of the sentence, which people read, and `why` it was chosen."""

    device: str
    code: Literal["protected", "not-protected", "cache-off", "unknown"]
    sentence: str
    why: str


class SlogTest(Stored):
    """One device: forced writes by size and by threads. `run`: its id; `seed`: of places and content."""

    format: Format
    run: str
    kit: str
    utc: str
    kernel: str
    host: str
    dilation: Count
    seed: Count
    device: SlogDevice
    state: SlogState
    forces: Many[Forces]

    def by_size(self, method: str) -> Iterator[Forces]:
        """The tests of one thread, by size."""
        return (each for each in self.forces if each.method == method and each.threads == 1)

    def by_threads(self) -> Iterator[Forces]:
        """The tests of BLOCK with FLUSH, by the number of threads."""
        return (each for each in self.forces if each.method == FLUSHED and each.record_bytes == BLOCK)

    @property
    def flushes(self) -> bool:
        """Whether the kernel sends FLUSH to the device: it says that its cache is volatile."""
        return self.device.write_cache == "write back"
