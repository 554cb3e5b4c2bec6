"""From a testbed, and from a workload if one is named, to what is to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from kit.config.address import HostAddress
from kit.config.fio_job import read_job
from kit.config.testbed import Testbed
from kit.config.workload import read_workload
from kit.doctor.diagnosis import Role, Target
from kit.doctor.finding import Wanted
from kit.hosts.base import Host
from kit.run.remote_site import name_of_server
from kit.run.site import Site

Connect = Callable[[HostAddress], Host]


def targets_of(testbed: Testbed, connect: Connect) -> list[Target]:
    """Every host of a testbed that is not the lab, once, in its order; an appliance is not looked into.

    `connect` raises KitError.
    """
    roles: dict[str, list[Role]] = {}
    if not testbed.is_appliance:
        roles[testbed.server.host] = ["server"]
    for client in testbed.client:
        roles.setdefault(client.host, []).append("client")
    addresses = {host.host: host.at for host in (testbed.server, *testbed.client)}
    return [
        Target(
            name=host,
            roles=tuple(its),
            open=lambda at=addresses[host]: connect(at),  # type: ignore[misc]
            peer=_server_as_clients_know_it(testbed) if "client" in its else "",
        )
        for host, its in roles.items()
    ]


def _server_as_clients_know_it(testbed: Testbed) -> str:
    """Its address if the testbed has it, else its name; of an appliance, what it exports from."""
    server = testbed.server
    if server.address:
        return server.address
    if server.export:
        return server.export.rpartition(":/")[0].strip("[]")
    return name_of_server(testbed)


def targets_in(site: Site) -> list[Target]:
    """The hosts of a lab that is up; they stay open."""
    host = site.reference
    server = Target(host.name, ("server",), lambda: nullcontext(host), real_clock=False)
    clients = [
        Target(
            one.host.name,
            ("client",),
            lambda host=one.host: nullcontext(host),  # type: ignore[misc]
            peer=one.server_address,
            real_clock=False,
        )
        for one in site.clients
    ]
    return [server, *clients]


def wanted_by(path: Path, clients: int) -> Wanted:
    """What a workload asks of a testbed with that many clients. Raises ConfigError."""
    workload = read_workload(path)
    jobs = [read_job(path.parent / phase.job) for phase in workload.phase]
    return Wanted(
        nfs_version=str(workload.nfs.version),
        outstanding=clients * max(job.outstanding for job in jobs),
        clients=clients,
        libnfs=workload.nfs.engine == "libnfs",
    )
