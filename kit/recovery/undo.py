"""The undo of each kind of change on a host, for the run itself and for `hsp clean`.

Each kind is a value. The journal stores its arguments; they are checked when read, because a journal may be
damaged or foreign. Each undo is safe to repeat, and safe if its step never ran: it checks the state first,
and acts only on objects with the run's id.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kit.config.testbed import DevicePath
from kit.core.errors import HostError
from kit.core.seed import RUN_ID
from kit.devices import clear_label, partition
from kit.hosts.base import Host
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.nfs import mount as nfs_mount
from kit.recovery import work_directory
from kit.recovery.journal import Journal, Leftover, Undo
from kit.trace import nfsd_tracer
from kit.zfs import pool, tunables

WorkDirectoryPath = Annotated[str, Field(pattern=rf"^/run/hsp/{RUN_ID}$")]
MountPoint = Annotated[str, Field(pattern=rf"^/mnt/hsp-{RUN_ID}$")]
PoolName = Annotated[str, Field(pattern=r"^hsp-[0-9a-f]{6}$")]
Number = Annotated[str, Field(pattern=r"^-?[0-9]{1,20}$")]


class Action(BaseModel):
    """An undo. `after`: kinds that must be undone on all hosts before this one.

    Templates of the fields: `summary` (the undo as text; `host` is the host's name) and `manual` (commands
    for a person).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    kind: ClassVar[str]
    after: ClassVar[frozenset[str]] = frozenset()
    summary: ClassVar[str]
    manual: ClassVar[tuple[str, ...]]

    def undo(self, host: Host) -> None:
        """Raises KitError if it fails."""
        raise NotImplementedError

    def commands(self) -> list[list[str]]:
        """argv of the commands for a person."""
        return [[word.format(**dict(self)) for word in shlex.split(line)] for line in self.manual]

    def changes(self) -> list[tuple[list[str], str]]:
        """argv of the commands of `undo` in the normal case, each with a text for its input."""
        return [(argv, "") for argv in self.commands()]


class WorkDirectory(Action):
    """Undone last: the directory shows other runs that something may be left."""

    kind = "work-directory"
    after = frozenset(
        {"export-directory", "mount", "export", "pool", "partition", "tunable", "device", "tracer"}
    )
    summary = "remove {path} on {host}"
    manual = ("rm -r -- {path}",)
    path: WorkDirectoryPath

    def undo(self, host: Host) -> None:
        work_directory.remove(host, self.path)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(work_directory.remove_command(self.path), "")]


class Tracer(Action):
    """`directory`: the run's directory with the tracer's files."""

    kind = "tracer"
    summary = "end the tracer on {host}"
    manual = ("pkill -f {directory}/nfsd.bt",)
    directory: WorkDirectoryPath

    def undo(self, host: Host) -> None:
        nfsd_tracer.end_left(host, self.directory)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfsd_tracer.end_left_command(self.directory), "")]


class Tunable(Action):
    """`value`: the value before the run; `effect`: the value in effect, if OpenZFS chose it."""

    kind = "tunable"
    summary = "set {name} back to {value}"
    manual = (f"tee {tunables.parameter_path('{name}')} '(and type: {{value}})'",)
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,80}$")]
    value: Number
    effect: Annotated[str, Field(pattern=r"^(-?[0-9]{1,20})?$")] = ""

    def undo(self, host: Host) -> None:
        tunables.write_tunable(host, self.name, self.value, self.effect)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", tunables.parameter_path(self.name)], "the value before the run")]


class Pool(Action):
    """`guid` is empty until the pool exists. Not while a client has it mounted: its processes would hang."""

    kind = "pool"
    after = frozenset({"mount", "export"})
    summary = "destroy pool {name}"
    manual = ("zpool destroy {name}",)
    name: PoolName
    run_id: Annotated[str, Field(pattern=rf"^{RUN_ID}$")]
    devices: Annotated[list[DevicePath], Field(min_length=1, max_length=1000)]
    guid: Annotated[str, Field(pattern=r"^[0-9]{0,20}$")] = ""

    def undo(self, host: Host) -> None:
        pool.remove(host, self.name, self.run_id, self.guid, tuple(self.devices))


class Partition(Action):
    """The partition of a cache device."""

    kind = "partition"
    after = frozenset({"pool"})
    summary = "remove the partition of {device_path}"
    manual = ("partx --delete --nr 1 {device_path}",)
    device_path: DevicePath

    def undo(self, host: Host) -> None:
        partition.remove(host, self.device_path)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(partition.remove_command(self.device_path), "kit/remote/partition.py")]


