"""What a phase's job does: reads, synchronous or asynchronous writes, and the tiers that each can have. Pure.

A phase may read and write: I/Os, bytes, tiers and counters are compared operation by operation.

Sources: Linux fs/nfs/direct.c (nfs_direct_write: FLUSH_COND_STABLE) and pagelist.c (nfs_generic_pgio): a
write past the client's cache that is one call goes out as FILE_SYNC, whether the file is O_DSYNC or not; of
several calls it returns after their COMMIT. libnfs lib/nfs_v3.c: a WRITE is UNSTABLE without O_SYNC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kit.config.fio_job import FioJob, FioSection
from kit.config.tables.expectation import Expectation
from kit.config.tables.force_table import ForceJob
from kit.config.tables.phase_table import Phase
from kit.config.toml import Place, Setting
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.sizes.workload_sizes import READ_TIERS
from kit.store.labels import EITHER_LOG
from kit.zfs.datasets import record_bytes

_OPS = ("read", "write")
# Where the log may lie; on special vdevs with OpenZFS 2.4 and later (zio.c, zio_alloc_zil).
_LOGS = ("slog", "special", "pool")
_LIBNFS = '[nfs] engine = "libnfs", which sends each as an unstable WRITE'
Problems = Iterator[tuple[Place, str]]


def tiers_of(op: str, job: FioJob) -> tuple[str, ...]:
    """The tiers that a phase may ask for the I/Os of `op`; none if the job does no such I/O."""
    if op not in job.operations:
        return ()
    if op == "read":
        return READ_TIERS
    if isinstance(job, ForceJob):
        # dram: of a dataset with sync=disabled.
        return (*_LOGS, "dram")
    # An asynchronous write returns from the memory of the server.
    return ("dram",) if job.is_async_write else _LOGS


def size_problems(job: FioJob) -> Problems:
    """Place and text of I/Os of unlike size."""
    for op in _OPS:
        sections = [section for section in job.sections if op in section.operations]
        yield from _unlike_sizes(op, sections)


def problems(job: FioJob, workload: Workload, is_appliance: bool, *, over_nfs: bool) -> Problems:
    """Place and text of what a measured job cannot do together. `over_nfs`: or in the dataset."""
    yield from size_problems(job)
    writers = [section for section in job.sections if "write" in section.operations]
    yield from _unlike_writers(writers)
    if is_appliance:
        return
    for section in writers:
        if section.is_async_write and workload.nfs.engine == "kernel" and over_nfs:
            yield section.place_of("sync"), f"[{section.name}] {_cached_or_stable(section)}"
    if len(job.operations) > 1:
        yield from _parts_of_records(writers, record_bytes(workload.dataset.properties))


def _unlike_sizes(op: str, sections: list[FioSection]) -> Problems:
    for section in sections[1:]:
        if section.block_bytes != sections[0].block_bytes:
            yield (
                section.place_of("bs"),
                f"[{section.name}] bs: {section.block_bytes} bytes, [{sections[0].name}] has "
                f"{sections[0].block_bytes}: {op}s of unlike size in one phase cannot be measured: write one "
                "job for each, and give each its own phase",
            )


def _unlike_writers(sections: list[FioSection]) -> Problems:
    for section in sections[1:]:
        if section.is_async_write != sections[0].is_async_write:
            found = ["asynchronously" if each.is_async_write else "synchronously" for each in sections]
            yield (
                section.place_of("sync"),
                f"[{section.name}] writes {found[sections.index(section)]} while [{sections[0].name}] writes "
                f"{found[0]}: a COMMIT of one writes what the other has not committed, so their writes "
                "cannot be told apart: write sync=dsync in both, or measure them in phases of their own",
            )


def _cached_or_stable(section: FioSection) -> str:
    """Why writes of the kernel's client without O_DSYNC are not measured."""
    found = f"sync={section.options['sync']}" if "sync" in section.options else "sync is missing"
    if section.options.get("direct", "0") == "0":
        return (
            f"{found}: it writes into the page cache of the client (direct=0): fio's times are those of that "
            "cache, and what the server gets later are other calls: add sync=dsync and direct=1, or measure "
            f"asynchronous writes with {_LIBNFS}"
        )
    return (
        f"{found}: past its page cache (direct=1) the kernel's client sends each write as a stable one all "
        "the same (FILE_SYNC), so it is not asynchronous at the server: add sync=dsync, or measure "
        f"asynchronous writes with {_LIBNFS}"
    )


