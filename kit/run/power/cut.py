"""How the power is cut and brought back: in the lab, of a real server, of a real device.

In the lab all devices remember what a power loss of all of them would have left at a moment, while writes go
on; then they become that. Real power is cut by commands of the user's ([power] of the testbed); what turns it
on again is in the journal before it is cut.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from dataclasses import dataclass, field
from typing import Protocol

from kit.core.clock import Clock
from kit.core.errors import HostError, KitError, SafetyRefusal
from kit.devices import udev
from kit.hosts.base import DeadlineExceeded, Host, HostLost
from kit.hosts.connect import LoginRefused
from kit.hosts.identity import HostIdentity, read_identity
from kit.hosts.known_hosts import HostKeyRefused
from kit.instruments.machine import power_counters
from kit.plan import power_steps
from kit.recovery import power_undos, work_directory
from kit.rules.power import cut_devices
from kit.setup import reimport, server_setup
from kit.setup.bench import Bench, Storage
from kit.setup.context import Context
from kit.setup.site import Devices

_POLL_S = 1.0
_ASK_S = 10.0
# Is it a block device that can still be read? Past the page cache.
_READABLE = 'test -b "$1" && exec dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct status=none'
# What of a server that has booted is not there yet, a line each: block devices, and threads of nfsd.
_MISSING = """\
for path; do test -b "$path" || echo "$path"; done
{ read -r threads </proc/fs/nfsd/threads && test "$threads" -gt 0; } 2>/dev/null || echo nfsd"""
_NFSD = "nfsd"
Counts = dict[str, dict[str, int]]


class PowerCut(Protocol):
    """`witness` writes, and keeps the list of acknowledged writes; `reader` reads back."""

    @property
    def scope(self) -> str: ...

    @property
    def witness(self) -> Host: ...

    @property
    def reader(self) -> Host: ...

    def cut(self) -> int | None:
        """Cut the power now. Returns when, on the witness's clock, if writes go on.

        Raises NotCut: the command has ended, and the power is still on; HostError.
        """

    def stay(self) -> None:
        """After NotCut: as before. Raises HostError, SafetyRefusal."""

    def settle(self) -> None:
        """Nothing is under way, and nothing is left in a cache."""

    def bring_back(self) -> None:
        """All is as before, without what the power loss took. Raises HostError, SafetyRefusal."""

    def rescue(self) -> None:
        """After an error: the power on again, so that the rest can be undone. Raises nothing of its own."""

    def counts(self) -> Counts:
        """By device, its own counts of power losses."""


@dataclass(frozen=True)
class LabCut:
    """Of all devices of the lab. `storage`: None where records go to a bare device."""

    bench: Bench
    devices: Devices
    witness: Host
    reader: Host
    storage: Storage | None
    scope: str = "lab"

    def cut(self) -> int | None:
        return self.devices.mark()

    def stay(self) -> None:
        """The lab's devices always lose their power."""

    def settle(self) -> None:
        _settle(self.reader, self.storage, tuple(self.bench.site.device_paths.values()))

    def bring_back(self) -> None:
        paths = tuple(self.bench.site.device_paths.values())
        if self.storage:
            reimport.take_out(self.bench, self.storage)
        else:
            # What the kernel has not written yet, the power loss took as well: write it now, then go back.
            _forget_cached(self.reader, paths)
        self.devices.restore()
        _forget_cached(self.reader, paths)
        if self.storage:
            reimport.put_back(self.bench, self.storage, paths)

    def rescue(self) -> None:
        """Nothing has lost its power."""

    def counts(self) -> Counts:
        return {name: {"power_losses": count} for name, count in self.devices.power_losses().items()}


