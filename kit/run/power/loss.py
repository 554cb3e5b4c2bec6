"""What acknowledged writes are worth: the power goes in mid-write, and what was promised must be there.

A witness that keeps its power writes records and keeps a list of those that were acknowledged; after the
power loss they are looked for. The method is that of diskchecker.pl (Brad Fitzpatrick, 2005), the records
and their classes are those of kit.run.power.records. Where the power is cut: kit.run.power.cut.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kit.config.tables.power_table import PowerLoss as Settings
from kit.core.errors import MeasurementUnknown
from kit.core.signals import ignore_interrupts
from kit.hosts.base import CommandFailed, Host
from kit.hosts.identity import read_identity
from kit.nfs.export_directory import RECORDS
from kit.plan import steps
from kit.rules.power import cut_devices
from kit.run.power import cut as power_cut
from kit.run.power.appliance_cut import ApplianceCut
from kit.run.power.cut import Counts, DeviceGone, NotCut, PowerCut
from kit.run.power.records import (
    Acknowledged,
    Found,
    RecordLayout,
    gone,
    judge,
    parse_acknowledged,
    parse_found,
)
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.store.manifest import Classes, Moment, PowerLoss, PowerProof
from kit.zfs import other_pools
from kit.zfs.tunables import PlannedTunable, check_written, read_effects, read_tunables, write_tunable

_HELPER = Path(__file__).parents[2] / "remote" / "power_loss_records.py"
_DEADLINE_S = 300.0
# Until the writer has a first write behind it: NFSv4 waits 90 s after its server has started.
_AWAIT = 'n=0; until [ -s "$1" ]; do n=$((n+1)); [ $n -lt 20000 ] || exit 1; sleep 0.01; done'
# Root of the client is squashed, or is not: either may write there.
_TOUCH = 'umask 0; test -e "$1" || : >"$1"; sync "$1"'
# Of so many power losses, one comes when nothing is written any more.
_IDLE_EVERY = 4
_SECTOR_BYTES = 4096
# Records of so many power losses are read by one command.
_BATCH = 20
_SCRUB_S = 24 * 3600.0
_CLEAN = "errors: No known data errors"


@dataclass(frozen=True)
class _Test:
    """`directory`: of the run, on the witness; `made`: where each power loss has its records."""

    run: Context
    bench: Bench
    settings: Settings
    cut: PowerCut
    directory: str
    number_of_run: int
    counts: Counts = field(default_factory=dict)
    # Hosts that have the helper.
    helped: set[str] = field(default_factory=set)

    @property
    def appliance(self) -> ApplianceCut | None:
        return self.cut if isinstance(self.cut, ApplianceCut) else None

    def layout(self, number: int, *, durable: bool = True, direct: bool = True) -> RecordLayout:
        """Of a power loss. On a bare device one after the other, as long as there is room."""
        sizes = self.settings.sizes
        of_workers = tuple(sizes[worker % len(sizes)] for worker in range(self.settings.workers))
        storage, offset_bytes = self.bench.storage, 0
        if storage:
            path = f"{self.bench.mount}/power-loss-{number}"
        elif self.appliance:
            path = f"{self.bench.mount}/{RECORDS}"
        else:
            name = next(iter(cut_devices(self.run.plan.testbed)))
            path = self.bench.site.device_paths[name]
            of_workers = tuple(-(-size // _SECTOR_BYTES) * _SECTOR_BYTES for size in of_workers)
        made = RecordLayout(path, self.number_of_run, number, of_workers, durable=durable, direct=direct)
        if self.appliance:
            # A file that is removed with the run's directory, whatever happens.
            offset_bytes = number * made.bytes_
        elif not storage:
            room = max(1, self.bench.device_bytes[name] // made.bytes_)
            offset_bytes = number % room * made.bytes_
        return replace(made, offset_bytes=offset_bytes)


def run_power_losses(run: Context, bench: Bench, settings: Settings) -> PowerLoss:
    """As many power losses as asked for, each at another moment. Raises HostError, MeasurementUnknown."""
    chance = random.Random(settings.seed)
    if run.plan.testbed.is_appliance:
        client = bench.site.clients[0].host
        cut: PowerCut = ApplianceCut(run, bench, client, client, "")
    else:
        cut = power_cut.of_run(run, bench)
    try:
        return _all(run, bench, settings, cut, chance)
    except BaseException:
        # Also when it is interrupted: a server without power cannot be cleaned up.
        with ignore_interrupts(run.progress.note):
            cut.rescue()
        raise


def _all(run: Context, bench: Bench, settings: Settings, cut: PowerCut, chance: random.Random) -> PowerLoss:
    """The control, all power losses, and a clean power cycle."""
    directory = f"{bench.work_dir}/{cut.witness.name.replace('/', '-')}-power-loss"
    if bench.storage and cut.scope == "server":
        # Another may have been imported since the run began.
        own, agreed = bench.storage.pool.name, run.site.cut_other_pools
        other_pools.refuse_power_cut(bench.storage.server, own, agreed=agreed)
    test = _Test(run, bench, settings, cut, directory, chance.getrandbits(40) ^ run.site.seed & 0xFFFFFFFFFF)
    control: list[Moment] = []
    moments: list[tuple[RecordLayout, Moment]] = []
    stopped = ""
    if test.appliance:
        test.appliance.begin(directory, control=settings.control != "none")
    if settings.control != "none" and not _keeps_unstable(test):
        moment, stopped = _control(test)
        control.append(moment)
    for number in range(1, 1 if stopped else settings.moments + 1):
        within_ns = chance.randrange(settings.within)
        idle_ns = chance.randrange(1, settings.idle + 1) if settings.idle else 0
        layout = test.layout(number)
        moment, stopped = _lose_power(test, layout, within_ns, idle_ns if number % _IDLE_EVERY == 0 else 0)
        moments.append((layout, moment))
        _store(test, [each for _, each in moments], control, stopped)
        if stopped:
            break
    found = [each for _, each in moments]
    if not stopped:
        found, stopped = _verified_again(test, moments)
    return _store(test, found, control, stopped)


def _store(test: _Test, moments: list[Moment], control: list[Moment], stopped: str) -> PowerLoss:
    """After each: a real power loss takes minutes, and what is known must not be lost with hsp."""
    asked = test.settings.control
    told = PowerLoss(
        moments=tuple(moments),
        acknowledged=sum(moment.acknowledged for moment in moments),
        lost=sum(moment.lost for moment in moments),
        scope=test.cut.scope,
        asked=test.settings.moments,
        control="unstable" if test.appliance and asked != "none" else asked,
        control_moments=tuple(control),
        stopped=stopped or ("" if len(moments) == test.settings.moments else "it was interrupted"),
    )
    test.run.record.fill(power_loss=told)
    return told


def _control(test: _Test) -> tuple[Moment, str]:
    """A power loss that must take acknowledged writes with it: number 0. The second: as of _lose_power."""
    kind, storage = test.settings.control, test.bench.storage
    if test.appliance:
        return _lose_power(test, test.layout(0, durable=False), test.settings.within, 0)
    if not storage:
        layout = test.layout(0, durable=False, direct=kind == "no-flush")
        return _lose_power(test, layout, test.settings.within, 0)
    layout = test.layout(0)
    with _unsynced(test) if kind == "no-sync" else _unflushed(test):
        return _lose_power(test, layout, test.settings.within, 0)


def _keeps_unstable(test: _Test) -> bool:
    """Whether no control is possible: an appliance that says of each write that it is stable."""
    if not test.appliance:
        return False
    _prepare(test, test.layout(0))
    return test.appliance.stable_anyway()


@contextmanager
def _unsynced(test: _Test) -> Iterator[None]:
    """The server acknowledges writes from its memory. The dataset is the run's own."""
    storage = test.bench.storage
    assert storage
    storage.server.run(["zfs", "set", "sync=disabled", storage.dataset])
    yield
    storage.server.run(["zfs", "set", f"sync={storage.sync}", storage.dataset])


