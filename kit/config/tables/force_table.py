"""The table `force` of a `[[phase]]`: records that are written and forced, in place of a fio job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from kit.config.fio_job import FioJob
from kit.config.toml import STORED_IF_ANY, STORED_IF_SET, Place, Problems, Table
from kit.core.text import counted
from kit.core.units import SizeBytes, format_size_bytes
from kit.store.parts.forces import FLUSH_IDLE, READ_CACHED, WITHOUT_WRITES

# How a group of records gets to stable storage: kit/load/programs/force_load.c. Linux has no
# fsync_writethrough; it is known because pg_test_fsync has a row for it.
Method = Literal[
    "open_datasync",
    "fdatasync",
    "fsync",
    "fsync_writethrough",
    "open_sync",
    "fsync_close",
    "close_fsync",
    "none",
    "flush_idle",
    "read_cached",
]
# Each write of these is forced as it is made.
FORCED_WRITES = ("open_datasync", "open_sync")
PAGE_BYTES = 4096
_LEAST_RECORD, _RECORD_UNIT, _SECTOR = 64, 8, 512
_MOST_RECORD, _MOST_GROUP = 16 << 20, 64 << 20

_Number = Annotated[int, Field(ge=1, le=1024)]
_Groups = Annotated[int, Field(ge=1, le=10**8)]


class ForceTable(Table):
    """Records of `record` bytes, written one by one and forced `per_force` at a time with `method`.

    `append`: to files that are empty at first, of at most `file` bytes each; else they are written before,
    and records go over what is there. Both begin at the start of a full file again. `direct`: past the page
    cache. `files`: of the load; each of `threads` writes to one. `group_commit`: threads of a file share a
    force. `check`: records are read back after the phase. `random`: to random places of a whole device.
    `groups`: so many of all threads end the load; they write `most` bytes at most, at random places not more
    than the device has.
    """

    record: SizeBytes
    per_force: _Number = 1
    method: Method = "fdatasync"
    direct: bool = False
    append: bool = False
    files: _Number = 1
    threads: _Number = 1
    group_commit: bool = False
    file: SizeBytes = 16 << 20
    check: bool = True
    random: Annotated[bool, STORED_IF_ANY] = False
    groups: Annotated[_Groups | None, STORED_IF_SET] = None
    most: Annotated[SizeBytes | None, STORED_IF_SET] = None

    @property
    def writes(self) -> bool:
        """Or it sends FLUSH alone, or reads the first record of the device again and again."""
        return self.method not in WITHOUT_WRITES

    def groups_on(self, device_bytes: int) -> int | None:
        """Of all threads, on a device of that size; None: until the end of the phase."""
        if self.groups is None or not self.writes:
            return self.groups
        limits = [self.most or 0, device_bytes if self.random else 0]
        most = min((each // self.group_bytes for each in limits if each), default=self.groups)
        return max(self.threads, min(self.groups, most))

    @property
    def group_bytes(self) -> int:
        """Of a force and the writes before it."""
        return self.record * self.per_force

    @property
    def text(self) -> str:
        """For people, such as "600B fdatasync"."""
        count = f"{self.per_force} x " if self.per_force > 1 else ""
        return f"{count}{format_size_bytes(self.record)} {self.method}"

    def _problems(self) -> Problems:
        yield from self._record_problems()
        yield from self._order_problems()
        yield from self._files_problems()

    def _record_problems(self) -> Problems:
        found = f"{self.record} bytes"
        if self.record < _LEAST_RECORD or self.record % _RECORD_UNIT or self.record > _MOST_RECORD:
            most = format_size_bytes(_MOST_RECORD)
            yield (
                "record",
                f"{found}: a record has a head and a checksum: write {_LEAST_RECORD} bytes to {most}, a "
                f"multiple of {_RECORD_UNIT}",
            )
        if self.direct and self.record % _SECTOR:
            yield (
                "record",
                f"{found} with direct = true: direct I/O is in sectors: write a multiple of {_SECTOR} "
                "bytes, or direct = false",
            )
        if self.group_bytes > _MOST_GROUP:
            text = (
                f"{self.per_force} records are {format_size_bytes(self.group_bytes)}, which is held in memory"
            )
            yield "per_force", f"{text}: at most {format_size_bytes(_MOST_GROUP)} for a force"

    def _order_problems(self) -> Problems:
        if self.check and (self.random or not self.writes):
            why = "records at random places" if self.random else f"{self.method} writes no records, which"
            yield "check", f"{why} cannot be read back: write check = false"
        if self.per_force > 1 and not self.writes:
            yield "per_force", f"{self.method} writes no records: remove it"
        if self.most is not None and self.groups is None:
            yield "most", "it is the most that `groups` write: add groups, or remove it"

    def _files_problems(self) -> Problems:
        if self.files > self.threads:
            text = f"{self.files} files for {counted(self.threads, 'thread')}: each thread writes to one file"
            yield "files", f"{text}: write threads = {self.files} or more"
        least = 2 * self.group_bytes * -(-self.threads // self.files)
        if self.file < least:
            yield (
                "file",
                f"{format_size_bytes(self.file)} is less than two forces of all threads of a file "
                f"({format_size_bytes(least)}): records would be written over as soon as they are safe: make "
                "it larger",
            )
        if self.group_commit and (self.method not in ("fdatasync", "fsync") or self.threads == self.files):
            yield (
                "group_commit",
                'a force is shared by threads of one file, with method = "fdatasync" or "fsync": write '
                "threads above files, or remove group_commit",
            )


@dataclass(frozen=True)
class ForceJob(FioJob):
    """The load of a phase with `force`: what plan and run ask of a job. It has no sections of fio.

    One I/O is a group: a force and the writes before it. `place`: of the table.
    """

    force: ForceTable
    place: Place = field(compare=False)

    @classmethod
    def of(cls, force: ForceTable, place: Place) -> ForceJob:
        return cls(force.model_dump_json(), (), force, place)

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(("read" if self.force.method == READ_CACHED else "write",))

    @property
    def is_random(self) -> bool:
        return self.force.random

    @property
    def block_bytes(self) -> int | None:
        return None if self.force.method == FLUSH_IDLE else self.force.group_bytes

    @property
    def block_bytes_by_op(self) -> dict[str, int]:
        return {op: self.block_bytes for op in self.operations if self.block_bytes}

    @property
    def is_sync_write(self) -> bool:
        return self.force.method != "none"

    @property
    def is_async_write(self) -> bool:
        return not self.is_sync_write

    @property
    def outstanding(self) -> int:
        return self.force.threads

    def span(self, whole_bytes: int) -> tuple[int, int]:
        if not self.force.writes:
            return 0, self.force.record
        return 0, whole_bytes if self.force.random else min(self.force.file, whole_bytes)

    @property
    def writes_per_io(self) -> int | None:
        """Writes that the storage gets for a group; None where that is not known.

        Past the page cache, and with O_DSYNC, each record is one. Else the cache holds them until the force,
        and those of a file are one run of pages: one write. Of threads that share a file a force may write
        records of several; without a force the cache writes when it likes.
        """
        if self.force.method == "none" and not self.force.direct:
            return None
        if self.force.direct or self.force.method in FORCED_WRITES:
            return self.force.per_force
        return 1 if self.force.threads == self.force.files else None

    @property
    def spare_bytes(self) -> int:
        """A page cache writes whole pages: so many bytes more than its records a group may have."""
        if self.force.direct or not self.force.record % PAGE_BYTES:
            return 0
        return 2 * PAGE_BYTES * (self.force.per_force if self.force.method in FORCED_WRITES else 1)
