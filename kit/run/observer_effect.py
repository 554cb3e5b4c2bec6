"""The observer effect: reads from DRAM with the tracer and without it, in turn, by 1 to 64 threads.

Reads from DRAM are the shortest requests, so the tracer's share of them is the largest. *Without* means that
no tracer runs: one between two phases has its probes attached.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

import numpy as np

from kit.config.fio_job import DIRECTORY, RUNTIME, SEED, FioJob, FioSection
from kit.core.errors import ConfigError, KitError, MeasurementUnknown
from kit.core.text import commas
from kit.hosts.base import HostLost
from kit.load import fio
from kit.load.fio_latency_log import ClientLatencies
from kit.plan.plan import Plan
from kit.recovery.journal import Journal
from kit.run.phase import drive, load_on, traced
from kit.setup.bench import Bench
from kit.setup.record import RunRecord
from kit.store.manifest import ObserverEffect, ObserverStretch
from kit.trace.nfsd_tracer import Tracer
from kit.trace.output import parse_trace
from kit.trace.support import TracingSupport
from kit.trace.tier import Vdevs, tier_of

THREADS = (1, 4, 16, 64)
# Without (A) and with (B): six pairs, three starts of the tracer. Drift of the machine affects both alike.
_ORDER = "ABBAABBAABBA"
# Of the experiment. An emulated guest needs a minute for what a server does in seconds.
_STRETCH_NS, _VIRTUAL_STRETCH_NS = 1_000_000_000, 100_000_000
_BLOCK_BYTES, _FILE_BYTES = 512, 1 << 20
_LEAST_DRAM_SHARE = 0.99
_READ_DEADLINE_S = 600.0
_OPTION = "--observer-effect"


def refuse(plan: Plan) -> None:
    """Where there is no tracer there is no effect of it. Raises ConfigError."""
    server = plan.testbed.server
    if plan.testbed.is_appliance:
        why, what = "is an appliance: the kit cannot log in, so no tracer runs there", "leave the option out"
    elif not plan.workload.over_nfs:
        why, what = "is not traced in a workload without phases over NFS", "leave the option out"
    elif server.trace == "none":
        why, what = 'has trace = "none": no tracer runs there', 'leave the option out, or set trace = "auto"'
    elif plan.workload.nfs.engine != "kernel":
        why = f'is read with engine = "{plan.workload.nfs.engine}", and {_OPTION} reads through a mount'
        what = 'leave the option out, or take engine = "kernel"'
    else:
        return
    raise ConfigError(f"{_OPTION}: the server of the testbed '{plan.testbed.name}' {why}", what)


def refuse_untraced(tracing: TracingSupport | None) -> None:
    """As `refuse`, once the server is known. Raises ConfigError."""
    if tracing is None or tracing.kind != "full":
        raise ConfigError(
            f"{_OPTION}: this server cannot be traced: {tracing.reason if tracing else 'no login'}",
            "`hsp host check` shows what the tracer needs; or leave the option out",
        )


def measure(
    bench: Bench, file: str, interval_ns: int, journal: Journal, record: RunRecord, **probes: int
) -> None:
    """Measure with one client on the first MiB of `file`. The result, or why there is none: in `record`.

    `interval_ns`: the finest of the run's phases; `probes`: see kit.trace.support.program.
    """
    try:
        record.fill(observer_effect=_measured(bench, file, interval_ns, journal, record, probes))
    except HostLost:
        raise
    except KitError as error:
        record.add_notes(f"The observer effect was not measured: {error.message}.")


def _measured(
    bench: Bench, file: str, interval_ns: int, journal: Journal, record: RunRecord, probes: Mapping[str, Any]
) -> ObserverEffect:
    storage = bench.storage
    assert storage is not None, "refused before"
    size_bytes = min(_FILE_BYTES, bench.size_bytes)
    storage.server.run(
        fio.read_through_command(f"{storage.path}/{file}", size_bytes), deadline_s=_READ_DEADLINE_S
    )
    stretches: list[ObserverStretch] = []
    for side, blocks in itertools.groupby(_ORDER):
        tracer_of = traced(bench, [interval_ns], journal, record, **probes) if side == "B" else nullcontext()
        with tracer_of as tracer:
            for _, threads in itertools.product(blocks, THREADS):
                stretches.append(_stretch(bench, _job(file, size_bytes, threads), tracer, interval_ns))
    return ObserverEffect(op="read", tier="dram", block_bytes=_BLOCK_BYTES, stretches=tuple(stretches))


def _job(file: str, size_bytes: int, threads: int) -> FioJob:
    options = {
        "ioengine": "psync", "rw": "randread", "bs": str(_BLOCK_BYTES), "direct": "1", "norandommap": "1",
        "numjobs": str(threads), "thread": "1", "directory": DIRECTORY, "filename": file,
        "size": str(size_bytes), "randseed": SEED, "time_based": "1", "runtime": RUNTIME,
    }  # fmt: skip
    text = "".join(f"{name}={value}\n" for name, value in options.items())
    return FioJob(f"[observer]\n{text}", (FioSection("observer", MappingProxyType(options)),))


def _stretch(bench: Bench, job: FioJob, tracer: Tracer | None, interval_ns: int) -> ObserverStretch:
    """One stretch. Raises MeasurementUnknown if its load failed or the tracer saw something else."""
    clock, threads = bench.site.clock, job.outstanding
    duration_ns = _VIRTUAL_STRETCH_NS if clock.kind == "virtual" else _STRETCH_NS
    name = f"observer-{threads}"
    load = load_on(bench, bench.workers()[:1], name, job, duration_ns)
    load.prepare()
    if tracer:
        tracer.begin(clock.to_host_ns(interval_ns))
    end = drive(bench, load, duration_ns)
    output, problems = tracer.end() if tracer else ("", [])
    if end.by == "user":
        raise KeyboardInterrupt
    results = load.collect(bench.run_dir)
    problems = [*load.problems, *problems, *(_unlike_dram(output) if tracer else ())]
    if problems or not results or not isinstance(results[0].latencies, ClientLatencies):
        raise MeasurementUnknown(f"threads: {threads}: {'; '.join(problems) or 'no I/O was logged'}")
    latency_ns = results[0].latencies.latency_ns
    p50_ns, p99_ns = np.percentile(latency_ns, [50, 99]) / clock.dilation
    return ObserverStretch(
        traced=tracer is not None,
        threads=threads,
        ios=latency_ns.size,
        p50_ns=float(p50_ns),
        p99_ns=float(p99_ns),
    )


def _unlike_dram(output: str) -> Iterator[str]:
    """The tracer's own problems, and too many reads from elsewhere."""
    trace = parse_trace(output)
    yield from trace.problems
    by_tier = Counter[str]()
    for key, counts in trace.counts.items():
        by_tier[tier_of(*key, Vdevs())] += sum(counts.values())
    dram, total = by_tier["dram"], by_tier.total()
    if total and dram < _LEAST_DRAM_SHARE * total:
        yield f"{commas(dram)} of {commas(total)} reads were from DRAM, so they say nothing of it"
