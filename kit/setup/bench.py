"""What every phase of a run needs, once everything is set up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kit.config.fio_job import FioJob
from kit.config.tables.phase_table import ARRAY, ArrayLayout
from kit.devices.array import ArraySpec
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks
from kit.instruments.l2arc_rebuild import L2arcRebuild
from kit.instruments.machine.sampler import Sampled
from kit.load.phase_load import Worker
from kit.plan.schedule_steps import TimedAction
from kit.setup.site import Site
from kit.store.run_directory import RunDir
from kit.trace.support import TracingSupport
from kit.trace.tier import Vdevs
from kit.zfs import zil
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.pool import CreatedPool


@dataclass(frozen=True)
class Storage:
    """The server under test: its pool, and the dataset that is exported, at `path` on it."""

    server: Host
    zfs: ZfsVersion
    tracing: TracingSupport
    pool: CreatedPool
    dataset: str
    path: str
    objset: int
    log_devices: tuple[str, ...]
    # The property of the dataset.
    sync: str = "standard"
    # Of special and dedup vdevs.
    special_devices: tuple[str, ...] = ()

    @property
    def vdevs(self) -> Vdevs:
        """Ids of the vdevs that hold no ordinary data, from their labels. Raises HostError."""
        log = None if self.sync == "disabled" else zil.vdev_ids(self.server, self.log_devices)
        return Vdevs(log, zil.vdev_ids(self.server, self.special_devices, logs=False))


@dataclass(frozen=True)
class PhaseArray:
    """The md array that a phase goes to. `members`: names of devices; `size_bytes`: as md made it."""

    spec: ArraySpec
    layout: ArrayLayout
    members: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class Bench:
    """`mount_point` is where `mounted` clients have the export, `mount` the directory of the files in it.

    `size_bytes`: of the working set. `run_origin_ns`: the reference clock when the run began. `storage`: None
    for an appliance, and where phases go to devices. `device_bytes`: sizes of the devices that phases go to,
    by name. `array`: the one of the phase that is measured. `schedule`: what is done at set times of that
    phase. `live`: the tracer's output is fetched while it is written, for a view.
    """

    site: Site
    run_dir: RunDir
    work_dir: str
    run_origin_ns: int
    clocks: Clocks
    mount_point: str = ""
    mount: str = ""
    mounted: tuple[Host, ...] = ()
    size_bytes: int = 0
    # Whether fio on the clients can have the files as an ordinary user.
    ordinary: bool = False
    storage: Storage | None = None
    device_bytes: Mapping[str, int] = field(default_factory=dict)
    array: PhaseArray | None = None
    schedule: tuple[TimedAction, ...] = ()
    live: bool = False
    # Of the phase before which the server was restarted.
    rebuild: L2arcRebuild | None = None
    # By device, what may be written in its life; None: not known.
    endurance_bytes: Mapping[str, int | None] = field(default_factory=dict)
    # What the run has asked drives, or said of them, and does not again.
    once: set[str] = field(default_factory=set)

    def workers(self, devices: Sequence[str] = (), *, over_nfs: bool = True) -> list[Worker]:
        """Those of a load on the working set, one a client or on the server; one a device; or the array."""
        if not devices and over_nfs:
            clients = (client.host for client in self.site.clients)
            return [Worker(host, host.name, self.mount, self.size_bytes) for host in clients]
        server = self.site.server
        assert server is not None, "devices and dataset are those of a server"
        if not devices:
            assert self.storage is not None, "a dataset is one of a pool"
            return [Worker(server, server.name, self.storage.path, self.size_bytes, by_client=False)]
        if self.array:
            node, size_bytes = self.array.spec.node, self.array.size_bytes
            return [Worker(server, ARRAY, node, size_bytes, by_client=False)]
        paths, sizes = self.site.device_paths, self.device_bytes
        guard = self.site.guard
        held = {name: guard.held(paths[name]) if guard else None for name in devices}
        return [
            Worker(server, name, paths[name], sizes[name], by_client=False, device=held[name])
            for name in devices
        ]

    def spans(self, job: FioJob, devices: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """Of a load on `devices` the key `spans` of kit.store.phase.Phase; nothing of another."""
        spans = {name: job.span(self.device_bytes[name]) for name in devices}
        return {"spans": spans} if spans else {}

    def sampled(self) -> dict[str, Sampled]:
        """The devices of the testbed, by name, and the array; none of an appliance."""
        models, logs = self.site.devices, self.storage.log_devices if self.storage else ()
        devices = {
            name: Sampled(path, models.counters_command(name) if models else None, path in logs)
            for name, path in self.site.device_paths.items()
        }
        return devices | ({ARRAY: Sampled(self.array.spec.path)} if self.array else {})

    def drives(self) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Paths of the drives that say something of themselves, and argv that prints the counters of a model.

        Of emulated devices only those that throttle.
        """
        models, paths = self.site.devices, self.site.device_paths
        throttling = {name: argv for name in paths if models and (argv := models.throttle_command(name))}
        if self.site.emulated:
            paths = {name: path for name, path in paths.items() if name in throttling}
        return dict(paths), throttling
