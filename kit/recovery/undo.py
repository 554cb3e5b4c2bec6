"""The undo of each kind of change on a host, for the run itself and for `hsp clean`.

Each kind is a value. The journal stores its arguments; they are checked when read, because a journal may be
damaged or foreign: names and paths must be those of the run, tunables of OpenZFS, devices below /dev/disk.
Each undo is safe to repeat, and safe if its step never ran: it checks the state first, and acts only on
objects with the run's id.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from kit.config.nfs_options import MountOption
from kit.config.testbed import checked_export
from kit.config.workload import TUNABLE
from kit.core.errors import HostError
from kit.core.seed import RUN_ID
from kit.devices import clear_label, partition
from kit.hosts import settings
from kit.hosts.base import Host
from kit.hosts.identity import HostIdentity, read_identity
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.nfs import mount as nfs_mount
from kit.recovery import work_directory
from kit.recovery.action import (
    BY_ID,
    Action,
    DevicePath,
    MaybeNumber,
    MountPoint,
    Number,
    PoolName,
    WorkDirectoryPath,
    names_of,
)
from kit.recovery.journal import Journal, LeftAlone, Undo
from kit.trace import nfsd_tracer
from kit.zfs import pool, tunables


class WorkDirectory(Action):
    """Undone last: the directory shows other runs that something may be left."""

    kind = work_directory.KIND
    after = frozenset(
        {
            "export-directory",
            "mount",
            "export",
            "pool",
            "partition",
            "tunable",
            "host-setting",
            "device",
            "tracer",
        }
    )
    named = ("path",)
    path: WorkDirectoryPath

    def text(self, host: str) -> str:
        return f"remove {self.path} on {host}"

    def undo(self, host: Host) -> None:
        work_directory.remove(host, self.path)

    def commands(self) -> list[list[str]]:
        return [["rm", "-r", "--", self.path]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(work_directory.remove_command(self.path), "")]


class Tracer(Action):
    """`directory`: the run's directory with the tracer's files."""

    kind = "tracer"
    named = ("directory",)
    directory: WorkDirectoryPath

    def text(self, host: str) -> str:
        return f"end the tracer on {host}"

    def undo(self, host: Host) -> None:
        nfsd_tracer.end_left(host, self.directory)

    def commands(self) -> list[list[str]]:
        return [["pkill", "-f", f"{self.directory}/nfsd.bt"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfsd_tracer.end_left_command(self.directory), "")]


class Tunable(Action):
    """`value`: the value before the run; `effect`: the value in effect, if OpenZFS chose it.

    `set`: the value that the run writes, in the boot `boot_id` of the machine `machine_id`. Only that value,
    there, is the run's. Journals of older versions do not have them.
    """

    kind = "tunable"
    name: Annotated[str, Field(pattern=rf"^{TUNABLE}$", max_length=80)]
    value: Number
    effect: MaybeNumber = ""
    set: MaybeNumber = ""
    machine_id: str = ""
    boot_id: str = ""

    def text(self, host: str) -> str:
        return f"set {self.name} back to {self.value}"

    def undo(self, host: Host) -> None:
        observed = tunables.read_tunables(host, [self.name])[self.name]
        if observed == self.value:
            return
        # On the way back to 0 it is `effect` for a moment.
        if why := _not_ours(host, self, observed in (self.set, self.effect)):
            raise LeftAlone(f"{self.name} on {host.name} is {observed} and was left so: {why}")
        tunables.write_tunable(host, self.name, self.value, self.effect)

    def commands(self) -> list[list[str]]:
        return [["tee", tunables.parameter_path(self.name), f"(and type: {self.value})"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", tunables.parameter_path(self.name)], "the value before the run")]


class HostSetting(Action):
    """A file of kit.hosts.settings. `value`, `set`, `machine_id`, `boot_id`: as in Tunable."""

    kind = "host-setting"
    path: Annotated[str, Field(pattern=settings.PATH)]
    value: Annotated[str, Field(pattern=settings.VALUE)]
    set: Annotated[str, Field(pattern=settings.VALUE)]
    machine_id: str
    boot_id: str

    def text(self, host: str) -> str:
        return f"set {self.path} back to {self.value}"

    def undo(self, host: Host) -> None:
        observed = settings.read(host, self.path)
        if observed == self.value:
            return
        if why := _not_ours(host, self, observed == self.set):
            raise LeftAlone(f"{self.path} on {host.name} is {observed} and was left so: {why}")
        settings.write(host, self.path, self.value)

    def commands(self) -> list[list[str]]:
        return [["tee", self.path, f"(and type: {self.value})"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", self.path], "the value before the run")]


def _not_ours(host: Host, action: Tunable | HostSetting, is_set: bool) -> str:
    """Why a value is not the run's; "" if it is. `is_set`: it is one that the run has written."""
    if read_identity(host) != HostIdentity(action.machine_id, action.boot_id):
        return "the run set it before this boot, on another machine, or with an older version of the kit"
    return "" if is_set else f"the run had set {action.set}: somebody else has changed it since"


