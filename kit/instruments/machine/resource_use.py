"""CPUs and devices while the load runs, sampled by a program on each machine.

One that fails or is lost makes no latency untrusted: its figures are missing, and the phase says so with
numbers (`unavailable`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from kit.config.tables.phase_table import ARRAY
from kit.core.errors import HostError, KitError
from kit.core.text import json_lines
from kit.hosts.base import Host, HostLost, Process
from kit.instruments.array_state import bytes_of, device_bytes, member_checks, words
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.fault_events import FaultEvents
from kit.instruments.machine.clock_offsets import ClockOffsets
from kit.instruments.machine.sampler import PROGRAM, SOURCE, Sampled, command, end_command
from kit.store.parts.resource_use import (
    CacheSample,
    CpuSample,
    CpuUse,
    DeviceSample,
    DeviceUse,
    ModelUse,
)
from kit.store.phase import Check, Missing

_DEADLINE_S, _ABANDON_S = 60.0, 10.0
_POLL_S = 0.02
_SECOND_NS, _MS_NS = 1_000_000_000, 1_000_000
_SECTOR_BYTES = 512
# Of /sys/block/X/stat: time of reads, writes, of the device, of all I/Os, of discards and of flushes.
_MS_COLUMNS = (3, 7, 9, 10, 14, 16)
# Fields of ModelUse, and the counters of kit/emulation/models/device.c.
_MODEL = {
    "read_bytes": "host_bytes_read",
    "written_bytes": "host_bytes_written",
    "flushes": "flushes",
    "pages_read": "flash_pages_read",
    "pages_programmed": "flash_pages_programmed",
    "pages_copied": "gc_pages_copied",
    "blocks_erased": "blocks_erased",
}
Row = dict[str, Any]


@dataclass(eq=False)
class ResourceUse(Instrument):
    """`machines`: the first host of each kernel, the `server` first if there is one; `devices` are its.

    `period_ns`: see there. `output`: the begin of the paths of what they send. `loaded`: the devices that
    the load goes to; nothing else uses them. `array`: the level of the md array that they are members of.
    `of_caches`: with what ARC and L2ARC of the server hold.
    """

    code = "resource-use"

    machines: Sequence[Host]
    server: Host | None
    devices: Mapping[str, Sampled]
    period_ns: int
    output: Path
    offsets: ClockOffsets
    faults: FaultEvents | None = None
    loaded: Sequence[str] = ()
    array: str | None = None
    _: KW_ONLY
    of_caches: bool = False

    def __post_init__(self) -> None:
        self._running: dict[Host, tuple[Process, Path]] = {}
        self._rows: dict[Host, list[Row]] = {}
        self._missing: dict[str, str] = {}

    def begin(self) -> None:
        program = PROGRAM.read_bytes()
        for host in self.machines:
            devices = self.devices if host is self.server else {}
            path = self.output.with_name(f"{self.output.name}-{host.name.replace('/', '-')}-use.jsonl")
            with self._failing(host):
                # Of a run that was interrupted and goes on.
                path.unlink(missing_ok=True)
                locked, of_caches = self._targets if devices else (), self.of_caches and host is self.server
                argv = command(self.period_ns, devices, locked, of_caches=of_caches)
                self._running[host] = host.start(argv, path, program), path
        for host, (process, path) in [*self._running.items()]:
            with self._failing(host):
                _await_first(process, path)

    def end(self) -> None:
        for host, (process, path) in self._running.items():
            with self._failing(host):
                if process.running() and (rows := _rows(path)):
                    # By a command: what comes through the channel alone may not wake an idle guest.
                    host.run(end_command(str(int(rows[0]["pid"])), locked=bool(self.loaded)))
                ended = process.wait(_DEADLINE_S)
                rows = _rows(path)
                if not rows or not rows[-1].get("end"):
                    raise HostError(f"{len(rows)} samples arrived, and not the last: {ended.describe()}")
                self._rows[host] = rows

    def abandon(self) -> None:
        for process, _ in self._running.values():
            with suppress(KitError):
                process.stop(_ABANDON_S, "KILL")

    @contextmanager
    def _failing(self, host: Host) -> Iterator[None]:
        try:
            yield
        except HostLost:
            raise
        except (KitError, OSError, ValueError, KeyError, TypeError) as error:
            text = error.message if isinstance(error, KitError) else repr(error)
            self._missing.setdefault(host.name, text[:400])

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        cpu: list[CpuUse] = []
        caches: tuple[CacheSample, ...] = ()
        devices: list[DeviceUse] = []
        checks: list[Check | Missing] = []
        for host, rows in self._rows.items():
            with self._failing(host):
                offset_ns = 0 if host is self.server else self.offsets.between(host.name).ns
                cpu.append(cpu_use(host.name, rows, measured, offset_ns))
            if self.of_caches and host is self.server:
                with self._failing_device("ARC and L2ARC"):
                    caches = cache_samples(rows, measured)
            for name in self.devices if host is self.server else ():
                with self._failing_device(f"the device {name}"):
                    used = device_use(name, rows, measured)
                    devices.append(used)
                    if name in self._issued:
                        checks += load_checks(used, measured, faulty=self._is_faulty)
                    elif name in self.loaded:
                        continue
                    elif "write" in measured.block_bytes:
                        checks += self._checks(used, rows)
        by_name = {each.device: each for each in devices}
        if self.array and not self._is_faulty and by_name.keys() >= {*self._targets}:
            checks += member_checks(self.array, self.loaded, by_name, measured)
        checks += [
            Missing(id="USE-SAMPLES", name=f"resource use of {name}", source=SOURCE, of=name, why=text)
            for name, text in self._missing.items()
        ]
        # Without them nothing shows that a load on devices was what it seems to be.
        problems = [f"nothing counted the I/Os of {name}" for name in self._targets if name not in by_name]
        entry = {"cpu": tuple(cpu), "devices": tuple(devices), "caches": caches}
        return InstrumentReport(checks=checks, problems=problems, entry=entry)

    @contextmanager
    def _failing_device(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._missing[name] = str(error)[:400] or repr(error)

    @property
    def _issued(self) -> Sequence[str]:
        """The devices to which fio itself issues I/Os."""
        return (ARRAY,) if self.array else self.loaded

    @property
    def _targets(self) -> Sequence[str]:
        """Those, and the members of an array."""
        return (*self.loaded, ARRAY) if self.array else self.loaded

    @property
    def _is_faulty(self) -> bool:
        return bool(self.faults and self.faults.happened)

    def _checks(self, used: DeviceUse, rows: Sequence[Row]) -> Iterator[Check]:
        """The kernel's bytes are the model's, at a log device: others may have I/O on its way at any time.

        Not with faults: the kernel counts writes that fail.
        """
        quiet = all(used.device in row.get("quiet", ()) for row in (rows[0], rows[-1]))
        if used.model and quiet and self.devices[used.device].is_log and not self._is_faulty:
            source = f"/sys/block/*/stat of {used.device}, counters of its model"
            written = used.samples[-1].written_bytes
            yield device_bytes("write", used.device, source, written, used.model.written_bytes)


def cache_samples(rows: Sequence[Row], measured: MeasuredPhase) -> tuple[CacheSample, ...]:
    """From the server's lines. Pure. Raises ValueError with why there is nothing, KeyError.

    Counters of OpenZFS's arcstats; those before 2.0 have no rebuild.
    """
    texts = [found for row in rows if isinstance(found := row["arc"], str)]
    if texts:
        raise ValueError(f"{len(texts)} of {len(rows)} samples have no numbers: {texts[0]}")
    first = rows[0]["arc"]

    def since(row: Row, *names: str) -> int:
        return max(0, sum(int(row["arc"].get(name, 0)) - int(first.get(name, 0)) for name in names))

    return tuple(
        CacheSample(
            at_ns=measured.experiment_ns(row["at_ns"]),
            arc_bytes=int(row["arc"]["size"]),
            l2arc_bytes=int(row["arc"]["l2_asize"]),
            l2arc_data_bytes=int(row["arc"]["l2_size"]),
            header_bytes=int(row["arc"]["l2_hdr_size"]),
            fed_bytes=since(row, "l2_write_bytes"),
            evicted_cached_bytes=since(row, "evict_l2_cached"),
            evicted_eligible_bytes=since(row, "evict_l2_eligible"),
            rebuilds=since(row, "l2_rebuild_success"),
            rebuilt_bytes=since(row, "l2_rebuild_size"),
            rebuild_failures=since(row, "l2_rebuild_dh_errors", "l2_rebuild_unsupported"),
        )
        for row in rows
    )


def load_checks(used: DeviceUse, measured: MeasuredPhase, *, faulty: bool) -> Iterator[Check | Missing]:
    """fio's bytes are the kernel's and the model's, to the byte. Pure.

    With faults I/Os may have failed, which fio counts and the model does not.
    """
    if faulty:
        return
    name, kernel, ios = used.device, bytes_of(used.samples[-1]), measured.client_ios.get(used.device, {})
    for op in ("read", "write"):
        issued = ios.get(op, 0) * measured.block_bytes.get(op, 0)
        if op == "write" and measured.asynchronous and measured.calls_per_io is None:
            text = "nothing forces the writes: the page cache writes once what was written over several times"
            source = f"/sys/block/*/stat of {name}"
            yield Missing(id="DEVICE-BYTES", name=words(op, name), source=source, why=text, op=op, of=name)
            continue
        yield device_bytes(op, name, f"fio, /sys/block/*/stat of {name}", issued, kernel[op])
        if used.model:
            source = f"fio, counters of the model of {name}"
            yield device_bytes(op, name, source, issued, bytes_of(used.model)[op])


def _await_first(process: Process, path: Path) -> None:
    """Until the first line is there. Raises HostError with what came instead; the program is ended then."""
    end = time.monotonic() + _DEADLINE_S
    while not _rows(path):
        if not process.running():
            # What it wrote last may have come since.
            if _rows(path):
                return
            raise HostError(f"no sample arrived: {process.wait(_DEADLINE_S).describe()}")
        if time.monotonic() > end:
            with suppress(KitError):
                process.stop(_DEADLINE_S, "KILL")
            raise HostError(f"no sample arrived within {_DEADLINE_S:g} s")
        time.sleep(_POLL_S)


def _rows(path: Path) -> list[Row]:
    """The whole lines. Raises ValueError if one is no JSON object."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return []
    return json_lines(text)


