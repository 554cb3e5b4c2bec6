"""Clients of the lab: namespaces of the guest, each with its own network.

A single client is a network namespace, entered for each command. If there are several, each has a
network, a mount and a UTS namespace, and an sshd in them that listens on the client's address: the rest
of the kit sees them as machines, reached over SSH through the guest's connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from kit.core.errors import HostError
from kit.hosts.base import Host, Process
from kit.hosts.ssh import SshHost
from kit.hosts.wrapped import NetnsHost
from kit.lab.guest import RunningLab
from kit.setup.site import SiteClient

_SERVER_ADDRESS = "10.97.{}.1"
_CLIENT_ADDRESS = "10.97.{}.2"
_LISTEN_DEADLINE_S = 60.0
_STOP_DEADLINE_S = 30.0

# A veth pair with one end in a new namespace. Arguments: number, the two addresses.
_MAKE_NETWORK = """\
set -e
ip netns add "client$1"
ip link add "srv$1" type veth peer name eth0 netns "client$1"
ip addr add "$2/24" dev "srv$1"
ip link set "srv$1" up
ip -n "client$1" addr add "$3/24" dev eth0
ip -n "client$1" link set eth0 up
ip -n "client$1" link set lo up
"""

# Becomes an sshd in new mount and UTS namespaces. Its /run/hsp and /mnt are separate, so that clients do not
# see each other's directories (removing a directory that is a mount point elsewhere would undo the mount
# there). Arguments: number, address.
_SERVE = """\
hostname "client$1"
mkdir -p /run/hsp
mount -t tmpfs -o mode=0755 tmpfs /run/hsp && mount -t tmpfs -o mode=0755 tmpfs /mnt || exit 1
exec /usr/sbin/sshd -D -e -f /etc/ssh/hsp_sshd_config -o "ListenAddress=$2" -o PidFile=none
"""

_AWAIT_LISTENING = """\
until nsenter "--net=/run/netns/client$1" -- ss -Hltn "src $2" | grep -q LISTEN; do sleep 0.05; done
"""


def make_network(guest: Host, number: int) -> tuple[str, str]:
    """Make the network of client `number`; returns the server's and the client's address in it."""
    server, client = _SERVER_ADDRESS.format(number), _CLIENT_ADDRESS.format(number)
    guest.run(["sh", "-c", _MAKE_NETWORK, "sh", str(number), server, client])
    return server, client


def make_client(guest: Host, number: int) -> SiteClient:
    """Make a client with its own address, which shares the guest's files."""
    server, client = make_network(guest, number)
    return SiteClient(NetnsHost(guest, f"client{number}"), address=client, server_address=server)


def start_machine(guest: Host, number: int) -> tuple[Process, str, str]:
    """Start a client with its own sshd at port 22 of its address, with this boot's keys.

    Returns its process, the server's address and the client's address. It ends with the process or with
    the guest. Raises HostError.
    """
    server, client = make_network(guest, number)
    process = guest.start(
        [
            "nsenter", f"--net=/run/netns/client{number}", "--",
            "unshare", "--mount", "--uts", "--propagation", "private", "--",
            "sh", "-c", _SERVE, "sh", str(number), client,
        ]
    )  # fmt: skip
    waiting = guest.run(
        ["timeout", "120", "sh", "-c", _AWAIT_LISTENING, "sh", str(number), client],
        deadline_s=_LISTEN_DEADLINE_S,
        check=False,
    )
    if waiting.returncode:
        reason = process.wait(1.0).describe() if not process.running() else "it does not listen"
        raise HostError(f"the sshd of client{number} in the lab did not start: {reason}")
    return process, server, client


@contextmanager
def lab_clients(lab: RunningLab, guest: SshHost, count: int) -> Iterator[tuple[SiteClient, ...]]:
    """Make `count` clients; those with their own sshd are stopped at the end. Raises HostError."""
    if count == 1:
        yield (make_client(guest, 0),)
        return
    with ExitStack() as stack:
        clients = []
        for number in range(count):
            process, server, address = start_machine(guest, number)
            stack.callback(_stop, process)
            host = stack.enter_context(lab.inner_host(guest, f"lab/client{number}", address))
            clients.append(SiteClient(host, address=address, server_address=server))
        yield tuple(clients)


def _stop(process: Process) -> None:
    # If the guest is lost, its clients ended with it, and the cause is reported elsewhere.
    with suppress(HostError):
        process.stop(_STOP_DEADLINE_S, "TERM")
