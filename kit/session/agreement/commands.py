"""The commands that a testbed makes a run execute: listed, shown, and agreed to once on this machine.

Those of [power], [[setting]] and [[command]], and what its ssh_config runs. In the lab commands run in its
guest, which is thrown away: nothing is asked.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kit.config.testbed import Testbed
from kit.core.text import safe_text
from kit.hosts.ssh_config import lines_that_run
from kit.plan.plan import Plan
from kit.recovery import registry
from kit.session.agreement import asking
from kit.session.agreement.erasing import Ask

_DIGITS = 16
_HERE = "this machine"


def listed(plan: Plan) -> list[str]:
    """Each command that the run executes, with where and by which key. Empty in the lab."""
    if plan.testbed.is_lab:
        return []
    lines = [*_of_ssh(plan.testbed), *_of_settings(plan), *_of_faults(plan), *_of_power(plan)]
    return list(dict.fromkeys(map(safe_text, lines)))


def of_all(plans: Iterable[Plan]) -> list[str]:
    """Those of several runs, such as the builds of a sweep."""
    return list(dict.fromkeys(line for plan in plans for line in listed(plan)))


def words(lines: Sequence[str]) -> list[str]:
    """As `hsp plan` prints them."""
    if not lines:
        return []
    agree = f"  agree with --agree {code_of(lines)}"
    return ["the testbed makes the run execute:", *(f"  {line}" for line in lines), agree, ""]


def _line(where: str, what: str, argv: Sequence[str] | None) -> list[str]:
    return [f"{where}: {what}: {shlex.join(argv)}"] if argv else []


def _of_ssh(testbed: Testbed) -> Iterator[str]:
    if testbed.ssh_config:
        lines, digest = _ssh_config(Path(testbed.ssh_config))
        for line in lines:
            yield f"{_HERE}: ssh_config {testbed.ssh_config} (SHA-256 {digest}): {line}"


def _of_settings(plan: Plan) -> Iterator[str]:
    asked, testbed = plan.workload.setting, plan.testbed
    for setting in testbed.setting if asked else ():
        yield from _line(testbed.server.host, f"get of [[setting]] {setting.name}", setting.get)
        if setting.name in asked:
            yield from _line(testbed.server.host, f"set of [[setting]] {setting.name}", setting.set)


def _of_faults(plan: Plan) -> Iterator[str]:
    testbed = plan.testbed
    where = testbed.client[0].host if testbed.is_appliance else testbed.server.host
    for fault in plan.workload.fault:
        if command := testbed.command_named(fault.command):
            yield from _line(where, f"run of [[command]] {command.name}", command.run)
            yield from _line(where, f"undo of [[command]] {command.name}", command.undo)


def _of_power(plan: Plan) -> Iterator[str]:
    power, restart, restarts = plan.testbed.power, plan.testbed.restart, plan.workload.restarts
    if power and (plan.workload.power_loss or "power-cut" in restarts):
        where = _HERE if power.host == "controller" else plan.testbed.server.host
        for key, argv in (("off", power.off), ("on", power.on), ("count", power.count)):
            yield from _line(where, f"{key} of [power]", argv)
    if restart and "reboot" in restarts:
        yield from _line(plan.testbed.server.host, "command of [restart]", restart.command)


def _ssh_config(path: Path) -> tuple[list[str], str]:
    """Its lines that run something, and its digest: what it says of hosts is agreed to with them."""
    try:
        return lines_that_run(path), hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
    except OSError as error:
        return [f"it cannot be looked at: {error.strerror}"], "not known"


def code_of(lines: Sequence[str]) -> str:
    """What stands for these commands: typed, or given with --agree."""
    return hashlib.sha256(json.dumps(sorted(lines)).encode()).hexdigest()[:_DIGITS]


def agree(plans: Iterable[Plan], given: Sequence[str], ask: Ask | None) -> None:
    """Before the first time on this machine, show the commands and have a person agree to them.

    `given`: of --agree; `ask`: None without a terminal. Raises SafetyRefusal: nothing was run or contacted.
    """
    lines = of_all(plans)
    code = code_of(lines)
    if not lines or registry.is_agreed(code):
        return
    title = "the testbed makes this run execute, which has not been agreed to on this machine:"
    refusal = "the commands of the testbed were not agreed to", "if they are what you want"
    asking.agree(code, given, ask, (title, lines), "these commands", refusal)
    registry.agree(code)
