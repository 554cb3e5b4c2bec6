"""Adds or removes a partition that only the kernel knows, with the BLKPG ioctl. Runs on the server.

    python3 -I - add DEVICE START_BYTES SIZE_BYTES
    python3 -I - del DEVICE

Source: include/uapi/linux/blkpg.h (addpart(8) does the same, but is often not installed).
"""

import ctypes
import fcntl
import os
import struct
import sys

_BLKPG, _ADD, _DEL = 0x1269, 1, 2
# struct blkpg_partition: start and length in bytes, number, two names. struct blkpg_ioctl_arg: operation,
# flags, size of the data, their address.
_PARTITION, _REQUEST = struct.Struct("qqi128x0q"), struct.Struct("iiiP")


def main(verb: str, device: str, start: str = "0", size: str = "0") -> None:
    data = ctypes.create_string_buffer(_PARTITION.pack(int(start), int(size), 1), _PARTITION.size)
    op = {"add": _ADD, "del": _DEL}[verb]
    handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(handle, _BLKPG, _REQUEST.pack(op, 0, _PARTITION.size, ctypes.addressof(data)))
    finally:
        os.close(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
