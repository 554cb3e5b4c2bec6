"""What an observed server has: the key `observed` of manifest.json."""

from __future__ import annotations

from kit.store.parts.resource_use import PoolSpace
from kit.store.stored import Count, Many, Nanoseconds, Stored


class ObservedPool(Stored):
    """`log_vdevs`: ids of its log devices; empty: its log blocks lie on its data vdevs.

    `special_vdevs`: of its special and dedup vdevs. `space`: at the begin.
    """

    name: str
    log_vdevs: Many[Count] = ()
    special_vdevs: Many[Count] = ()
    space: PoolSpace | None = None


class CallerRow(Stored):
    """Requests of one client, or calls of the processes of one name, to one file system, by op and tier.

    `waited_ns`: the sum of their latencies.
    """

    caller: str
    file_system: str
    op: str
    tier: str
    ios: Count
    waited_ns: Nanoseconds


class FileRow(Stored):
    """Requests of one file, by op and tier. `name`: the last part of its path; `number`: in its dataset."""

    name: str
    number: Count
    file_system: str
    op: str
    tier: str
    ios: Count
    waited_ns: Nanoseconds


class Operation(Stored):
    """Of an NFS server, such as `NFSv3 LOOKUP`; `waited_ns`: the sum of the latencies of all `calls`."""

    name: str
    calls: Count
    waited_ns: Nanoseconds


class Observed(Stored):
    """`elsewhere`: requests of file systems that are not of ZFS; `others`: of ZFS, that were not asked for;
    `failed`: that failed before their file was known. None of these are among the I/Os of the run.

    `callers`: what each client waited for; `operations`: all of the NFS server;
    `files`: those that waited longest, where they were asked for. `cost`: of the tracer, as sentences.
    `local`: not the requests of NFS clients, but the calls of all processes of the server, by name.
    Then `elsewhere` are of file systems without a known name, and `failed` all that failed. Left out are
    also `empty` calls, that moved no byte, and `mapped` pages that were read or written. `unfinished`: had
    not ended at the end.
    """

    local: bool = False
    callers: Many[CallerRow] = ()
    operations: Many[Operation] = ()
    files: Many[FileRow] = ()
    cost: Many[str] = ()
    empty: Count = 0
    mapped: Count = 0
    unfinished: Count = 0

    pools: Many[ObservedPool] = ()
    file_systems: Many[str] = ()
    elsewhere: Count = 0
    others: Count = 0
    failed: Count = 0


class ObservedRow(Stored):
    """Requests of one file system, op and tier. `waited_ns`: the sum of their latencies at the server.

    `client`: its address; `program`: name of the processes whose calls they are, with `hsp observe --local`.
    `share`, `waited_share`: of the I/Os and of the waiting of the whole observation, of 1.
    """

    file_system: str
    op: str
    tier: str
    ios: Count
    share: float
    waited_ns: Nanoseconds
    waited_share: float
    client: str = ""
    program: str = ""
