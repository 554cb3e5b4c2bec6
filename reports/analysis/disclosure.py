"""What stands beside a published figure: stable storage, materials and dates, from the manifest alone.

What the manifest does not have is said to be not known. Serial numbers are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kit.core.text import commas, safe_text
from kit.core.units import format_binary_bytes, format_iec, format_latency, format_percent
from kit.store.manifest import Device, Manifest
from kit.store.parts.machine import DramProbe
from kit.store.parts.resource_use import PoolSpace
from kit.store.phase import Phase
from kit.store.summary import Disclosure
from reports.features.power_loss import judge as power_loss
from reports.verdict.flushes import cache_of

_UNKNOWN = "not known"
_SYNC = {
    "standard": "sync=standard: a write that asks for it is acknowledged when it is in the ZIL; a crash of "
    "the server may lose others.",
    "always": "sync=always: each write is acknowledged when it is in the ZIL.",
    "disabled": "sync=disabled: writes are acknowledged from memory; a crash of the server loses what was "
    "written since the last transaction group, though clients were told it was safe.",
}
_LOGBIAS = {
    "latency": "logbias=latency: the ZIL is on the log devices where there are any.",
    "throughput": "logbias=throughput: the ZIL is in the pool; log devices are not used.",
}
_VERSIONS = ("kernel", "zfs", "nfs-kernel-server", "bpftrace", "hsp")


def describe(manifest: Manifest) -> Disclosure | None:
    """What the manifest has; None for an import."""
    if manifest.import_:
        return None
    wall = _UNKNOWN if manifest.wall_s is None else f"{manifest.wall_s:.0f} s"
    return Disclosure(
        stable_storage=tuple(_stable_storage(manifest)),
        materials=tuple(_materials(manifest)),
        dates=(("Started", manifest.started_utc or _UNKNOWN), ("Wall time", wall)),
    )


def _stable_storage(manifest: Manifest) -> Iterator[str]:
    if manifest.appliance:
        yield "The server could not be looked into: what it loses in a crash or a power loss is not known."
        return
    with_pool = not manifest.phases or any(not phase.on_devices for phase in manifest.phases)
    if with_pool:
        properties = (manifest.dataset.properties if manifest.dataset else None) or {}
        for name, texts in (("sync", _SYNC), ("logbias", _LOGBIAS)):
            value = properties.get(name)
            yield texts.get(value or "", f"{name}={safe_text(value)}." if value else f"{name} is {_UNKNOWN}.")
        yield _log_devices(manifest)
        yield _export(manifest)
    for device in manifest.testbed.devices:
        if not with_pool or device.role in ("log", "data"):
            yield _write_cache(device, manifest.phases)
    if manifest.power_loss and manifest.power_loss.moments:
        told = power_loss.result(manifest.power_loss)
        of = power_loss.of_records(told.looked_at, told.acknowledged)
        lost = f"lost or damaged {told.lost} of" if told.lost else "lost none of"
        yield f"{told.moments} power losses {lost} {of}."
    else:
        yield "No power loss was tried in this run."


def _log_devices(manifest: Manifest) -> str:
    names = [str(each.name) for each in manifest.testbed.of_role("log")]
    if not names:
        return "No log device: the ZIL is on the data devices."
    return f"Log devices: {safe_text(', '.join(names))}; a phase that takes them out has its ZIL in the pool."


def _export(manifest: Manifest) -> str:
    lines = manifest.export.lines if manifest.export else ()
    # exportfs -v has the options in parentheses behind the client.
    words = {word for line in lines for word in line.replace("(", ",").replace(")", ",").split(",")}
    if "async" in words:
        return "The export is async: the server answers before data is on stable storage."
    if "sync" in words:
        return "The export is sync: the server answers a COMMIT when data is on stable storage."
    return f"Whether the export is sync is {_UNKNOWN}."


def _write_cache(device: Device, phases: Sequence[Phase]) -> str:
    name = safe_text(str(device.name))
    cache = cache_of(device)
    words = {
        "write back": "its write cache is volatile for the kernel",
        "write through": "the kernel knows of no volatile write cache",
    }.get(str(cache), f"its write cache is {_UNKNOWN}")
    used = [use for phase in phases for use in phase.devices if use.samples and use.device == device.name]
    counts = [count for use in used if (count := use.samples[-1].flushes) is not None]
    words += f"; {commas(sum(counts))} FLUSH commands reached it in the phases" if counts else ""
    protected = device.power_loss_protection
    said = f"power-loss protection is {_UNKNOWN}"
    if protected is not None:
        said = f"{'power-loss protection' if protected else 'no power-loss protection'} by its model"
    return f"{name}: {words}; {said}."


def _materials(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from _devices(manifest)
    if manifest.pool and (space := manifest.pool.space):
        yield "Pool when it was measured", _space(space)
    for pool in manifest.observed.pools if manifest.observed else ():
        if pool.space:
            yield f"Pool {safe_text(pool.name)} at the begin", _space(pool.space)
    versions = manifest.versions or {}
    for name in _VERSIONS:
        yield name, safe_text(versions.get(name, _UNKNOWN))
    for name, value in versions.items():
        if name.startswith(("fio on ", "kernel of ")):
            yield name, safe_text(value)
    options = manifest.mount.options if manifest.mount else None
    yield "NFS mount", safe_text(options or _UNKNOWN)
    yield from _machines(manifest)


def _devices(manifest: Manifest) -> Iterator[tuple[str, str]]:
    counted = Counter[tuple[str, str]]()
    for device in manifest.testbed.devices:
        firmware = (device.settings or {}).get("firmware")
        text = (
            f"{device.model or f'model {_UNKNOWN}'}, "
            f"{format_binary_bytes(device.size_bytes) if device.size_bytes else f'size {_UNKNOWN}'}, "
            f"firmware {firmware or ('none: a model' if manifest.testbed.emulated else _UNKNOWN)}"
        )
        counted[f"{device.role or 'device'} devices", safe_text(text)] += 1
    for (role, text), count in counted.items():
        yield role.capitalize(), f"{count} \N{MULTIPLICATION SIGN} {text}"
    for device in manifest.testbed.devices:
        if device.dram_probe:
            yield f"DRAM of {safe_text(str(device.name))}", _dram(device.dram_probe)


def _space(space: PoolSpace) -> str:
    used = format_percent(space.allocated_bytes / max(1, space.size_bytes))
    fragmented = _UNKNOWN if space.fragmentation_percent is None else f"{space.fragmentation_percent} %"
    return f"{used} of {format_binary_bytes(space.size_bytes)} used; fragmentation {fragmented}"


def _machines(manifest: Manifest) -> Iterator[tuple[str, str]]:
    cpus = {use.host: use.cpus for phase in manifest.phases for use in phase.cpu}
    yield "CPUs", safe_text(", ".join(f"{host}: {count}" for host, count in cpus.items())) or _UNKNOWN
    arc = next((each.set for each in manifest.tunables if each.name == "zfs_arc_max"), None)
    memory = {use.host: use.memory_bytes for phase in manifest.phases for use in phase.cpu}
    sizes = [f"{host}: {_memory(size)}" for host, size in memory.items()]
    yield "Memory (as the kernel has it)", safe_text(", ".join(sizes)) or _UNKNOWN
    yield "Memory for the ARC", f"zfs_arc_max is {safe_text(arc) if arc else _UNKNOWN}"


def _dram(probe: DramProbe) -> str:
    again, whole = (format_latency(ns / 1e3) for ns in (probe.again_p50_ns, probe.whole_p50_ns))
    took = f"p50 {again}, and {whole} of reads of the whole device"
    beyond = f", but not {format_iec(probe.beyond_bytes)}" if probe.beyond_bytes else ""
    if probe.answered_bytes:
        return f"It answers {format_iec(probe.answered_bytes)} that was read before{beyond}: {took}."
    if not beyond:
        return f"It is {_UNKNOWN}: no set was read again in the time that there was for it."
    return (
        f"None was found by reading {format_iec(probe.beyond_bytes or 0)} again: {took}. DRAM that is no "
        "faster than the device is not seen."
    )


def _memory(size: int | None) -> str:
    """To a tenth of a GiB: the kernel keeps an odd part of each machine's memory."""
    return _UNKNOWN if size is None else f"{size / (1 << 30):.1f} GiB"
