"""Starts the threads of a stopped NFS server with the listeners that it had. Runs on the server (nfsd(7)).

    python3 -I - look                        prints a line for each LISTENER
    python3 -I - start THREADS LISTENER...   "tcp ADDRESS PORT", "udp ADDRESS PORT" or "rdma - PORT"

With its last thread nfsd loses its listeners. One that is then only given threads listens on TCP and UDP of
IPv4, port 2049, whatever it had (nfsd_init_socks, fs/nfsd/nfssvc.c). Ends with 1 if it has others then.
"""

import os
import socket
import sys

DIRECTORY = os.environ.get("HSP_NFSD", "/proc/fs/nfsd")
NET = os.environ.get("HSP_PROC_NET", "/proc/net")
# Of the kernel's tables: a TCP socket that listens, a UDP socket without a peer.
_STATES = {"tcp": "0A", "udp": "07"}
_BACKLOG = 64


def portlist():
    """Pairs of transport and port, one for each listener, sorted."""
    with open(DIRECTORY + "/portlist") as file:
        return sorted(tuple(line.split()) for line in file if line.strip())


def address(text):
    """As the kernel prints it: 32-bit words, each in the host's order of bytes."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, b"".join(words))


def look():
    """Each listener of nfsd. Exits if the kernel's tables have not as many as nfsd."""
    listed, found = portlist(), []
    for transport, port in sorted(set(listed)):
        if transport not in _STATES:
            found.append(f"{transport} - {port}")
            continue
        for table in (transport, transport + "6"):
            try:
                with open(NET + "/" + table) as file:
                    rows = [line.split() for line in file][1:]
            except FileNotFoundError:
                continue
            for row in rows:
                where, _, at = row[1].partition(":")
                if row[3] == _STATES[transport] and int(at, 16) == int(port):
                    found.append(f"{transport} {address(where)} {port}")
    if len(found) != len(listed):
        raise SystemExit(f"nfsd has the listeners {listed}, of which are known: {found}")
    return found


def add(listener):
    transport, where, port = listener.split()
    if transport == "rdma":
        tell("portlist", f"rdma {port}\n")
        return
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.bind((where, int(port)))
        if transport == "tcp":
            own.listen(_BACKLOG)
        # nfsd takes the socket by its number in this process, and keeps it.
        tell("portlist", f"{own.fileno()}\n")


def tell(name, text):
    file = os.open(DIRECTORY + "/" + name, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def start(threads, listeners):
    # Not twice: an earlier attempt may have added some.
    there = portlist()
    for listener in listeners:
        transport, _, port = listener.split()
        if (transport, port) in there:
            there.remove((transport, port))
            continue
        try:
            add(listener)
        except OSError as error:
            raise SystemExit(f"nfsd cannot listen on {listener}: {error.strerror}") from None
    tell("threads", threads + "\n")
    wanted = sorted((each.split()[0], each.split()[2]) for each in listeners)
    if listeners and portlist() != wanted:
        raise SystemExit(f"nfsd has the listeners {portlist()} and had {wanted}")


if __name__ == "__main__":
    if sys.argv[1] == "look":
        print("\n".join(look()))
    else:
        start(sys.argv[2], sys.argv[3:])
