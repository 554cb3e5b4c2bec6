"""Targets and requirements of a diagnosis, from a testbed and a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kit.config.address import HostAddress
from kit.config.fio_job import FioJob
from kit.config.tables.force_table import ForceJob
from kit.config.testbed import Testbed
from kit.config.workload import Workload, read_workload
from kit.config.workload_base import read_source
from kit.config.workload_jobs import read_jobs
from kit.doctor.diagnosis import DiagnosedHost, Role, left_open
from kit.doctor.finding import Requirements
from kit.hosts.base import Host
from kit.plan import client_logs, durations
from kit.run.watch import FLOOR_THERE_BYTES, TRACE_BYTES
from kit.setup.site import Site

# Of each request in flight: 40 us is a fast network; a cache without one answers in 2 us.
_MOST_IOS_PER_S = {True: 25_000, False: 500_000}
# A line of fio's log.
_LOG_BYTES = 30
Connect = Callable[[HostAddress], Host]


def targets_of(testbed: Testbed, connect: Connect, *, over_nfs: bool = True) -> list[DiagnosedHost]:
    """The hosts of a testbed other than the lab, each once, in its order, without an appliance.

    `connect` raises KitError. `over_nfs`: or without the clients.
    """
    roles: dict[str, list[Role]] = {}
    if not testbed.is_appliance:
        roles[testbed.server.host] = ["server"]
    for client in testbed.client if over_nfs else ():
        roles.setdefault(client.host, []).append("client")
    addresses = {host.host: host.at for host in (testbed.server, *testbed.client)}
    return [
        DiagnosedHost(
            name=host,
            roles=tuple(host_roles),
            open=partial(connect, addresses[host]),
            peer=server_address(testbed) if "client" in host_roles else "",
        )
        for host, host_roles in roles.items()
    ]


def server_address(testbed: Testbed) -> str:
    """The server's address in the testbed, else its name; of an appliance, the host of its export."""
    server = testbed.server
    if server.address:
        return server.address
    if server.export:
        return server.export.rpartition(":/")[0].strip("[]")
    return server.at.server_address or "127.0.0.1"


def targets_in(site: Site) -> list[DiagnosedHost]:
    """The hosts of a running lab; their connections stay open."""
    host = site.reference
    server = DiagnosedHost(host.name, ("server",), left_open(host), real_clock=False)
    clients = [
        DiagnosedHost(
            client.host.name,
            ("client",),
            left_open(client.host),
            peer=client.server_address,
            real_clock=False,
        )
        for client in site.clients
    ]
    return [server, *clients]


def requirements_of(path: Path, testbed: Testbed) -> Requirements:
    """Requirements of a workload on a testbed. Raises ConfigError."""
    workload, clients = read_workload(path), len(testbed.client)
    loads = read_jobs(workload, read_source(path))
    jobs = loads.values()
    return Requirements(
        nfs_version=str(workload.nfs.version),
        outstanding=max(clients, 1) * max(job.outstanding for job in jobs),
        clients=clients,
        libnfs=workload.nfs.engine == "libnfs",
        pool=not workload.on_devices,
        over_nfs=workload.over_nfs,
        run_bytes=None if testbed.is_lab else _run_bytes(workload, testbed, loads),
    )


def _run_bytes(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob | ForceJob]) -> int:
    """What the largest phase writes to /run of one host at most: a client's log, the tracer's intervals."""
    workload = client_logs.resolved(durations.resolved(workload, testbed), testbed)
    phases = [
        phase.duration // phase.interval * TRACE_BYTES
        + (phase.log == "every-io")
        * (phase.duration * jobs[phase.load].outstanding * _MOST_IOS_PER_S[phase.over_nfs] // 10**9)
        * _LOG_BYTES
        for phase in workload.phase
    ]
    return max(phases) + FLOOR_THERE_BYTES
