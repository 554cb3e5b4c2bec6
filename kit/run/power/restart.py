"""The server is restarted before a phase: how much of an L2ARC is left by that, and how long it takes.

The pool is exported and imported again, or the power is cut while it is imported. The server's monotonic
clock begins anew with its boot, as its settings, locks, exports and the run's directory do.
"""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from kit.config.tables.phase_table import Phase
from kit.core.errors import HostError
from kit.core.signals import ignore_interrupts
from kit.hosts import file_settings
from kit.hosts.base import DeadlineExceeded, Host, HostLost
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.hosts.identity import HostIdentity, read_identity
from kit.instruments.l2arc_rebuild import L2arcRebuild
from kit.nfs import mount as nfs_mount
from kit.plan.load_steps import mounts
from kit.plan.names import pool_spec
from kit.recovery.host_undos import UndoTunable
from kit.run.power.cut import Booting, DeviceGone, RealCut, take_again
from kit.setup import reimport, server_setup
from kit.setup.bench import Bench, Storage
from kit.setup.context import Context
from kit.store.parts.resource_use import Restarted
from kit.zfs import openzfs_version, other_pools, settings_snapshot
from kit.zfs.vdev_listing import vdevs

_COMMAND_S = 120.0
_POLL_S = 1.0
_GRACE = "/proc/fs/nfsd/v4_end_grace"
# The longest that nfsd can be told to wait for clients of before (v4gracetime, nfsd(7)).
_GRACE_S = 3600.0


@dataclass(frozen=True)
class _Elapsed:
    """A moment of the run: on the server's clock, on this machine's, and since the run began."""

    here_ns: int
    run_ns: int

    @classmethod
    def now(cls, server: Host, origin_ns: int) -> _Elapsed:
        at_ns = read_clock_ns(server)
        return cls(time.monotonic_ns(), at_ns - origin_ns)

    def origin_ns(self, server: Host) -> int:
        """When the run began on the clock of a later boot: before that boot, so less than 0."""
        at_ns = read_clock_ns(server)
        return at_ns - self.run_ns - (time.monotonic_ns() - self.here_ns)


def restarted(run: Context, bench: Bench, phase: Phase) -> Bench:
    """The bench after the restart: with the pool, exported and mounted, and its L2ARC watched.

    Raises HostError, SafetyRefusal: nothing is measured on a server that is not as it was.
    """
    storage, kind = bench.storage, phase.restart
    assert storage and kind, "kit.rules.cold has refused it"
    server, mounted = storage.server, [*mounts(run.plan, run.names)]
    with (
        run.progress.step("restarting the server"),
        run.journal.step(f"restart before phase {phase.name}", kind=kind),
    ):
        server_setup.refuse_restart(run, server, storage.pool.name, storage.path)
        devices = _online(server, storage.pool.name)
        for step in mounted:
            nfs_mount.unmount(run.site.hosts[step.host], run.names.mount_point)
        if kind == "reboot":
            reimport.take_out(bench, storage)
        begin, before = _Elapsed.now(server, bench.run_origin_ns), read_identity(server)
        # What it has from now on is of its next boot, whenever that comes.
        run.settings_of_boot.append({})
        (_reboot if kind == "reboot" else _cut_power)(run, bench, before)
        origin_ns = begin.origin_ns(server)
        up_ns = read_clock_ns(server) - origin_ns
        _begin_boot(run, storage, before)
        paths = pool_spec(run.plan, run.names).devices
        caches = len(run.plan.testbed.devices("cache"))
        watch = L2arcRebuild(server, caches, run.run_dir.raw / f"{phase.name}-rebuild.jsonl")
        try:
            import_ns = read_clock_ns(server) - origin_ns
            reimport.put_back(bench, storage, paths)
            if away := sorted(devices - _online(server, storage.pool.name)):
                # Without its cache devices a pool is imported all the same.
                raise DeviceGone(
                    f"the pool on {server.name} came back without {', '.join(away)}",
                    "is it broken, or has it another name since the restart? `hsp host disks` lists them",
                )
            if run.plan.workload.nfs.version != "3":
                _await_grace(server)
            for step in mounted:
                nfs_mount.mount(run.site.hosts[step.host], step.commands)
        except BaseException:
            watch.abandon()
            raise
    to_run_ns = run.site.clock.from_host_ns
    watch.restarted = Restarted(
        kind=kind,
        begin_ns=to_run_ns(begin.run_ns),
        up_ns=to_run_ns(up_ns),
        import_ns=to_run_ns(import_ns),
    )
    return replace(bench, run_origin_ns=origin_ns, clocks=Clocks(server), rebuild=watch)


