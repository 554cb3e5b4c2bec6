"""Processor time and memory of the tracer's process, from the files of the kernel."""

from __future__ import annotations

import pytest

from kit.observe import tracer_use
from kit.observe.tracer_use import TracerUse
from kit.trace.nfsd_tracer import TracerFiles
from tests.fakes import ScriptedHost

PLACE = TracerFiles("/run/hsp/x")
# Its name has a space and a parenthesis.
STAT = "4711 (a) b) S 1 4711 4711 0 -1 4194560 900 0 0 0 {user} {system} 0 0 20 0 2 0 1 1000 200"
ANSWERS = {
    f"cat {PLACE.ready}": "4712\n",
    "cat /proc/4712/stat": "4712 (sh) S 4711 4712 4711 0 -1 4194560 90 0 0 0 1 1 0 0 20 0 1 0 1 100 20",
    "cat /proc/4711/stat": STAT.format(user=150, system=25),
    "cat /proc/4711/status": "Name:\tbpftrace\nVmPeak:\t  999999 kB\nVmHWM:\t   92160 kB\n",
}


def test_it_is_the_parent_of_the_command_that_it_waits_for() -> None:
    found = tracer_use.read(ScriptedHost(ANSWERS), PLACE)
    assert found == TracerUse(1.75, 90 << 20)
    said = tracer_use.sentence(TracerUse(1.25, 1 << 20), found, 50)
    assert said.startswith("bpftrace used 500 ms of processor time, 1.0 % of one CPU, and 90 MiB of memory")


@pytest.mark.parametrize("gone", [f"cat {PLACE.ready}", "cat /proc/4712/stat", "cat /proc/4711/stat"])
def test_of_a_process_that_is_gone_nothing_is_said(gone: str) -> None:
    assert tracer_use.read(ScriptedHost(ANSWERS | {gone: ""}), PLACE) is None
    assert "not known" in tracer_use.sentence(TracerUse(1, 1), None, 10)
