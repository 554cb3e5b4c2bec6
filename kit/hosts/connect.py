"""Opens the host of an address."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kit.config.address import HostAddress
from kit.core.errors import ConfigError
from kit.hosts.base import Host
from kit.hosts.ssh_connect import connect
from kit.hosts.sudo import local_host
from kit.hosts.supervision import SILENCE_S, Supervision

CONNECT_DEADLINE_S = 60.0


def open_host(
    address: HostAddress, ssh_config: str | None = None, deadline_s: float = CONNECT_DEADLINE_S
) -> Host:
    """Connect to a host. Raises HostLost if that fails, HostError."""
    if address.kind == "local":
        return local_host()
    if address.kind != "ssh":
        raise ConfigError(f"'{address}' cannot be connected to directly")
    config = Path(ssh_config) if ssh_config else None
    supervision = Supervision(silence_s=_silence_s())
    return connect(address, deadline_s=deadline_s, config_path=config, supervision=supervision)


def _silence_s() -> int:
    """Seconds without a message after which a host ends its commands. Raises ConfigError.

    HSP_SILENCE_S=0 (never) is for hosts whose clock may run far ahead, such as an emulator's.
    """
    text = os.environ.get("HSP_SILENCE_S", str(SILENCE_S))
    if not re.fullmatch("[0-9]{1,6}", text):
        raise ConfigError(
            f"HSP_SILENCE_S={text!r} in the environment is not a number of seconds",
            "give seconds, such as 60; 0 means never",
        )
    return int(text)