class Pool(Action):
    """`guid` is empty until the pool exists. Not while a client has it mounted: its processes would hang."""

    kind = "pool"
    after = frozenset({"mount", "export"})
    named = ("name", "run_id")
    name: PoolName
    run_id: Annotated[str, Field(pattern=rf"^{RUN_ID}$")]
    devices: Annotated[list[DevicePath], Field(min_length=1, max_length=1000)]
    guid: Annotated[str, Field(pattern=r"^[0-9]{0,20}$")] = ""

    @property
    def devices_used(self) -> list[str]:
        return self.devices

    def text(self, host: str) -> str:
        return f"destroy pool {self.name}"

    def undo(self, host: Host) -> None:
        pool.remove(host, self.name, self.run_id, self.guid, tuple(self.devices))

    def commands(self) -> list[list[str]]:
        return [["zpool", "destroy", self.name]]


class Partition(Action):
    """The partition of a cache device. `serial` is empty for an emulated device, and in older journals."""

    kind = "partition"
    after = frozenset({"pool"})
    device_path: DevicePath
    serial: Annotated[str, Field(max_length=500)] = ""

    @property
    def devices_used(self) -> list[str]:
        return [self.device_path]

    def text(self, host: str) -> str:
        return f"remove the partition of {self.device_path}"

    def undo(self, host: Host) -> None:
        partition.remove(host, self.device_path, self.serial)

    def undo_proven(self, host: Host) -> None:
        if partition.exists(host, self.device_path):
            raise LeftAlone(
                f"{partition.path_of(self.device_path)} on {host.name} was left: without the run's directory "
                "there it cannot be told whose it is (the run's does not survive a restart)"
            )

    def commands(self) -> list[list[str]]:
        return [["partx", "--delete", "--nr", "1", self.device_path]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(partition.remove_command(self.device_path), "kit/remote/partition.py")]


class Device(Action):
    """A real device: the label of `pool` is removed. `guid` is that of the pool, empty until it exists."""

    kind = "device"
    after = frozenset({"pool", "partition"})
    named = ("pool",)
    path: DevicePath
    serial: Annotated[str, Field(min_length=1, max_length=500)]
    pool: PoolName
    guid: Annotated[str, Field(pattern=r"^[0-9]{0,20}$")] = ""

    @property
    def devices_used(self) -> list[str]:
        return [self.path]

    def text(self, host: str) -> str:
        return f"remove the pool's label from {self.path}"

    def undo(self, host: Host) -> None:
        clear_label.clear(host, self.path, self.serial, self.pool, self.guid)

    def commands(self) -> list[list[str]]:
        return [["wipefs", "--all", "--lock", path] for path in (f"{self.path}-part1", self.path)]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(clear_label.wipe_command(path), "") for path in (f"{self.path}-part1", self.path)]


