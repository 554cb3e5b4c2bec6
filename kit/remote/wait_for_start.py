"""Runs on a client, from fio's exec_prerun in its directory: wait until it is time to start.

Says `ready`, waits for the file `go` with a time (ns of this machine's monotonic clock), and then for
that time. Standard library only.
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
# fio goes on when this process is gone: not after an interpreter has been taken down in order.
os._exit(0)