@contextmanager
def _unflushed(test: _Test) -> Iterator[None]:
    """The server sends its devices no FLUSH."""
    storage, run = test.bench.storage, test.run
    assert storage
    server = storage.server
    settings = tuple(PlannedTunable(name, "1", 1) for name in other_pools.NO_FLUSH)
    names = list(other_pools.NO_FLUSH)
    before, effects = read_tunables(server, names), read_effects(server, names)
    for tunable, step in steps.set_tunables(settings, before, effects, read_identity(server)):
        with run.step(step):
            run.send(step)
            check_written(server, tunable.name, "1")
    yield
    for name, value in before.items():
        # After a real power loss they are what they were.
        if read_tunables(server, [name])[name] != value:
            write_tunable(server, name, value)


def _lose_power(test: _Test, layout: RecordLayout, within_ns: int, idle_ns: int) -> tuple[Moment, str]:
    """Write, lose the power, look for what was promised. The second: why there can be no more, or ""."""
    cut = test.cut
    before = dict(test.counts) or cut.counts()
    acknowledged, cut_ns, still_on = _write_and_cut(test, layout, within_ns, idle_ns)
    count, at_ns = len(acknowledged), cut_ns or acknowledged[-1].at_ns
    unproven = Moment(acknowledged=count, looked_at=0, at_ns=at_ns, idle_ns=idle_ns)
    try:
        still_on = still_on or _back(cut)
    except (DeviceGone, CommandFailed) as error:
        if isinstance(error, CommandFailed) and error.result.argv[:2] != ("zpool", "import"):
            raise
        found_gone = judge(layout, acknowledged, gone(layout), cut_ns)
        moment = found_gone.model_copy(update={"at_ns": at_ns, "idle_ns": idle_ns})
        return moment, f"after power loss {layout.number}, {' '.join(error.message.split())}"
    if still_on:
        return unproven, f"at power loss {layout.number}, {' '.join(still_on.split())}"
    if cut.scope == "server":
        test.helped.discard(cut.reader.name)
    (found,) = _read(test, layout)
    moment = judge(layout, acknowledged, found, cut_ns)
    # The next power loss begins with these.
    test.counts.clear()
    test.counts.update(cut.counts())
    proof = tuple(_proof(before, test.counts))
    return moment.model_copy(update={"at_ns": at_ns, "idle_ns": idle_ns, "proof": proof}), ""


