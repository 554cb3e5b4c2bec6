"""Runs in the guest during a phase: waits for its load, looks for listeners, kills one client's fio.

Arguments: the client's number, the phase. Prints what `ss` says in each client's network, as JSON.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

number, phase = sys.argv[1:]


def fios():
    """The client's fio: process and directory, by its job file."""
    found = []
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            words = open(f"{entry}/cmdline").read().split("\0")
            jobs = [word for word in words if word.endswith(f"/fio{number}-{phase}/job.fio")]
            if jobs and os.path.basename(os.readlink(f"{entry}/exe")) == "fio":
                # A client has mounts of its own.
                found.append((int(os.path.basename(entry)), f"{entry}/root{os.path.dirname(jobs[0])}"))
        except OSError:
            continue
    return found


def start_ns():
    """When the load starts, once the kit has said it."""
    for _, directory in fios():
        try:
            with open(f"{directory}/go") as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return None


start = None
while start is None:
    time.sleep(0.5)
    start = start_ns()
time.sleep(max(0, start - time.monotonic_ns()) / 1e9 + 1)
listeners = {}
for client in os.listdir("/run/netns"):
    command = ["ip", "netns", "exec", client, "ss", "-Hltnp"]
    listeners[client] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
for pid, _ in fios():
    os.kill(pid, signal.SIGKILL)
print(json.dumps(listeners))
