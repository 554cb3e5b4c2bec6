"""Runs on machines with a state, struck at every moment, and what `hsp clean` makes of each.

A run that is killed leaves what is there at that moment: its machines, its journal, and its entry in the list
of unfinished runs. So one whole run is copied at each of its moments, and is not run again for each. A run
whose connections break goes on without them, and is run again for each command.

The load of a phase is replaced: what it changes is a process and a directory. All other steps are the kit's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kit.config.address import HostAddress
from kit.config.tables.phase_table import Phase
from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.clock import Clock
from kit.core.progress import Progress
from kit.devices.check import Guard, check, refuse_any
from kit.devices.locks import Locks
from kit.devices.refusal_reasons import DeviceSpec
from kit.hosts.base import HostLost
from kit.plan import power_steps
from kit.plan.plan import Plan, make_plan
from kit.precondition.device import Preconditioned as Preconditioned
from kit.recovery import clean, power_undos, registry, undo
from kit.recovery.clean import Cleaned
from kit.recovery.journal import Journal, read_journal
from kit.run import execute as execute_module
from kit.run import teardown
from kit.run.execute import Execution, execute
from kit.run.phase import PhaseResult
from kit.run.resume import Earlier
from kit.setup import precondition_devices
from kit.setup.bench import Bench
from kit.setup.context import Context
from kit.setup.site import Site, SiteClient
from kit.store import json_file, run_directory, tables
from kit.store.phase import Phase as StoredPhase
from tests.lab.workloads import HEAD, JOB
from tests.machines.host import StatefulHost
from tests.machines.world import DISK_BYTES, HERE, LIT, Disk, Machine, Pool, Running, Wire, World, differences

QUIET = Progress(quiet=True)
BY_ID = "/dev/disk/by-id/ata-"
DISKS = {"data0": "data", "data1": "data", "log0": "log", "cache0": "cache"}
ADDRESSES = {"10.0.0.1": "nas", "10.0.0.2": "c0", "10.0.0.3": "c1"}


# --- The machines, with things of others on them ---


def new_world() -> World:
    """A server and two clients. A pool, an export, a mount and a process are somebody else's."""
    server = Machine(1, {f"{BY_ID}{name}": Disk(f"sd{name}", f"S-{name}") for name in (*DISKS, "other")})
    server.disks[f"{BY_ID}other"].label = ("tank", "77", "data")
    server.pools["tank"] = Pool("77", "-", "/tank", {f"{BY_ID}other": "data"})
    server.exports["10.0.0.9", "/tank"] = "rw"
    server.settings = {"a": "off", "b": "on"}
    for disk in server.disks.values():
        server.tree[f"/sys/block/{disk.kernel_name}/queue/scheduler"] = "mq-deadline\n"
    for name, value in PARAMETERS.items():
        server.tree[f"/sys/module/zfs/parameters/{name}"] = f"{value}\n"
    server.tree |= {
        "/sys/module/zfs/version": "2.3.4-1\n", "/proc/fs/nfsd/threads": "8\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "madvise\n",
    }  # fmt: skip
    machines = {"nas": server, "c0": Machine(2), "c1": Machine(3), HERE: Machine(4, tree={LIT: ""})}
    for machine in machines.values():
        machine.tree |= {"/run/hsp": None, "/run/hsp/locks": None, "/mnt": None, "/tmp": None}
        machine.tree[f"{CPU}/intel_pstate/no_turbo"] = "0\n"
        for cpu in (0, 1):
            machine.tree |= {
                f"{CPU}/cpufreq/policy{cpu}/{name}": f"{text}\n" for name, text in CPUFREQ.items()
            }
            for state, us in enumerate((0, 2, 133)):
                path = f"{CPU}/cpu{cpu}/cpuidle/state{state}"
                machine.tree |= {f"{path}/latency": f"{us}\n", f"{path}/disable": "0\n"}
        machine.processes[7] = Running(("somebody", "else's"), with_connection=False)
    machines["c0"].mounts.append(("10.0.0.9:/home", "/home", "rw"))
    return World(machines, dict(ADDRESSES), {"filer:/x": {"/": None, "/somebody": None}})


CPU = "/sys/devices/system/cpu"
CPUFREQ = {"scaling_governor": "powersave", "energy_performance_preference": "balance_power"}
PARAMETERS = {
    "zfs_arc_max": "0", "zfs_arc_min": "0", "zfs_txg_timeout": "5", "zfs_read_history": "0",
    "zfs_read_history_hits": "0", "zfs_other": "3",
}  # fmt: skip

