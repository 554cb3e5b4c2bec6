"""Where a run happens: hosts that are connected and devices that are there.

What made it (the lab, or SSH) is not visible from here on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from kit.config.testbed import client_key
from kit.core.clock import Clock
from kit.devices.check import Guard
from kit.hosts.base import Host
from kit.hosts.wrapped import RecordedHost, Recorder
from kit.instruments.fault_events import FaultSource

if TYPE_CHECKING:
    from kit.config.tables.precondition_table import Precondition
    from kit.precondition.device import Preconditioned
    from kit.precondition.stage import Target


@dataclass(frozen=True)
class SiteClient:
    """A client, its address as the server sees it, and the server's as the client sees it.

    Both addresses are "" where the server is an appliance.
    """

    host: Host
    address: str
    server_address: str


class Devices(FaultSource, Protocol):
    """Devices that are emulated: what only those can do. Times are of the server's monotonic clock."""

    def mark(self) -> int:
        """Remember what a power loss of all devices now would leave; returns the time (ns)."""
        ...

    def restore(self) -> None:
        """Make the devices what the power loss at the mark left. They must not be in use."""
        ...

    def power_losses(self) -> dict[str, int]:
        """How often each has lost its power, by name. Raises HostError."""
        ...

    def counters_command(self, name: str) -> list[str] | None:
        """argv that prints the counters of the device's model as JSON; None for a device that has none."""
        ...

    def throttle_command(self, name: str) -> list[str] | None:
        """The same, of a device whose model throttles; None for another one."""
        ...


class AgedDevices(Protocol):
    """Emulated devices whose aged state is kept between runs."""

    def restore(self, target: Target, settings: Precondition) -> Preconditioned | None:
        """Give the device the state that an earlier run aged it to, if one is kept. Raises HostError."""
        ...

    def keep(self, target: Target, settings: Precondition, outcome: Preconditioned, run: str) -> None:
        """Keep what `run` has done to the device. Raises HostError."""
        ...


@dataclass(frozen=True)
class Site:
    """A testbed that is up. `server`: None for an appliance.

    `device_paths` by device name; `guard` is there where devices are real.
    """

    clients: tuple[SiteClient, ...]
    clock: Clock
    emulated: bool
    server: Host | None = None
    device_paths: dict[str, str] = field(default_factory=dict)
    devices: Devices | None = None
    guard: Guard | None = None
    aged: AgedDevices | None = None
    # What is random in the run comes from it; replayed with --seed.
    seed: int = 0
    # The user has agreed that settings of all pools are changed although others are imported.
    beside_other_pools: bool = False
    # And that other pools lose their power with the server.
    cut_other_pools: bool = False
    # By device name: what a real device is recognised by, for the manifest.
    identities: dict[str, dict[str, str | int]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    # Where [power] of the testbed has its commands run, if not on the server: this machine.
    controller: Host | None = None
    # Waits, at most so many seconds, until the server is up again after a power loss. Raises HostError.
    reopen: Callable[[float], None] | None = None
    # Why all that lived there is gone ("" if it is not); None where hosts outlive a run.
    gone: Callable[[], str] | None = None

    @property
    def hosts(self) -> dict[str, Host]:
        """By the keys that a journal calls them: "server", "client0", "client1"..."""
        clients = {client_key(n): client.host for n, client in enumerate(self.clients)}
        return {"server": self.server, **clients} if self.server else clients

    @property
    def reference(self) -> Host:
        """The host whose monotonic clock is the run's time axis."""
        return self.server or self.clients[0].host


def recorded_site(site: Site, recorder: Recorder) -> Site:
    """The site, with hosts that write down what they are asked to do."""
    clients = tuple(replace(client, host=RecordedHost(client.host, recorder)) for client in site.clients)
    server = RecordedHost(site.server, recorder) if site.server else None
    controller = RecordedHost(site.controller, recorder) if site.controller else None
    return replace(site, server=server, clients=clients, controller=controller)