def _write_and_cut(
    test: _Test, layout: RecordLayout, within_ns: int, idle_ns: int
) -> tuple[list[Acknowledged], int | None, str]:
    """What was acknowledged, when the power was cut (None: writes ended with it), and why it was not."""
    cut, clock = test.cut, test.bench.site.clock
    _prepare(test, layout)
    log = f"{test.directory}/acknowledged-{layout.number}"
    text = layout.text(device=_device(test, layout))
    argv = [*_helper(test, cut.witness), "write", text, log]
    if test.appliance and not layout.durable:
        argv = test.appliance.write_argv(text, log)
    writer = cut.witness.start(argv)
    begun, cut_ns, ended, still_on = False, None, None, ""
    try:
        answer = cut.witness.run(["sh", "-c", _AWAIT, "sh", log], deadline_s=_DEADLINE_S, check=False)
        begun = answer.returncode == 0
        if begun:
            power_cut.sleep(cut.witness, clock, within_ns)
            if idle_ns:
                ended = writer.stop(_DEADLINE_S)
                power_cut.sleep(cut.witness, clock, idle_ns)
            cut_ns, still_on = _cut(cut)
    finally:
        # On a server without power its writes would wait for ever.
        ended = ended or writer.stop(_DEADLINE_S, "INT" if cut.scope == "lab" else "KILL")
    if not begun or (cut.scope == "lab" and ended.returncode):
        raise MeasurementUnknown(f"the writer of power loss {layout.number} failed {ended.describe()}")
    acknowledged = parse_acknowledged(cut.witness.get(log).decode())
    if not acknowledged:
        raise MeasurementUnknown(f"power loss {layout.number} came before the first acknowledged write")
    return acknowledged, cut_ns, still_on


def _cut(cut: PowerCut) -> tuple[int | None, str]:
    """When the power was cut, and why it was not, or ""; then all is as before."""
    try:
        return cut.cut(), ""
    except NotCut as error:
        cut.stay()
        return None, error.message


def _back(cut: PowerCut) -> str:
    """After a cut: the reason for which it does not count, or ""."""
    try:
        cut.bring_back()
    except NotCut as error:
        return error.message
    return ""


def _prepare(test: _Test, layout: RecordLayout) -> None:
    """Room for the records; the device is looked at again before it is written to."""
    storage, guard = test.bench.storage, test.bench.site.guard
    if storage:
        # The client's root is nobody at the server, and may make no file there.
        file = f"{storage.path}/power-loss-{layout.number}"
        storage.server.run(["install", "-m", "0666", "/dev/null", file])
        # That there is a file must not be what the power loss takes.
        storage.server.run(["zpool", "sync", storage.pool.name])
    elif test.appliance:
        test.cut.witness.run(["sh", "-c", _TOUCH, "sh", layout.path], deadline_s=_DEADLINE_S)
    elif guard:
        guard.before_writing([layout.path], content=False)