# --- What runs on them ---

TESTBED = """\
name = "small"
[server]
host = "ssh://nas"
trace = "{trace}"
[[client]]
host = "ssh://c0"
[[client]]
host = "ssh://c1"
"""
DEVICE = '[[device]]\nname = "{0}"\nrole = "{1}"\npath = "{2}{0}"\nserial = "S-{0}"\nsize = "128MiB"\n'
SETTING = '[[setting]]\nname = "{0}"\nget = ["ctl", "show", "{0}"]\nset = ["ctl", "set", "{0}={{value}}"]\n'
PHASE = """\
[[phase]]
name = "{name}"
title = "T"
{load}
duration = "6s"
interval = "40ms"
{more}
"""
READ, WRITE = "rw=randread\nsize=${HSP_SIZE}\n", "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\n"
FAULTS = """\
[[fault]]
at = "1500ms"
device = "log"
what = "offline"
for = "100ms"
[[fault]]
at = "3s"
what = "nfsd-restart"
for = "100ms"
[[fault]]
at = "4500ms"
what = "command"
command = "make"
for = "100ms"
"""
COMMAND = """\
[[command]]
name = "make"
run = ["mkdir", "-p", "/tmp/fault"]
undo = ["rm", "-r", "-f", "--", "/tmp/fault"]
"""
POWER = (
    f'[power]\nscope = "server"\nhost = "controller"\noff = ["rm", "-f", "{LIT}"]\non = ["touch", "{LIT}"]\n'
)


@dataclass(frozen=True)
class Kind:
    """A run: phases by name with their load and keys, and what else workload and testbed have."""

    phases: tuple[tuple[str, str, str], ...]
    head: str = HEAD.format(name="small", more="", properties="")
    more: str = ""
    trace: str = "none"
    testbed: str = ""
    is_appliance: bool = False


_READ = ("read", 'job = "read.fio"', 'tiers = ["dram"]')
_WRITE = ("write", 'job = "write.fio"', 'tiers = ["slog"]')
_COLD = ("cold", 'job = "read.fio"', 'tiers = ["dram"]\ncold = true')
_POOL_ONLY = ("pool", 'job = "write.fio"', 'tiers = ["pool"]\nremove = "log"')
_FORCED = ("forced", 'force = { record = "600B", append = true }', 'tiers = ["slog"]')
_DEVICE = 'job = "device.fio"'
_TUNED = '[tunables]\nzfs_arc_max = "256MiB"\nzfs_arc_min = "128MiB"\nzfs_txg_timeout = "2s"\n'
_PRESET = '[host]\ntune = "latency"\n'
_LAYOUT = '[pool]\ndata = "mirror"\ncache_size = "64MiB"\n'
_SWITCHED = """\
[host]
write_cache = "off"
nfsd_threads = 12
transparent_hugepage = "never"
[setting]
a = "on"
"""
_DEVICES = 'format = 1\nname = "small"\ntitle = "T"\nprecondition = "none"\n'
_PRECONDITIONED = HEAD.format(name="small", more="", properties="").replace('"none"', '"fills"\nfills = 1')
KINDS = {
    "pool": Kind((_READ, _WRITE, _COLD, _POOL_ONLY), more=_TUNED + _LAYOUT),
    "traced, preconditioned, forced writes": Kind((_READ, _WRITE, _FORCED), _PRECONDITIONED, trace="auto"),
    "devices": Kind(
        (
            ("alone", _DEVICE, 'target = "device:log"'),
            ("array", _DEVICE, 'target = "array"\narray = { level = "raid1" }'),
        ),
        _DEVICES,
        _SWITCHED,
        testbed=SETTING.format("a") + SETTING.format("b"),
    ),
    "faults, power": Kind((_WRITE,), more=FAULTS + "[power_loss]\nmoments = 1\n", testbed=COMMAND + POWER),
    "preset": Kind((_READ,), more=_PRESET),
    "appliance": Kind((_READ,), is_appliance=True),
}  # fmt: skip


def write(kind: Kind, folder: Path) -> Plan:
    folder.mkdir(parents=True, exist_ok=True)
    device = JOB.replace("directory=${HSP_DIRECTORY}\nfilename=working-set", "filename=${HSP_DEVICE}")
    for name, text in (("read", JOB + READ), ("write", JOB + WRITE), ("device", device + WRITE)):
        (folder / f"{name}.fio").write_text(text)
    phases = (PHASE.format(name=name, load=load, more=more) for name, load, more in kind.phases)
    workload, testbed = folder / "small.toml", folder / "bed.toml"
    workload.write_text(kind.head + kind.more + "".join(phases))
    devices = "".join(DEVICE.format(name, role, BY_ID) for name, role in DISKS.items())
    bed = TESTBED.format(trace=kind.trace)
    if kind.is_appliance:
        bed, devices = (
            'name = "small"\n[server]\nhost = "none"\nexport = "filer:/x"\n[[client]]\nhost = "ssh://c0"\n',
            "",
        )
    testbed.write_text(bed + devices + kind.testbed)
    return make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)


