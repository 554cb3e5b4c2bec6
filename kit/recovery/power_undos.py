"""The undo of a power loss: the power on again, by the user's own command ([power] of a testbed)."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import Field

from kit.core.errors import HostError
from kit.hosts import file_settings
from kit.hosts.base import Host
from kit.hosts.local import LocalHost
from kit.recovery.action import Action, Argv, digest_of

CONTROLLER = "controller"
"""The journal's key of the machine that runs hsp."""
DEADLINE_S = 300.0


class PowerOn(Action):
    """`on`: run only if this machine's kit has listed it (kit.recovery.registry), whatever the journal says.

    Where the power is on it does no harm: the table [power] asks for such a command.
    """

    kind = "power"
    noun = "power that is off"
    does = "turn the power of {what} on"
    on: Argv
    what: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9 _-]{0,599}$")]

    @property
    def permit(self) -> str:
        return digest_of("power", self.on)

    def undo(self, host: Host) -> None:
        run_own(host, tuple(self.on), "on")

    def commands(self) -> list[list[str]]:
        return [self.on]


def controller() -> Host:
    """This machine, as the user who runs hsp."""
    return LocalHost(CONTROLLER)


def run_own(host: Host, argv: tuple[str, ...], key: str) -> str:
    """Run a command of [power]; what it printed. Raises HostError: it failed, or took too long."""
    answer = file_settings.run_own(host, argv, deadline_s=DEADLINE_S)
    if answer.returncode:
        off = "; the power may be off still: turn it on by hand, then run `hsp clean`" if key == "on" else ""
        raise HostError(
            f"on {host.name}: `{shlex.join(argv)[:200]}` ended with {answer.returncode}: "
            f"{file_settings.last_line(answer)}",
            f"it is `{key}` of [power] in the testbed, run without a shell as the user who is logged in{off}",
        )
    return answer.stdout