def _parts_of_records(writers: list[FioSection], record: int) -> Problems:
    for section in writers:
        if section.block_bytes < record:
            yield (
                section.place_of("bs"),
                f"[{section.name}] bs: {section.block_bytes} bytes, but dataset.properties.recordsize is "
                f"{record}: a write of a part of a record reads it first, and the server's counters do not "
                f"tell such reads from those of the same phase: write bs={record}, or measure reads and "
                "writes in phases of their own",
            )


def tier_problems(phase: Phase, job: FioJob) -> Iterator[str]:
    """Tiers that the job's I/Os cannot have, and operations for which the phase names no tier."""
    by_op = {op: tiers_of(op, job) for op in _OPS}
    for tier in phase.tiers:
        if any(tier in tiers for tiers in by_op.values()):
            continue
        if tier in READ_TIERS:
            yield (
                f"its job {phase.load_text} does not read: remove the tier, or give the phase a job that "
                "reads"
            )
        else:
            yield (
                f"its job {phase.load_text} does not write synchronously, so no log is written: "
                + ('write tiers = ["dram"], ' if job.is_async_write else "add sync=dsync to the job, ")
                + "or remove the tier"
            )
    for op, tiers in by_op.items():
        may_lack = phase.replay and not phase.tiers
        if tiers and len(job.operations) > 1 and not (may_lack or set(tiers) & set(phase.tiers)):
            yield (
                f"its job {phase.load_text} reads and writes, but no tier is one of its {op}s: add "
                f"{' or '.join(tier for tier in tiers if tier != 'special')}"
            )


def forced_problems(phase: Phase, sync: Setting) -> Iterator[str]:
    """Tiers that forced writes cannot have. `sync`: of the dataset.

    Beside the log `dram` may be: a force that finds nothing left to write is answered from memory.
    """
    if phase.force is None or not phase.tiers or (phase.over_nfs and phase.force.method == "none"):
        return
    logged = [tier for tier in phase.tiers if tier in _LOGS]
    unforced = phase.force.method == "none" and sync != "always"
    if unforced or sync == "disabled":
        why = (
            'nothing forces its writes (method = "none")'
            if unforced
            else f'dataset.properties.sync is "{sync}"'
        )
        if logged:
            yield f'{why}, so no log is written and {logged[0]} cannot answer: write tiers = ["dram"]'
    elif not logged:
        yield (
            f'its writes are forced ({phase.force.method}) and sync is "{sync}", so memory alone cannot '
            'answer: write tiers = ["slog"], or ["pool"] without a log device'
        )


def property_problems(workload: Workload, jobs: Mapping[str, FioJob]) -> KeyProblems:
    """A dataset that makes every write synchronous."""
    names = [phase.name for phase in workload.phase if jobs[phase.load].is_async_write]
    if names and workload.dataset.properties.get("sync") == "always":
        yield (
            ("dataset", "properties", "sync"),
            f"always: it makes the asynchronous writes of phase '{names[0]}' synchronous: write "
            'sync = "standard", or add sync=dsync to the job and measure them as synchronous ones',
        )


def reading(workload: Workload, jobs: Mapping[str, FioJob]) -> Workload:
    """`workload` as the reads are concerned, for sizes and warm-up: phases that only write have no tier of
    reads."""
    return workload.with_phases(
        phase
        if "read" in jobs[phase.load].operations
        else phase.model_copy(update={"tiers": tuple(t for t in phase.tiers if t not in READ_TIERS)})
        for phase in workload.phase
    )


def with_samples(workload: Workload, source: WorkloadSource, jobs: Mapping[str, FioJob]) -> Workload:
    """Those expectations that the kit has made itself (kit.config.workload) are of what the job does."""
    own = len(source.document.get("expect", ()))
    phases = {phase.name: phase for phase in workload.phase}
    made: dict[Expectation, None] = {}
    for each in workload.expect[own:]:
        phase, job, changes = phases[each.phase], jobs[phases[each.phase].load], dict[str, str]()
        if each.tier not in tiers_of(each.op, job):
            changes["op"] = "write" if each.op == "read" else "read"
        if each.tier in EITHER_LOG and is_either(phase, job.operations):
            changes |= {"tier": "all", "layer": "client"}
        made[each.model_copy(update=changes)] = None
    return workload.model_copy(update={"expect": (*workload.expect[:own], *made)})


def is_either(phase: Phase, operations: Collection[str]) -> bool:
    """Whether one of two tiers has to answer, as the version of OpenZFS decides: the log has one place."""
    return set(operations) == {"write"} and set(EITHER_LOG) <= set(phase.tiers)
