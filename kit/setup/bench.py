"""What every phase of a run needs, once everything is set up."""

from __future__ import annotations

from dataclasses import dataclass

from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks
from kit.setup.site import Site
from kit.store.run_directory import RunDir
from kit.trace.support import Tracing
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.pool import Pool


@dataclass(frozen=True)
class Storage:
    """The server under test: its pool, and the dataset that is exported, at `path` on it."""

    server: Host
    zfs: ZfsVersion
    tracing: Tracing
    pool: Pool
    dataset: str
    path: str
    objset: int
    log_devices: tuple[str, ...]


@dataclass(frozen=True)
class Bench:
    """`mount_point` is where `mounted` clients have the export, `mount` the directory of the files in it.

    `run_origin_ns`: the reference clock when the run began. `storage`: None for an appliance.
    """

    site: Site
    run_dir: RunDir
    work_dir: str
    mount_point: str
    mount: str
    mounted: tuple[Host, ...]
    size_bytes: int
    run_origin_ns: int
    clocks: Clocks
    # Whether fio on the clients can have the files as an ordinary user.
    ordinary: bool = False
    storage: Storage | None = None
