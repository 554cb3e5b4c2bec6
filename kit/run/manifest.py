"""The manifest of a run: what was asked for, on what, with which versions. Filled in as the run goes on."""

from __future__ import annotations

import time
from typing import Any

from kit import __version__
from kit.config.testbed import Device
from kit.config.workload import Expectation
from kit.core.progress import Progress
from kit.hosts.base import Host
from kit.instruments import read_history
from kit.load import fio, fio_server
from kit.nfs import libnfs
from kit.plan.appliance_limits import left_out
from kit.plan.plan import Plan, export_of
from kit.precondition import selection
from kit.run.site import Site
from kit.store import run_directory
from kit.store.format import FORMAT
from kit.trace.support import Tracing
from kit.zfs import openzfs_version


def new_manifest(plan: Plan, site: Site, run_dir: run_directory.RunDir, command: list[str]) -> dict[str, Any]:
    workload, testbed = plan.workload, plan.testbed
    clients = [client.host.name for client in site.clients]
    outstanding = max(job.outstanding for job in plan.jobs.values()) * len(clients)
    return {
        **planned(plan),
        "format": FORMAT,
        "run": run_dir.path.name,
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "seed": site.seed,
        "clock": {"kind": site.clock.kind, "dilation": site.clock.dilation},
        "testbed": {
            "name": testbed.name,
            "file": plan.testbed_file,
            "server": site.server.name if site.server else f"{export_of(plan)}, not to be logged into",
            "clients": clients,
            "emulated": site.emulated,
            "devices": [
                {
                    **_device(device),
                    "path": site.device_paths[device.name],
                    "identity": site.identities.get(device.name),
                }
                for device in testbed.device
            ],
        },
        "versions": {"hsp": __version__, **site.versions},
        "load": f"closed loop, {outstanding} outstanding",
        # Without a login it is unknown which tier answered, so expectations on tiers are left out.
        "expect": [
            _expectation(expectation, site.emulated)
            for expectation in workload.expect
            if site.server or expectation.layer == "client"
        ],
        **({} if site.server else {"appliance": _appliance(plan)}),
    }


def _appliance(plan: Plan) -> dict[str, Any]:
    return {"export": export_of(plan), **left_out(plan.workload).as_json()}


def planned(plan: Plan) -> dict[str, Any]:
    """What is known of a manifest before any host has been seen. Pure."""
    workload, testbed = plan.workload, plan.testbed
    return {
        "workload": workload.name,
        "title": selection.title(workload.title, workload.precondition, testbed),
        "reference": workload.reference,
        "testbed": {"devices": [_device(device) for device in testbed.device]},
        "tunables": [],
        "working_set": {"bytes": workload.working_set.size},
        "phases": [],
        # What is stored after each phase is no run yet: nothing was held against what is to come.
        "ended": False,
        "problems": [],
        "notes": [],
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "role": device.role,
        "model": device.title,
        "size_bytes": device.size,
        "latency_ns": device.latency,
        "parameters": device.emulated.model_dump(mode="json") if device.emulated else None,
    }


def _expectation(expectation: Expectation, emulated: bool) -> dict[str, Any]:
    settings = expectation.model_dump()
    if expectation.inside is None:
        settings["inside"] = emulated and expectation.layer == "nfs-server"
    return settings


def add_limits(
    manifest: dict[str, Any],
    server: Host,
    zfs: openzfs_version.ZfsVersion,
    tracing: Tracing,
    progress: Progress,
) -> None:
    """What this server cannot show: reported now, in the manifest, and first on the page."""
    manifest["tracing"] = tracing.as_json()
    notes = openzfs_version.notes(server, zfs)
    if tracing.kind == "none":
        sentence = read_history.words(tracing)
        if tracing.asked_for:
            notes.append(sentence)
        else:
            progress.note(sentence)
            manifest["problems"].append(
                f'{sentence} Expectations on tiers cannot be judged; server.trace = "none" in the testbed '
                "accepts that."
            )
    for note in notes:
        progress.note(note)
    manifest["notes"] += notes


def server_versions(server: Host, zfs: openzfs_version.ZfsVersion, tracing: Tracing) -> dict[str, str]:
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
    fio_server.check_versions(fios)
    return versions | {f"fio on {host}": version for host, version in fios.items()}
