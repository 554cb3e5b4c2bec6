"""Opens a device, compares it, and becomes a command, for which it is /proc/self/fd/9. Python 3.7 or later.

    python3 -I -S -c TEXT PATH MAJOR:MINOR SEQUENCE COMMAND...

A name in /dev may lead to another device at any moment; a descriptor does not. SEQUENCE: of BLKGETDISKSEQ,
which is new each time that a disk is connected; empty before Linux 5.15. Exits with 4 if it is another one.
"""

import fcntl
import os
import stat
import struct
import sys

BLKGETDISKSEQ = 0x80081280
FD = 9
ANOTHER = 4


def sequence_of(handle: int) -> str:
    return str(struct.unpack("Q", fcntl.ioctl(handle, BLKGETDISKSEQ, bytes(8)))[0])


def main(path, number, sequence, *command):
    # The command opens it again as it needs it. To close what was open for writing wakes udev.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(handle)
    found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if not stat.S_ISBLK(status.st_mode):
        found = "no device"
    found_sequence = sequence_of(handle) if sequence and found == number else ""
    if (found, found_sequence) != (number, sequence):
        sys.stderr.write(
            f"{path} leads to another device now: {found} ({found_sequence}), it was {number} ({sequence}); "
            "it was not touched\n"
        )
        return ANOTHER
    if handle == FD:
        os.set_inheritable(FD, True)
    else:
        os.dup2(handle, FD)
        os.close(handle)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
