"""kit.devices.wipe: the commands of a wipe are shown, and force nothing."""

from __future__ import annotations

import pytest

from kit.core.errors import SafetyRefusal
from kit.devices.wipe import plan_wipe
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded, spec_of


def test_the_wipe_is_shown_and_never_forced() -> None:
    planned = plan_wipe(ScriptedHost(default=recorded("pools")), spec_of("vd5"))
    last = [argv[-1] for argv in planned.commands]
    assert last[-1] == "/dev/vdh" and "/dev/vdh1" in last
    tools = [word for argv in planned.commands for word in argv if word in ("wipefs", "labelclear", "zpool")]
    assert tools == ["zpool", "labelclear", "wipefs", "wipefs"]
    assert not {"-f", "--force", "-ff"} & {word for argv in planned.commands for word in argv}
    assert "zfs_member" in planned.describe() and "wipefs --all --lock" in planned.describe()
    for disk in ("vd0", "vd4", "sd1", "ns1"):
        with pytest.raises(SafetyRefusal):
            plan_wipe(ScriptedHost(default=recorded("pools")), spec_of(disk))
