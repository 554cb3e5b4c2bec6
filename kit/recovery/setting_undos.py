"""The undos of write caches, and of the user's own settings ([[setting]] of a testbed)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kit.config.tables.setting_table import VALUE
from kit.core.errors import HostError
from kit.devices import write_cache
from kit.devices.serial import check_serial
from kit.hosts import file_settings
from kit.hosts.base import Host
from kit.hosts.identity import read_identity
from kit.recovery.action import Action, Argv, DevicePath, Serial, digest_of
from kit.recovery.host_undos import not_ours
from kit.recovery.journal import LeftAlone


class UndoWriteCache(Action):
    """`value`: whether it was on before the run; `set`, `machine_id`, `boot_id`: as of UndoTunable.

    `device`: the testbed's name of it; `serial`: "" for an emulated one.
    """

    kind = "write-cache"
    does = "switch the write cache of {path} {value} again"
    used = ("path",)
    device: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]
    path: DevicePath
    serial: Serial = ""
    tool: write_cache.ToolName
    value: write_cache.Value
    set: write_cache.Value
    machine_id: str
    boot_id: str

    @property
    def _cache(self) -> write_cache.WriteCache:
        return write_cache.WriteCache(self.device, self.path, self.tool, self.serial)

    def undo(self, host: Host) -> None:
        if self.tool != "model":
            check_serial(host, self.path, self.serial)
        observed = self._cache.read(host)
        if observed == self.value:
            return
        if why := not_ours(host, self, observed == self.set):
            raise LeftAlone(
                f"the write cache of {self.path} on {host.name} is {observed} and was left so: {why}"
            )
        self._cache.write(host, self.value)

    def commands(self) -> list[list[str]]:
        if self.tool == "nvme":
            argv = write_cache.argv_of(self.tool, "/dev/nvmeN", self.value)
            return [[*argv, f"(nvmeN: the controller of {self.path})"]]
        place = self.device if self.tool == "model" else self.path
        return [write_cache.argv_of(self.tool, place, self.value)]


def _checked_pattern(pattern: str | None) -> str | None:
    if pattern is not None and re.compile(pattern).groups != 1:
        raise ValueError("a pattern has one group")
    return pattern


_Value = Annotated[str, Field(pattern=rf"^{VALUE}$", max_length=64)]


class OneSetting(BaseModel):
    """`back` sets `value`, which it had before the run; `set`: what the run has made of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: Annotated[str, Field(pattern=r"^setting\.[a-z][a-z0-9_-]{0,30}$")]
    get: Argv
    back: Argv
    pattern: Annotated[str | None, Field(max_length=300), AfterValidator(_checked_pattern)] = None
    value: _Value
    set: _Value

    @property
    def restored(self) -> file_settings.CommandSetting:
        return file_settings.CommandSetting(
            self.name, tuple(self.get), self.pattern, tuple(self.back), self.value
        )


class UndoSettings(Action):
    """All of the testbed's own settings: one may change another, also on the way back.

    They outlive a restart of the server, so the boot is not compared. Their commands are run only if this
    machine's kit has listed them (kit.recovery.registry), whatever the journal says. `known`: all were set,
    and what became of each is in its `set`.
    """

    kind = "settings"
    settings: Annotated[list[OneSetting], Field(min_length=1, max_length=100)]
    known: bool = False
    machine_id: str

    @property
    def permit(self) -> str:
        # What the run has made of a setting is known later, and is not run.
        lines = [[one.name, one.get, one.back, one.pattern, one.value] for one in self.settings]
        return digest_of(self.machine_id, lines)

    def text(self, host: str) -> str:
        listed = ", ".join(f"{one.name} to {one.value}" for one in self.settings)
        return f"set back where they were changed: {listed}"

    def undo(self, host: Host) -> None:
        if read_identity(host).machine_id != self.machine_id:
            raise LeftAlone(
                f"{host.name} is another machine than the run's: its settings were left as they are"
            )
        found = {one.name: one.restored.read(host) for one in self.settings}
        foreign = [one for one in self.settings if found[one.name] not in (one.value, one.set)]
        own = [one for one in reversed(self.settings) if one not in foreign]
        # Twice: the way back of one may change another.
        for _ in range(2):
            for one in own:
                if one.restored.read(host) != one.value:
                    file_settings.run_own(host, tuple(one.back))
        if wrong := [one for one in own if one.restored.read(host) != one.value]:
            raise HostError(
                "; ".join(f"{one.name} on {host.name} is not {one.value} again" for one in wrong),
                "look at it by hand, and run `hsp clean`",
            )
        if foreign:
            texts = [f"{one.name} is {found[one.name]}, the run had set {one.set}" for one in foreign]
            who = (
                "somebody else has changed it since"
                if self.known
                else "the run was ended while it set them, so this may be an effect of its own; before, "
                f"it was {', '.join(f'{one.name} {one.value}' for one in foreign)}"
            )
            raise LeftAlone(f"on {host.name} and left so: {'; '.join(texts)}: {who}")

    def commands(self) -> list[list[str]]:
        return [one.back for one in reversed(self.settings)]
