"""The undos of pools, devices and shares that a run makes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kit.config.tables.nfs_options import MountOption
from kit.config.testbed import checked_export
from kit.core.seed import RUN_ID
from kit.devices import array, clear_label, partition
from kit.hosts.base import Host
from kit.nfs import export as nfs_export
from kit.nfs import export_directory
from kit.nfs import mount as nfs_mount
from kit.recovery.action import Action, DevicePath, Guid, MountPoint, PoolName, RunId, Serial
from kit.recovery.journal import LeftAlone
from kit.zfs import pool


class UndoPool(Action):
    """`guid` is empty until the pool exists. Not while a client has it mounted: its processes would hang."""

    kind = "pool"
    noun = "pool"
    does = "destroy pool {name}"
    after = frozenset({"mount", "export"})
    named = ("name", "run_id")
    used = ("devices",)
    name: PoolName
    run_id: RunId
    devices: Annotated[list[DevicePath], Field(min_length=1, max_length=1000)]
    guid: Guid = ""

    def undo(self, host: Host) -> None:
        pool.remove(host, self.name, self.run_id, self.guid, tuple(self.devices))

    def commands(self) -> list[list[str]]:
        return [["zpool", "destroy", self.name]]


class Partition(Action):
    """The partition of a cache device. `serial` is empty for an emulated device."""

    kind = "partition"
    noun = "partition"
    does = "remove the partition of {device_path}"
    after = frozenset({"pool"})
    used = ("device_path",)
    device_path: DevicePath
    serial: Serial = ""
    size_bytes: Annotated[int, Field(gt=0, lt=1 << 63)]

    def undo(self, host: Host) -> None:
        try:
            partition.remove(host, self.device_path, self.serial, self.size_bytes)
        except partition.Repartitioned as error:
            raise LeftAlone(error.message) from error

    def undo_proven(self, host: Host) -> None:
        if partition.exists(host, self.device_path):
            raise LeftAlone(
                f"{partition.path_of(self.device_path)} on {host.name} was left: without the run's directory "
                "there it cannot be told whose it is (the run's does not survive a restart)"
            )

    def commands(self) -> list[list[str]]:
        return [["partx", "--delete", "--nr", "1", self.device_path]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(partition.remove_command(self.device_path, self.size_bytes), "kit/remote/partition.py")]


class UndoArray(Action):
    """An md array, which name and UUID prove to be the run's. `serials`: of the members, "" if emulated."""

    kind = "array"
    noun = "array"
    does = "stop the array {name} and remove its superblocks"
    named = ("name",)
    used = ("members",)
    name: PoolName
    uuid: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    members: Annotated[list[DevicePath], Field(min_length=1, max_length=32)]
    serials: Annotated[list[Serial], Field(min_length=1, max_length=32)]

    @model_validator(mode="after")
    def _check_serials(self) -> Self:
        if len(self.serials) != len(self.members):
            raise ValueError("serials are not those of the members")
        return self

    def undo(self, host: Host) -> None:
        array.remove(host, self.name, self.uuid, self.members, self.serials)

    def commands(self) -> list[list[str]]:
        zero = map(array.zero_command, self.members)
        return [
            array.stop_command(f"/dev/md/{self.name}"),
            *zero,
            ["rm", "-f", "--", array.node_of(self.name)],
        ]


class UndoDevice(Action):
    """A real device: the label of `pool` is removed. `guid` is that of the pool, empty until it exists."""

    kind = "device"
    noun = "device label"
    does = "remove the pool's label from {path}"
    after = frozenset({"pool", "partition", "array"})
    named = ("pool",)
    used = ("path",)
    path: DevicePath
    serial: Annotated[str, Field(min_length=1, max_length=500)]
    pool: PoolName
    guid: Guid = ""

    def undo(self, host: Host) -> None:
        try:
            clear_label.clear(host, self.path, self.serial, self.pool, self.guid)
        except clear_label.Foreign as error:
            raise LeftAlone(error.message) from error

    def commands(self) -> list[list[str]]:
        look = ["wipefs", "--no-act", f"{self.path}-part1", self.path]
        return [look, ["zpool", "labelclear", f"{self.path}-part1"]]

    def changes(self) -> list[tuple[list[str], str]]:
        removed = ((f"{self.path}-part1", "zfs_member"), (self.path, "gpt,PMBR"))
        clear = [["zpool", "labelclear", f"{self.path}-part1"]]
        wipe = [clear_label.wipe_command(path, self.pool, types) for path, types in removed]
        return [(argv, "") for argv in clear + wipe]


class UndoExport(Action):
    """The dataset's export to one client."""

    kind = "export"
    noun = "export"
    does = "unexport {path} to {client}"
    after = frozenset({"mount"})
    named = ("path",)
    path: Annotated[str, Field(pattern=rf"^/run/hsp/{RUN_ID}/pool/bench$")]
    client: Annotated[str, Field(pattern=r"^[0-9A-Za-z:][0-9A-Za-z.:%-]{0,255}$")]

    def undo(self, host: Host) -> None:
        nfs_export.unexport(host, self.path, self.client)

    def commands(self) -> list[list[str]]:
        return [["exportfs", "-u", f"{self.client}:{self.path}"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfs_export.unexport_command(self.path, self.client), "")]


class ExportDirectory(Action):
    """The run's directory in an appliance's export; removed through the mount, which is undone later."""

    kind = "export-directory"
    noun = "directory in the export"
    does = "remove {directory} from {source}"
    named = ("target", "directory")
    target: MountPoint
    directory: Annotated[str, Field(pattern=rf"^hsp-{RUN_ID}$")]
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
    source: Annotated[str, AfterValidator(checked_export)]
    version: Literal["3", "4.0", "4.1", "4.2"]
    options: list[MountOption]

    def undo(self, host: Host) -> None:
        export_directory.remove(
            host, self.target, self.directory, self.file, self.source, self.version, self.options
        )

    def commands(self) -> list[list[str]]:
        path = f"{self.target}/{self.directory}"
        return [
            ["rm", "-f", "--", f"{path}/{export_directory.RECORDS}", f"{path}/{self.file}"],
            ["rmdir", path],
        ]

    def changes(self) -> list[tuple[list[str], str]]:
        path = f"{self.target}/{self.directory}"
        files = [f"{path}/{export_directory.RECORDS}", f"{path}/{self.file}"]
        return [(["rm", "-f", "--", *files], ""), (["rmdir", "--", path], "")]


class UndoMount(Action):
    """The export on a client."""

    kind = "mount"
    noun = "mount"
    does = "unmount {target} on {host}"
    named = ("target",)
    target: MountPoint

    def undo(self, host: Host) -> None:
        nfs_mount.unmount(host, self.target)

    def commands(self) -> list[list[str]]:
        return [["umount", self.target], ["rmdir", self.target]]