def cpu_use(host: str, rows: Sequence[Row], measured: MeasuredPhase, offset_ns: int = 0) -> CpuUse:
    """From the lines of a machine, whose clock is ahead by `offset_ns`. Pure. Raises KeyError, ValueError."""
    tick_ns = _SECOND_NS // int(rows[0]["hz"])
    first = rows[0]["ticks"]
    busiest_ns = accumulate((_busiest_ns(*pair, tick_ns) for pair in pairwise(rows)), initial=0)

    def sample(row: Row, busy_ns: int) -> CpuSample:
        # user nice system idle iowait irq softirq: proc(5)
        since = [
            measured.clock.from_host_ns((b - a) * tick_ns) for a, b in zip(first, row["ticks"], strict=True)
        ]
        return CpuSample(
            at_ns=measured.experiment_ns(row["at_ns"] - offset_ns),
            # The time of waiting for I/O may go back (proc(5)).
            idle_ns=max(0, since[3] + since[4]),
            user_ns=since[0] + since[1],
            system_ns=since[2],
            softirq_ns=since[5] + since[6],
            busiest_ns=measured.clock.from_host_ns(busy_ns) if "idle" in rows[0] else None,
        )

    return CpuUse(
        host=host,
        cpus=int(rows[0]["cpus"]),
        memory_bytes=rows[0].get("memory_bytes"),
        samples=tuple(map(sample, rows, busiest_ns)),
    )


