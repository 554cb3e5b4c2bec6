"""A pool of one emulated device in the guest, with a dataset; its export to a client, and the mount there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kit.config.testbed_devices import Device
from kit.config.toml import Setting
from kit.core.clock import Clock
from kit.hosts.base import Host
from kit.lab.clients import make_client
from kit.lab.site import make_devices
from kit.nfs import export as nfs_export
from kit.nfs import mount as nfs_mount
from kit.setup.site import SiteClient
from kit.zfs import datasets, pool


def create_pool(host: Host, spec: pool.PoolSpec) -> pool.CreatedPool:
    pool.create_command(spec).run(host)
    return pool.find_pool(host, spec.name, spec.run_id)


def create_dataset(host: Host, built: pool.CreatedPool, name: str, properties: dict[str, Setting]) -> None:
    datasets.create_dataset(host, datasets.dataset_commands(name, built.run_id, properties), name, properties)


def mount(
    host: Host, source: str, target: str, version: str, options: tuple[str, ...]
) -> nfs_mount.ActiveMount:
    return nfs_mount.mount(host, nfs_mount.mount_commands(source, target, version, options))


@contextlib.contextmanager
def dataset(
    guest: Host,
    name: str,
    *,
    recordsize: int = 512,
    size: str = "128MiB",
    latency: str = "100us",
    file: str = "",
) -> Iterator[tuple[pool.CreatedPool, str]]:
    """Make the pool hsp-NAME with the dataset hsp-NAME/bench; gives the pool and the dataset's mount point.

    `file`: operands of dd(1) for a file of random bytes in it that everybody may write.
    """
    values = {"name": f"{name}data", "role": "data", "model": "null_blk", "size": size, "latency": latency}
    make_devices(guest, (Device.model_validate(values),), Clock("virtual", 4))
    spec = pool.PoolSpec(
        f"hsp-{name}", "run-1", "stripe", (f"/dev/{name}data",), (), (), {}, f"/run/{name}-pool"
    )
    built = create_pool(guest, spec)
    create_dataset(guest, built, f"hsp-{name}/bench", {"recordsize": recordsize, "atime": "off"})
    path = datasets.mountpoint(guest, f"hsp-{name}/bench")
    if file:
        guest.run(["dd", "if=/dev/urandom", f"of={path}/file", *file.split()])
        guest.run(["chmod", "0666", f"{path}/file"])
    yield built, path
    pool.remove(guest, built.name, "run-1", str(built.guid), ())


@contextlib.contextmanager
def exported(guest: Host, path: str, number: int) -> Iterator[SiteClient]:
    """Export `path` to the client `number`, which is made."""
    client = make_client(guest, number)
    nfs_export.export_command(path, client.address).run(guest)
    yield client
    nfs_export.unexport(guest, path, client.address)


@contextlib.contextmanager
def mounted(guest: Host, path: str, number: int, target: str) -> Iterator[SiteClient]:
    """Export `path` to the client `number`, and mount it there over NFS version 3."""
    with exported(guest, path, number) as client:
        mount(client.host, f"{client.server_address}:{path}", target, "3", ("hard", "nolock"))
        yield client
        nfs_mount.unmount(client.host, target)