class Device(Action):
    """A real device: the label of `pool` is removed."""

    kind = "device"
    after = frozenset({"pool", "partition"})
    summary = "remove the pool's label from {path}"
    manual = ("wipefs --all {path}-part1", "wipefs --all {path}")
    path: DevicePath
    serial: Annotated[str, Field(min_length=1, max_length=500)]
    pool: PoolName

    def undo(self, host: Host) -> None:
        clear_label.clear(host, self.path, self.serial, self.pool)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["wipefs", "--all", "--quiet", path], "") for path in (f"{self.path}-part1", self.path)]


class Export(Action):
    """The dataset's export to one client."""

    kind = "export"
    after = frozenset({"mount"})
    summary = "unexport {path} to {client}"
    manual = ("exportfs -u {client}:{path}",)
    path: Annotated[str, Field(pattern=rf"^/run/hsp/{RUN_ID}/pool/bench$")]
    client: Annotated[str, Field(pattern=r"^[0-9A-Za-z:][0-9A-Za-z.:%-]{0,255}$")]

    def undo(self, host: Host) -> None:
        nfs_export.unexport(host, self.path, self.client)

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfs_export.unexport_command(self.path, self.client), "")]


class ExportDirectory(Action):
    """The run's directory in an appliance's export; removed through the mount, which is undone later."""

    kind = "export-directory"
    summary = "remove {directory} from {source}"
    manual = ("rm -- {target}/{directory}/{file}", "rmdir {target}/{directory}")
    target: MountPoint
    directory: Annotated[str, Field(pattern=rf"^hsp-{RUN_ID}$")]
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
    source: Annotated[str, Field(pattern=r"^[^-\s][^\n\x00]*:/[^\n\x00]*$", max_length=2000)]
    version: Literal["3", "4.0", "4.1", "4.2"]
    options: list[str]

    def undo(self, host: Host) -> None:
        export_directory.remove(
            host, self.target, self.directory, self.file, self.source, self.version, self.options
        )

    def changes(self) -> list[tuple[list[str], str]]:
        path = f"{self.target}/{self.directory}"
        return [(["rm", "-f", "--", f"{path}/{self.file}"], ""), (["rmdir", "--", path], "")]


class Mount(Action):
    """The export on a client."""

    kind = "mount"
    summary = "unmount {target} on {host}"
    manual = ("umount {target}", "rmdir {target}")
    target: MountPoint

    def undo(self, host: Host) -> None:
        nfs_mount.unmount(host, self.target)


KINDS: Mapping[str, type[Action]] = {
    action.kind: action
    for action in (
        WorkDirectory, Tracer, Tunable, Pool, Partition, Device, Export, ExportDirectory, Mount,
    )
}  # fmt: skip


def register(journal: Journal, key: str, host: Host, action: Action) -> int:
    """Write the undo of the next step into the journal. `key`: the journal's name of `host`.

    Returns the number of the undo, for Journal.know.
    """
    text = action.summary.format(host=host.name, **dict(action))
    return journal.on_teardown(action.kind, key, text, **action.model_dump())


def tear_down(journal: Journal, hosts: Mapping[str, Host]) -> list[Leftover]:
    """Undo everything that is pending. Returns the failed undos."""
    return journal.teardown(lambda item, kinds: undo(item, hosts, kinds), lambda item: by_hand(item, hosts))


def undo(item: Undo, hosts: Mapping[str, Host], left: frozenset[str]) -> None:
    """Perform an undo. `left`: kinds of failed undos. Raises KitError if it fails."""
    action = action_of(item)
    blocking = sorted(action.after & left)
    if blocking:
        raise HostError(f"not tried, because this could not be undone: {', '.join(blocking)}")
    if item.host not in hosts:
        raise HostError(f"there is no host '{item.host}' in this testbed")
    action.undo(hosts[item.host])


def by_hand(item: Undo, hosts: Mapping[str, Host]) -> tuple[str, ...]:
    """Commands for a person, with their host; none for a damaged entry."""
    name = hosts[item.host].name if item.host in hosts else item.host
    try:
        commands = action_of(item).commands()
    except HostError:
        return ()
    return tuple(f"on {name}: {shlex.join(argv)}" for argv in commands)


def action_of(item: Undo) -> Action:
    """A journal's entry as a value. Raises HostError for an unknown kind or damaged arguments."""
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
