"""The undo of each kind of change on a host, for the run itself and for `hsp clean`.

Each kind is a value. The journal stores its arguments; they are checked when read, because a journal may be
damaged or foreign: names and paths must be those of the run, tunables of OpenZFS, devices below /dev/disk.
Each undo is safe to repeat, and safe if its step never ran: it checks the state first, and acts only on
objects with the run's id.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pydantic import ValidationError

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import safe_text
from kit.hosts.base import Host, HostLost
from kit.recovery import (
    host_undos,
    power_undos,
    registry,
    schedule_undos,
    setting_undos,
    storage_undos,
    work_directory,
)
from kit.recovery.action import BY_ID, Action, names_of
from kit.recovery.journal import Journal, NotTried, Undo

KINDS: Mapping[str, type[Action]] = {
    action.kind: action
    for action in (
        host_undos.WorkDirectory, host_undos.UndoTracer, host_undos.UndoTunable, host_undos.UndoHostSetting,
        host_undos.UndoPreset,
        setting_undos.UndoWriteCache, setting_undos.UndoSettings, power_undos.PowerOn,
        schedule_undos.Online, schedule_undos.NfsdThreads, schedule_undos.FaultCommand,
        storage_undos.UndoPool, storage_undos.Partition, storage_undos.UndoArray, storage_undos.UndoDevice,
        storage_undos.UndoExport, storage_undos.ExportDirectory, storage_undos.UndoMount,
    )
}  # fmt: skip


def register(journal: Journal, key: str, host: Host, action: Action) -> int:
    """Write the undo of the next step into the journal. `key`: the journal's name of `host`.

    Returns the number of the undo, for Journal.know.
    """
    if action.permit:
        registry.allow(journal.run, action.permit)
    return journal.on_teardown(action.kind, key, action.text(host.name), **action.model_dump())


def undo(
    item: Undo,
    hosts: Mapping[str, Host],
    left: frozenset[str],
    run: str = "",
    real_devices: bool = False,
    proven: bool = False,
    lost: set[str] | None = None,
) -> None:
    """Perform an undo of the run. `left`: kinds of failed undos; `proven`: as Action.undo_proven.

    `run` and `real_devices`: as in `action_of`. `lost`: keys of hosts to which nothing more is sent; a host
    that is lost here joins them. Raises KitError if it fails; LeftAlone: what is there is not the run's any
    more.
    """
    action = action_of(item, run, real_devices)
    if action.permit and not registry.is_allowed(run, action.permit):
        raise SafetyRefusal(
            f"the commands of the journal's undo {item.number} are not in this machine's list of runs",
            "so it is not known whether they are yours, and none was run; look at the setting by hand",
        )
    # What another version of the kit has written may be of a kind that this one does not know.
    blocking = sorted(left - {action.kind} if action.is_last else action.after & left)
    if blocking:
        raise NotTried(f"not tried, because this could not be undone: {', '.join(map(safe_text, blocking))}")
    # Only the power is turned on from here.
    is_here = isinstance(action, power_undos.PowerOn) and item.host == power_undos.CONTROLLER
    if item.host not in hosts and not is_here:
        raise HostError(f"there is no host '{item.host}' in this testbed")
    if lost and item.host in lost:
        raise HostLost(f"not tried: {hosts[item.host].name} is lost")
    perform = action.undo_proven if proven else action.undo
    try:
        perform(hosts.get(item.host) or power_undos.controller())
    except HostLost:
        if lost is not None:
            lost.add(item.host)
        raise


def by_hand(item: Undo, names: Mapping[str, str], run: str = "") -> tuple[str, ...]:
    """Commands for a person, with their host, by the keys of `names`. For a damaged entry: how to look."""
    name = names.get(item.host, item.host)
    try:
        action = action_of(item, run)
        is_trusted = not action.permit or registry.is_allowed(run, action.permit)
        commands = action.commands() if is_trusted else []
    except HostError:
        commands = _looks(run) if run else []
    return tuple(f"on {name}: {shlex.join(argv)}" for argv in commands)


def _looks(run: str) -> list[list[str]]:
    """What shows whether something of the run is left."""
    pool_name = f"hsp-{run.rsplit('-', 1)[1]}"
    return [["zpool", "list", pool_name], ["findmnt", f"/mnt/hsp-{run}"], ["ls", work_directory.path_of(run)]]


def action_of(item: Undo, run: str = "", real_devices: bool = False) -> Action:
    """A journal's entry as a value. Raises HostError for an unknown kind or damaged arguments.

    `run`: its names must be those of this run. `real_devices`: devices must be below /dev/disk.
    """
    action, problems = _action_of(item), list[str]()
    if run:
        foreign = (key for key in action.named if getattr(action, key) not in names_of(run))
        problems += [f"{key} is not a name of the run {run}" for key in foreign]
    if real_devices:
        others = (path for path in action.devices_used if not BY_ID.fullmatch(path))
        problems += [f"{path} is not an id of a device" for path in others]
    if problems:
        raise HostError(
            f"the journal's undo {item.number} ({item.kind}) is foreign: {problems[0]}",
            "nothing was done for it; look at the host by hand",
        )
    return action


def _action_of(item: Undo) -> Action:
    if item.kind not in KINDS:
        raise HostError(
            f"the journal has an undo of an unknown kind, '{item.kind}'", "was it written by another version?"
        )
    try:
        return KINDS[item.kind].model_validate(item.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise HostError(
            f"the journal's undo {item.number} ({item.kind}) is damaged: {place}: {first['msg']}",
            "nothing was done for it; look at the host by hand",
        ) from None
