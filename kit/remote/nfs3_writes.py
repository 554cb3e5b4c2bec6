"""NFSv3 in user space: what a kernel's client neither does nor shows. Runs on a client (Python 3.7 or later).

    port SERVER                  open, here (this machine's own), closed (the machine answers) or gone
    verifier SERVER NAME...      the write verifier, by a COMMIT of the file
    stable SERVER NAME...        how an UNSTABLE WRITE of a zero at its begin was committed: 0, 1 or 2
    write SERVER NAME... LAYOUT ACKNOWLEDGED
                                 as power_loss_records.py, which lies beside this file: each record is an
                                 UNSTABLE WRITE, and there is never a COMMIT

SERVER is JSON: host, export, port, mountport (0: rpcbind knows it). NAMEs lead from the export to the file.
A kernel's client would send again what a restarted server has lost: RFC 1813, 3.3.21. Also RFC 5531 (RPC over
TCP, AUTH_SYS), RFC 1833 (rpcbind). Answers are bounded: the server may be anything.
"""

import itertools
import json
import os
import random
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

RPCBIND, MOUNT, NFS = (100000, 2), (100005, 3), (100003, 3)
GETPORT, MNT, LOOKUP, WRITE, FSINFO, COMMIT = 3, 1, 3, 7, 19, 21
UNSTABLE, STALE = 0, 70
AUTH_SYS, TCP, RPCBIND_PORT, NFS_PORT = 1, 6, 111, 2049
MOST_BYTES, MOST_HANDLE = 1 << 16, 64
DEADLINE_S, PORT_S = 30.0, 3.0
# fattr3; size, mtime and ctime of pre_op_attr.
ATTRIBUTES, BEFORE = 84, 24
NUMBERS = itertools.count(random.randrange(1 << 30))


def opaque(content):
    """XDR's bytes of any length."""
    return struct.pack(">I", len(content)) + bytes(content) + bytes(-len(content) % 4)


class Answer:
    """Results of a call, read from the front. Raises OSError where they end too early."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def take(self, count):
        piece = self.content[self.at : self.at + count]
        if len(piece) != count:
            raise OSError(0, "the server's answer ends too early")
        self.at += count
        return piece

    def number(self):
        return struct.unpack(">I", self.take(4))[0]

    def bytes_(self, most):
        count = self.number()
        if count > most:
            raise OSError(0, f"the server's answer has {count} bytes where {most} fit")
        piece = self.take(count)
        self.take(-count % 4)
        return piece

    def skip_attributes(self):
        self.take(ATTRIBUTES if self.number() else 0)

    def skip_wcc(self):
        self.take(BEFORE if self.number() else 0)
        self.skip_attributes()


def connected(host, port, deadline_s):
    """From a port that only root may have, which servers ask for, where this user may. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0]
    for own in [*random.sample(range(600, 1024), 40), 0]:
        line = socket.socket(family, kind, protocol)
        line.settimeout(deadline_s)
        try:
            line.bind(("", own))
            line.connect(address)
            return line
        except PermissionError:
            line.close()
        except OSError as error:
            line.close()
            # EADDRINUSE, EADDRNOTAVAIL: the port, or the pair of ports, is taken.
            if not own or error.errno not in (98, 99):
                raise
    raise OSError(0, "no port is free here")


