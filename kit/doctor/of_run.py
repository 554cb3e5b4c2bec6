"""What the doctor finds on the hosts of a run, once, before it sets anything."""

from __future__ import annotations

from typing import Any

from kit.doctor import diagnosis, machine, network
from kit.doctor.finding import Requirements
from kit.doctor.targets import server_address
from kit.hosts.identity import HostIdentity, read_identity
from kit.plan.plan import Plan
from kit.setup.site import Site
from kit.store.parts.machine import HostFinding

# Whether a run works, it finds out itself; these say how far its numbers can be trusted.
_OF_NUMBERS = {*machine.EXAMINATIONS, *machine.WALL_CLOCK, *network.CLIENT} - {
    "privilege", "round-trip", "system", "run-space", "leftovers", "nfs-port", "tune",
}  # fmt: skip
_TUNED = {"governor", "turbo", "c-states"}


def look(plan: Plan, site: Site) -> dict[str, Any]:
    """Fields of the manifest. Of hosts of one kernel the first. Changes nothing. Raises HostError."""
    gathered = [diagnosis.gather(target) for target in _targets(plan, site)]
    clients = any("client" in each.target.roles for each in gathered)
    report = diagnosis.judge(gathered, Requirements(over_nfs=clients))
    # What the run itself sets is not as it was found.
    own = plan.workload.host.files
    asked = _OF_NUMBERS - (_TUNED if plan.workload.host.tune == "latency" else set())
    findings = (
        HostFinding.from_json(each.as_json(), each.host)
        for each in report.findings
        if each.check in asked and not (each.check in own and each.host == site.reference.name)
        if each.check != "python" or each.state == "fail"
    )
    return {"findings": tuple(findings)}


def _targets(plan: Plan, site: Site) -> list[diagnosis.DiagnosedHost]:
    peers = {one.host: one.server_address or server_address(plan.testbed) for one in site.clients}
    seen: dict[HostIdentity, diagnosis.DiagnosedHost] = {}
    for key, host in site.hosts.items():
        made = diagnosis.DiagnosedHost(
            host.name,
            ("server" if key == "server" else "client",),
            diagnosis.left_open(host),
            peers.get(host, ""),
            real_clock=site.clock.kind == "real",
            of_run=True,
        )
        seen.setdefault(read_identity(host), made)
    return [*seen.values()]
