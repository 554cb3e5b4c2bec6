"""Limits of a soak that stop its load: bytes written to a device, and its temperature.

The load ends early; what was measured until then is good, and the result says why it is shorter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kit.config.tables.soak_table import Soak
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.text import json_value
from kit.core.units import format_size_bytes
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.machine.wear import PROGRAM, SOURCE, command
from kit.store.phase import STOP_RULE, Event

# How often the devices are read. A virtual clock runs ahead of this machine's.
_PERIOD_S = {"virtual": 3.0, "real": 30.0}
_DEADLINE_S = 60.0


@dataclass(frozen=True)
class StopLimit:
    """Of one device; None: no limit."""

    written_bytes: int | None = None
    temperature_c: float | None = None


def limits(soak: Soak, endurance_bytes: Mapping[str, int | None]) -> dict[str, StopLimit]:
    """By device: `endurance_bytes` has each, and what may be written in its life, None where not known."""
    found = {}
    for name, endurance in endurance_bytes.items():
        written = [soak.written_max] if soak.written_max is not None else []
        if soak.endurance_max is not None and endurance is not None:
            written.append(int(soak.endurance_max * endurance))
        found[name] = StopLimit(min(written, default=None), soak.temperature_max)
    return found


class StopRules(Instrument):
    """`limits` and `paths` (of the server) by device."""

    code = "stop-rules"

    def __init__(
        self, server: Host, paths: Mapping[str, str], limits: Mapping[str, StopLimit], clock: Clock
    ) -> None:
        self._server, self._paths, self._limits = server, paths, limits
        self._period_s = _PERIOD_S[clock.kind]
        self._before: dict[str, int] = {}
        self._next_s = 0.0
        # On the server's clock: of the last reading, and of that before it.
        self._read_ns = self._before_ns = 0
        self._stopped: tuple[int, str] | None = None
        self._problem = ""

    def begin(self) -> None:
        """Raises HostError for a device whose limit could not be watched."""
        self._read_ns, devices = self._read()
        for name, limit in self._limits.items():
            if limit.temperature_c is not None and devices[name]["temperature_c"] is None:
                raise HostError(
                    f"{self._server.name}: {name} has a temperature_max, and no sensor in sysfs (hwmon)",
                    "load the module drivetemp (SATA disks) or nvme's hwmon, or remove soak.temperature_max",
                )
        self._before = {name: int(device["written_bytes"] or 0) for name, device in devices.items()}
        self._next_s = time.monotonic() + self._period_s

    def stop(self) -> bool:
        """Whether a device is over its limit; it is looked at now and then."""
        if self._stopped is None and not self._problem and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + self._period_s
            try:
                at_ns, devices = self._read()
                self._before_ns, self._read_ns = self._read_ns, at_ns
            except HostError as error:
                self._problem = f"the limits of the soak could not be watched: {error.message}"
                return True
            over = [text for name, device in devices.items() if (text := self._over(name, device))]
            if over:
                self._stopped = at_ns, "; ".join(over)
        return self._stopped is not None or bool(self._problem)

    def _over(self, name: str, device: Mapping[str, float | None]) -> str:
        """Why the load has to stop; "" if it has not."""
        limit = self._limits[name]
        written = int(device["written_bytes"] or 0) - self._before[name]
        if limit.written_bytes is not None and written > limit.written_bytes:
            return (
                f"{name} got {format_size_bytes(written)}, its limit is "
                f"{format_size_bytes(limit.written_bytes)}"
            )
        heat = device["temperature_c"]
        if limit.temperature_c is not None and heat is not None and heat > limit.temperature_c:
            return f"{name} is at {heat:g} degrees Celsius, its limit is {limit.temperature_c:g}"
        return ""

    def _read(self) -> tuple[int, dict[str, dict[str, float | None]]]:
        """When, on the server's monotonic clock (ns), and each device. Raises HostError."""
        output = self._server.run(
            command(self._paths), stdin=PROGRAM.read_bytes(), deadline_s=_DEADLINE_S
        ).stdout
        try:
            value = json_value(output)
            devices = {name: value["devices"][name] for name in self._paths}
            errors = [f"{name}: {each['error']}" for name, each in devices.items() if "error" in each]
            at_ns = int(value["at_ns"])
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"{self._server.name}: {SOURCE} printed {output[:200]!r}") from error
        if errors:
            raise HostError(f"{self._server.name}: {'; '.join(errors)[:300]}", "is the device still there?")
        return at_ns, devices

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        events = []
        if self._stopped:
            at_ns, text = self._stopped
            time_ns = min(measured.experiment_ns(at_ns), measured.end_ns)
            # A virtual clock may have run far meanwhile: by so much the limit may have been passed.
            apart_s = (measured.experiment_ns(at_ns) - measured.experiment_ns(self._before_ns)) / 1e9
            text = f"stopped by its limits: {text}; the reading before was {apart_s:.1f} s earlier"
            events.append(Event(time_ns=time_ns, kind=STOP_RULE, text=text))
        return InstrumentReport(events=events, problems=[self._problem] if self._problem else [])
