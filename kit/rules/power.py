"""Power losses that a workload asks for: that its testbed cannot have, or that show nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kit.config.testbed import Testbed
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.zfs.datasets import is_encrypted


def problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    """`testbed`: with the devices that the run uses."""
    if workload.power_loss:
        yield from ((("power_loss",), text) for text in _problems(workload, testbed))


def _problems(workload: Workload, testbed: Testbed) -> Iterator[str]:
    power, on_devices = testbed.power, workload.on_devices
    if testbed.is_appliance:
        yield from _appliance_problems(workload, testbed)
        return
    if on_devices and len(cut_devices(testbed)) != 1:
        listed = ", ".join(cut_devices(testbed)) or "none"
        yield (
            f"records go to one bare device, and the power of {listed} would be cut: name one in devices of "
            "[power], or of the phases"
        )
    if testbed.is_lab:
        plain = [device.name for device in testbed.device if device.emulated is None]
        if len(plain) == len(testbed.device) or (on_devices and plain):
            yield f"{' and '.join(plain)} has no model that could lose its power: give it a preset"
        return
    if power is None:
        yield (
            f"the testbed '{testbed.name}' does not say how to cut the power: add [power] to it with scope, "
            "off and on (docs/power-loss.md)"
        )
    elif power.scope == "device" and not on_devices:
        yield (
            'scope = "device" under a pool shows nothing: OpenZFS has the writes in memory still, and writes '
            'them again: use phases with target = "devices", or scope = "server"'
        )
    elif power.scope == "server":
        yield from _server_problems(workload, testbed)


def _server_problems(workload: Workload, testbed: Testbed) -> Iterator[str]:
    if workload.on_devices:
        yield (
            'scope = "server" takes the list of acknowledged writes to bare devices with it: use '
            'scope = "device", or a workload over NFS, where the client has the list'
        )
        return
    if is_encrypted(workload.dataset.properties):
        yield (
            'scope = "server" takes the key of the encrypted dataset with it, which lies in memory there '
            "(/run): remove encryption from dataset.properties"
        )
    here = [client.host for client in testbed.client if client.at == testbed.server.at]
    if here:
        yield (
            f"the client {here[0]} is the server: what was acknowledged would be lost with it; the first "
            "client is the witness and must be another machine"
        )


def _appliance_problems(workload: Workload, testbed: Testbed) -> Iterator[str]:
    if testbed.power is None:
        yield (
            f"the testbed '{testbed.name}' does not say how to cut the power of its appliance: add [power] "
            'to it with scope = "server", off and on (docs/power-loss.md)'
        )
    if workload.power_loss and workload.power_loss.control == "no-flush":
        yield (
            'control = "no-flush" needs a login at the server, which is host = "none": use "no-sync", which '
            "is unstable writes without a COMMIT there"
        )


def cut_devices(testbed: Testbed) -> tuple[str, ...]:
    """Names of the devices that lose their power."""
    if testbed.power and testbed.power.devices:
        return testbed.power.devices
    return tuple(device.name for device in testbed.device)
