"""Writes and reads the records of a power loss. Runs on client and server with their Python (3.7 or later).

    write LAYOUT ACKNOWLEDGED     write records until SIGINT, each worker a thread
    read LAYOUT...                print what is in each slot, as one JSON line for each layout

LAYOUT is JSON: path, tag (run << 16 | number of the power loss), slots, workers: [[offset, bytes], ...],
durable (O_DSYNC), direct (O_DIRECT), device: MAJOR:MINOR:SEQUENCE that path must lead to, or empty, fresh
(read with O_DIRECT: of NFS, where any place and memory will do). Record N of a worker is in its slot
N % slots.
Each completed write is one line of ACKNOWLEDGED: worker, number, CLOCK_MONOTONIC in ns.

A record is its head (magic, tag, worker, bytes, number) and the SHAKE-128 of the head: it cannot be
compressed, differs in each record, and is its own checksum.

What is in a slot: [0] nothing but zeroes; [1, tag, worker, number] a whole record; [2] parts of several
contents; [3] something else; [4] cannot be read. A slot's record of another place is [3].
"""

import fcntl
import hashlib
import json
import mmap
import os
import signal
import struct
import sys
import threading
import time

BLKGETDISKSEQ = 0x80081280
HEAD = struct.Struct("<8sQIIQ")
MAGIC = b"hspslot2"
SECTOR = 512
NOTHING, WHOLE, TORN, FOREIGN, UNREADABLE = range(5)


def record(tag, worker, size, number):
    head = HEAD.pack(MAGIC, tag, worker, size, number)
    return head + hashlib.shake_128(head).digest(size - HEAD.size)


def content_of(raw, tag, worker, slot, slots):
    """What is in a slot, as the list that `read` prints."""
    if not any(raw):
        return [NOTHING]
    magic, found, by, size, number = HEAD.unpack_from(raw)
    of_run = found >> 16 == tag >> 16
    if magic == MAGIC and size == len(raw) and raw == record(found, by, size, number):
        in_place = of_run and by == worker and number % slots == slot
        return [WHOLE, found, by, number] if in_place else [FOREIGN]
    begun = magic == MAGIC and of_run and by == worker
    # A new record over zeroes, of which the first sector is missing.
    ended = not any(raw[:SECTOR])
    return [TORN] if begun or ended else [FOREIGN]


def flags_of(layout):
    flags = os.O_DSYNC if layout["durable"] else 0
    return flags | (os.O_DIRECT if layout["direct"] else 0)


def opened(layout, flags):
    """A descriptor; of a device only if it is the one that was checked. SEQUENCE: see open_device.py."""
    file = os.open(layout["path"], flags)
    if layout.get("device"):
        number, _, sequence = layout["device"].rpartition(":")
        status = os.fstat(file)
        found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        known = fcntl.ioctl(file, BLKGETDISKSEQ, bytes(8)) if sequence and found == number else b""
        if found != number or (sequence and struct.unpack("Q", known)[0] != int(sequence)):
            raise SystemExit(layout["path"] + " leads to another device now: it was not touched")
    return file


class Writer:
    """All workers. `failure`: what ended one of them early.

    `write_at`: writes for a worker, bytes at an offset, and returns how many; None: to the path.
    """

    def __init__(self, layout, log, write_at=None):
        self.layout, self.log, self.failure, self.stopped = layout, log, "", False
        if write_at is None:
            # Never O_CREAT: where a device is gone, its path must not become a file.
            file = opened(layout, os.O_WRONLY | flags_of(layout))

            def write_at(_, view, offset):
                return os.pwrite(file, view, offset)

        self.write_at = write_at

    def work(self, worker):
        offset, size = self.layout["workers"][worker]
        # O_DIRECT wants memory on a page boundary.
        buffer = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        view = memoryview(buffer)[:size]
        slots, tag, number = self.layout["slots"], self.layout["tag"], 0
        try:
            while not self.stopped:
                number += 1
                view[:] = record(tag, worker, size, number)
                written = self.write_at(worker, view, offset + number % slots * size)
                at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                if written != size:
                    raise OSError(0, f"a write of {size} bytes wrote {written}")
                os.write(self.log, b"%d %d %d\n" % (worker, number, at_ns))
        except OSError as error:
            # The power is gone: what was acknowledged before is in the list.
            self.failure = self.failure or str(error)
            self.stopped = True


def write(layout, log_path, write_at=None):
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    writer = Writer(layout, log, write_at)
    signal.signal(signal.SIGINT, lambda *_: setattr(writer, "stopped", True))
    threads = [
        threading.Thread(target=writer.work, args=(worker,), daemon=True)
        for worker in range(len(layout["workers"]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.05)
    print(json.dumps({"failure": writer.failure}))


def content_at(file, place, size):
    """`size` bytes, with zeroes after the end of a file; None for what cannot be read."""
    try:
        file.seek(place)
        raw = file.read(size)
    except OSError:
        return None
    return raw + bytes(size - len(raw))


def read(layout):
    slots, found = layout["slots"], []
    if not os.path.exists(layout["path"]):
        print(json.dumps([[[UNREADABLE]] * slots for _ in layout["workers"]]))
        return
    flags = os.O_RDONLY | (os.O_DIRECT if layout.get("fresh") else 0)
    with os.fdopen(opened(layout, flags), "rb", buffering=0) as file:
        for worker, (offset, size) in enumerate(layout["workers"]):
            listed = []
            for slot in range(slots):
                raw = content_at(file, offset + slot * size, size)
                listed.append(
                    [UNREADABLE] if raw is None else content_of(raw, layout["tag"], worker, slot, slots)
                )
            found.append(listed)
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(json.loads(sys.argv[2]), sys.argv[3])
    else:
        for text in sys.argv[2:]:
            read(json.loads(text))
