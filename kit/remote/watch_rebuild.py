"""Watches L2ARCs being read in again after an import. Runs on the server, with the host's Python.

    python3 -I - DEVICES

Prints a line of JSON at once, and one when DEVICES cache devices have been read or could not be, on SIGTERM
or SIGINT, or when its parent has ended:

    {"at_ns": CLOCK_MONOTONIC, "arc": {NAME: value} of the l2_rebuild_* in /proc/spl/kstat/zfs/arcstats}
"""

import json
import os
import signal
import sys
import time

ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
ENDS = (signal.SIGINT, signal.SIGTERM)
# It is an answer to within so much; it delays nothing.
PERIOD_S = 0.05
# How a device ends: l2arc_rebuild() and l2arc_dev_hdr_read() of OpenZFS (module/zfs/arc.c).
OVER = ("success", "unsupported", "io_errors", "dh_errors", "lowmem")


def sample():
    with open(ARCSTATS) as file:
        rows = [line.split() for line in file]
    at_ns = int(time.monotonic() * 1e9)
    return at_ns, {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[0].startswith("l2_rebuild_")}


def say(at_ns, counters):
    print(json.dumps({"at_ns": at_ns, "arc": counters}), flush=True)


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    parent, (at_ns, first), ended = os.getppid(), sample(), 0
    now = first
    say(at_ns, first)
    while os.getppid() == parent:
        at_ns, now = sample()
        ended = sum(now.get("l2_rebuild_" + name, 0) - first.get("l2_rebuild_" + name, 0) for name in OVER)
        if ended >= int(sys.argv[1]) or signal.sigtimedwait(ENDS, PERIOD_S):
            break
    say(*sample() if ended < int(sys.argv[1]) else (at_ns, now))


main()
