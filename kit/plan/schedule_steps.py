"""What is done at set times of a phase: the commands of each action, and the undo of each. Pure.

A program on the server does them on its own clock (kit/remote/run_schedule.py). Names of snapshots begin with
`storm-` and `sent-`; the pool, and with it all of them, is the run's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.config.tables.fault_table import ALL, EMULATED, ExpectedEvent, Fault, Scheduled
from kit.config.tables.phase_table import Phase
from kit.config.testbed_devices import Device
from kit.core import proc_path
from kit.core.clock import Clock
from kit.core.units import format_duration_ns
from kit.emulation.served import tell_command
from kit.hosts.base import Command
from kit.hosts.identity import HostIdentity
from kit.nfs import server_threads
from kit.nfs.export import export_command
from kit.plan.names import Names, pool_spec, used_path
from kit.plan.plan import Plan
from kit.plan.step import ANY_HOST, Step
from kit.recovery import schedule_undos
from kit.recovery.action import Action
from kit.rules.schedule import device_of
from kit.zfs.pool import import_argv

PROGRAM = Path(__file__).parents[1] / "remote" / "run_schedule.py"
# What lasts until the phase ends would keep a load that waits for it from its end.
_AFTER_NS = 2_000_000_000
_SEND = 'exec zfs send "$1" >/dev/null'
# nfsd gives up what it holds of the file system a moment after its last thread.
# All exports of the server wait meanwhile: half a minute is enough for a pool that somebody uses.
_EXPORT = 'n=0; until timeout 60 zpool export "$1"; do n=$((n+1)); test "$n" -lt 30; sleep 1; done'
_IMPORT = """\
pool=$1 dataset=$2; shift 2
zpool list -H "$pool" >/dev/null 2>&1 || "$@"
test "$(zfs get -H -o value mounted "$dataset")" = yes || zfs mount -l "$dataset"
"""
# A device that was away has a resilver behind it.
_RESILVERED = 'zpool status "$1" | grep -q resilver'
Json = dict[str, Any]


@dataclass(frozen=True)
class TimedAction:
    """A fault or event with its commands. `steps`, `cleanup`: as kit/remote/run_schedule.py reads them.

    `is_own`: the user's command, run as the user who logs in.
    """

    scheduled: Scheduled
    steps: tuple[Json, ...]
    cleanup: tuple[Json, ...] = ()
    undo: Action | None = None

    @property
    def is_own(self) -> bool:
        return isinstance(self.scheduled, Fault) and self.scheduled.what == "command"

    @property
    def commands(self) -> tuple[Command, ...]:
        """Each once, with those that run only if the phase ends first."""
        made = [
            Command(tuple(argv), str(step.get("note") or step.get("input", "")).strip())
            for step in (*self.steps, *self.cleanup)
            if (argv := step.get("run") or step.get("wait") or step.get("repeat"))
        ]
        return tuple(dict.fromkeys(made))


@dataclass(frozen=True)
class Nfsd:
    """Of the NFS server, as it is before the phase: its threads and listeners (kit.nfs.server_threads)."""

    threads: str = "THREADS"
    listeners: tuple[str, ...] = ("LISTENERS",)


_ANY_NFSD = Nfsd()


def actions(
    plan: Plan, names: Names, phase: Phase, nfsd: Nfsd = _ANY_NFSD, server: HostIdentity = ANY_HOST
) -> list[TimedAction]:
    """All of the phase, by time."""
    made = []
    for each in plan.workload.schedule(phase):
        if isinstance(each, Fault):
            made.append(_fault(plan, names, each, nfsd, server))
        else:
            made.append(_event(plan, names, each, len(made), nfsd, server))
    return made


def steps(plan: Plan, names: Names, phase: Phase) -> Iterator[Step]:
    """As `hsp plan` prints them."""
    for each in actions(plan, names, phase):
        when = format_duration_ns(each.scheduled.at) if each.scheduled.at else "0s"
        name = f"phase {phase.name}: at {when}: {each.scheduled.text}"
        key = "client0" if plan.testbed.is_appliance else "server"
        yield Step(name, key, each.commands, each.undo)


def program_command(
    begin: Mapping[str, str | None], listed: Mapping[int, TimedAction], clock: Clock, duration_ns: int
) -> list[str]:
    """argv of the program, which is its input. `listed`: by number, all the user's own or none.

    `duration_ns`: of the load, in time of the experiment.
    """
    made = [
        {
            "id": number,
            "at_ns": clock.to_host_ns(each.scheduled.at),
            "steps": [_on_host(step, clock) for step in each.steps],
            "cleanup": list(each.cleanup),
        }
        for number, each in listed.items()
    ]
    is_own = any(each.is_own for each in listed.values())
    last_ns = clock.to_host_ns(duration_ns + _AFTER_NS)
    argument = json.dumps({"begin": begin, "last_ns": last_ns, "actions": made})
    return [*(("env",) if is_own else ()), "python3", "-I", "-", argument]


def begin_of_load(mount_point: str | None) -> dict[str, str | None]:
    """What changes with the first I/O: bytes that nfsd counts, or on a client those of the mount."""
    if mount_point is None:
        return {"file": "/proc/net/rpc/nfsd", "after": None, "line": "io "}
    after = f" mounted on {proc_path.escape(mount_point)} with fstype nfs"
    return {"file": "/proc/self/mountstats", "after": after, "line": "bytes:"}


def _on_host(step: Json, clock: Clock) -> Json:
    return {
        key: clock.to_host_ns(value) if key.endswith("_ns") and value is not None else value
        for key, value in step.items()
    }


def _run(*argv: str) -> Json:
    return {"run": list(argv)}


def _for(duration_ns: int | None) -> Json:
    return {"sleep_ns": duration_ns} if duration_ns else {"until_end": 1}


def _fault(plan: Plan, names: Names, fault: Fault, nfsd: Nfsd, server: HostIdentity) -> TimedAction:
    if fault.what == "command":
        command = plan.testbed.command_named(fault.command)
        assert command, "checked by kit.rules.schedule"
        begin = _run(*command.run)
        if not command.undo:
            return TimedAction(fault, (begin,))
        back = (_run(*command.undo),)
        undo = schedule_undos.FaultCommand(argv=list(command.undo), machine_id=server.machine_id)
        return TimedAction(fault, (begin, _for(fault.for_), *(back if fault.for_ else ())), back, undo)
    if fault.what == "nfsd-restart":
        return _without_nfsd(fault, nfsd, server, (_for(fault.for_),))
    if fault.what in EMULATED:
        return _emulated(plan, names, fault)
    device = device_of(fault.device, plan.testbed)
    assert device, "checked by kit.rules.schedule"
    return _away(plan, names, fault, device)


def _without_nfsd(
    scheduled: Scheduled,
    nfsd: Nfsd,
    server: HostIdentity,
    meanwhile: tuple[Json, ...],
    back: tuple[Json, ...] = (),
) -> TimedAction:
    """nfsd is stopped, and started again as it was. `back`: what comes first if that was cut short."""
    start = {
        "run": server_threads.start_command(nfsd.threads, nfsd.listeners),
        "input": server_threads.HELPER.read_text(),
        "note": f"kit/remote/{server_threads.HELPER.name}",
    }
    stop = {"run": ["tee", server_threads.THREADS], "input": "0\n"}
    is_known = nfsd != _ANY_NFSD
    action = schedule_undos.NfsdThreads(
        value=nfsd.threads if is_known else "1",
        listeners=list(nfsd.listeners) if is_known else [],
        **asdict(server),
    )
    return TimedAction(scheduled, (stop, *meanwhile, start), (*back, start), action)


def _away(plan: Plan, names: Names, scheduled: Scheduled, device: Device, *after: Json) -> TimedAction:
    """The device is offline for a time, and online `after` it, or until the phase ends."""
    path = used_path(plan, names, device)
    offline, online = (_run("zpool", verb, names.pool, path) for verb in ("offline", "online"))
    ends = (online, *after) if scheduled.for_ else ()
    undo = schedule_undos.Online(pool=names.pool, run_id=names.run_id, device=path)
    return TimedAction(scheduled, (offline, _for(scheduled.for_), *ends), (online,), undo)


def _emulated(plan: Plan, names: Names, fault: Fault) -> TimedAction:
    """By the server of the emulated devices; the lab takes it with it."""
    devices = plan.testbed.device if fault.device == ALL else [device_of(fault.device, plan.testbed)]
    hit = [each.name for each in devices if each]
    if fault.what == "power-loss":
        return TimedAction(fault, tuple(_run(*tell_command(name, "power-loss")) for name in hit))
    if fault.what == "stall":
        assert fault.for_
        stall = _run(*tell_command(hit[0], "stall", str(fault.for_)))
        return TimedAction(fault, (stall, _for(fault.for_)))
    words = ["fail"]
    if fault.what == "error":
        assert fault.sectors
        words = ["error", *map(str, fault.sectors), fault.of]
    # ZFS has given up a device that was gone or had many errors.
    back = (_run(*tell_command(hit[0], "heal")), _run("zpool", "clear", names.pool))
    begin = (_run(*tell_command(hit[0], *words)), _for(fault.for_))
    return TimedAction(fault, (*begin, *(back if fault.for_ else ())), back)


def _event(
    plan: Plan, names: Names, event: ExpectedEvent, number: int, nfsd: Nfsd, server: HostIdentity
) -> TimedAction:
    pool, dataset, limit = names.pool, names.dataset, {"limit_ns": event.for_}
    if event.what == "export-import":
        imports = import_argv(pool, pool_spec(plan, names).devices)
        # `zfs mount` reads /etc/exports again, and exports that exportfs made are gone.
        export = (_run(*export_command(names.path, each).argv) for each in names.client_addresses)
        back = (_run("sh", "-ec", _IMPORT, "sh", pool, dataset, *imports), *export)
        return _without_nfsd(event, nfsd, server, (_run("sh", "-ec", _EXPORT, "sh", pool), *back), back)
    if event.what in ("scrub", "trim"):
        stop = _run("zpool", event.what, "-s" if event.what == "scrub" else "-c", pool)
        wait = {"wait": ["zpool", "wait", "-t", event.what, pool], **limit}
        return TimedAction(event, (_run("zpool", event.what, pool), wait), (stop,))
    if event.what == "send":
        snapshot = f"{dataset}@sent-{number}"
        destroy = _run("zfs", "destroy", snapshot)
        send = {"wait": ["sh", "-c", _SEND, "sh", snapshot], **limit}
        ends = () if event.for_ else (destroy,)
        return TimedAction(event, (_run("zfs", "snapshot", snapshot), send, *ends), (destroy,))
    if event.what == "snapshots":
        name = f"{dataset}@storm-{number}-"
        storm = {"repeat": ["zfs", "snapshot", f"{name}{{n}}"], "every_ns": event.every, "for_ns": event.for_}
        destroy = _run("zfs", "destroy", f"{name}1%storm-{number}-{{last}}")
        return TimedAction(event, (storm, destroy), (destroy,))
    device = device_of(event.device or "data", plan.testbed, first=True)
    assert device and event.for_, "checked by kit.rules.schedule"
    wait = {"wait": ["zpool", "wait", "-t", "resilver", pool], "limit_ns": None}
    return _away(plan, names, event, device, wait, _run("sh", "-c", _RESILVERED, "sh", pool))
