"""The user's own commands: a program that is not there is named before the run touches anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.command_table import OwnCommand as OwnCommand
from kit.config.tables.fault_table import Fault
from kit.config.tables.power_table import Power, Restart
from kit.core.errors import HostError
from kit.setup import own_commands
from kit.setup.context import Context
from tests.fakes import Answer, Command, ScriptedHost


class Machine(ScriptedHost):
    """`programs`: those that it has."""

    def __init__(self, name: str, *programs: str) -> None:
        super().__init__(name=name)
        self.programs = programs

    def answer(self, command: Command) -> Answer:
        assert command.argv[:3] == ("env", "sh", "-c")
        return 0 if command.argv[-1] in self.programs else 127


def run_of(
    server: Machine,
    controller: Machine,
    commands: list[dict[str, Any]],
    power: Any = None,
    restart: Any = None,
    restarts: tuple[str, ...] = (),
) -> Context:
    own = [OwnCommand.model_validate({"name": "cut", **each}) for each in commands]
    made = [Fault.model_validate({"at": "1s", "what": "command", "command": each.name}) for each in own]
    workload = SimpleNamespace(phase=("one",), schedule=lambda _: made, power_loss=power, restarts=restarts)
    testbed = SimpleNamespace(power=power, restart=restart, command_named=lambda _: own[0])
    plan = SimpleNamespace(workload=workload, testbed=testbed)
    site = SimpleNamespace(server=server, reference=server, controller=controller)
    return cast(Context, SimpleNamespace(plan=plan, site=site))


def test_each_program_is_looked_for_where_it_will_run() -> None:
    power = Power.model_validate(
        {"scope": "server", "off": ("pdu", "off"), "on": ("pdu", "on"), "count": ("cuts",)}
    )
    server, here = Machine("nas", "ip", "/root/undo"), Machine("controller", "pdu")
    fault = {"run": ("ip", "link"), "undo": ("/root/undo", "x")}
    own_commands.check(run_of(server, here, [fault]))
    with pytest.raises(HostError, match=r"controller has no program cuts, which count of \[power\] runs"):
        own_commands.check(run_of(server, here, [fault], power))
    with pytest.raises(HostError, match=r"nas has no program iq, which undo of a \[\[command\]\] runs"):
        own_commands.check(run_of(server, here, [{"run": ("ip",), "undo": ("iq", "x")}]))
    restart = Restart(command=("rebot",))
    with pytest.raises(HostError, match=r"nas has no program rebot, which command of \[restart\] runs"):
        own_commands.check(run_of(server, here, [fault], restart=restart, restarts=("reboot",)))
    # Of a workload without restarts it is not run.
    own_commands.check(run_of(server, here, [fault], restart=restart))
