"""What each phase used of CPUs, devices and the ARC, from the samples in the manifest.

Shares and rates are of samples while the load ran, from the first I/O of any client to the last. Sums are
from the last sample before the load to the first after it, so that they have all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kit.store.manifest import Device, Manifest
from kit.store.parts.resource_use import CpuSample, CpuUse, DeviceSample, DeviceUse
from kit.store.phase import Phase
from kit.store.summary import CPU_BOUND, BytesOnTheWay, DeviceRow, MachineUse, PhaseUse

_DAY_S = 86_400
_TB = 10**12
Span = tuple[int, int]


S = TypeVar("S", CpuSample, DeviceSample)


def describe(manifest: Manifest) -> list[PhaseUse]:
    """Of each phase that was sampled."""
    devices = {str(each.name): each for each in manifest.testbed.devices}
    return [
        _phase(phase, devices)
        for phase in manifest.phases
        if phase.cpu or phase.devices or phase.arc or _missing(phase)
    ]


def sentences(use: Sequence[PhaseUse]) -> Iterator[str]:
    """For each phase whose latencies are those of a CPU."""
    for phase in use:
        if phase.is_cpu_bound:
            busiest = max(phase.cpu, key=lambda machine: (machine.busy > CPU_BOUND, machine.bound))
            if busiest.busy > CPU_BOUND:
                yield (
                    f"{phase.phase} was bound by CPU: {busiest.host} was {100 * busiest.busy:.0f} % busy, "
                    f"more than {100 * CPU_BOUND:.0f} %. Its latencies are not those of devices alone."
                )
                continue
            yield (
                f"{phase.phase} may be bound by CPU: of {busiest.host} one of {busiest.cpus} CPUs was "
                f"{100 * busiest.bound:.0f} % busy, all together {100 * busiest.busy:.0f} %. What ran there "
                "(a thread of nfsd or fio, an interrupt) can do no more: see `top -H` and /proc/interrupts."
            )


def _phase(phase: Phase, devices: Mapping[str, Device]) -> PhaseUse:
    spans, arc = _loads(phase), phase.arc
    seconds = sum(end - begin for begin, end in spans) / 1e9
    hosts = dict.fromkeys(each.host for each in phase.cpu)
    names = dict.fromkeys(each.device for each in phase.devices)
    cpu = tuple(_machine([each for each in phase.cpu if each.host == host], spans) for host in hosts)
    moved = phase.client_ios * phase.block_bytes if phase.block_bytes else None
    return PhaseUse(
        phase=phase.name, seconds=seconds, iops=_rate(phase.client_ios, seconds),
        bytes_per_s=_rate(moved, seconds), bytes=_bytes(phase, moved, devices), cpu=cpu,
        devices=tuple(
            _device([e for e in phase.devices if e.device == name], devices.get(name, Device()), spans)
            for name in names
        ),
        arc=arc,
        l2arc_written_bytes_per_s=_rate(arc.l2arc_written_bytes, arc.span_ns / 1e9) if arc else None,
        log_bytes_per_s=_rate(arc.log_bytes, seconds) if arc else None,
        is_cpu_bound=any(machine.bound > CPU_BOUND for machine in cpu), missing=_missing(phase),
    )  # fmt: skip


def _rate(value: int | None, seconds: float) -> float | None:
    return value / seconds if value is not None and seconds > 0 else None


def _bytes(phase: Phase, moved: int | None, devices: Mapping[str, Device]) -> BytesOnTheWay:
    """On their way from clients (`moved`) to log devices, over the same time at all places."""
    at_nfs = [check.found for check in phase.checks if check.id == "NFS-BYTES"]
    logs = [
        each for each in phase.devices if devices.get(each.device, Device()).role == "log" and each.samples
    ]
    models = [each.model.written_bytes for each in logs if each.model]
    return BytesOnTheWay(
        clients=moved,
        nfs=sum(at_nfs) if at_nfs and min(at_nfs) >= 0 else None,
        log_blocks=phase.arc.log_block_bytes if phase.arc else None,
        log_devices=sum(each.samples[-1].written_bytes for each in logs) if logs else None,
        log_models=sum(models) if logs and len(models) == len(logs) else None,
    )


def _missing(phase: Phase) -> tuple[str, ...]:
    return tuple(f"{each.of}: {each.why}" for each in phase.unavailable if each.id == "USE-SAMPLES")


def _loads(phase: Phase) -> list[Span]:
    """When its load ran: of each part of a phase that was continued."""
    if phase.parts:
        return [(part.start_ns, part.end_ns) for part in phase.parts]
    return [phase.load_span_ns]


def _inside(samples: Sequence[S], spans: Sequence[Span]) -> tuple[S, S]:
    """The first and the last sample while the load ran; of all, if there are not two."""
    begin, end = _load_of(samples, spans)
    found = [each for each in samples if begin <= each.at_ns <= end]
    return (found[0], found[-1]) if len(found) > 1 else (samples[0], samples[-1])


def _around(samples: Sequence[S], spans: Sequence[Span]) -> tuple[S, S]:
    """The last sample before the load, and the first after it."""
    begin, end = _load_of(samples, spans)
    before = [each for each in samples if each.at_ns <= begin]
    after = [each for each in samples if each.at_ns >= end]
    return (before or samples)[-1 if before else 0], (after or samples)[0 if after else -1]


def _load_of(samples: Sequence[S], spans: Sequence[Span]) -> Span:
    """The load during which these were taken."""
    first, last = samples[0].at_ns, samples[-1].at_ns
    return max(spans, key=lambda span: min(last, span[1]) - max(first, span[0]))


def _machine(entries: Sequence[CpuUse], spans: Sequence[Span]) -> MachineUse:
    """Of several entries: one machine in the parts of a phase."""
    inside = [(each.cpus, *_inside(each.samples, spans)) for each in entries if each.samples]
    span_ns = sum(last.at_ns - first.at_ns for _, first, last in inside)
    cpu_ns = sum((last.at_ns - first.at_ns) * cpus for cpus, first, last in inside)

    def share(name: str, of_ns: int) -> float:
        used_ns = sum((getattr(last, name) or 0) - (getattr(first, name) or 0) for _, first, last in inside)
        return min(1.0, max(0.0, used_ns / of_ns)) if of_ns > 0 else 0.0

    has_busiest = all(last.busiest_ns is not None for *_, last in inside)
    return MachineUse(
        host=entries[0].host, cpus=entries[0].cpus,
        # Idle time is exact; the others are sampled by the kernel's tick.
        busy=1 - share("idle_ns", cpu_ns) if cpu_ns > 0 else 0.0,
        busiest=share("busiest_ns", span_ns) if has_busiest else None,
        **{name: share(f"{name}_ns", cpu_ns) for name in ("user", "system", "softirq")},
    )  # fmt: skip


def _device(entries: Sequence[DeviceUse], of_testbed: Device, spans: Sequence[Span]) -> DeviceRow:
    sampled = [each for each in entries if each.samples]
    whole = [_around(each.samples, spans) for each in sampled]
    inside = [_inside(each.samples, spans) for each in sampled]
    span_ns = sum(last.at_ns - first.at_ns for first, last in inside)

    def rate(name: str) -> float:
        return _moved(name, inside) / span_ns if span_ns > 0 else 0.0

    has_flushes = all(sample.flushes is not None for pair in whole for sample in pair)
    written_per_s = rate("written_bytes") * 1e9
    return DeviceRow(
        device=entries[0].device, role=of_testbed.role or "",
        **{name: _moved(name, whole) for name in ("reads", "read_bytes", "writes", "written_bytes")},
        flushes=_moved("flushes", whole) if has_flushes else None, busy=min(1.0, rate("busy_ns")),
        queue=rate("queue_ns"), read_bytes_per_s=rate("read_bytes") * 1e9,
        written_bytes_per_s=written_per_s, tbw_per_day=written_per_s * _DAY_S / _TB,
        **_model(entries, of_testbed),
    )  # fmt: skip


def _moved(name: str, pairs: Sequence[tuple[DeviceSample, DeviceSample]]) -> int:
    return sum(max(0, getattr(last, name) - getattr(first, name)) for first, last in pairs)


def _model(entries: Sequence[DeviceUse], of_testbed: Device) -> dict[str, Any]:
    """Fields of the models' counters, from the first sample to the last; none where a model did not count."""
    models = [each.model for each in entries if each.model]
    if not models or len(models) < len(entries):
        return {}
    written = sum(model.written_bytes for model in models)
    page_bytes = _page_bytes(of_testbed.parameters)
    if page_bytes is None:
        return {"model_written_bytes": written}
    programmed = sum(model.pages_programmed for model in models)
    return {
        "model_written_bytes": written,
        "pages_programmed": programmed,
        "pages_copied": sum(model.pages_copied for model in models),
        "write_amplification": programmed * page_bytes / written if written else None,
    }


def _page_bytes(parameters: Any) -> int | None:
    """The page of the flash of a device's model, wherever it stands in its parameters; None without flash."""
    if not isinstance(parameters, dict):
        return None
    page = parameters.get("page")
    if isinstance(page, int) and "pages_per_block" in parameters:
        return page
    return next((found for each in parameters.values() if (found := _page_bytes(each))), None)
