"""The manifest of a run: what was asked for, on what, with which versions. Filled in as the run goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kit import __version__
from kit.config.testbed_devices import Buses, Device
from kit.config.workload import Workload
from kit.core.progress import Progress
from kit.core.units import utc_now
from kit.hosts.base import Host
from kit.instruments import read_history
from kit.load import fio
from kit.nfs import libnfs
from kit.plan.plan import Plan, export_of
from kit.precondition import selection
from kit.rules.appliance_limits import left_out
from kit.setup.record import RunRecord
from kit.setup.site import Site
from kit.store import manifest as store
from kit.store import run_directory
from kit.store.checks.known_failures import Known
from kit.store.format import FORMAT
from kit.store.manifest import Appliance, Clock, Manifest, Skipped, Soak, Testbed, Tracing
from kit.store.parts import machine
from kit.store.parts.expectation import Expectation, Impact
from kit.trace import support
from kit.zfs import openzfs_version

_PARAMETER = re.compile(r"/sys/module/(\w+)/parameters/(\w+)")
_NFSD_THREADS = "/proc/fs/nfsd/threads"


def new_manifest(plan: Plan, site: Site, run_dir: run_directory.RunDir, command: list[str]) -> Manifest:
    """What is known when the hosts of the run are, before anything is done on them."""
    workload, testbed = plan.workload, plan.testbed
    clients = tuple(client.host.name for client in site.clients)
    at_once = max(1 if phase.array else len(phase.devices) for phase in workload.phase)
    together = at_once or len(clients) or 1
    outstanding = max(job.outstanding for job in plan.jobs.values()) * together
    opened = {bool(phase.open or phase.replay) for phase in workload.phase}
    loop = "open and closed loops, at most"
    if len(opened) == 1:
        loop = "open loop, at most" if True in opened else "closed loop,"
    devices = tuple(
        _device(device, testbed.bus).model_copy(
            update={
                "path": site.device_paths[device.name],
                "identity": site.identities.get(device.name),
            }
        )
        for device in testbed.device
    )
    fields: dict[str, Any] = {
        "format": FORMAT,
        "run": run_dir.path.name,
        "started_utc": utc_now(),
        "command": tuple(command),
        "seed": site.seed,
        "clock": Clock.model_validate(site.clock, from_attributes=True),
        "testbed": Testbed(
            name=testbed.name,
            file=plan.testbed_file,
            server=site.server.name if site.server else f"{export_of(plan)}, not to be logged into",
            clients=clients,
            emulated=site.emulated,
            devices=devices,
        ),
        "versions": {
            "hsp": __version__,
            **({"server": testbed.server.version} if testbed.server.version else {}),
            **site.versions,
        },
        "load": f"{loop} {outstanding} outstanding",
        "outstanding": outstanding,
        # Without a login it is unknown which tier answered, so expectations on tiers are left out.
        "expect": tuple(
            Expectation.from_table(each).model_copy(update={"inside": each.is_inside})
            for each in workload.expect
            if site.server or each.layer == "client"
        ),
        **_optional_fields(workload),
    }
    if not site.server:
        left = left_out(workload)
        fields["appliance"] = Appliance(
            export=export_of(plan),
            not_seen=left.not_seen,
            not_done=left.not_done,
            skipped=tuple(Skipped(phase=name, reason=reason) for name, reason in left.skipped.items()),
        )
    return planned(plan).model_copy(update=fields)


def _optional_fields(workload: Workload) -> dict[str, Any]:
    """What is stored only of a workload that has it."""
    fields = {
        "known": tuple(map(Known.from_table, workload.known)),
        "length": "" if workload.length == "full" else workload.length,
        "soak": tuple(
            Soak(
                phase=phase.name,
                row_ns=phase.soak.row,
                **phase.soak.model_dump(include=set(Soak.model_fields)),
            )
            for phase in workload.phase
            if phase.soak
        ),
        "impact": tuple(Impact(**each.model_dump()) for each in workload.impact),
    }
    return {name: value for name, value in fields.items() if value}


def planned(plan: Plan) -> Manifest:
    """What is known of a manifest before any host has been seen. Pure."""
    workload, testbed = plan.workload, plan.testbed
    return Manifest(
        workload=workload.name,
        title=selection.title(workload.title, workload.precondition, testbed, workload.length),
        reference=workload.reference or None,
        testbed=Testbed(devices=tuple(_device(device, testbed.bus) for device in testbed.device)),
        tunables=(),
        working_set={"bytes": workload.working_set.size} if workload.working_set else None,
        phases=(),
        # What is stored after each phase is no complete run yet.
        ended=False,
        problems=(),
        notes=(),
    )


def _device(device: Device, buses: Buses) -> store.Device:
    bus = buses[device.bus] if device.bus is not None else None
    given: dict[str, Any] = {
        "bus": machine.Bus(name=str(device.bus), **bus.model_dump(mode="json")) if bus else None,
        "price": device.price,
        "endurance_bytes": device.endurance,
    }
    return store.Device(
        name=device.name,
        role=device.role,
        model=device.title,
        size_bytes=device.size,
        latency_ns=device.latency,
        parameters=device.emulated.model_dump(mode="json") if device.emulated else None,
        **{key: value for key, value in given.items() if value},
    )


def add_limits(
    record: RunRecord,
    server: Host,
    zfs: openzfs_version.ZfsVersion,
    tracing: support.TracingSupport,
    progress: Progress,
) -> None:
    """What this server cannot show: reported now, in the manifest, and first on the page."""
    record.fill(tracing=Tracing.model_validate(tracing, from_attributes=True))
    notes = openzfs_version.notes(server, zfs)
    if tracing.kind == "none":
        sentence = read_history.words(tracing)
        if tracing.asked_for:
            notes.append(sentence)
        else:
            progress.note(sentence)
            record.add_problems(
                "untraced",
                f'{sentence} Expectations on tiers cannot be judged; server.trace = "none" in the testbed '
                "accepts that.",
            )
    for note in notes:
        progress.note(note)
    record.add_notes(*notes)


def server_versions(
    server: Host, zfs: openzfs_version.ZfsVersion, tracing: support.TracingSupport
) -> dict[str, str]:
    """What runs on the server. Raises HostError."""
    versions = {
        "kernel": server.run(["uname", "-r"]).stdout.strip(),
        "zfs": zfs.text,
        "bpftrace": tracing.bpftrace or "none",
    }
    for package in ("nfs-kernel-server", "python3-pyzfs"):
        query = ["dpkg-query", "--show", "--showformat", "${Version}", package]
        answer = server.run(query, check=False)
        versions[package] = answer.stdout.strip() if answer.returncode == 0 else "unknown"
    return versions


def found(settings: Mapping[str, str]) -> dict[str, Any]:
    """Fields of settings that a server has before the run (kit.zfs.settings_snapshot)."""
    modules: dict[str, dict[str, str]] = {}
    for path, value in settings.items():
        if match := _PARAMETER.fullmatch(path):
            modules.setdefault(match[1], {})[match[2]] = value
    threads = settings.get(_NFSD_THREADS, "")
    return {"modules": modules} | ({"nfsd_threads": int(threads)} if threads.isdecimal() else {})


def client_versions(plan: Plan, site: Site) -> dict[str, str]:
    """What runs on the clients, which proves that it is there. Raises HostError."""
    hosts = [client.host for client in site.clients]
    versions = {}
    for host in hosts:
        # Beside a server, clients may share its kernel (the lab), which has an entry of its own.
        if site.server is None:
            versions[f"kernel of {host.name}"] = host.run(["uname", "-r"]).stdout.strip()
        if plan.workload.nfs.engine == "libnfs":
            libnfs.check_client(host)
    fios = {host.name: fio.version(host) for host in hosts}
    return versions | {f"fio on {host}": version for host, version in fios.items()}
