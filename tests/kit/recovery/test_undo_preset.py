"""The undo of a preset of a host: each file back, and only while it has the run's value."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError
from kit.recovery import undo
from kit.recovery.journal import LeftAlone
from tests.fakes import Command, ScriptedHost
from tests.kit.recovery.test_undo import IDENTITY, item

STATES = [f"/sys/devices/system/cpu/cpu{n}/cpuidle/state2/disable" for n in range(3)]


def of_states(*now: str, machine_id: str = IDENTITY[0], keeps: bool = False) -> ScriptedHost:
    """Idle states that are `now` so; "": a CPU that is not there. `keeps`: the kernel takes nothing."""
    values = {path: value for path, value in zip(STATES, now, strict=True) if value}

    def tee(command: Command) -> str:
        if not keeps:
            values.update(dict.fromkeys(command.argv[1:], command.stdin.decode().strip()))
        return ""

    boot = f"{IDENTITY[1]}\n{machine_id}\n"
    listed = {"env": lambda command: "".join(f"{p}:{v}\n" for p, v in values.items() if p in command.argv)}
    host = ScriptedHost({**listed, "tee": tee, "cat /proc/sys/kernel/random/boot_id": boot})
    host.values = values  # type: ignore[attr-defined]
    return host


def undo_states(host: ScriptedHost) -> None:
    files = [{"path": path, "value": value} for path, value in zip(STATES, ("0", "1", "0"), strict=True)]
    identity = {"machine_id": IDENTITY[0], "boot_id": IDENTITY[1]}
    undo.undo(item("preset", files=files, set="1", **identity), {"server": host}, frozenset())


@pytest.mark.parametrize("now", [("1", "1", "1"), ("0", "1", "1"), ("0", "1", "0")])
def test_each_file_of_a_preset_gets_the_value_that_it_had(now: tuple[str, str, str]) -> None:
    """Also where the run was killed while it set them; one that had the value already is not written."""
    host = of_states(*now)
    undo_states(host)
    assert list(host.values.values()) == ["0", "1", "0"]  # type: ignore[attr-defined]
    assert [path for command in host.called("tee") for path in command[1:]] == [
        path for path, value, before in zip(STATES, now, ("0", "1", "0"), strict=True) if value != before
    ]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (of_states("1", "0", "1"), "is 0, the run had set 1: somebody else has changed it since"),
        (of_states("", "1", "1"), "is not there, the run had set 1"),
        (of_states("1", "1", "1", machine_id="other"), "before this boot, or on another machine"),
        (of_states("0", "0", "0"), "had set 1: somebody else has changed it since"),
    ],
)
def test_what_is_not_the_runs_of_a_preset_is_left(host: ScriptedHost, text: str) -> None:
    before = dict(host.values)  # type: ignore[attr-defined]
    with pytest.raises(LeftAlone, match=text):
        undo_states(host)
    own = {STATES[0], STATES[2]} if "machine" not in text else set()
    now = host.values  # type: ignore[attr-defined]
    assert now == {path: "0" if path in own and value == "1" else value for path, value in before.items()}


def test_a_kernel_that_takes_nothing_back_is_an_error_and_the_undo_stays() -> None:
    with pytest.raises(HostError, match=rf"{STATES[0]} was set to 0 but is 1, and 1 more files"):
        undo_states(of_states("1", "1", "1", keeps=True))