def _device(test: _Test, layout: RecordLayout) -> str:
    """The device of the records as it was checked last; "" for a file, and for an emulated one."""
    storage, guard = test.bench.storage, test.bench.site.guard
    held = guard.held(layout.path) if guard and not storage else None
    return held.word if held else ""


def _helper(test: _Test, host: Host) -> list[str]:
    """The program on the host. What a host had in memory went with its power."""
    if host.name not in test.helped:
        host.run(["mkdir", "-p", test.directory])
        host.put(_HELPER.read_bytes(), f"{test.directory}/{_HELPER.name}")
        test.helped.add(host.name)
    return ["python3", "-I", "-S", f"{test.directory}/{_HELPER.name}"]


def _read(test: _Test, *layouts: RecordLayout) -> list[Found]:
    """What is in each slot, by layout."""
    storage, reader = test.bench.storage, test.cut.reader
    paths = [f"{storage.path}/power-loss-{layout.number}" if storage else layout.path for layout in layouts]
    fresh = test.appliance is not None
    texts = [
        layout.text(path, _device(test, layout), fresh=fresh)
        for layout, path in zip(layouts, paths, strict=True)
    ]
    lines = reader.run([*_helper(test, reader), "read", *texts], deadline_s=_DEADLINE_S).stdout.splitlines()
    return [parse_found(line, layout) for line, layout in zip(lines, layouts, strict=True)]


def _proof(before: Counts, after: Counts) -> Iterator[PowerProof]:
    """Every count of every device that lost its power; a device without one has a count that is not there."""
    for device, counts in after.items():
        if not counts:
            yield PowerProof(device=device, counter="none", before=0, after=0)
        for name, count in counts.items():
            yield PowerProof(
                device=device, counter=name, before=before.get(device, {}).get(name, count), after=count
            )


def _verified_again(test: _Test, moments: list[tuple[RecordLayout, Moment]]) -> tuple[list[Moment], str]:
    """All records once more, after a power cycle with nothing under way; then the pool is scrubbed.

    The second: why there was no power cycle, or "".
    """
    cut, log = test.cut, f"{test.directory}/acknowledged"
    cut.settle()
    _, still_on = _cut(cut)
    try:
        still_on = still_on or _back(cut)
    except DeviceGone:
        found = [(each, Classes(gone=each.looked_at)) for _, each in moments]
        return [moment.model_copy(update={"again": classes}) for moment, classes in found], ""
    if still_on:
        text = f"at the power cycle after all of them, {' '.join(still_on.split())}"
        return [each for _, each in moments], text
    if cut.scope == "server":
        test.helped.discard(cut.reader.name)
    # On a small device a later power loss has its records in the place of an earlier one's.
    last = {(layout.path, layout.offset_bytes): layout.number for layout, _ in moments}
    kept = [layout for layout, _ in moments if last[layout.path, layout.offset_bytes] == layout.number]
    contents: dict[int, Found] = {}
    for at in range(0, len(kept), _BATCH):
        batch = kept[at : at + _BATCH]
        contents |= zip((layout.number for layout in batch), _read(test, *batch), strict=True)
    found_again: list[Moment] = []
    for layout, moment in moments:
        if layout.number in contents:
            acknowledged = parse_acknowledged(cut.witness.get(f"{log}-{layout.number}").decode())
            cut_ns = moment.at_ns if cut.scope == "lab" else None
            now = judge(layout, acknowledged, contents[layout.number], cut_ns)
            again = Classes(**{name: getattr(now, name) for name in Classes.model_fields})
            moment = moment.model_copy(update={"again": again})
        found_again.append(moment)
    _scrub(test)
    return found_again, ""


def _scrub(test: _Test) -> None:
    """What the pool itself finds, on real devices."""
    storage = test.bench.storage
    if storage and test.cut.scope != "lab":
        storage.server.run(["zpool", "scrub", "-w", storage.pool.name], deadline_s=_SCRUB_S)
        status = storage.server.run(["zpool", "status", storage.pool.name]).stdout
        if _CLEAN not in status:
            text = "the scrub after the power losses found errors: see zpool status in raw/commands.jsonl"
            test.run.record.add_problems("scrub", text)