class Export(Action):
    """The dataset's export to one client."""

    kind = "export"
    after = frozenset({"mount"})
    named = ("path",)
    path: Annotated[str, Field(pattern=rf"^/run/hsp/{RUN_ID}/pool/bench$")]
    client: Annotated[str, Field(pattern=r"^[0-9A-Za-z:][0-9A-Za-z.:%-]{0,255}$")]

    def text(self, host: str) -> str:
        return f"unexport {self.path} to {self.client}"

    def undo(self, host: Host) -> None:
        nfs_export.unexport(host, self.path, self.client)

    def commands(self) -> list[list[str]]:
        return [["exportfs", "-u", f"{self.client}:{self.path}"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfs_export.unexport_command(self.path, self.client), "")]


class ExportDirectory(Action):
    """The run's directory in an appliance's export; removed through the mount, which is undone later."""

    kind = "export-directory"
    named = ("target", "directory")
    target: MountPoint
    directory: Annotated[str, Field(pattern=rf"^hsp-{RUN_ID}$")]
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
    source: Annotated[str, AfterValidator(checked_export)]
    version: Literal["3", "4.0", "4.1", "4.2"]
    options: list[MountOption]

    def text(self, host: str) -> str:
        return f"remove {self.directory} from {self.source}"

    def undo(self, host: Host) -> None:
        export_directory.remove(
            host, self.target, self.directory, self.file, self.source, self.version, self.options
        )

    def commands(self) -> list[list[str]]:
        return [
            ["rm", "--", f"{self.target}/{self.directory}/{self.file}"],
            ["rmdir", f"{self.target}/{self.directory}"],
        ]

    def changes(self) -> list[tuple[list[str], str]]:
        path = f"{self.target}/{self.directory}"
        return [(["rm", "-f", "--", f"{path}/{self.file}"], ""), (["rmdir", "--", path], "")]


class Mount(Action):
    """The export on a client."""

    kind = "mount"
    named = ("target",)
    target: MountPoint

    def text(self, host: str) -> str:
        return f"unmount {self.target} on {host}"

    def undo(self, host: Host) -> None:
        nfs_mount.unmount(host, self.target)

    def commands(self) -> list[list[str]]:
        return [["umount", self.target], ["rmdir", self.target]]


KINDS: Mapping[str, type[Action]] = {
    action.kind: action
    for action in (
        WorkDirectory, Tracer, Tunable, HostSetting, Pool, Partition, Device, Export, ExportDirectory, Mount,
    )
}  # fmt: skip


def register(journal: Journal, key: str, host: Host, action: Action) -> int:
    """Write the undo of the next step into the journal. `key`: the journal's name of `host`.

    Returns the number of the undo, for Journal.know.
    """
    return journal.on_teardown(action.kind, key, action.text(host.name), **action.model_dump())


def undo(
    item: Undo,
    hosts: Mapping[str, Host],
    left: frozenset[str],
    run: str = "",
    real_devices: bool = False,
    proven: bool = False,
) -> None:
    """Perform an undo of the run. `left`: kinds of failed undos; `proven`: as Action.undo_proven.

    `run` and `real_devices`: as in `action_of`. Raises KitError if it fails; LeftAlone: what is there is not
    the run's any more.
    """
    action = action_of(item, run, real_devices)
    blocking = sorted(action.after & left)
    if blocking:
        raise HostError(f"not tried, because this could not be undone: {', '.join(blocking)}")
    if item.host not in hosts:
        raise HostError(f"there is no host '{item.host}' in this testbed")
    perform = action.undo_proven if proven else action.undo
    perform(hosts[item.host])


def by_hand(item: Undo, names: Mapping[str, str], run: str = "") -> tuple[str, ...]:
    """Commands for a person, with their host, by the keys of `names`. For a damaged entry: how to look."""
    name = names.get(item.host, item.host)
    try:
        commands = action_of(item, run).commands()
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
