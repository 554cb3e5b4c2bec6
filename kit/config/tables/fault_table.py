"""`[[fault]]` and `[[event]]` of a workload: what is done to the server at set times while a phase runs.

[[fault]]
at = "2h"                   # since the load of the phase began
device = "log0"             # of the testbed, or the role of its only device
what = "stall"
for = "50ms"
expect = "recovers"
recover_within = "30s"

[[event]]
at = "3h"
what = "scrub"

`during = ["scrub", "snapshots"]` of a phase stands for events at equal distances over its duration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from kit.config.tables.phase_table import Expected, Name, Phase
from kit.config.tables.setting_table import SettingName
from kit.config.toml import STORED_IF_ANY, Problems, Table
from kit.core.units import DurationNs, format_duration_ns

What = Literal["stall", "error", "fail", "power-loss", "offline", "nfsd-restart", "command"]
# Of emulated devices alone.
EMULATED: frozenset[What] = frozenset({"stall", "error", "fail", "power-loss"})
OF_A_DEVICE: frozenset[What] = EMULATED | {"offline"}
# All exports of the server stand still meanwhile.
STOPS_NFSD = frozenset({"nfsd-restart", "export-import"})
# The device is not there meanwhile.
AWAY: frozenset[What] = frozenset({"fail", "offline"})
ALL = "all"

_WORDS: Mapping[str, str] = {
    "stall": "stalls",
    "error": "returns errors",
    "fail": "is gone",
    "power-loss": "loses its power",
    "offline": "is offline",
}
_At = Annotated[DurationNs, Field(ge=0)]
_For = Annotated[DurationNs | None, Field(alias="for", gt=0)]
_Phase = Annotated[Name | Literal[""], STORED_IF_ANY]


def _wrong(*checks: tuple[object, str, str]) -> Problems:
    """Key and text of those that are true."""
    return ((key, text) for is_wrong, key, text in checks if is_wrong)


class Fault(Table):
    """A fault, and what the clients must see of it.

    `expect`: "recovers": latencies are back in the band of before within `recover_within` of the fault's end,
    or of its begin if it lasts until the phase ends (None: before that); "degraded": I/Os go on while it
    lasts; "unaffected": latencies stay in the band. `for_`: how long it lasts, None: until the phase ends.
    `sectors`: first and number of those that return errors. `command`: a [[command]] of the testbed, by name:
    a workload is data, and names no program. `if_emulated`: left out where the devices are real.
    """

    at: _At
    what: What
    device: str = ""
    for_: _For = None
    expect: Literal["recovers", "degraded", "unaffected"] = "recovers"
    recover_within: Annotated[DurationNs | None, Field(gt=0)] = None
    phase: _Phase = ""
    sectors: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]] | None = None
    of: Literal["read", "write", "any"] = "any"
    command: Annotated[SettingName | Literal[""], STORED_IF_ANY] = ""
    if_emulated: Annotated[bool, STORED_IF_ANY] = False

    @property
    def text(self) -> str:
        """For people."""
        lasts = f" for {format_duration_ns(self.for_)}" if self.for_ else ""
        if self.what == "command":
            return f"command {self.command}{lasts}"
        if self.what == "nfsd-restart":
            return f"nfsd is restarted, {format_duration_ns(self.for_ or 0)} without it"
        return f"{self.device} {_WORDS[self.what]}{lasts}"

    def _problems(self) -> Problems:
        what, is_of_device = self.what, self.what in OF_A_DEVICE
        is_command, is_error = what == "command", what == "error"
        which = "which sectors return errors? such as sectors = [0, 131072]: the first, and how many"
        return _wrong(
            (
                is_of_device and not self.device,
                "device",
                f'which device does "{what}" hit? such as device = "log0"',
            ),
            (not is_of_device and self.device, "device", f'"{what}" hits no device: remove it'),
            (self.device == ALL and what != "power-loss", "device", '"all" goes with "power-loss" alone'),
            (
                is_command and not self.command,
                "command",
                'which [[command]] of the testbed? such as command = "failover"',
            ),
            (not is_command and self.command, "command", 'command goes with what = "command"'),
            (what in ("stall", "nfsd-restart") and not self.for_, "for", f'how long? "{what}" needs for'),
            (what == "power-loss" and self.for_, "for", "a power loss has no length: remove it"),
            (not is_error and self.sectors is not None, "sectors", 'sectors goes with what = "error"'),
            (is_error and self.sectors is None, "sectors", which),
            (not is_error and "of" in self.model_fields_set, "of", 'of goes with what = "error"'),
            (
                self.recover_within is not None and self.expect != "recovers",
                "recover_within",
                'recover_within goes with expect = "recovers"',
            ),
        )


class ExpectedEvent(Table):
    """Something that a server does in its normal life, made on purpose, and required to happen in the phase.

    `for_`: "resilver": how long the device is offline before; "snapshots": how long one is made `every` so
    often; of others how long at most, None: to their end. `device`: of a resilver. "export-import": as in a
    failover, or when a server starts again: nfsd is stopped, the pool exported, imported, and nfsd started.
    """

    at: _At
    what: Expected
    device: str = ""
    for_: _For = None
    every: Annotated[DurationNs | None, Field(gt=0)] = None
    phase: _Phase = ""

    @property
    def text(self) -> str:
        """For people."""
        if self.what == "export-import":
            return "the pool is exported and imported"
        if self.what == "snapshots":
            return f"snapshots, one each {format_duration_ns(self.every or 0)}"
        return f"{self.what} of {self.device}" if self.device else self.what

    def _problems(self) -> Problems:
        is_storm, is_resilver = self.what == "snapshots", self.what == "resilver"
        is_import = self.what == "export-import"
        offline = "how long is the device offline before? such as for = 10s"
        return _wrong(
            (is_storm and not self.every, "every", 'how often? such as every = "1s"'),
            (is_storm and not self.for_, "for", 'for how long? such as for = "1m"'),
            (is_import and self.for_, "for", "it lasts as long as export and import take: remove it"),
            (not is_storm and self.every, "every", 'every goes with what = "snapshots"'),
            (not is_resilver and self.device, "device", 'device goes with what = "resilver"'),
            (is_resilver and not self.for_, "for", offline),
        )


Scheduled = Fault | ExpectedEvent


def during(phase: Phase) -> list[ExpectedEvent]:
    """The events of the key `during`: the n-th of N begins at n / (N + 1) of the phase.

    A resilver follows a 20th of the phase offline; snapshots are made for a 10th of it, 20 in all.
    """
    made, parts = [], len(phase.during) + 1
    for number, what in enumerate(phase.during, start=1):
        times_ns = {"at": phase.duration * number // parts}
        if what in ("resilver", "snapshots"):
            times_ns["for"] = phase.duration // (20 if what == "resilver" else 10)
        if what == "snapshots":
            times_ns["every"] = max(phase.duration // 200, 1)
        keys = {key: format_duration_ns(value) for key, value in times_ns.items()}
        made.append(ExpectedEvent.model_validate({"what": what, **keys}))
    return made


def phase_problem(phase: Phase) -> str:
    """Why nothing can be scheduled in the phase; "" if it can."""
    if not phase.over_nfs:
        return (
            f"phase '{phase.name}' has target = \"{phase.target}\": times count from the first call over "
            "NFS, so faults and events need a phase over NFS"
        )
    if phase.metadata:
        return (
            f"phase '{phase.name}' has metadata and ends when its tree is done, which may be before the time "
            "comes: name a phase that reads or writes"
        )
    if phase.resumable:
        return f"phase '{phase.name}' is resumable: a part of it would begin its times anew: remove resumable"
    return ""
