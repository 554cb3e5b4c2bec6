"""A real testbed that is reached: hosts, their addresses, and devices that are locked and not in use."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from kit.config.testbed import Client, Testbed
from kit.core.errors import ConfigError, HostError
from kit.core.output import say
from kit.core.progress import Progress
from kit.core.text import json_value
from kit.devices.check import guarded
from kit.devices.refusal_reasons import DeviceSpec
from kit.hosts.base import Host
from kit.hosts.connect import open_host, open_when_up
from kit.hosts.wrapped import ReopenedHost
from kit.recovery import power_undos
from kit.recovery.left_settings import left_on
from kit.setup.site import Site, SiteClient


def open_server(testbed: Testbed) -> Host:
    """The server alone; one that may lose its power, or be restarted, can be opened again.

    Raises HostError, ConfigError for an appliance.
    """
    if testbed.is_appliance:
        raise ConfigError(
            f"the server of the testbed '{testbed.name}' is an appliance (host = \"none\")",
            "nothing of it but its export can be seen",
        )
    tell_left({testbed.server.host})
    opening = partial(open_host, testbed.server.at, testbed.ssh_config)
    is_cut = testbed.power is not None and testbed.power.scope == "server"
    return ReopenedHost(opening) if is_cut or testbed.restart else opening()


def tell_left(addresses: Collection[str]) -> None:
    """Say which settings of all pools an unfinished run has left there."""
    for text in left_on(addresses):
        say(f"hsp: warning: {text}")


@contextmanager
def open_hosts(testbed: Testbed, progress: Progress) -> Iterator[tuple[Host, tuple[SiteClient, ...]]]:
    """Server and clients, closed at the end. Raises HostError naming the one that is not there."""
    with ExitStack() as stack:
        with progress.step("connecting"):
            server = stack.enter_context(open_server(testbed))
            hosts = [
                stack.enter_context(open_host(client.at, testbed.ssh_config)) for client in testbed.client
            ]
        server_address = testbed.server.address or testbed.server.at.server_address or "127.0.0.1"
        clients = tuple(
            locate_client(host, client, server_address)
            for host, client in zip(hosts, testbed.client, strict=True)
        )
        yield server, clients


@contextmanager
def real_site(
    testbed: Testbed,
    run_id: str,
    progress: Progress,
    seed: int,
    *,
    beside_other_pools: bool = False,
    cut_other_pools: bool = False,
) -> Iterator[Site]:
    """Connect, lock, look at the devices; let go at the end. Raises HostError, SafetyRefusal."""
    wanted = [DeviceSpec(device.path or "", device.serial, device.size) for device in testbed.device]
    with ExitStack() as stack:
        server, clients = stack.enter_context(open_hosts(testbed, progress))
        with progress.step("locking and checking the devices"):
            guard = stack.enter_context(guarded(server, wanted, run_id))
        yield Site(
            server=server,
            clients=clients,
            device_paths={device.name: device.path or "" for device in testbed.device},
            clock=testbed.clock,
            emulated=False,
            guard=guard,
            seed=seed,
            beside_other_pools=beside_other_pools,
            cut_other_pools=cut_other_pools,
            controller=power_undos.controller() if testbed.power else None,
            reopen=partial(_reopen, server) if isinstance(server, ReopenedHost) else None,
            identities={
                device.name: one.node.identity() | {"transport": one.node.transport}
                for device, one in zip(testbed.device, guard.checked, strict=True)
                if one.node is not None
            },
        )


def _reopen(server: ReopenedHost, within_s: float) -> None:
    server.reopen(lambda opening: open_when_up(opening, within_s))


@contextmanager
def appliance_site(
    testbed: Testbed, progress: Progress, seed: int, *, cut_other_pools: bool = False
) -> Iterator[Site]:
    """The clients of a server that cannot be logged into. Raises HostError."""
    with ExitStack() as stack:
        with progress.step("connecting"):
            clients = tuple(
                SiteClient(stack.enter_context(open_host(client.at, testbed.ssh_config)), "", "")
                for client in testbed.client
            )
        controller = power_undos.controller() if testbed.power else None
        yield Site(
            clients, testbed.clock, emulated=False, seed=seed, controller=controller,
            cut_other_pools=cut_other_pools,
        )  # fmt: skip


def locate_client(host: Host, client: Client, server: str) -> SiteClient:
    """The addresses that server and client have for each other, as the client's routes have them.

    `server` is a name or an address. Raises HostError if the client has no way to it.
    """
    server_address = _resolve(host, server)
    address = client.address or _source_address(host, server_address)
    return SiteClient(host, address=address, server_address=server_address)


def _resolve(host: Host, name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    answer = host.run(["getent", "ahosts", name], check=False)
    fields = answer.stdout.split()
    if answer.returncode or not fields:
        raise HostError(
            f"{host.name} does not know the name {name} of the server",
            'write the server\'s address into the testbed: [server] address = "10.0.0.1"',
        )
    return fields[0]


def _source_address(host: Host, server_address: str) -> str:
    answer = host.run(["ip", "-json", "route", "get", server_address], check=False)
    try:
        (route,) = json_value(answer.stdout)
        return str(ipaddress.ip_address(route["prefsrc"]))
    except (ValueError, KeyError, TypeError):
        raise HostError(
            f"{host.name} has no route to the server, {server_address}: {answer.stderr.strip()[:200]}",
            'write the client\'s own address into the testbed: [[client]] address = "10.0.0.2"',
        ) from None
