"""Calls NULL, the procedure of NFS that does nothing, and takes the time of each call. Runs on a client.

    python3 -I - ADDRESS PORT VERSION CALLS LONGEST_MS

NULL is procedure 0 of every version (RFC 1813, 3.3.0; RFC 8881, 16.1). It goes through both network stacks
and a thread of nfsd, and into no file system: what it takes is what the network takes at least. Over a
connection of its own, one call after the other, CALLS of them or for LONGEST_MS. Prints an object of ns:

    calls   latency of each call
    own     the same lines of Python, each with an answer that is there already: a part of `calls`

Ends with 1 and a sentence if there is no answer, or another than "done".
"""

import errno
import json
import socket
import struct
import sys
import time

_PROGRAM, _ANSWER_BYTES, _WAIT_S, _WARM_UP = 100003, 4096, 10, 10
# Some servers answer only ports that root alone may have (Linux answers NULL at any). The kernel's own calls
# begin at 665, and rarely has a service one of these. Where none is left, or the user is not root: any port.
_PORTS = [*range(602, 623), 0]
_TAKEN = (errno.EACCES, errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def connected(address, port):
    """A TCP connection. Calls wait for at most _WAIT_S, in the kernel: no poll(2) beside them."""
    for own in _PORTS:
        try:
            sock = socket.create_connection((address, port), _WAIT_S, ("", own))
        except OSError as error:
            if not own or error.errno not in _TAKEN:
                raise
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return blocking(sock)


def blocking(sock):
    sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _WAIT_S, 0))
    return sock


def call(number, version):
    """A record with a call of NULL, without credentials (RFC 5531, 9 and 11)."""
    body = struct.pack(">10I", number, 0, 2, _PROGRAM, version, 0, 0, 0, 0, 0)
    return struct.pack(">I", 1 << 31 | len(body)) + body


def answer(number):
    """A record that says: done."""
    return struct.pack(">7I", 1 << 31 | 24, number, 1, 0, 0, 0, 0)


def round_trip(sock, record, expected):
    """ns from before the call until its answer is here. Raises ValueError for another answer."""
    begin = time.monotonic_ns()
    sock.sendall(record)
    found = sock.recv(_ANSWER_BYTES)
    end = time.monotonic_ns()
    while found and len(found) < len(expected):
        found += sock.recv(_ANSWER_BYTES)
        end = time.monotonic_ns()
    if found != expected:
        raise ValueError("the server answers NULL with " + (found[:64].hex() or "the end of the connection"))
    return end - begin


def main(address, port, version, calls, longest_ms):
    version, taken, own = int(version), [], []
    with connected(address, int(port)) as sock:
        until = time.monotonic() + int(longest_ms) / 1e3
        for number in range(1, int(calls) + _WARM_UP + 1):
            taken.append(round_trip(sock, call(number, version), answer(number)))
            if time.monotonic() > until:
                break
    here, there = map(blocking, socket.socketpair())
    for number in range(1, 100 + _WARM_UP + 1):
        there.sendall(answer(number))
        own.append(round_trip(here, call(number, version), answer(number)))
        there.recv(_ANSWER_BYTES)
    print(json.dumps({"calls": taken[_WARM_UP:], "own": own[_WARM_UP:]}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError) as error:
        # EAGAIN of SO_RCVTIMEO.
        why = f"no answer within {_WAIT_S} s" if isinstance(error, BlockingIOError) else error
        sys.exit("NULL calls to {} port {}: {}".format(*sys.argv[1:3], why))
