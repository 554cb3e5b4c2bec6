"""What became of emulated devices during a run: faults that were triggered, and crashes of their server."""

from __future__ import annotations

from typing import Any

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.run.site import Devices


def fault_events(
    faults: list[tuple[int, str]], phase: dict[str, Any], origin_ns: int, clock: Clock
) -> list[dict[str, Any]]:
    """Events (as kit.instruments.server_activity makes them) of the faults in a phase's time. Pure.

    `faults` are in ns of the server's clock, `origin_ns` is that clock when the run began; `phase`
    has start_ns and end_ns in ns of the experiment since then.
    """
    found = []
    for at_ns, what in faults:
        time_ns = clock.from_host_ns(max(0, at_ns - origin_ns))
        if phase["start_ns"] <= time_ns <= phase["end_ns"]:
            found.append({"time_ns": time_ns, "end_ns": None, "kind": "fault", "text": f"fault: {what}"})
    return found


def check_alive(devices: Devices | None) -> None:
    """Raises HostError if the devices' server has died since it was started."""
    crashes = devices.crashes() if devices else 0
    if crashes:
        raise HostError(
            f"the server of the emulated devices has died {crashes} time{'s' * (crashes != 1)} and was "
            "started again: the devices kept their data, but their state began anew",
            "nothing measured in this run can be trusted; its log is /run/hsp-devices/socket.log in the lab",
        )
