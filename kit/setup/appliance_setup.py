"""The set-up of a run on an appliance: its export is mounted, and a directory of the run made in it.

What was not observed is in the manifest (`appliance`); the verdict is never better than unknown
(docs/verdict.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.config.fio_job import FioJob
from kit.core.errors import SafetyRefusal
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.load import ordinary_user
from kit.nfs import export_directory, libnfs
from kit.nfs import mount as nfs_mount
from kit.plan import load_steps, steps
from kit.plan.names import place_of
from kit.plan.plan import export_of
from kit.rules import measurable
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.store.manifest import Manifest, Mount


def set_up(run: Context) -> tuple[Bench, dict[str, FioJob]]:
    """Mount the export, make a directory of our own in it, fill the working set; jobs that reach it."""
    _refuse_power_cut(run)
    plan, names = run.plan, run.names
    clients = [client.host for client in run.site.clients]
    through_mount = plan.workload.nfs.engine == "kernel"
    with run.progress.step("mounting the export"):
        run.record.fill(mount=_mount(run))
    with run.progress.step("filling the working set"):
        ordinary = _fill(run, clients if through_mount else clients[:1])
    bench = Bench(
        site=run.site,
        run_dir=run.run_dir,
        work_dir=names.work_dir,
        mount_point=names.mount_point,
        mount=place_of(plan, names),
        mounted=tuple(clients) if through_mount else (),
        size_bytes=plan.workload.file_set.size,
        run_origin_ns=read_clock_ns(clients[0]) - run.site.clock.to_host_ns(run.record.end_ns),
        clocks=Clocks(clients[0]),
        ordinary=ordinary,
    )
    return bench, _jobs(run)


def _refuse_power_cut(run: Context) -> None:
    """All that an appliance serves loses its power, and what that is is not seen. Raises SafetyRefusal."""
    if run.plan.workload.power_loss and not run.site.cut_other_pools:
        raise SafetyRefusal(
            f"[power] cuts the power of the appliance of {export_of(run.plan)}, whose other pools are not "
            "seen; nothing was cut",
            "if nothing else there matters, or all of it may lose its power: --cut-other-pools",
        )


def _mount(run: Context) -> Mount:
    """On each client that needs it; returns what is in effect, by the client's name."""
    effective = {}
    for step in load_steps.mounts(run.plan, run.names):
        host = run.site.hosts[step.host]
        with run.step(step):
            mounted = nfs_mount.mount(host, step.commands)
            effective[host.name] = mounted.options
        if run.plan.workload.nfs.engine == "kernel":
            measurable.check_mount(run.plan.workload, run.plan.jobs, host.name, mounted.options)
    return Mount(source=export_of(run.plan), **effective)


def _fill(run: Context, mounting: Sequence[Host]) -> bool:
    """Returns whether fio can run as an ordinary user."""
    plan, names, first = run.plan, run.names, mounting[0]
    working_set = plan.workload.file_set
    with run.step(make := steps.make_directory(plan, names)):
        ordinary = export_directory.make(first, *make.commands)
    if not ordinary:
        run.record.add_notes(ordinary_user.note_of_root(first.name))
    with run.step(fill := steps.fill_export(plan, names, ordinary=ordinary)):
        export_directory.fill(first, names.mount_point, fill.commands[0], working_set.size)
        for host in mounting:
            nfs_mount.check_file(host, f"{place_of(plan, names)}/{working_set.file}", working_set.size)
    return ordinary


def _jobs(run: Context) -> dict[str, FioJob]:
    """The plan's jobs, reaching the export through the mount or through libnfs. Raises ConfigError."""
    if run.plan.workload.nfs.engine == "kernel":
        return run.plan.jobs
    server, _, path = export_of(run.plan).rpartition(":/")
    url = libnfs.url(server.strip("[]"), f"/{path}")
    return {name: libnfs.through(job, url, run.names.directory) for name, job in run.plan.jobs.items()}


def changed_settings(bench: Bench, manifest: Manifest) -> list[str]:
    """Options of the mounts that are no longer what they were, in words."""
    before = manifest.mount.as_json() if manifest.mount else {}
    now = {host.name: nfs_mount.effective_mount(host, bench.mount_point).options for host in bench.mounted}
    return [
        f"{name}: the mount's options changed to {options}"
        for name, options in now.items()
        if options != before[name]
    ]
