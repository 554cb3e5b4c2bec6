"""Runs in the guest during a phase: waits for its load, looks for listeners, kills one client's fio.

Arguments: the client's number, the phase. Prints what `ss` says in each client's network, as JSON.
"""

import json
import os
import signal
import subprocess
import sys
import time

number, phase = sys.argv[1:]


def servers():
    """Processes of the client's fio, by their directory."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd").endswith(f"/fio{number}-{phase}"):
                found.append(int(entry))
        except OSError:
            continue
    return found


def start_ns():
    """When the load starts, once the kit has said it."""
    for pid in servers():
        try:
            with open(f"/proc/{pid}/cwd/go") as file:
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
for pid in servers():
    os.kill(pid, signal.SIGKILL)
print(json.dumps(listeners))