@dataclass
class RealCut:
    """Of a real server, or of one device: `path`. `pending`: the journal's number of the power's undo."""

    run: Context
    bench: Bench
    server: Host
    witness: Host
    path: str
    pending: int | None = None
    before: HostIdentity | None = None
    there: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        power = self.run.plan.testbed.power
        assert power is not None, "the plan has refused it"
        self.power, self.reader = power, self.server
        self.scope: str = power.scope

    @property
    def name(self) -> str:
        return self.path or self.server.name

    @property
    def of_server(self) -> bool:
        return self.power.scope == "server"

    def cut(self) -> int | None:
        step = power_steps.cut(self.power, power_steps.what(self.run.plan))
        self._before_cut()
        with self.run.step(step) as self.pending:
            power_undos.run_own(self.run.hosts[step.host], step.commands[0].argv, "off")
            self._await_gone()
        return None

    def _before_cut(self) -> None:
        """Look at what must be the same, or another, afterwards."""
        if self.of_server:
            self.before = read_identity(self.server)
            return
        self.there = _block_devices(self.server)
        assert self.run.site.guard, "a real device is guarded"
        # It must be let go of, to come back under its own name.
        self.run.site.guard.release()

    def _await_gone(self) -> None:
        """Raises NotCut if it is still there; SafetyRefusal if more than that is gone."""
        end = time.monotonic() + self.power.gone_within / 1e9
        while self._is_there():
            if time.monotonic() > end:
                off = shlex.join(self.power.off)[:200]
                raise NotCut(
                    f"{self.name} still answers {self.power.gone_within / 1e9:g} s after "
                    f"`{off}`: its power was not cut",
                    "did it cut the right power? gone_within in [power] gives it longer",
                )
            time.sleep(_POLL_S)
        if not self.of_server:
            own = {self.path.rpartition("/")[2]}
            self._refuse_more(own)

    def _refuse_more(self, own: set[str]) -> None:
        """Other disks than the one that was meant must keep their power."""
        assert self.run.site.guard
        for checked in self.run.site.guard.checked:
            if checked.spec.path == self.path:
                own |= set(checked.kernel_names)
        if more := sorted(self.there - _block_devices(self.server) - own):
            raise SafetyRefusal(
                f"`{shlex.join(self.power.off)[:200]}` took {', '.join(more)} from {self.server.name} as "
                f"well, not only {self.path}: nothing more is cut",
                "its power is turned on again; find out what else hangs on it before you try again",
            )

    def _is_there(self) -> bool:
        try:
            if self.of_server:
                return self.server.run(["true"], check=False, deadline_s=_ASK_S).returncode == 0
            answer = self.server.run(["sh", "-c", _READABLE, "sh", self.path], check=False, deadline_s=_ASK_S)
        except DeadlineExceeded:
            # A device without power may hang rather than fail.
            return False
        except HostLost:
            if self.of_server:
                return False
            raise
        return answer.returncode == 0

    def power_on(self) -> None:
        """Run `on`, which is the undo of the cut. Raises HostError: it stays in the journal."""
        if self.pending is not None:
            self.run.undo_now(self.pending)
            self.pending = None

    def stay(self) -> None:
        self.power_on()
        if not self.of_server:
            self._await_device()

    def settle(self) -> None:
        _settle(self.server, self.bench.storage, (self.path,))

    def bring_back(self) -> None:
        self.come_back()
        if self.of_server:
            storage = self.bench.storage
            assert storage, "scope server is over NFS"
            reimport.put_back(self.bench, storage, tuple(self.run.site.device_paths.values()))
        else:
            _forget_cached(self.server, (self.path,))

    def come_back(self) -> None:
        """Server or device, the same as before; without the pool. Raises HostError, SafetyRefusal."""
        self.power_on()
        if self.of_server:
            assert self.before
            after = f"`{shlex.join(self.power.on)[:200]}` turned its power on"
            Booting(self.run, self.before, after, "[power]").wait(self.power.back_within / 1e9)
            take_again(self.run)
        else:
            self._await_device()

    def rescue(self) -> None:
        if self.pending is not None:
            with contextlib.suppress(KitError):
                self.bring_back()

    def _await_device(self) -> None:
        within_s = self.power.back_within / 1e9
        end = time.monotonic() + within_s
        while not self._is_there():
            if time.monotonic() > end:
                raise DeviceGone(
                    f"{self.path} on {self.server.name} is not back {within_s:g} s after its power",
                    "is it broken? if it only takes longer: back_within in [power]",
                )
            time.sleep(_POLL_S)
        udev.settle(self.server)
        assert self.run.site.guard, "a real site is guarded"
        # Serial and size are looked at again, before anything touches it.
        self.run.site.guard.take_again(locks=False)

    def counts(self) -> Counts:
        found: Counts = {}
        for device in self.run.plan.testbed.device:
            if device.name not in cut_devices(self.run.plan.testbed):
                continue
            path, counted = self.run.site.device_paths[device.name], self.power.count
            if counted:
                serial = device.serial or ""
                argv = tuple(word.replace("{path}", path).replace("{serial}", serial) for word in counted)
                host = self.run.hosts[self.power.host]
                found[device.name] = power_counters.parse_own(power_undos.run_own(host, argv, "count"))
            else:
                found[device.name] = power_counters.read(self.server, path)
        return found


class NotCut(HostError):
    """What was to lose its power still has it."""


class DeviceGone(HostError):
    """A device did not come back."""


