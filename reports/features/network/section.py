"""The page's tables of what the network takes of a client's latency."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.network.judge import REST, network_us_of
from reports.features.section import Section


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of a run over mounts."""
    if not summary.network:
        return None
    clients = [
        (each.phase, client, network_us_of(client) if client.measured else None)
        for each in summary.network
        for client in each.clients
    ]
    values = {"clients": clients, "rest": REST}
    return Section("network", "Network, nfsd, and what is left", "network/network.html.j2", values)
