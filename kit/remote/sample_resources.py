"""Samples the CPUs and block devices of a host while a load runs. Runs there with the host's Python.

    python3 -I - '{"period_ns": N, "devices": {NAME: {"path": PATH, "counters": ARGV or null}},
                   "lock": [NAME...], "arcstats": [NAME...] or left out}'

Takes a sample at once, one each `period_ns`, and the last one (`end`) on SIGINT. Prints the first at once and
the others at the end, a line of JSON each:

    {"at_ns": CLOCK_MONOTONIC, "ticks": numbers of the line "cpu" of /proc/stat (proc(5)),
     "idle": of each CPU, its ticks without work and in which it waited for I/O,
     "devices": {NAME: numbers of /sys/block/X/stat (Documentation/block/stat.rst), or the error as text},
     "arc": {NAME: value} of the named counters in /proc/spl/kstat/zfs/arcstats, or the error as text}

The first line and the last also have `pid`, `cpus`, `hz` (ticks a second) and `memory_bytes` (MemTotal of
/proc/meminfo, null where it cannot be read), `counters`: what the command
of a device with a model prints, and `quiet`: devices with a model that had no I/O on its way and did none
meanwhile, so that the numbers of the kernel and of the model are of one moment.

The nodes of the devices of `lock` are locked with flock(2) before the first sample and until the last one:
udev does not read a device that is locked (systemd, "Locking Block Device Access").

Ends by itself when its parent has ended.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

SYS = "/sys/class/block"
ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
ENDS = (signal.SIGINT, signal.SIGTERM)
IN_FLIGHT = 8
TRIES = 20
TRY_S = 0.005
TELL_DEADLINE_S = 30
# How often it looks whether it is still wanted.
LOOK_S = 10.0


def disk_of(path):
    """The directory in sysfs of the whole disk at `path`."""
    name = os.path.realpath(path).replace("/dev/", "", 1).replace("/", "!")
    place = os.path.realpath(os.path.join(SYS, name))
    return os.path.dirname(place) if os.path.exists(place + "/partition") else place


def ticks():
    """The line "cpu" of /proc/stat, and the idle time of each CPU."""
    with open("/proc/stat") as file:
        rows = [line.split() for line in file if line.startswith("cpu")]
    return [int(value) for value in rows[0][1:]], [int(row[4]) + int(row[5]) for row in rows[1:]]


def memory_bytes():
    """What the kernel has for use; without what it and the firmware keep for themselves."""
    try:
        with open("/proc/meminfo") as file:
            sizes = [int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal:")]
    except (OSError, ValueError, IndexError):
        return None
    return sizes[0] if sizes else None


def numbers(disk):
    try:
        with open(disk + "/stat") as file:
            return [int(value) for value in file.read().split()]
    except (OSError, ValueError) as error:
        return str(error)


def counted(disk, argv):
    """The numbers of a device, the counters of its model (or an error as text), and whether it was quiet."""
    for _ in range(TRIES):
        before = numbers(disk)
        try:
            output = subprocess.check_output(argv, stderr=subprocess.STDOUT, timeout=TELL_DEADLINE_S)
            counters = json.loads(output.decode("utf-8", "replace"))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return before, str(error), False
        after = numbers(disk)
        if isinstance(after, list) and after == before and not after[IN_FLIGHT]:
            return after, counters, True
        time.sleep(TRY_S)
    return after, counters, False


def arc(names):
    try:
        with open(ARCSTATS) as file:
            rows = [line.split() for line in file]
        return {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[0] in names}
    except (OSError, ValueError) as error:
        return str(error)


def sample(disks, commands, names, whole):
    """One line. `whole`: with the models' counters."""
    row = {"at_ns": time.monotonic_ns() if hasattr(time, "monotonic_ns") else int(time.monotonic() * 1e9)}
    row["ticks"], row["idle"] = ticks()
    if names:
        row["arc"] = arc(names)
    if not whole:
        row["devices"] = {name: numbers(disk) for name, disk in disks.items()}
        return row
    found = {
        name: counted(disk, commands[name]) if commands[name] else (numbers(disk), None, False)
        for name, disk in disks.items()
    }
    row["devices"] = {name: each[0] for name, each in found.items()}
    row["counters"] = {name: each[1] for name, each in found.items() if each[1] is not None}
    row["quiet"] = sorted(name for name, each in found.items() if each[2])
    row.update(
        pid=os.getpid(), cpus=len(row["idle"]), hz=os.sysconf("SC_CLK_TCK"), memory_bytes=memory_bytes()
    )
    return row


def lock(path):
    """Wait for udev, which may be at it, and take the lock."""
    signal.alarm(TELL_DEADLINE_S)
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX)
    signal.alarm(0)


def awaited(due_s, parent):
    """The signal that asks for the last sample, None if it is time for another. Ends without its parent."""
    while True:
        left_s = due_s - time.monotonic()
        ended = signal.sigtimedwait(ENDS, min(max(0.0, left_s), LOOK_S))
        if os.getppid() != parent:
            sys.exit(1)
        if ended or left_s <= LOOK_S:
            return ended


def main():
    # The load comes first.
    os.nice(19)
    request = json.loads(sys.argv[1])
    disks = {name: disk_of(device["path"]) for name, device in request["devices"].items()}
    for name in request["lock"]:
        # Open until the end. Closing it wakes no udev, as it is not open for writing.
        lock(request["devices"][name]["path"])
    commands = {name: device["counters"] for name, device in request["devices"].items()}
    names = set(request.get("arcstats", ()))
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    parent = os.getppid()
    begun_s, period_s = time.monotonic(), request["period_ns"] / 1e9
    # It has begun. The others are sent at the end: to send one takes CPU time of the load.
    print(json.dumps(sample(disks, commands, names, True)), flush=True)
    rows, number, ended = [], 0, None
    while not ended:
        # A sample that is late is not made up for.
        number = max(number + 1, int((time.monotonic() - begun_s) / period_s))
        ended = awaited(begun_s + number * period_s, parent)
        rows.append(sample(disks, commands, names, bool(ended)))
    rows[-1]["end"] = True
    print("\n".join(map(json.dumps, rows)), flush=True)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)
