"""The set-up of what lies below a pool: devices of the state that the workload asks for, and their host.

Phases on bare devices need no more: no pool, no export and no clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.config.tables.phase_table import Phase
from kit.devices import array
from kit.devices.block_device import capacitor_health
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.load import fio
from kit.setup import device_dram, server_setup, switch_settings
from kit.setup.bench import Bench
from kit.setup.context import Context


@dataclass(frozen=True)
class Prepared:
    """`claims`: numbers of the devices' undos; `run_origin_ns`: the server's clock when the run began."""

    claims: list[int]
    run_origin_ns: int


def check(run: Context, server: Host) -> None:
    """Whether the fio of loads on the server is there, and which version. Raises HostError."""
    workload, kernel = run.plan.workload, server.run(["uname", "-r"]).stdout.strip()
    run.record.add_versions({"kernel": kernel})
    if any(phase.job for phase in workload.phase) or (workload.precondition and workload.precondition.writes):
        run.record.add_versions({f"fio on {server.name}": fio.version(server)})
    levels = [phase.array.level for phase in run.plan.workload.phase if phase.array]
    if levels:
        run.record.add_versions({f"mdadm on {server.name}": array.check_tools(server, levels)})


def prepare(run: Context, server: Host) -> Prepared:
    """Claim and precondition the devices, look for their DRAM, and set the host."""
    claims = server_setup.take_devices(run)
    server_setup.precondition(run, server)
    device_dram.probe_all(run, server)
    run_origin_ns = read_clock_ns(server) - run.site.clock.to_host_ns(run.record.end_ns)
    with run.progress.step("setting up the devices"):
        switch_settings.switch(run, server)
        server_setup.read_back(run, server)
        _read_capacitors(run, server)
    return Prepared(claims, run_origin_ns)


def _read_capacitors(run: Context, server: Host) -> None:
    """Of the real devices that phases go to, for the record. Raises HostLost."""
    guard = run.site.guard
    loaded = {name for phase in run.plan.workload.phase for name in phase.devices}
    if not guard or not loaded:
        return
    names = {each.spec.path: each.node.kernel_name for each in guard.checked if each.node}
    run.record.fill_devices({
        str(each.name): {"capacitor_health": capacitor_health(server, path, names[path])}
        for each in run.record.manifest.testbed.devices
        if each.name in loaded and (path := str(each.path)) in names
    })  # fmt: skip


def possible(run: Context) -> list[Phase]:
    """The phases on devices, without those whose records are less than a sector; a note names them."""
    settings = {each.name: each.settings or {} for each in run.record.manifest.testbed.devices}
    phases, left = [], dict[str, int]()
    for phase in run.plan.workload.phase:
        sector_bytes = max((settings[name].get("sector_bytes") or 1 for name in phase.devices), default=1)
        if phase.force and phase.force.direct and phase.force.record % sector_bytes:
            left[phase.name] = sector_bytes
        elif phase.on_devices:
            phases.append(phase)
    if left:
        text = f"the sectors of the device have {max(left.values())} bytes, records would have less"
        run.record.add_notes(f"Left out: {', '.join(left)}: {text}.")
    return phases


def bench(run: Context, server: Host, prepared: Prepared) -> Bench:
    """Of phases on bare devices."""
    return Bench(
        site=run.site,
        endurance_bytes={device.name: device.endurance for device in run.plan.testbed.device},
        run_dir=run.run_dir,
        work_dir=run.names.work_dir,
        run_origin_ns=prepared.run_origin_ns,
        clocks=Clocks(server),
        device_bytes={device.name: device.size for device in run.plan.testbed.device},
    )
