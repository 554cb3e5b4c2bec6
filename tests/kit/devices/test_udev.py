"""kit.devices.udev: a timeout is asked about again, any other failure is raised at once."""

from __future__ import annotations

import pytest

from kit.devices.udev import settle
from kit.hosts.base import CommandFailed
from tests.fakes import ScriptedHost

TIMED_OUT = (1, "", "Timed out while waiting for udev queue to empty.")


def test_a_timeout_is_asked_about_again() -> None:
    host = ScriptedHost({"udevadm settle": [TIMED_OUT, TIMED_OUT, ""]})
    settle(host)
    assert len(host.called("udevadm", "settle")) == 3


@pytest.mark.parametrize("answer", [TIMED_OUT, (127, "", "udevadm: not found")])
def test_what_never_ends_well_is_raised(answer: tuple[int, str, str]) -> None:
    host = ScriptedHost({"udevadm settle": answer})
    with pytest.raises(CommandFailed, match=answer[2]):
        settle(host)
    assert len(host.calls) == (3 if answer is TIMED_OUT else 1)
    settle(host, check=False)
