"""From an address to a host that commands can be run on."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kit.config.address import HostAddress
from kit.core.errors import ConfigError
from kit.hosts.base import Host
from kit.hosts.ssh_connect import connect
from kit.hosts.sudo import here
from kit.hosts.supervision import SILENCE_S, Supervision

CONNECT_DEADLINE_S = 60.0


def open_host(
    address: HostAddress, ssh_config: str | None = None, deadline_s: float = CONNECT_DEADLINE_S
) -> Host:
    """A host that commands can be run on. Raises HostError (HostLost) if it cannot be reached."""
    if address.kind == "local":
        return here()
    if address.kind != "ssh":
        raise ConfigError(f"'{address}' is not a host that can be reached by itself")
    config = Path(ssh_config) if ssh_config else None
    supervision = Supervision(silence_s=_silence_s())
    return connect(address, deadline_s=deadline_s, config_path=config, supervision=supervision)


def _silence_s() -> int:
    """How long a host hears nothing before it ends what runs there. Raises ConfigError.

    HSP_SILENCE_S=0 is for hosts whose clock is not ours (an emulator's may run far ahead): for ever.
    """
    text = os.environ.get("HSP_SILENCE_S", str(SILENCE_S))
    if not re.fullmatch("[0-9]{1,6}", text):
        raise ConfigError(
            f"HSP_SILENCE_S={text!r} in the environment is no number of seconds",
            "give seconds, such as 60; 0 is for ever",
        )
    return int(text)
