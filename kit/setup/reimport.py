"""The run's pool is exported and imported: after a power loss, and so that ARC and L2ARC are empty."""

from __future__ import annotations

from collections.abc import Sequence

from kit.nfs import export as nfs_export
from kit.nfs import mount as nfs_mount
from kit.plan.load_steps import begun_log, cache_commands, mounts
from kit.plan.names import pool_spec
from kit.setup.bench import Bench, Storage
from kit.setup.context import Context
from kit.zfs import pool


def take_out(bench: Bench, storage: Storage) -> None:
    """No client has the export, and the pool is exported. Raises HostError."""
    for address in _addresses(bench):
        nfs_export.unexport(storage.server, storage.path, address)
    pool.export_pool(storage.server, storage.pool)


def put_back(bench: Bench, storage: Storage, paths: Sequence[str]) -> None:
    """The pool is imported from `paths`, mounted and exported again. Raises HostError, SafetyRefusal."""
    server = storage.server
    pool.import_pool(server, storage.pool, tuple(paths))
    # With the key of an encrypted dataset.
    server.run(["zfs", "mount", "-l", storage.dataset])
    for address in _addresses(bench):
        nfs_export.export_command(storage.path, address).run(server)


def empty_caches(run: Context, bench: Bench) -> None:
    """ARC and L2ARC of the pool are empty then. Raises HostError, SafetyRefusal.

    Clients unmount meanwhile: what looked at a mount without an export would get stale handles.
    """
    storage = bench.storage
    assert storage, "kit.rules.appliance_limits leaves cold phases out"
    remove, add = cache_commands(run.plan, run.names)
    spec, mounted = pool_spec(run.plan, run.names), [*mounts(run.plan, run.names)]
    for step in mounted:
        nfs_mount.unmount(run.site.hosts[step.host], run.names.mount_point)
    for command in remove:
        command.run(storage.server)
    take_out(bench, storage)
    put_back(bench, storage, [path for path in spec.devices if path not in spec.cache])
    for command in (*begun_log(run.plan, run.names), *add):
        command.run(storage.server)
    for step in mounted:
        nfs_mount.mount(run.site.hosts[step.host], step.commands)


def _addresses(bench: Bench) -> list[str]:
    return [*dict.fromkeys(client.address for client in bench.site.clients)]
