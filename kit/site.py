"""Where a run happens: hosts that are connected and devices that are there.

What made it (the lab, or SSH) is not visible from here on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.clock import Clock
from kit.hosts.base import Host


@dataclass(frozen=True)
class SiteClient:
    """A client, its address as the server sees it, and the server's as the client sees it."""

    host: Host
    address: str
    server_address: str


@dataclass(frozen=True)
class Site:
    """A testbed that is up."""

    server: Host
    clients: tuple[SiteClient, ...]
    device_paths: dict[str, str]
    clock: Clock
    emulated: bool
    versions: dict[str, str] = field(default_factory=dict)
