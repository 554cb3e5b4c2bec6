"""The manifest of a run: what was asked for, on what, with which versions. Filled in as the run goes on."""

from __future__ import annotations

import time
from typing import Any

from kit import __version__
from kit.config.testbed import Device
from kit.config.workload import Expectation
from kit.core.progress import Progress
from kit.instruments import read_history
from kit.load import fio, fio_server
from kit.plan.plan import Plan
from kit.precondition import selection
from kit.run.site import Site
from kit.store import run_directory
from kit.trace.support import Tracing
from kit.zfs import openzfs_version


def new_manifest(plan: Plan, site: Site, run_dir: run_directory.RunDir, command: list[str]) -> dict[str, Any]:
    workload, testbed = plan.workload, plan.testbed
    clients = [client.host.name for client in site.clients]
    outstanding = max(job.outstanding for job in plan.jobs.values()) * len(clients)
    return {
        **planned(plan),
        "format": run_directory.FORMAT,
        "run": run_dir.path.name,
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "seed": site.seed,
        "clock": {"kind": site.clock.kind, "dilation": site.clock.dilation},
        "testbed": {
            "name": testbed.name,
            "file": plan.testbed_file,
            "server": site.server.name,
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
        "expect": [_expectation(expectation, site.emulated) for expectation in workload.expect],
    }


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
    asked = expectation.model_dump()
    return {**asked, "inside": emulated if asked["inside"] is None else asked["inside"]}


def tell_limits(
    manifest: dict[str, Any],
    site: Site,
    zfs: openzfs_version.ZfsVersion,
    tracing: Tracing,
    progress: Progress,
) -> None:
    """What this server cannot show: said now, in the manifest, and first on the page."""
    manifest["tracing"] = tracing.as_json()
    notes = openzfs_version.notes(site.server, zfs)
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


def versions(site: Site, zfs: openzfs_version.ZfsVersion, tracing: Tracing) -> dict[str, str]:
    """What ran. Also the first proof that every tool is there. Raises HostError."""
    server = site.server
    found = {
        "kernel": server.run(["uname", "-r"]).stdout.strip(),
        "zfs": zfs.text,
        "bpftrace": tracing.bpftrace or "none",
    }
    fios = {client.host.name: fio.version(client.host) for client in site.clients}
    fio_server.check_versions(fios)
    found |= {f"fio on {host}": version for host, version in fios.items()}
    packages = ["nfs-kernel-server", "python3-pyzfs"]
    for package in packages:
        query = ["dpkg-query", "--show", "--showformat", "${Version}", package]
        answer = server.run(query, check=False)
        found[package] = answer.stdout.strip() if answer.returncode == 0 else "unknown"
    return found
