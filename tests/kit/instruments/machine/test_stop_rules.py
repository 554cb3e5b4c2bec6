"""Limits that stop a soak: what the program reads, and when the load has to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.config.tables.soak_table import Soak
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.local import LocalHost
from kit.instruments.base import MeasuredPhase
from kit.instruments.machine import stop_rules
from kit.instruments.machine.stop_rules import PROGRAM, StopLimit, StopRules, limits

MIB = 1 << 20
# Of the server's clock, between two readings.
PERIOD_NS = 90_500_000_000


class Server:
    """A host whose devices are as the test says."""

    name = "server"

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.at_ns = list(answers), 0

    def run(self, argv: list[str], **_: Any) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        class Result:
            stdout = json.dumps({"at_ns": self.at_ns, "devices": answer})

        self.at_ns += PERIOD_NS
        return Result()


def device(mib: int, heat: float | None = None) -> dict[str, Any]:
    return {"log0": {"written_bytes": mib * MIB, "temperature_c": heat}}


def run_program(text: str, argument: str) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-I", "-", argument]
    return subprocess.run(argv, input=text.encode(), capture_output=True, timeout=60)


def rules(monkeypatch: pytest.MonkeyPatch, limit: StopLimit, *answers: dict[str, Any]) -> StopRules:
    monkeypatch.setattr(stop_rules, "_PERIOD_S", {"real": 0.0, "virtual": 0.0})
    made = StopRules(Server(*answers), {"log0": "/dev/x"}, {"log0": limit}, Clock("real"))  # type: ignore[arg-type]
    made.begin()
    return made


def test_bytes_count_from_the_start_of_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rules(monkeypatch, StopLimit(written_bytes=8 * MIB), device(100), device(108), device(109))
    assert not made.stop()
    assert made.stop() and made.stop()


def test_the_event_says_by_how_much_a_limit_may_have_been_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rules(monkeypatch, StopLimit(written_bytes=MIB), device(0), device(1), device(4))
    assert not made.stop() and made.stop()
    measured = SimpleNamespace(experiment_ns=lambda ns: ns // 2, end_ns=10**12)
    (event,) = made.report(cast(MeasuredPhase, measured)).events
    assert event.text.endswith("its limit is 1MiB; the reading before was 45.2 s earlier")
    assert event.time_ns == PERIOD_NS


def test_heat(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rules(monkeypatch, StopLimit(temperature_c=70), device(0, 40), device(0, 70), device(0, 71))
    assert not made.stop() and made.stop()


def test_heat_that_cannot_be_read_is_refused_before_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match="no sensor"):
        rules(monkeypatch, StopLimit(temperature_c=70), device(0))


def test_a_device_that_is_gone_stops_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rules(monkeypatch, StopLimit(written_bytes=MIB), device(0), {"log0": {"error": "No such file"}})
    assert made.stop() and "could not be watched" in made._problem


def test_the_smaller_of_two_limits() -> None:
    soak = Soak(written_max="500GB", endurance_max=0.01)  # type: ignore[arg-type]
    found = limits(soak, {"log0": 10 * 10**12, "data0": None})
    assert found == {"log0": StopLimit(10**11), "data0": StopLimit(500 * 10**9)}


def test_the_program_reads_a_device_of_this_machine() -> None:
    disks = [name for name in os.listdir("/sys/block") if not name.startswith(("ram", "zram"))]
    if not disks:
        pytest.skip("no block device")
    argument = json.dumps({"a": f"/dev/{disks[0]}", "b": "/dev/none"})
    done = subprocess.run(
        [sys.executable, "-I", "-", argument], input=PROGRAM.read_bytes(), capture_output=True
    )
    value = json.loads(done.stdout)
    assert value["devices"]["a"]["written_bytes"] >= 0 and "error" in value["devices"]["b"]


def test_the_program_takes_the_hottest_sensor(tmp_path: Path) -> None:
    for number, value in enumerate(("41850", "63000")):
        sensor = tmp_path / f"sys/x/device/hwmon{number}"
        sensor.mkdir(parents=True)
        (sensor / "temp1_input").write_text(value)
    (tmp_path / "sys/x/stat").write_text(" ".join(["0"] * 6 + ["2048"] + ["0"] * 10))
    text = PROGRAM.read_text().replace('SYS = "/sys/class/block"', f'SYS = "{tmp_path}/sys"')
    done = subprocess.run(
        [sys.executable, "-I", "-", '{"a": "/dev/x"}'], input=text.encode(), capture_output=True
    )
    device = json.loads(done.stdout)["devices"]["a"]
    assert device == {"written_bytes": MIB, "temperature_c": 63.0}


def test_output_of_others_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost()
    made = StopRules(host, {"a": "/dev/none"}, {"a": StopLimit(written_bytes=1)}, Clock("real"))
    with pytest.raises(HostError, match=r"/dev/none|No such file"):
        made.begin()
