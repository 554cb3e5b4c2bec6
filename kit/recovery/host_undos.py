"""The undos of what a run changes on a host itself: its directory, the tracer, settings."""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from kit.config.workload import TUNABLE
from kit.core.text import safe_text
from kit.hosts import file_settings, latency_preset
from kit.hosts.base import Host
from kit.hosts.identity import HostIdentity, read_identity
from kit.recovery import work_directory
from kit.recovery.action import Action, MaybeNumber, Number, WorkDirectoryPath
from kit.recovery.journal import LeftAlone
from kit.trace import nfsd_tracer
from kit.zfs import tunables


class WorkDirectory(Action):
    """Undone last: the directory shows other runs that something may be left."""

    kind = work_directory.KIND
    noun = "directory"
    does = "remove {path} on {host}"
    is_last = True
    named = ("path",)
    path: WorkDirectoryPath

    def undo(self, host: Host) -> None:
        work_directory.remove(host, self.path)

    def commands(self) -> list[list[str]]:
        return [["rm", "-r", "--", self.path]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(work_directory.remove_command(self.path), "")]


class UndoTracer(Action):
    """`directory`: the run's directory with the tracer's files.

    `mounts`: whether the tracer makes the kernel mount TRACING, because it was not mounted before.
    """

    kind = "tracer"
    noun = "tracer"
    does = "end the tracer on {host}"
    named = ("directory",)
    directory: WorkDirectoryPath
    mounts: bool = False

    def undo(self, host: Host) -> None:
        nfsd_tracer.end_left(host, self.directory)
        if self.mounts:
            # Another tracer has it open, then it stays; else the kernel mounts it again when it is looked at.
            host.run(["umount", nfsd_tracer.TRACING], check=False)

    def commands(self) -> list[list[str]]:
        return [["pkill", "-f", f"{self.directory}/nfsd.bt"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(nfsd_tracer.end_left_command(self.directory), "")]


class UndoTunable(Action):
    """`value`: the value before the run; `effect`: the value in effect, if OpenZFS chose it.

    `set`: the value that the run writes, in the boot `boot_id` of the machine `machine_id`. Only that value,
    there, is the run's.
    """

    kind = "tunable"
    does = "set {name} back to {value}"
    name: Annotated[str, Field(pattern=rf"^{TUNABLE}$", max_length=80)]
    value: Number
    effect: MaybeNumber = ""
    set: MaybeNumber = ""
    machine_id: str = ""
    boot_id: str = ""

    def undo(self, host: Host) -> None:
        observed = tunables.read_tunables(host, [self.name])[self.name]
        if observed == self.value:
            return
        # On the way back to 0 it is `effect` for a moment.
        if why := not_ours(host, self, observed in (self.set, self.effect)):
            raise LeftAlone(f"{self.name} on {host.name} is {observed} and was left so: {why}")
        tunables.write_tunable(host, self.name, self.value, self.effect)

    def commands(self) -> list[list[str]]:
        return [["tee", tunables.parameter_path(self.name), f"(and type: {self.value})"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", tunables.parameter_path(self.name)], "the value before the run")]


class UndoHostSetting(Action):
    """A file of kit.hosts.file_settings. `value`, `set`, `machine_id`, `boot_id`: as in Tunable."""

    kind = "host-setting"
    does = "set {path} back to {value}"
    path: Annotated[str, Field(pattern=file_settings.PATH)]
    value: Annotated[str, Field(pattern=file_settings.VALUE)]
    set: Annotated[str, Field(pattern=file_settings.VALUE)]
    machine_id: str
    boot_id: str

    def undo(self, host: Host) -> None:
        observed = file_settings.read(host, self.path)
        if observed == self.value:
            return
        if why := not_ours(host, self, observed == self.set):
            raise LeftAlone(f"{self.path} on {host.name} is {observed} and was left so: {why}")
        file_settings.write(host, file_settings.write_command(self.path, self.value))

    def commands(self) -> list[list[str]]:
        return [["tee", self.path, f"(and type: {self.value})"]]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", self.path], "the value before the run")]


class PresetValue(BaseModel):
    """`value`: what was in the file before the run."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    path: Annotated[str, Field(pattern=latency_preset.PRESET_PATH)]
    value: Annotated[str, Field(pattern=latency_preset.PRESET_VALUE)]


class UndoPreset(Action):
    """Files of one kind of a preset, which all were set to `set`. `machine_id`, `boot_id`: as in Tunable."""

    kind = "preset"
    files: Annotated[list[PresetValue], Field(min_length=1, max_length=latency_preset.MOST_FILES)]
    set: Annotated[str, Field(pattern=latency_preset.PRESET_VALUE)]
    machine_id: str
    boot_id: str

    def text(self, host: str) -> str:
        more = f" and {len(self.files) - 1} more" if self.files[1:] else ""
        return f"set {self.files[0].path}{more} back to {', '.join(sorted({f.value for f in self.files}))}"

    def undo(self, host: Host) -> None:
        found = latency_preset.contents(host, [each.path for each in self.files])
        changed = [each for each in self.files if found.get(each.path) != each.value]
        own = {each.path: each.value for each in changed if found.get(each.path) == self.set}
        foreign = [each.path for each in changed if each.path not in own]
        if changed and (why := not_ours(host, self, is_set=bool(own))):
            raise LeftAlone(f"{changed[0].path} on {host.name} is not as before and was left so: {why}")
        for command in latency_preset.write_preset(own):
            command.run(host, check=False)
        if own:
            latency_preset.check_preset(host, own)
        if foreign:
            is_now = safe_text(found.get(foreign[0], "not there"))[:60]
            raise LeftAlone(
                f"{', '.join(foreign[:3])} on {host.name} was left so: it is {is_now}, the run had set "
                f"{self.set}: somebody else has changed it since"
            )

    def commands(self) -> list[list[str]]:
        back = latency_preset.write_preset({each.path: each.value for each in self.files})
        return [[*command.argv, f"(and type: {command.input})"] for command in back]

    def changes(self) -> list[tuple[list[str], str]]:
        return [(["tee", *(each.path for each in self.files)], "the value before the run")]


class _Set(Protocol):
    @property
    def set(self) -> str: ...
    @property
    def machine_id(self) -> str: ...
    @property
    def boot_id(self) -> str: ...


def not_ours(host: Host, action: _Set, is_set: bool) -> str:
    """Why a value is not the run's; "" if it is. `is_set`: it is one that the run has written."""
    if read_identity(host) != HostIdentity(action.machine_id, action.boot_id):
        return "the run set it before this boot, or on another machine"
    return "" if is_set else f"the run had set {action.set}: somebody else has changed it since"