def _reboot(run: Context, bench: Bench, before: HostIdentity) -> None:
    restart, server = run.plan.testbed.restart, run.site.server
    assert restart and server, "kit.rules.cold has refused it"
    text = f"`{shlex.join(restart.command)[:200]}`"
    # The connection may break before the command has ended.
    with suppress(HostLost, DeadlineExceeded):
        answer = file_settings.run_own(server, restart.command, deadline_s=_COMMAND_S)
        if answer.returncode:
            raise HostError(
                f"on {server.name}: {text} ended with {answer.returncode}: {file_settings.last_line(answer)}",
                "it is `command` of [restart] in the testbed, run without a shell as who logs in",
            )
    Booting(run, before, text, "[restart]", patient=True).wait(restart.back_within / 1e9)
    take_again(run)


def _cut_power(run: Context, bench: Bench, before: HostIdentity) -> None:
    assert run.site.server
    cut = RealCut(run, bench, run.site.server, run.site.clients[0].host, "")
    try:
        cut.cut()
        cut.come_back()
    except BaseException:
        # A server without power cannot be cleaned up.
        with ignore_interrupts(run.progress.note):
            cut.rescue()
        raise


def _begin_boot(run: Context, storage: Storage, before: HostIdentity) -> None:
    """The server as the run has set it, in its new boot. Raises HostError, SafetyRefusal."""
    server = storage.server
    run.journal.know_host("server", read_identity(server))
    # Loads OpenZFS. What the boot has imported is not the run's.
    other_pools.imported(server)
    _refuse_other_versions(run, server)
    run.settings_of_boot.append(settings_snapshot.read(server, tuple(run.site.device_paths.values())))
    for item in run.journal.pending:
        if item.kind == UndoTunable.kind and item.arguments.get("boot_id") == before.boot_id:
            # The boot has done it.
            run.journal.undo_now(item.number, lambda _: None)
    server_setup.set_tunables(run, server, storage.tracing, again=True)


def _refuse_other_versions(run: Context, server: Host) -> None:
    """An update that waited for a restart. Raises HostError."""
    was = run.record.manifest.versions or {}
    now = {"kernel": server.run(["uname", "-r"]).stdout.strip(), "zfs": openzfs_version.read(server).text}
    changed = [f"{key} was {was.get(key)} and is {now[key]}" for key in now if was.get(key) != now[key]]
    if changed:
        raise HostError(
            f"{server.name} has booted another system: {'; '.join(changed)}",
            "what was measured before and after would not belong together; begin a new run",
        )


def _online(server: Host, pool: str) -> set[str]:
    """Paths of its devices that work."""
    listing = server.run(["zpool", "list", "-v", "-H", "-P", pool]).stdout
    return {name for _, name, values in vdevs(listing) if name.startswith("/") and values[-1:] == ["ONLINE"]}


def _await_grace(server: Host) -> None:
    """Until NFSv4 gives out files again: it waits for clients that had some before it started.

    Raises HostError. Without the file, or where no client is known, it does not wait.
    """
    end = time.monotonic() + _GRACE_S
    while server.run(["cat", _GRACE], check=False).stdout.strip() == "N":
        if time.monotonic() > end:
            raise HostError(f"the NFS server of {server.name} still waits for clients of before ({_GRACE})")
        time.sleep(_POLL_S)
