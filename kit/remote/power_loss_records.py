"""Writes and reads the records of a power loss. Runs on client and server with their Python.

    write FILE SLOTS ACKNOWLEDGED     write records with O_DSYNC until SIGINT
    read FILE SLOTS                   print the number in each slot, 0 for none, as one JSON line

A record has 512 bytes: its number, the complement of the number, and padding. Record N is in slot
N % SLOTS. Each completed write is one line of ACKNOWLEDGED: number, CLOCK_MONOTONIC in ns.
"""

import json
import os
import signal
import struct
import sys
import time

RECORD_BYTES = 512
HEAD = struct.Struct("<8sQQ")
MAGIC = b"hspslot1"


def record(number: int) -> bytes:
    return HEAD.pack(MAGIC, number, ~number & (1 << 64) - 1).ljust(RECORD_BYTES, b"\x5a")


def number_of(raw: bytes) -> int:
    """The number of a complete record; 0 for a slot without one."""
    if len(raw) < HEAD.size:
        return 0
    number = HEAD.unpack_from(raw)[1]
    return number if raw == record(number) else 0


def write(path: str, slots: int, log_path: str) -> None:
    stop = []
    signal.signal(signal.SIGINT, lambda *_: stop.append(True))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o644)
    number = 0
    with open(log_path, "w", buffering=1) as log:
        while not stop:
            number += 1
            written = os.pwrite(file, record(number), number % slots * RECORD_BYTES)
            if written != RECORD_BYTES:
                sys.exit(f"{path}: a write of {RECORD_BYTES} bytes wrote {written}")
            log.write(f"{number} {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n")
    os.close(file)


def read(path: str, slots: int) -> None:
    numbers = []
    if os.path.exists(path):
        with open(path, "rb") as file:
            numbers = [number_of(file.read(RECORD_BYTES)) for _ in range(slots)]
    print(json.dumps(numbers))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        read(sys.argv[2], int(sys.argv[3]))
