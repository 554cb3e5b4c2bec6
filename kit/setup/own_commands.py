"""The user's own commands that a run will need later: whether their programs are there, before it begins."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.tables.fault_table import Fault
from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import Host
from kit.recovery.power_undos import CONTROLLER
from kit.setup.context import Context

# As the user who logs in, for whom they run: no sudo is put in front.
_IS_THERE = ("env", "sh", "-c", 'command -v -- "$1" >/dev/null', "sh")


def check(run: Context) -> None:
    """Raises HostError that names a program that is missing, where, and the key that asks for it."""
    for host, key, argv in _commands(run):
        if host.run([*_IS_THERE, argv[0]], check=False).returncode:
            raise HostError(
                f"{host.name} has no program {safe_text(argv[0])[:200]}, which {key} runs",
                "it is run without a shell, as the user who is logged in: give its path, or install it there",
            )


def _commands(run: Context) -> Iterator[tuple[Host, str, tuple[str, ...]]]:
    """Of [[command]] (`run`, `undo`), of [power] (`off`, `on`, `count`) and of [restart]: host, key, argv."""
    site, workload, testbed = run.site, run.plan.workload, run.plan.testbed
    power = testbed.power
    for phase in workload.phase:
        for each in workload.schedule(phase):
            command = testbed.command_named(each.command) if isinstance(each, Fault) else None
            for key, argv in (("run", command.run), ("undo", command.undo)) if command else ():
                if argv:
                    yield site.server or site.reference, f"{key} of a [[command]]", argv
    if testbed.restart and "reboot" in workload.restarts and site.server:
        yield site.server, "command of [restart]", tuple(testbed.restart.command)
    if power and (workload.power_loss or "power-cut" in workload.restarts):
        at = site.controller if power.host == CONTROLLER else site.server
        for key, argv in (("off", power.off), ("on", power.on), ("count", power.count)):
            if at and argv:
                yield at, f"{key} of [power]", tuple(argv)