class Line:
    """A connection to one port of the server."""

    def __init__(self, host, port):
        self.socket = connected(host, port, DEADLINE_S)
        credentials = struct.pack(">I", 0) + opaque(b"hsp") + struct.pack(">III", 0, 0, 0)
        self.credentials = struct.pack(">I", AUTH_SYS) + opaque(credentials) + struct.pack(">II", 0, 0)

    def exactly(self, count):
        content = b""
        while len(content) < count:
            piece = self.socket.recv(count - len(content))
            if not piece:
                raise OSError(0, "the server closed the connection")
            content += piece
        return content

    def call(self, program, procedure, arguments):
        number = next(NUMBERS) & 0xFFFFFFFF
        head = struct.pack(">IIIIII", number, 0, 2, program[0], program[1], procedure)
        content = head + self.credentials + arguments
        self.socket.sendall(struct.pack(">I", 1 << 31 | len(content)) + content)
        content, last = b"", False
        while not last:
            (mark,) = struct.unpack(">I", self.exactly(4))
            last, count = mark >> 31, mark & 0x7FFFFFFF
            if len(content) + count > MOST_BYTES:
                raise OSError(0, "the server's answer is too long")
            content += self.exactly(count)
        answer = Answer(content)
        if (answer.number(), answer.number()) != (number, 1):
            raise OSError(0, "the server answered another call")
        if answer.number():
            raise OSError(0, "the server refuses AUTH_SYS or this version of RPC")
        answer.number()
        answer.bytes_(MOST_BYTES)
        refused = answer.number()
        if refused:
            raise OSError(0, f"the server has no program {program[0]}, version {program[1]} ({refused})")
        return answer

    def done(self, program, procedure, arguments, what):
        """The same, of MOUNT and NFS: the answer begins with a status."""
        answer = self.call(program, procedure, arguments)
        status = answer.number()
        if status:
            # Numbers of NFS beyond these are no errno of Linux.
            text = (
                "Stale file handle" if status == STALE else os.strerror(status) if status < 32 else "status"
            )
            raise OSError(status, f"{what}: {text} ({status})")
        return answer


def port_of(server, program, known):
    if known:
        return known
    answer = Line(server["host"], RPCBIND_PORT).call(
        RPCBIND, GETPORT, struct.pack(">IIII", program[0], program[1], TCP, 0)
    )
    port = answer.number()
    if not port:
        text = f"the server has no NFSv3 over TCP: rpcbind there lists no program {program[0]}"
        raise OSError(0, text)
    return port


class File:
    """A file in the export, on a connection of its own."""

    def __init__(self, server, names):
        nfs_port = port_of(server, NFS, server["port"])
        mount = Line(server["host"], port_of(server, MOUNT, server["mountport"]))
        answer = mount.done(MOUNT, MNT, opaque(server["export"].encode()), "MNT of " + server["export"])
        self.handle = answer.bytes_(MOST_HANDLE)
        flavours = [answer.number() for _ in range(min(answer.number(), 16))]
        if flavours and AUTH_SYS not in flavours:
            raise OSError(0, f"the export wants Kerberos: AUTH_SYS is not among its flavours {flavours}")
        self.line = Line(server["host"], nfs_port)
        facts = self.done(FSINFO, b"", "FSINFO")
        facts.skip_attributes()
        facts.take(12)
        self.most_bytes = facts.number()
        for name in names:
            found = self.done(LOOKUP, opaque(name.encode()), "LOOKUP of " + name)
            self.handle = found.bytes_(MOST_HANDLE)

    def done(self, procedure, arguments, what):
        return self.line.done(NFS, procedure, opaque(self.handle) + arguments, what)

    def verifier(self):
        answer = self.done(COMMIT, struct.pack(">QI", 0, 0), "COMMIT")
        answer.skip_wcc()
        return answer.take(8)

    def write(self, content, offset):
        """Written, and how it was committed at worst: UNSTABLE, DATA_SYNC, FILE_SYNC."""
        done, least = 0, 2
        while done < len(content):
            piece = bytes(content[done : done + self.most_bytes])
            head = struct.pack(">QII", offset + done, len(piece), UNSTABLE)
            answer = self.done(WRITE, head + opaque(piece), "WRITE")
            answer.skip_wcc()
            count, committed = answer.number(), answer.number()
            if not 0 < count <= len(piece):
                raise OSError(0, f"a WRITE of {len(piece)} bytes wrote {count}")
            done, least = done + count, min(least, committed)
        return done, least


def port(server):
    try:
        with connected(server["host"], server["port"] or NFS_PORT, PORT_S) as line:
            return "here" if line.getsockname()[0] == line.getpeername()[0] else "open"
    except ConnectionError:
        return "closed"
    except OSError:
        return "gone"


def write(server, names, layout, log_path):
    import power_loss_records as records

    files = [File(server, names) for _ in layout["workers"]]
    records.write(layout, log_path, lambda worker, view, offset: files[worker].write(view, offset)[0])


def main(word, server, *names):
    try:
        if word == "port":
            print(port(server))
        elif word == "verifier":
            print(File(server, names).verifier().hex())
        elif word == "stable":
            print(File(server, names).write(b"\0", 0)[1])
        else:
            write(server, names[:-2], json.loads(names[-2]), names[-1])
    except OSError as error:
        raise SystemExit(error.strerror or str(error)) from None


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:])
