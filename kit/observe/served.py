"""What a server has: its mounted ZFS file systems, and which vdevs of its pools are log devices.

Sources: /proc/self/mountinfo (proc(5)), `zpool list -v` (zpool-list(8)), the labels of log devices.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kit.core.errors import ConfigError, HostError
from kit.core.proc_path import unescape
from kit.hosts.base import Host
from kit.store.parts.resource_use import PoolSpace
from kit.trace.tier import Vdevs
from kit.zfs.layout import SPECIAL_ROLES
from kit.zfs.vdev_listing import devices_of, space_of_data
from kit.zfs.zil import vdev_ids

# The place of requests that failed before their file was known: place_of_request.bt.
FAILED = 0
# In a message.
_MOST_NAMED = 12
LIST = ("zpool", "list", "-v", "-H", "-P", "-p")
SYNC = ("zfs", "get", "-H", "-t", "filesystem", "-o", "name,value", "sync")


@dataclass(frozen=True)
class Served:
    """`file_systems`: names of datasets by minor number; `logs`: ids of log vdevs by pool.

    `unsynced`: datasets with sync=disabled. `others`: as `file_systems`, of those that were not asked for.
    `special`: ids of special and dedup vdevs by pool. `space`: of the data vdevs of each pool.
    """

    file_systems: Mapping[int, str]
    logs: Mapping[str, frozenset[int]]
    unsynced: frozenset[str] = frozenset()
    others: Mapping[int, str] = field(default_factory=dict)
    special: Mapping[str, frozenset[int]] = field(default_factory=dict)
    space: Mapping[str, PoolSpace] = field(default_factory=dict)

    def vdevs(self, name: str) -> Vdevs:
        """Of the pool of this file system, as it waits for them."""
        pool, none = pool_of(name), frozenset[int]()
        is_synced = name.partition("@")[0] not in self.unsynced
        return Vdevs(self.logs.get(pool, none) if is_synced else None, self.special.get(pool, none))

    def of(self, wanted: Collection[str], *, new: bool = False) -> Served:
        """With these pools and datasets, and all below them, alone; with all if there are none.

        Raises ConfigError for one that is not there, unless `new`: it may have gone meanwhile.
        """
        if not wanted:
            return self
        mine = {
            minor: name
            for minor, name in self.file_systems.items()
            if any(name == each or name.startswith((f"{each}/", f"{each}@")) for each in wanted)
        }
        for each in wanted:
            if not new and not any(name == each or name.startswith(f"{each}/") for name in mine.values()):
                there = ", ".join(sorted(set(self.file_systems.values()))[:_MOST_NAMED]) or "none"
                raise ConfigError(f"no file system of {each} is mounted", f"mounted are: {there}")
        rest = {minor: name for minor, name in self.file_systems.items() if minor not in mine}
        return replace(self, file_systems=mine, others=rest)

    def joined(self, later: Served) -> tuple[Served, list[str]]:
        """Both together, and what of it is not the same any more, as sentences.

        A number may have another file system later: the requests before and after cannot be told apart.
        """
        problems = [
            f"{name} was unmounted meanwhile, and {now} has its number: their I/Os cannot be told apart"
            for minor, name in self.file_systems.items()
            if (now := later.file_systems.get(minor, name)) != name
        ]
        for what, mine, theirs in (
            ("log devices", self.logs, later.logs), ("special vdevs", self.special, later.special),
        ):  # fmt: skip
            problems += [
                f"the {what} of {pool} changed meanwhile: which of them answered is not known"
                for pool in sorted(mine.keys() & theirs.keys())
                if mine[pool] != theirs[pool]
            ]
        both = {**self.file_systems, **later.file_systems}
        for name in sorted(self.unsynced ^ later.unsynced):
            if name in self.file_systems.values() and name in later.file_systems.values():
                problems.append(f"sync of {name} was changed meanwhile: which writes waited is not known")
        return Served(
            both, {**self.logs, **later.logs}, self.unsynced | later.unsynced,
            {**self.others, **later.others}, {**self.special, **later.special},
            {**later.space, **self.space},
        ), problems  # fmt: skip


def pool_of(dataset: str) -> str:
    return re.split("[/@]", dataset, maxsplit=1)[0]


def read(server: Host) -> Served:
    """Read all. Raises HostError."""
    mounts = server.run(["cat", "/proc/self/mountinfo"]).stdout
    pools = server.run(["zpool", "list", "-H", "-o", "name"]).stdout.split()
    listings = {pool: server.run([*LIST, pool]).stdout for pool in pools}
    logs = {pool: vdev_ids(server, devices_of(listing, "logs")) for pool, listing in listings.items()}
    special = {
        pool: vdev_ids(server, devices_of(listing, *SPECIAL_ROLES), logs=False)
        for pool, listing in listings.items()
    }
    synced = unsynced(server.run(list(SYNC)).stdout)
    space = {}
    for pool, listing in listings.items():
        # A pool that is suspended has no sizes.
        with suppress(HostError):
            space[pool] = space_of_data(listing)
    return Served(file_systems(mounts), logs, synced, special=special, space=space)


def file_systems(mountinfo: str) -> dict[int, str]:
    """Datasets by minor number. Raises HostError for lines that are none of mountinfo."""
    found: dict[int, str] = {}
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, source = before.split(" "), after.split(" ")
        if not separator or len(fields) < 3 or len(source) < 2:
            raise HostError(f"/proc/self/mountinfo has the line {line[:80]!r}", "is /proc mounted?")
        major, _, minor = fields[2].partition(":")
        if source[0] == "zfs" and major == "0":
            found[int(minor)] = unescape(source[1])
    return found


def unsynced(listing: str) -> frozenset[str]:
    """Datasets with sync=disabled, from the output of SYNC."""
    rows = (line.split("\t") for line in listing.splitlines())
    return frozenset(name for name, *values in rows if values == ["disabled"])
