"""The step that cuts the power of a real server or device. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.tables.power_table import Power
from kit.hosts.base import Command
from kit.plan.plan import Plan
from kit.plan.step import Step
from kit.recovery.power_undos import CONTROLLER, PowerOn
from kit.rules.power import cut_devices


def planned(plan: Plan) -> Iterator[Step]:
    """All power losses of a run, as one step; the lab cuts the power of its devices itself."""
    asked, power = plan.workload.power_loss, plan.testbed.power
    if asked is None or power is None:
        return
    extra = (
        "then one clean power cycle" if asked.control == "none" else "the control, then a clean power cycle"
    )
    yield cut(power, what(plan), f"{asked.moments} times at random moments, {extra}; `on` after each")


def what(plan: Plan) -> str:
    """What loses its power, for a person."""
    power = plan.testbed.power
    assert power is not None
    return "the server" if power.scope == "server" else " and ".join(cut_devices(plan.testbed))


def cut(power: Power, of: str, note: str = "") -> Step:
    host = CONTROLLER if power.host == "controller" else "server"
    undo = PowerOn(on=list(power.on), what=of)
    return Step(f"cut the power of {of}", host, (Command(power.off, note),), undo, {"scope": power.scope})