@dataclass(frozen=True)
class Booting:
    """A server that boots. `before`: who it was; `after`: what it does so after; `table`: of the testbed.

    `patient`: it may answer in the old boot still, as it ends what runs there.
    """

    run: Context
    before: HostIdentity
    after: str
    table: str
    patient: bool = False

    def wait(self, within_s: float) -> None:
        """Until it answers in another boot, with its disks and its NFS server.

        Raises NotCut: it runs since the same boot; DeviceGone, HostError, SafetyRefusal.
        """
        end = time.monotonic() + within_s
        server = self.run.site.server
        assert server
        while not self._has_booted(server, end, within_s):
            if not self.patient or time.monotonic() > end:
                hint = "run the command there by hand, and look at its console"
                raise NotCut(
                    f"{server.name} still runs since the same boot as before {self.after}",
                    hint if self.patient else "did `off` of [power] only break the connection?",
                )
            time.sleep(_POLL_S)
        self._await_ready(server, end, within_s)

    def _has_booted(self, server: Host, end: float, within_s: float) -> bool:
        """Raises HostLost once it is too late, SafetyRefusal for another machine."""
        assert self.run.site.reopen
        try:
            self.run.site.reopen(max(_ASK_S, end - time.monotonic()))
            now = read_identity(server)
        except HostKeyRefused:
            raise
        except (HostLost, DeadlineExceeded) as error:
            # While it shuts down and boots, pam_nologin(8) refuses all but root.
            if self.patient and time.monotonic() < end:
                return False
            if isinstance(error, LoginRefused):
                raise
            raise HostLost(
                f"{server.name} is not back {within_s:g} s after {self.after}: {error.message}",
                "look at its console. Once it lets in, `hsp clean` undoes what the journal still has; if it "
                f"only takes longer: back_within in {self.table}",
            ) from error
        if now.machine_id != self.before.machine_id:
            raise SafetyRefusal(
                f"{server.name} is another machine than before: {now.machine_id}, it was "
                f"{self.before.machine_id}",
                "nothing was done there",
            )
        return now.boot_id != self.before.boot_id

    def _await_ready(self, server: Host, end: float, within_s: float) -> None:
        """Its devices and its NFS server: what lets in over SSH may still be starting them.

        An nfs-server.service that starts later drops what was exported before (`exportfs -r`).
        """
        argv = ["sh", "-c", _MISSING, "sh", *self.run.site.device_paths.values()]
        while missing := server.run(argv, check=False).stdout.splitlines():
            if time.monotonic() > end:
                break
            time.sleep(_POLL_S)
        back = f"{within_s:g} s after {self.after}"
        if devices := [each for each in missing if each != _NFSD]:
            raise DeviceGone(
                f"{', '.join(devices)} on {server.name}: not there {back}",
                f"is it broken? if it only takes longer: back_within in {self.table}",
            )
        if missing:
            raise HostError(
                f"the NFS server of {server.name} does not run {back}",
                "it has to start by itself when the server boots: systemctl enable nfs-server there; then "
                "`hsp clean`",
            )
        udev.settle(server)


def take_again(run: Context) -> None:
    """After a boot: serial and size of each device, before anything touches it; directory, partitions."""
    assert run.site.guard and run.site.server, "a real site is guarded"
    run.site.guard.take_again(locks=True)
    # The pool is next, and opens them itself.
    run.site.guard.release()
    work_directory.create(run.site.server, run.run_id, run.token)
    server_setup.partition_again(run, run.site.server)


def of_run(run: Context, bench: Bench) -> PowerCut:
    """What cuts the power of a server or device that can be looked into."""
    site, storage = bench.site, bench.storage
    server = storage.server if storage else site.server
    assert server is not None, "an appliance has a cut of its own"
    witness = bench.site.clients[0].host if storage else server
    if site.devices is not None:
        return LabCut(bench, site.devices, witness, server, storage)
    name = cut_devices(run.plan.testbed)[0]
    of_server = run.plan.testbed.power is not None and run.plan.testbed.power.scope == "server"
    return RealCut(run, bench, server, witness, "" if of_server else site.device_paths[name])


def sleep(host: Host, clock: Clock, time_ns: int) -> None:
    """On the host's clock: that of a lab's guest is not this machine's."""
    if time_ns:
        seconds = clock.to_host_ns(time_ns) / 1e9
        host.run(["sleep", f"{seconds:.6f}"], deadline_s=seconds + 300)


def _block_devices(host: Host) -> set[str]:
    """Names in the kernel of all disks."""
    return set(host.run(["ls", "/sys/block"]).stdout.split())


def _settle(server: Host, storage: Storage | None, paths: tuple[str, ...]) -> None:
    if storage:
        server.run(["zpool", "sync", storage.pool.name])
    else:
        _forget_cached(server, paths)


def _forget_cached(server: Host, paths: tuple[str, ...]) -> None:
    """What the kernel still holds of the devices' content is from after the power loss."""
    for path in paths:
        server.run(["blockdev", "--flushbufs", path])
