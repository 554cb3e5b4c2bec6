"""What a run calls the things that it makes, and what a plan calls them before there is a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kit.config.tables.phase_table import Phase
from kit.config.testbed import client_key
from kit.config.testbed_devices import Device
from kit.devices import partition
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.plan.plan import Plan
from kit.recovery import work_directory
from kit.zfs.pool import PoolSpec

# Stand for the run's id, for its last part, and for a number that is made of the path.
RUN, ID, FSID = "RUN", "ID", "FSID"
# In a plan, until it is shown.
_SAMPLE_ID = "20000101T000000Z-000000"


@dataclass(frozen=True)
class Names:
    """`device_paths` by device name. Addresses and names are by client, in the order of the testbed.

    `client_addresses`: as the server sees them; `server_addresses`: as each client sees the server;
    `client_names`: what results call the clients.
    """

    run_id: str
    device_paths: Mapping[str, str]
    client_addresses: tuple[str, ...]
    server_addresses: tuple[str, ...]
    client_names: tuple[str, ...]

    @property
    def work_dir(self) -> str:
        """The run's own directory on each host."""
        return work_directory.path_of(self.run_id)

    @property
    def pool(self) -> str:
        return f"hsp-{self.run_id.rsplit('-', 1)[1]}"

    @property
    def dataset(self) -> str:
        return f"{self.pool}/bench"

    @property
    def mount_root(self) -> str:
        return f"{self.work_dir}/pool"

    @property
    def path(self) -> str:
        """The dataset on the server."""
        return f"{self.mount_root}/bench"

    @property
    def mount_point(self) -> str:
        """The export on each client."""
        return f"/mnt/hsp-{self.run_id}"

    @property
    def directory(self) -> str:
        """The run's directory in an appliance's export."""
        return export_directory.name_of(self.run_id)


def planned_names(plan: Plan) -> Names:
    """Before there is a run; `shown` puts RUN, ID and FSID in their place."""
    clients = plan.testbed.client
    server = plan.testbed.server
    return Names(
        run_id=_SAMPLE_ID,
        device_paths={device.name: device_path(device) for device in plan.testbed.device},
        client_addresses=tuple(
            client.address or f"{client_key(number).upper()}-ADDRESS" for number, client in enumerate(clients)
        ),
        server_addresses=(server.address or server.at.server_address or "SERVER-ADDRESS",) * len(clients),
        client_names=tuple(
            f"lab/{client_key(number)}" if plan.testbed.is_lab else client.at.name
            for number, client in enumerate(clients)
        ),
    )


def shown(word: str, names: Names) -> str:
    """A word of a planned command, as people read it."""
    word = word.replace(f"fsid={nfs_export.fsid(names.path)}", f"fsid={FSID}")
    return word.replace(names.run_id, RUN).replace(names.pool, f"hsp-{ID}")


def device_path(device: Device) -> str:
    """Where it is; the lab names it once it has made it."""
    return device.path or f"/dev/{device.name}"


def part_bytes(plan: Plan, device: Device) -> int | None:
    """None where the whole device is used."""
    pool = plan.workload.pool
    size_bytes = {"cache": pool.cache_size, "special": pool.special_size}.get(device.role)
    return size_bytes if size_bytes is not None and device.size > size_bytes else None


def used_paths(plan: Plan, names: Names, role: Any) -> tuple[str, ...]:
    """What of the devices of a role becomes part of the pool."""
    return tuple(used_path(plan, names, device) for device in plan.testbed.devices(role))


def used_path(plan: Plan, names: Names, device: Device) -> str:
    """What of a device becomes part of the pool: itself or its partition."""
    path = names.device_paths[device.name]
    return path if part_bytes(plan, device) is None else partition.path_of(path)


def pool_spec(plan: Plan, names: Names) -> PoolSpec:
    """The pool of the run."""
    layout = plan.workload.pool
    return PoolSpec(
        name=names.pool,
        run_id=names.run_id,
        data_layout=layout.data,
        data=used_paths(plan, names, "data"),
        log=used_paths(plan, names, "log"),
        cache=used_paths(plan, names, "cache"),
        properties=layout.properties,
        mount_root=names.mount_root,
        groups=layout.groups,
        log_layout=layout.log,
        special=used_paths(plan, names, "special"),
        dedup=used_paths(plan, names, "dedup"),
    )


def place_of(plan: Plan, names: Names, phase: Phase | None = None) -> str:
    """The directory of the working set, as the load of the phase, or of the warm-up, sees it."""
    if not (phase.over_nfs if phase else plan.workload.over_nfs):
        return names.path
    is_appliance = plan.testbed.is_appliance
    return f"{names.mount_point}/{names.directory}" if is_appliance else names.mount_point
