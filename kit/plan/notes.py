"""Notes on a plan: what is no mistake but decides what its numbers mean. Pure.

fio draws the same sequence of random blocks wherever seed, number of the job (from 1, through all sections),
generator and distribution are the same (init.c, setup_random_seeds). The kit gives every load and every
client a seed of its own, unless the job has a number as its randseed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kit.config.fio_job import SEED, SIZE, FioJob, FioSection, part_bytes
from kit.config.testbed import Testbed
from kit.config.workload import WARM_UP, Workload
from kit.core.units import format_binary_bytes, format_duration_s
from kit.zfs import other_pools, parameters

# With it fio before 3.35 has a constant of its own, whatever seed it is given.
_ALL = "allrandrepeat"
_DRAWN_BY = ("size", "random_generator", "random_distribution")
# What a section draws its blocks from: its seed, its number, and the options above.
_Draw = tuple[str, ...]


def of(workload: Workload, jobs: Mapping[str, FioJob], clients: int) -> list[str]:
    """The notes, for people. `jobs` by Phase.load."""
    loads = {phase.name: jobs[phase.load] for phase in workload.phase}
    if workload.warmup:
        loads = {WARM_UP: jobs[workload.warmup.job], **loads}
    shrinking = [*_shrinking(loads)]
    if workload.on_devices:
        return shrinking
    cached = _cached(loads) if workload.nfs.engine == "kernel" else ()
    return [*_same_blocks(loads, clients), *_parts(loads, workload.file_set.size), *cached, *shrinking]


def of_server(workload: Workload, testbed: Testbed) -> Iterator[str]:
    """What a run does to all that a real server serves, and not to its own pool alone."""
    if testbed.is_lab:
        return
    if not testbed.is_appliance:
        yield from _of_server(workload, testbed)
    elif workload.power_loss and testbed.power:
        yield (
            f"the power of the appliance of {testbed.server.export} is cut, and with it that of all that it "
            "serves, which is not seen: it is refused, but for --cut-other-pools."
        )


def _of_server(workload: Workload, testbed: Testbed) -> Iterator[str]:
    host = testbed.server.host
    if any(each.what == "export-import" for phase in workload.phase for each in workload.schedule(phase)):
        yield (
            f"nfsd of {host} is stopped while the run's pool is exported and imported (event "
            "export-import): all its exports stall, not the run's alone, NFSv3 clients lose their locks, and "
            "NFSv4 clients may wait for 90 s more. Exports that others make with exportfs alone once the run "
            "has begun are gone then: zfs makes `exportfs -ra`."
        )
    for fault in workload.fault:
        if fault.what == "nfsd-restart":
            yield (
                f"nfsd of {host} is stopped for {format_duration_s((fault.for_ or 0) / 1e9)} (fault "
                "nfsd-restart): all its exports stall, not the run's alone, and NFSv4 clients may wait for "
                "90 s more."
            )
    if workload.host.nfsd_threads is not None:
        yield (
            f"host.nfsd_threads = {workload.host.nfsd_threads}: all exports of {host} are served by these "
            "threads during the run, not the run's alone: other clients may stall."
        )
    if workload.host.tune == "latency":
        yield (
            f'host.tune = "latency": CPUs of {host} and of the clients neither sleep deeply nor run above '
            "their nominal frequency during the run, for all that runs there: they draw more power, and "
            "nothing gets turbo. What a machine does not have is left out, and the report says so."
        )
    names = [name for name in workload.tunables if (p := parameters.known().get(name)) and p.keeps_data]
    lost = workload.power_loss
    names += other_pools.NO_FLUSH if lost and lost.control == "no-flush" else ()
    if names:
        yield (
            f"{' and '.join(names)} of {host}: for all its pools, it changes what keeps their data. It is "
            "refused while another pool is imported, but for --beside-other-pools."
        )
    yield from _of_restarts(workload, testbed)


def _of_restarts(workload: Workload, testbed: Testbed) -> Iterator[str]:
    """And what goes with the server."""
    host, restarts = testbed.server.host, workload.restarts
    if "reboot" in restarts:
        yield (
            f"{host} is restarted ([restart]), with all its pools, exports and sessions: it is refused while "
            "another pool is imported or something else is exported, but for --cut-other-pools."
        )
    is_cut = workload.power_loss or "power-cut" in restarts
    if is_cut and testbed.power and testbed.power.scope == "server":
        yield (
            f"the power of {host} is cut, and with it that of all its pools: it is refused while another "
            "pool is imported, but for --cut-other-pools."
        )


def _same_blocks(loads: Mapping[str, FioJob], clients: int) -> Iterator[str]:
    drawn: dict[_Draw, dict[str, FioSection]] = {}
    for name, job in loads.items():
        for draw, section in _draws(job):
            drawn.setdefault(draw, {}).setdefault(name, section)
    told = set()
    for (seed, *_), sections in drawn.items():
        names = tuple(sections)
        section = next(iter(sections.values()))
        several = [f"the {clients} clients"] if clients > 1 else []
        if len(names) > 1:
            several.insert(0, f"{', '.join(names[:-1])} and {names[-1]}")
        if several and (seed, names) not in told:
            told.add((seed, names))
            yield _text(section, seed, " as well as ".join(several))
    for name, job in loads.items():
        for section in job.sections:
            if _seed(section) == "0" and section.copies > 1:
                yield _text(section, "0", f"the {section.copies} jobs of {name}")


def _text(section: FioSection, seed: str, who: str) -> str:
    option = _ALL if seed == _ALL else "randseed"
    version = " (fio before 3.35)" if seed == _ALL else ""
    return (
        f"{_at(section, option)}{version}: {who} draw the same random blocks, in the same order: what one "
        "has read or written, the next finds in DRAM, so shares by tier depend on the order. Without "
        f"{option} each draws its own."
    )


def _at(section: FioSection, option: str) -> str:
    """File and line, section, option and value."""
    path, line = section.place_of(option)
    return f"{path.name}:{line}: [{section.name}] {option}={section.options.get(option)}"


def _draws(job: FioJob) -> Iterator[tuple[_Draw, FioSection]]:
    """For each job of fio with a fixed seed that does random I/O."""
    number = 0
    for section in job.sections:
        seed = _seed(section)
        for _ in range(section.copies):
            number += 1
            if seed:
                own = "" if seed == "0" else str(number)  # all numbers times 0 are one seed
                yield (seed, own, *(section.options.get(name, "") for name in _DRAWN_BY)), section


def _seed(section: FioSection) -> str:
    """The seed of random I/O where it is a constant, else ""."""
    if not section.is_random:
        return ""
    if section.options.get(_ALL, "0") == "1":
        return _ALL
    seed = section.options.get("randseed", SEED)
    return "" if seed == SEED else str(int(seed))


def _parts(loads: Mapping[str, FioJob], set_bytes: int) -> Iterator[str]:
    """Loads that use only a part of the working set: what the plan says about tiers is for the whole."""
    texts = {}
    for job in loads.values():
        for section in job.sections:
            value = section.options.get("size", SIZE)
            used_bytes = part_bytes(value, set_bytes)
            if used_bytes < set_bytes:
                texts[section.place_of("size")] = (
                    f"{_at(section, 'size')}: only the first {format_binary_bytes(used_bytes)} of the set "
                    f"({format_binary_bytes(set_bytes)}) are used, and the plan counts with all of it: less "
                    f"than it says comes from the slower tiers. size={SIZE} uses all of it."
                )
    yield from texts.values()


def _cached(loads: Mapping[str, FioJob]) -> Iterator[str]:
    """Loads through the page cache of the client."""
    sections = {section.place_of("direct"): section for job in loads.values() for section in job.sections}
    for section in sections.values():
        if section.options.get("direct", "1") == "0":
            yield (
                f"{_at(section, 'direct')}: the page cache of the client answers some I/Os, which the server "
                "never sees, so the counts do not agree and the result is unknown. direct=1 sends each to "
                "the server."
            )


def _shrinking(loads: Mapping[str, FioJob]) -> Iterator[str]:
    """Loads that write what compresses, or what was written before."""
    sections = {section.place: section for job in loads.values() for section in job.sections}
    for section in sections.values():
        have = section.options
        option, what = "", ""
        if have.get("zero_buffers", "0") != "0":
            option, what = "zero_buffers", "zeros"
        elif have.get("buffer_compress_percentage", "0").strip("0"):
            option, what = "buffer_compress_percentage", "data that compresses"
        elif have.get("scramble_buffers", "1") == "0" and have.get("refill_buffers", "0") == "0":
            option, what = "scramble_buffers", "the same data again and again"
        if option and "write" in section.operations:
            yield (
                f"{_at(section, option)} writes {what}: what compresses it, or finds equal blocks (a drive, "
                "a controller, ZFS), has less to do than with other data, so latencies and wear may be too "
                f"small. Without {option} the data is random."
            )