def site_of(plan: Plan, wire: Wire, run: str) -> Site:
    hosts = {name: StatefulHost(wire, name) for name in (*ADDRESSES.values(), HERE)}
    if plan.testbed.is_appliance:
        return Site((SiteClient(hosts["c0"], "", ""),), Clock(), False)
    server, paths = hosts["nas"], {device.name: device.path or "" for device in plan.testbed.device}
    specs = [DeviceSpec(path, f"S-{name}", DISK_BYTES) for name, path in paths.items()]
    checked = check(server, specs)
    refuse_any(server.name, checked)
    guard = Guard(server, checked, Locks(server, [], run), run)
    guard.claim()
    clients = tuple(
        SiteClient(hosts[n], address, "10.0.0.1") for address, n in ADDRESSES.items() if n != "nas"
    )
    clients = clients if plan.testbed.client else ()
    return Site(
        clients, Clock(), False, server, paths, guard=guard, beside_other_pools=True, cut_other_pools=True,
        controller=hosts[HERE],
    )  # fmt: skip


def load(bench: Bench, phase: Phase) -> PhaseResult:
    """In place of a measured phase: its processes, its directories, and the begin of what is scheduled."""
    workers = bench.workers(phase.devices, over_nfs=phase.over_nfs)
    running = []
    for worker in workers:
        worker.host.run(["install", "-d", "-m", "0700", f"{bench.work_dir}/{phase.name}"])
        running.append(worker.host.start(["fio", f"{bench.work_dir}/{phase.name}/job.fio"]))
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for number, action in enumerate(bench.schedule):
        step = action.steps[0]
        rows[action.is_own].append({"what": "begin", "id": number})
        path = bench.run_dir.raw / f"{phase.name}-schedule{'-own' * action.is_own}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[action.is_own]))
        bench.site.reference.run(step["run"], stdin=step.get("input", "").encode())
    for process in running:
        process.stop(1.0)
    entry = StoredPhase(
        name=phase.name, interval_ns=1, client_ios=1, server_ios=1, lost_events=0, start_ns=0, end_ns=1
    )
    values = (0, phase.name, "client", workers[0].name, "read", "all", 1, 2, 1)
    latency = pl.DataFrame([values], schema=tables.LATENCY_SCHEMA, orient="row")
    return PhaseResult(entry, latency, interrupted=False, failed=False)


def precondition(host: Any, target: Any, *_: Any, guard: Guard, **__: Any) -> Preconditioned:
    """In place of hours of writing."""
    with guard.lent(target.path):
        host.run(["fio", "--name=fill", f"--filename={target.path}"])
    return Preconditioned({"device": target.name}, 128 << 20)


def lose_power(run: Context, *_: Any) -> Any:
    """In place of power losses: the one step that makes an undo of them."""
    power, controller = run.plan.testbed.power, run.site.controller
    assert power and controller
    step = power_steps.cut(power, "the server")
    with run.journal.step(step.name):
        assert step.undo
        undo.register(run.journal, step.host, controller, step.undo)
        power_undos.run_own(controller, power.off, "off")
    return SimpleNamespace(stopped="", scope="server")


# --- A run, its moments, and what is left of it ---

_FILES = ("journal.jsonl", "manifest.json", "latency.parquet")


@dataclass(frozen=True)
class Moment:
    """What a kill leaves. `files`: of the run directory, by name.

    `entry`: the run's in the list of unfinished runs, None if it is not there.
    """

    text: str
    world: World = field(repr=False)
    files: dict[str, bytes] = field(repr=False)
    entry: bytes | None = field(repr=False)


