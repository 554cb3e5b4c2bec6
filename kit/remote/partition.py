"""Adds or removes a partition that only the kernel knows, with the BLKPG ioctl. Runs on the server.

    python3 -I - add DEVICE START_BYTES SIZE_BYTES
    python3 -I - del DEVICE

Source: include/uapi/linux/blkpg.h (addpart(8) does the same, but is often not installed).
"""

import ctypes
import fcntl
import os
import sys

_BLKPG, _ADD, _DEL = 0x1269, 1, 2


class _Partition(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_longlong),
        ("length", ctypes.c_longlong),
        ("number", ctypes.c_int),
        ("names", ctypes.c_char * 128),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("datalen", ctypes.c_int),
        ("data", ctypes.c_void_p),
    ]


def main(verb: str, device: str, start: str = "0", size: str = "0") -> None:
    part = _Partition(int(start), int(size), 1)
    op = {"add": _ADD, "del": _DEL}[verb]
    request = _Request(op, 0, ctypes.sizeof(part), ctypes.addressof(part))
    handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(handle, _BLKPG, request)
    finally:
        os.close(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
