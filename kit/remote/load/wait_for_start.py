"""Delays the start of fio. Runs on a client, from fio's exec_prerun in its directory.

Creates the file `ready`, waits for the file `go` with a time (ns of the client's monotonic clock), and
then until that time.
"""

import os
import time

open("ready", "w").close()
when = ""
while not when.endswith("\n"):
    time.sleep(0.01)
    try:
        with open("go") as file:
            when = file.read()
    except FileNotFoundError:
        continue
time.sleep(max(0, int(when) - time.monotonic_ns()) / 1e9)
# fio continues when this process has ended; skip the interpreter's shutdown.
os._exit(0)
