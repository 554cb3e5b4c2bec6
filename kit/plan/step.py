"""A step of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kit.hosts.base import Command
from kit.hosts.identity import HostIdentity
from kit.recovery.action import Action

# In a plan: what only the host itself says.
ANY_HOST = HostIdentity("", "")


@dataclass(frozen=True)
class Step:
    """One thing that a run does. `name`: the journal's; `host`: a key such as "server" or "client0".

    `undo` is registered before the commands run; `details` go into the journal as well.
    """

    name: str
    host: str
    commands: tuple[Command, ...] = ()
    undo: Action | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