class Struck:
    """A run, in one directory, as often as it is struck."""

    def __init__(self, plan: Plan | str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        """`plan`: or the name of one of KINDS."""
        made = write(KINDS[plan], folder / "workload") if isinstance(plan, str) else plan
        self.plan, self.patch = made, patch
        self.run = run_directory.create_run(folder / "results", "small")
        json_file.write_json(self.run.path / "plan.json", self.plan.as_json())
        self.pristine, self.measured = new_world(), list[str]()
        patch.setattr(execute_module, "run_phase", self._load)
        patch.setattr(precondition_devices, "precondition", precondition)
        patch.setattr(execute_module.loss, "run_power_losses", lose_power)
        patch.setattr(teardown, "RECONNECT_S", 0.0)
        # This machine does not lose its power here, and there are thousands of lines.
        patch.setattr(os, "fsync", lambda _: None)

    def _load(self, bench: Bench, phase: Phase, *_: Any) -> PhaseResult:
        self.measured.append(phase.name)
        return load(bench, phase)

    @property
    def _entry(self) -> Path:
        return registry._file(self.run.path.name)

    def execute(
        self, wire: Wire, earlier: Earlier | None = None, *, comes_back: bool = False
    ) -> Execution | None:
        """The run from its begin, or as it goes on; None if its connections break before that.

        `comes_back`: a machine that was cut off lets in again.
        """
        if earlier is None:
            paths = (self._entry, *(self.run.path / name for name in _FILES), *self.run.raw.iterdir())
            for path in paths:
                path.unlink(missing_ok=True)
        self.patch.setattr(power_undos, "controller", lambda: StatefulHost(wire, HERE))

        def open_host(address: HostAddress, *_: object) -> StatefulHost:
            name = str(address.host)
            wire.lost -= {name} if comes_back else set()
            if name in wire.lost:
                raise HostLost(f"{name}: no answer")
            return StatefulHost(wire, name)

        for module in (clean, teardown):
            self.patch.setattr(module, "open_host", open_host)
        self.measured.clear()
        with Journal(self.run.journal) as journal:
            try:
                site = site_of(self.plan, wire, self.run.path.name)
                return execute(self.plan, site, self.run, QUIET, ["hsp"], earlier, journal)
            except HostLost:
                return None
            finally:
                wire.world.connections_end()

    def clean(self, wire: Wire) -> Cleaned:
        """As another process does it."""

        def open_host(address: HostAddress, *_: object) -> StatefulHost:
            return StatefulHost(wire, str(address.host))

        self.patch.setattr(clean, "open_host", open_host)
        self.patch.setattr(power_undos, "controller", lambda: StatefulHost(wire, HERE))
        try:
            return clean.clean(self.run.path, QUIET)
        finally:
            wire.world.connections_end()

    @contextmanager
    def watched(self, wire: Wire) -> Iterator[list[Moment]]:
        """The moments at which a kill would leave something else than at the one before."""
        moments: list[Moment] = []
        seen: set[str] = set()

        def look(text: str) -> None:
            moment = self.moment(text, wire.world)
            key = repr(vars(moment) | {"text": ""})
            if key not in seen:
                seen.add(key)
                moments.append(moment)

        wire.look = look
        with each_line(lambda entry: look(f"written: {json.dumps(entry)[:150]}")):
            yield moments
        wire.look = None

    def moment(self, text: str, world: World) -> Moment:
        paths = {name: self.run.path / name for name in _FILES}
        files = {name: path.read_bytes() for name, path in paths.items() if path.exists()}
        return Moment(text, world.copy(), files, self._entry.read_bytes() if self._entry.exists() else None)

    def put_back(self, moment: Moment) -> World:
        """The machines after the kill."""
        for path, content in (
            *((self.run.path / name, moment.files.get(name)) for name in _FILES), (self._entry, moment.entry),
        ):  # fmt: skip
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        world = moment.world.copy()
        world.connections_end()
        return world

    def problems(self, world: World, pristine: World | None = None) -> list[str]:
        """What is wrong after `hsp clean`, and after a second one."""
        done = self.clean(Wire(world))
        found = [f"left: {left}" for left in done.left] + [error.message for error in done.unreachable]
        found += self._unlike(world, pristine or self.pristine)
        again = Wire(world)
        self.clean(again)
        return [*found, "the second clean did something"] if again.number else found

    def _unlike(self, world: World, pristine: World) -> list[str]:
        found = differences(pristine, world)
        if not read_journal(self.run.journal).finished:
            found.append("the journal is not finished")
        if self._entry.exists():
            found.append("it is listed as unfinished still")
        return found

    def after(self, world: World) -> list[str]:
        """What is wrong after a run that was to clean up by itself."""
        return self._unlike(world, self.pristine) or self.problems(world)


@contextmanager
def each_line(act: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """`act` with each line of a journal, once it is written."""
    writing = Journal._write

    def write(journal: Journal, entry: dict[str, Any]) -> None:
        writing(journal, entry)
        act(entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "_write", write)
        yield
