"""Adds or removes a partition that only the kernel knows, with the BLKPG ioctl. Runs on the server.

    python3 -I - add DEVICE START_BYTES SIZE_BYTES
    python3 -I - del DEVICE START_BYTES SIZE_BYTES

`del` removes partition 1. If it has another start or size, it stays: these are printed, the exit code is 3.

Source: include/uapi/linux/blkpg.h (addpart(8) does the same, but is often not installed).
"""

import ctypes
import fcntl
import glob
import os
import struct
import sys

_BLKPG, _ADD, _DEL = 0x1269, 1, 2
OTHER = 3
# struct blkpg_partition: start and length in bytes, number, two names. struct blkpg_ioctl_arg: operation,
# flags, size of the data, their address.
_PARTITION, _REQUEST = struct.Struct("qqi128x0q"), struct.Struct("iiiP")


def read(path):
    with open(path) as file:
        return file.read().strip()


def first_partition(handle):
    """Start and size of partition 1 in bytes, None without one."""
    number = os.fstat(handle).st_rdev
    places = glob.glob(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/*/partition")
    for folder in map(os.path.dirname, places):
        if read(folder + "/partition") == "1":
            # The kernel counts in units of 512 bytes, whatever the sectors are.
            return int(read(folder + "/start")) * 512, int(read(folder + "/size")) * 512
    return None


def main(verb: str, device: str, start: str, size: str) -> int:
    data = ctypes.create_string_buffer(_PARTITION.pack(int(start), int(size), 1), _PARTITION.size)
    op = {"add": _ADD, "del": _DEL}[verb]
    handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if verb == "del":
            found = first_partition(handle)
            if found != (int(start), int(size)):
                print(f"{found[1]} bytes at {found[0]}" if found else "no partition 1")
                return OTHER
        fcntl.ioctl(handle, _BLKPG, _REQUEST.pack(op, 0, _PARTITION.size, ctypes.addressof(data)))
    finally:
        os.close(handle)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
