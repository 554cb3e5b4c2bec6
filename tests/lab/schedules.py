"""Testbeds and workloads with faults and events at set times, for a host that the kit does not know."""

from __future__ import annotations

from pathlib import Path

from tests.lab.rig import Bed, Rig
from tests.lab.workloads import HEAD, JOB

MIRRORED = {"data": ("vd0", "vd1"), "log": ("vd2",)}
SOAK = """\
[pool]
data = "mirror"
[[phase]]
name = "soak"
title = "soak"
job = "write.fio"
tiers = ["slog"]
duration = "{duration}"
interval = "100ms"
"""
OFFLINE = '[[fault]]\nat = "4s"\ndevice = "log"\nwhat = "offline"\nfor = "300ms"\n'
NFSD = '[[fault]]\nat = "5s"\nwhat = "nfsd-restart"\nfor = "200ms"\n'
COMMAND = """\
[[fault]]
at = "8200ms"
what = "command"
command = "make"
for = "200ms"
"""
COMMANDS = """
[[command]]
name = "make"
run = ["mkdir", "/tmp/hsp-fault"]
undo = ["rmdir", "/tmp/hsp-fault"]
[[command]]
name = "no-way-back"
run = ["true"]
undo = ["false"]
[[command]]
name = "stop-nfsd"
run = ["rpc.nfsd", "0"]
undo = ["rpc.nfsd", "4"]
"""
EVENTS = """\
[[event]]
at = "8500ms"
what = "scrub"
[[event]]
at = "8800ms"
what = "resilver"
for = "300ms"
[[event]]
at = "9800ms"
what = "snapshots"
every = "100ms"
for = "300ms"
[[event]]
at = "10200ms"
what = "send"
"""
NO_WAY_BACK = """\
[[fault]]
at = "4s"
what = "command"
command = "no-way-back"
for = "100ms"
recover_within = "500ms"
"""
LASTS = """\
[[fault]]
at = "5s"
what = "command"
command = "stop-nfsd"
"""


def write_workload(folder: Path, duration: str, *tables: str) -> Path:
    """Few writes a second, so that the guest, whose clock skips idle time, has little to do."""
    job = JOB + "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\nrate_iops=50\n"
    folder.joinpath("write.fio").write_text(job)
    text = HEAD.format(name="small", more="", properties="") + SOAK.format(duration=duration)
    path = folder / "small.toml"
    path.write_text(text + "".join(tables))
    return path


def bed_with(commands: str, rig: Rig, folder: Path, trace: str = "") -> Bed:
    bed = Bed(rig, folder, MIRRORED, trace)
    bed.path.write_text(bed.path.read_text() + commands)
    return bed
