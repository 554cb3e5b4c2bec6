"""Commands of the user's own that a fault runs by name: `[[command]]` of a testbed.

[[command]]
name = "failover"
run = ["pdu", "off", "3"]
undo = ["pdu", "on", "3"]
"""

from __future__ import annotations

from typing import Annotated

from kit.config.tables.setting_table import Argv, SettingName
from kit.config.toml import STORED_IF_SET, Table


class OwnCommand(Table):
    """Run on the server (of an appliance: on the first client), without a shell, as the user who logs in."""

    name: SettingName
    run: Argv
    # What ends what `run` began.
    undo: Annotated[Argv | None, STORED_IF_SET] = None
