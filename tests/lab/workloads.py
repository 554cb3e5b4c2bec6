"""Small workloads for the fault tests: nothing large has to be filled."""

from __future__ import annotations

from pathlib import Path

# A workload in one small file, without the lines of its own.
_HEAD = """\
format = 1
name = "{name}"
title = "{name}"
{more}[dataset]
properties = {{ recordsize = RECORDSIZE, compression = "off"{properties} }}
[nfs]
options = ["hard", "nolock"]
[precondition]
method = "none"
[working_set]
file = "working-set"
size = "SIZE"
"""


HEAD = _HEAD.replace("RECORDSIZE", "512").replace("SIZE", "1MiB")


def head(name: str, recordsize: str, size: str = "1MiB", more: str = "", properties: str = "") -> str:
    """HEAD, filled in, with another size of records and of the working set."""
    text = _HEAD.replace("RECORDSIZE", f'"{recordsize}"').replace("SIZE", size)
    return text.format(name=name, more=more, properties=properties)


# Reads of both disks of a mirror, of which the ARC keeps no data.
UNCACHED = ', primarycache = "metadata", atime = "off"'
TUNED = """\
[tunables]
zfs_arc_max = "64MiB"
zfs_prefetch_disable = 1
"""
OF_MIRROR = f"""\
{TUNED}[pool]
data = "mirror"
"""
READ_PHASE = """\
[[phase]]
name = "read"
title = "reads"
job = "read.fio"
tiers = ["disk"]
duration = "1s"
interval = "100ms"
"""
_PHASE = """\
[[phase]]
name = "{name}"
title = "{name}"
job = "{job}.fio"
tiers = ["{tier}"]
duration = "{duration}"
interval = "50ms"
"""

JOB = """\
[job]
ioengine=psync
bs=512
direct=1
directory=${HSP_DIRECTORY}
filename=working-set
norandommap
time_based
runtime=${HSP_RUNTIME}
"""


def write_small(directory: Path, *phases: tuple[str, str, str]) -> Path:
    """A workload file with phases (name, job, duration); job `broken` cannot start in fio."""
    # Reads of what was just filled: DRAM answers each. fio refuses a file that is smaller than one block.
    for job, options in (
        ("read", "rw=randread\nsize=${HSP_SIZE}\n"),
        ("write", "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\n"),
        ("broken", "rw=randwrite\nsync=dsync\nsize=100\n"),
    ):
        directory.joinpath(f"{job}.fio").write_text(JOB + options)
    text = HEAD.format(name="small", more='reference = "sun-7410-2009"\n', properties="") + "".join(
        _PHASE.format(name=name, job=job, duration=duration, tier="dram" if job == "read" else "slog")
        for name, job, duration in phases
    )
    path = directory / "small.toml"
    path.write_text(text)
    return path


_TESTBED = """\
name = "small"
[server]
host = "lab"
{trace}
{clients}
[lab]
clock = "virtual"
dilation = 4
memory = "{memory}"
[[device]]
name = "{prefix}data"
role = "data"
size = "128MiB"
model = "null_blk"
latency = "{data}"
[[device]]
name = "{prefix}log"
role = "log"
size = "64MiB"
model = "null_blk"
latency = "{log}"
"""


def write_testbed(
    directory: Path,
    clients: int = 1,
    *,
    memory: str = "2GiB",
    prefix: str = "",
    data: str = "200us",
    log: str = "60us",
    trace: str = "auto",
) -> Path:
    """A testbed with so many clients, and two devices that are made in no time (names, latencies).

    Its guest is the one that other tests have saved: another size of memory is another guest to boot.
    """
    path = directory / "testbed.toml"
    values = {"memory": memory, "prefix": prefix, "data": data, "log": log, "trace": f'trace = "{trace}"'}
    path.write_text(_TESTBED.format(clients='[[client]]\nhost = "lab"\n' * clients, **values))
    return path


def write_device_phases(directory: Path) -> Path:
    """A workload whose phases write to bare log devices, each in turn and all together."""
    text = 'format = 1\nname = "devices"\ntitle = "Devices"\nprecondition = "none"\n'
    phase = '[[phase]]\nname = "{name}"\ntitle = "{name}"\ntarget = "device:log"\njob = "device.fio"\n'
    times = 'duration = "300ms"\ninterval = "50ms"\n'
    text += phase.format(name="write") + times
    text += phase.format(name="all") + 'each = "together"\n' + times
    options = "rw=write\nbs=64k\nsize=${HSP_SIZE}\n"
    job = JOB.replace("directory=${HSP_DIRECTORY}\nfilename=working-set", "filename=${HSP_DEVICE}")
    directory.joinpath("device.fio").write_text(job.replace("bs=512\n", "") + options)
    path = directory / "devices.toml"
    path.write_text(text)
    return path
