"""The set-up of a run on an appliance: its export is mounted, and a directory of the run made in it.

Nobody can log into the server. What that leaves unseen is in the manifest (`appliance`); the verdict is never
better than unknown (docs/verdict.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.config.fio_job import FioJob
from kit.config.testbed import client_key
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.nfs import export as nfs
from kit.nfs import export_directory, libnfs
from kit.plan.plan import export_of
from kit.recovery import undo
from kit.run.bench import Bench
from kit.run.context import Context
from kit.run.resume import end_of


def set_up(run: Context) -> tuple[Bench, dict[str, FioJob]]:
    """Mount the export, make a directory of our own in it, fill the working set; jobs that reach it."""
    clients = [client.host for client in run.site.clients]
    through_mount = run.plan.workload.nfs.engine == "kernel"
    # Through libnfs only the file itself has to be made by a mount.
    mounting = clients if through_mount else clients[:1]
    directory = export_directory.name_of(run.run_id)
    with run.progress.step("mounting the export"):
        run.manifest["mount"] = _mount(run, mounting)
    with run.progress.step("filling the working set"):
        _fill(run, mounting, directory)
    bench = Bench(
        site=run.site,
        run_dir=run.run_dir,
        work_dir=run.work_dir,
        mount_point=run.mount_point,
        mount=f"{run.mount_point}/{directory}",
        mounted=tuple(clients) if through_mount else (),
        size_bytes=run.plan.workload.working_set.size,
        run_origin_ns=read_clock_ns(clients[0]) - run.site.clock.to_host_ns(end_of(run.manifest)),
        clocks=Clocks(clients[0]),
    )
    return bench, _jobs(run, directory)


def _mount(run: Context, clients: Sequence[Host]) -> dict[str, str]:
    """On each client; returns what is in effect, by the client's name."""
    export, spec = export_of(run.plan), run.plan.workload.nfs
    effective = {"source": export}
    for number, host in enumerate(clients):
        with run.journal.step("mount", client=host.name):
            undo.register(run.journal, client_key(number), host, undo.Mount(target=run.mount_point))
            mounted = nfs.mount(host, export, run.mount_point, spec.version, spec.options)
            effective[host.name] = mounted.options
    return effective


def _fill(run: Context, clients: Sequence[Host], directory: str) -> None:
    spec, working_set, first = run.plan.workload.nfs, run.plan.workload.working_set, clients[0]
    with run.journal.step("make directory", directory=directory):
        removal = undo.ExportDirectory(
            target=run.mount_point,
            directory=directory,
            file=working_set.file,
            source=export_of(run.plan),
            version=spec.version,
            options=list(spec.options),
        )
        undo.register(run.journal, client_key(0), first, removal)
        export_directory.make(first, run.mount_point, directory)
    with run.journal.step("fill"):
        export_directory.fill(
            first, run.mount_point, directory, working_set.file, working_set.size, working_set.fill_block
        )
        for host in clients:
            nfs.check_file(host, f"{run.mount_point}/{directory}/{working_set.file}", working_set.size)


def _jobs(run: Context, directory: str) -> dict[str, FioJob]:
    """The plan's jobs, reaching the export through the mount or through libnfs. Raises ConfigError."""
    if run.plan.workload.nfs.engine == "kernel":
        return run.plan.jobs
    server, _, path = export_of(run.plan).rpartition(":/")
    url = libnfs.url(server.strip("[]"), f"/{path}")
    return {name: libnfs.through(job, url, directory) for name, job in run.plan.jobs.items()}


def changed_settings(bench: Bench, manifest: dict[str, Any]) -> list[str]:
    """Options of the mounts that are no longer what they were, in words."""
    now = {host.name: nfs.effective_mount(host, bench.mount_point).options for host in bench.mounted}
    return [
        f"{name}: the mount's options changed to {options}"
        for name, options in now.items()
        if options != manifest["mount"][name]
    ]
