"""Finds processes of a run, and ends those of a killed hsp. Runs on a host with its Python (3.7 or later).

    python3 -I -c TEXT end MARK     waits for the end of its input. If that is not "done", ends every process
                                    with MARK in its environment, and all that these have started
    python3 -I - list REQUEST       prints as JSON [[process, its name, what shows that it is the run's]...]

REQUEST is JSON: `names` of the run, of which an argument or a variable HSP_... has one; `directory`, in which
it has a file open or mapped, or works; `devices`: paths of those that it has open or mapped. The programs
that lead to this one are left out, and those with a word of `but` in an argument.
"""

import glob
import json
import os
import signal
import stat
import subprocess
import sys
import time

# From TERM to KILL.
GRACE_S = 0.8
POLL_S = 0.05
# What waits in the kernel for a disk cannot be killed before that answers.
LONGEST_S = 60.0


def content(pid, name):
    """A file of a process in bytes; nothing if it has ended, or belongs to somebody else."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1 << 22)
    except OSError:
        return b""


def status(pid):
    """Parent and start of a living process, else None. proc_pid_stat(5): the name may contain anything."""
    words = content(pid, "stat").rpartition(b") ")[2].split()
    if len(words) < 20 or words[0] in (b"Z", b"X"):
        return None
    return int(words[1]), int(words[19])


def living():
    """(parent, start) of each process."""
    found = {int(name): status(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: each for pid, each in found.items() if each}


def marked(mark, known):
    """Process and start of those with the mark, of `known` that still live, and of all that these started."""
    alive = living()
    found = {
        pid
        for pid, (_, start) in alive.items()
        if (pid, start) in known or mark in content(pid, "environ").split(b"\0")
    }
    more = found
    while more:
        more = {pid for pid, (parent, _) in alive.items() if parent in found} - found
        found |= more
    return {(pid, alive[pid][1]) for pid in found - {os.getpid()}}


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        # Of root, which sudo has started.
        words = ["sudo", "-n", "--", "kill", "-s", str(int(number)), "--", str(pid)]
        subprocess.call(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(mark):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read().strip() == b"done":
        return
    begun, known, told, empty = time.monotonic(), set(), set(), 0
    # A second look finds what was just being started.
    while empty < 2 and time.monotonic() - begun < LONGEST_S:
        known = marked(mark.encode(), known)
        empty = 0 if known else empty + 1
        late = time.monotonic() - begun > GRACE_S
        for process in known:
            if late or process not in told:
                send(process[0], signal.SIGKILL if late else signal.SIGTERM)
        told |= known
        time.sleep(POLL_S)


def leading():
    """This process, and those that have started it."""
    found, pid = set(), os.getpid()
    while pid > 1:
        found.add(pid)
        now = status(pid)
        pid = now[0] if now else 0
    return found


def numbers_of(paths):
    """Device numbers of disks and their partitions, with a path of each."""
    numbers = {}
    for path in paths:
        try:
            number = os.stat(path).st_rdev
        except OSError:
            continue
        numbers[number] = path
        for place in glob.glob(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/*/dev"):
            with open(place) as file:
                major, minor = file.read().split(":")
            numbers[os.makedev(int(major), int(minor))] = path
    return numbers


def open_file(pid, request, numbers):
    """A file of the run that a process has open or mapped, or ""."""
    # A mapped file may be closed.
    links = [f"/proc/{pid}/cwd", *glob.glob(f"/proc/{pid}/fd/*"), *glob.glob(f"/proc/{pid}/map_files/*")]
    for link in links:
        try:
            target = os.readlink(link)
            if target == request["directory"] or target.startswith(request["directory"] + "/"):
                return target
            # Other files may be of a server that does not answer.
            if numbers and target.startswith("/dev/"):
                found = os.stat(link)
                if stat.S_ISBLK(found.st_mode) and found.st_rdev in numbers:
                    return numbers[found.st_rdev]
        except OSError:
            continue
    return ""


def sign(pid, request, numbers):
    """What shows that a process is the run's, or ""."""
    arguments = content(pid, "cmdline").split(b"\0")
    if any(left_out.encode() in word for word in arguments for left_out in request["but"]):
        return ""
    words = arguments + [word for word in content(pid, "environ").split(b"\0") if word.startswith(b"HSP_")]
    for name in request["names"]:
        if any(name.encode() in word for word in words):
            return f"its command names {name}"
    place = open_file(pid, request, numbers)
    return f"it has {place} open" if place else ""


def list_processes(request):
    numbers, own = numbers_of(request["devices"]), leading()
    found = []
    for pid in sorted(living()):
        why = "" if pid in own else sign(pid, request, numbers)
        if why:
            found.append([pid, content(pid, "comm").decode("utf-8", "replace").strip(), why])
    return found


if __name__ == "__main__":
    if sys.argv[1] == "end":
        end(sys.argv[2])
    else:
        print(json.dumps(list_processes(json.loads(sys.argv[2]))))
