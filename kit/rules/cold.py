"""Phases that begin with empty caches, or lose them meanwhile: what must be there for them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kit.config.tables.fault_table import Scheduled
from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.workload import Workload
from kit.zfs.datasets import is_encrypted


def has_curve(phase: Phase, scheduled: Iterable[Scheduled]) -> bool:
    """Whether it is measured how the caches get warm: from the begin, or after an import."""
    imports = any(each.what == "export-import" for each in scheduled)
    is_empty = phase.cold and not (phase.metadata or phase.replay)
    return is_empty or phase.restart is not None or (imports and "l2arc" in phase.tiers)


def problems(
    phase: Phase, operations: Collection[str], present: Collection[str], testbed: str
) -> Iterator[str]:
    """`operations`: of its load; `present`: roles of devices in the pool by then."""
    # Of a tree, and of a replay, it matters that the ARC is empty.
    if not (phase.cold or phase.restart) or phase.metadata or phase.replay:
        return
    key = f'restart = "{phase.restart}"' if phase.restart else "cold = true"
    if "cache" not in present:
        yield (
            f"{key} is about how an L2ARC gets warm, and the testbed '{testbed}' has no cache device "
            "in this phase: add one to the testbed, or remove this key"
        )
    if "read" not in operations:
        yield f"{key}, and its load reads nothing that could get warm: give it a load that reads"


def _load(phase: Phase) -> tuple[object, ...]:
    return phase.job, phase.options, phase.tiers, phase.target


def restart_problems(workload: Workload, testbed: Testbed, number: int) -> Iterator[str]:
    """Of the phase `number`, which has `restart`: a server that must not be restarted, or to no use."""
    phase = workload.phase[number]
    before = workload.phase[number - 1] if number else None
    if before is None or _load(before) != _load(phase):
        yield (
            "what the L2ARC answers after the restart is held beside the phase before it, and there is no "
            "phase before it with the same job, options and tiers: put one there"
        )
    if testbed.is_lab:
        yield (
            "the lab's devices are in the memory of its guest, and a restart loses them: use a testbed of "
            'your own, or [[event]] what = "export-import", which the lab has'
        )
        return
    power = testbed.power
    if phase.restart == "power-cut" and (power is None or power.scope != "server"):
        yield (
            f"the testbed '{testbed.name}' does not say how to cut the power of its server: add [power] with "
            'scope = "server", off and on (docs/power-loss.md)'
        )
    if phase.restart == "reboot" and testbed.restart is None:
        yield (
            f"the testbed '{testbed.name}' does not allow that its server is restarted: add [restart] with "
            'command = ["systemctl", "reboot"], if no other user needs this server meanwhile'
        )
    if is_encrypted(workload.dataset.properties):
        yield (
            "the key of the encrypted dataset lies in memory there (/run), and is lost: remove encryption "
            "from dataset.properties"
        )
    if workload.host.wanted or workload.setting:
        yield "settings of [host] and [setting] may be lost with the restart: remove them"
    here = [client.host for client in testbed.client if client.at == testbed.server.at]
    if here:
        yield f"the client {here[0]} is the server, and what runs there would be lost: use another machine"