def _busiest_ns(before: Row, now: Row, tick_ns: int) -> int:
    """How long the CPU that idled least was busy, less a tick: so coarse is idle time.

    0 where CPUs were taken away or added.
    """
    idle = before.get("idle", ()), now.get("idle", ())
    if len(idle[0]) != len(idle[1]) or not idle[0]:
        return 0
    least = min(max(0, b - a) for a, b in zip(*idle, strict=True))
    return max(0, int(now["at_ns"]) - int(before["at_ns"]) - (int(least) + 1) * tick_ns)


def device_use(name: str, rows: Sequence[Row], measured: MeasuredPhase) -> DeviceUse:
    """From the server's lines. Pure. Raises ValueError with why there is nothing, KeyError."""
    texts = [found for row in rows if isinstance(found := row["devices"][name], str)]
    if texts:
        raise ValueError(f"{len(texts)} of {len(rows)} samples have no numbers: {texts[0]}")
    numbers = [*_unwrapped([row["devices"][name] for row in rows])]
    samples = tuple(
        _device_sample(each, numbers[0], row["at_ns"], measured)
        for each, row in zip(numbers, rows, strict=True)
    )
    before, after = (row.get("counters", {}).get(name) for row in (rows[0], rows[-1]))
    if before is None or after is None:
        return DeviceUse(device=name, samples=samples)
    if isinstance(before, str) or isinstance(after, str):
        raise ValueError(
            f"the counters of its model cannot be read: {before if isinstance(before, str) else after}"
        )
    model = ModelUse(**{field: int(after[key]) - int(before[key]) for field, key in _MODEL.items()})
    return DeviceUse(device=name, samples=samples, model=model)


def _unwrapped(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """With sums of ms that go on: the kernel prints 32 bits (block/genhd.c, part_stat_show).

    32 I/Os at a time have filled them after a day and a half.
    """
    before, turns = rows[0], Counter[int]()
    for row in rows:
        turns.update(at for at in _MS_COLUMNS if at < len(row) and row[at] < before[at])
        before = row
        yield [value + (turns[at] << 32) for at, value in enumerate(row)]


def _device_sample(
    now: Sequence[int], first: Sequence[int], at_ns: int, measured: MeasuredPhase
) -> DeviceSample:
    """Columns of Documentation/block/stat.rst; discards since Linux 4.18, flushes since 5.5."""
    since = [b - a for a, b in zip(first, now, strict=True)]

    def ms(column: int) -> int:
        return measured.clock.from_host_ns(since[column] * _MS_NS)

    newer: dict[str, int] = {"discards": since[11]} if len(since) > 11 else {}
    if len(since) > 16:
        newer |= {"flushes": since[15], "flush_ns": ms(16)}
    return DeviceSample(
        at_ns=measured.experiment_ns(at_ns),
        reads=since[0],
        read_bytes=since[2] * _SECTOR_BYTES,
        read_ns=ms(3),
        writes=since[4],
        written_bytes=since[6] * _SECTOR_BYTES,
        write_ns=ms(7),
        in_flight=now[8],
        busy_ns=ms(9),
        queue_ns=ms(10),
        **newer,
    )
