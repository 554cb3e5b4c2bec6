"""Locks devices. Runs on their host with the host's Python; the kit sends it as an argument.

    python3 -I -c TEXT DIRECTORY TOKEN OWNER NAME...

Locks a file of each NAME in DIRECTORY with flock(2), writes OWNER (one line of JSON) into each, then
creates DIRECTORY/TOKEN with its process number. A NAME below /dev/ is a device: it is opened exclusively
(read-only). Holds all until its output is closed: the end of the connection ends it. Then it removes its
files, and the directory if nothing is in it. If one is held
already, it takes none, prints {"name", "owner"} of it (of a device the error as "owner") and exits with 3.
"""

import fcntl
import json
import os
import select
import signal
import sys
from typing import Any

HELD = 3


class Held(Exception):
    """Another process has the lock; with the open file."""


def made(directory: str) -> os.stat_result:
    """The directory, made if it is missing. A holder that ends removes it."""
    while True:
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            return os.lstat(directory)
        except FileNotFoundError:
            continue


def locked(directory: str, name: str) -> int:
    """The open, locked file. A holder removes its files at its end: the one that was locked must be there."""
    while True:
        path = os.path.join(directory, name)
        try:
            # The directory, too, may have gone since.
            os.makedirs(directory, mode=0o700, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held(file) from None
        if os.fstat(file).st_nlink:
            return file
        os.close(file)


def remove(paths: Any, directory: str) -> None:
    """Remove files, then the directory if it is empty."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
    try:
        os.rmdir(directory)
    except OSError:
        pass


def main(directory: str, token: str, owner: str, names: Any) -> int:
    os.umask(0o077)
    status = made(directory)
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or not os.path.isdir(directory):
        raise SystemExit(directory + " is not a directory of this user alone")
    files = []
    for name in names:
        if name.startswith("/dev/"):
            try:
                # No other program can mount or format it meanwhile. Closing it wakes no udev.
                os.open(name, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                print(json.dumps({"name": name, "owner": error.strerror}))
                return HELD
            continue
        try:
            file = locked(directory, name)
        except Held as held:
            file = held.args[0]
            holder = os.read(file, 4096).decode("utf-8", "replace")
            remove([path for _, path in files], directory)
            print(json.dumps({"name": name, "owner": holder}))
            return HELD
        files.append((file, os.path.join(directory, name)))
    for file, _ in files:
        os.ftruncate(file, 0)
        os.write(file, owner.encode())
    ready = os.path.join(directory, token)
    handle = os.open(ready + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    os.write(handle, str(os.getpid()).encode())
    os.close(handle)
    os.rename(ready + ".new", ready)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        # Without requested events poll returns when the other end is closed.
        poll = select.poll()
        poll.register(1, 0)
        while not poll.poll():
            pass
    finally:
        # While they are held: no other holder has these files.
        remove([ready] + [path for _, path in files], directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
