"""Undo the changes that a crashed run left on its hosts.

The run directory has all data: the hosts (plan.json) and the pending undos (journal.jsonl). It may be a
stranger's, so it is trusted only if this machine's kit made it (kit.recovery.registry), or if a person
who was shown it agrees; and on each host the run's token is compared before anything else.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from kit.config.address import parse_address
from kit.core.errors import ConfigError, KitError, SafetyRefusal
from kit.core.progress import Progress
from kit.core.seed import RUN_ID
from kit.core.signals import ignore_interrupts
from kit.devices.locks import Locks
from kit.hosts.base import Host, HostLost
from kit.hosts.connect import CONNECT_DEADLINE_S, open_host, open_when_up
from kit.hosts.identity import HostIdentity, read_identity
from kit.hosts.supervision import SILENCE_S
from kit.recovery import power_undos, registry, remains, undo, work_directory, writers
from kit.recovery.journal import Journal, Leftover, Record, Undo, held_by, read_journal
from kit.store import json_file

_LOCK_WAIT_S = 30.0
# For a host of several that are lost, when the patience has gone to another.
_LAST_TRY_S = 10.0
# For a server whose power was just turned on.
_BOOT_S = 900.0
_HOST_KEY = re.compile(r"server|client[0-9]{1,4}")
# What may be undone on a host: all, or only what proves there to be the run's.
Allowed = Literal["all", "proven"]


@dataclass
class Cleaned:
    """The result for one run. `left`: failed undos; `unreachable`: errors of hosts that cannot be reached.

    `said`: the failed undos for a person, in as few lines as possible. `powered`: how often the power was
    turned on, which a host needs some minutes for.
    """

    run: Path
    undone: int = 0
    powered: int = 0
    left: list[Leftover] = field(default_factory=list)
    said: list[Leftover] = field(default_factory=list)
    unreachable: list[KitError] = field(default_factory=list)


@dataclass(frozen=True)
class Unfinished:
    """A run directory with an unfinished journal; `problem`: why its journal cannot be read."""

    path: Path
    problem: ConfigError | None = None


def unfinished(results: Path) -> Iterator[Unfinished]:
    """Oldest first. A journal that cannot be read stops none of the others."""
    for path in sorted(results.glob("*/*/journal.jsonl"), key=lambda p: p.parent.name):
        if path.parent.is_symlink():
            continue
        try:
            if not read_journal(path).finished:
                yield Unfinished(path.parent)
        except ConfigError as problem:
            yield Unfinished(path.parent, problem)


@dataclass(frozen=True)
class StoredHosts:
    """Addresses of a run's hosts, by the journal's keys, and the SSH configuration of the run."""

    addresses: dict[str, str]
    ssh_config: str | None

    @property
    def in_lab(self) -> bool:
        return set(self.addresses.values()) == {"lab"}


def stored_hosts(run: Path) -> StoredHosts:
    """The hosts in plan.json. Raises ConfigError."""
    path = run / "plan.json"
    plan = json_file.read_json(path)
    try:
        hosts = {str(key): str(host) for key, host in plan["hosts"].items()}
        for host in (hosts["server"], *hosts.values()):
            parse_address(host)
        for key in hosts:
            if not _HOST_KEY.fullmatch(key):
                raise ValueError(f"{key!r} is not the key of a host")
        config = plan["ssh_config"]
        return StoredHosts(hosts, None if config is None else str(config))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} does not name the hosts of the run: {str(error).splitlines()[0]}",
            "is this the directory of a run?",
        ) from None


def shares_hosts(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    """Whether both use the same host. Guests of the lab do not count: they end with their process."""
    return bool(set(a.values()) & set(b.values()) - {"lab", "none"})


def run_id(run: Path, record: Record) -> str:
    """The id in the journal; of old ones, the directory's name. Raises ConfigError."""
    name = record.run or run.name
    if not re.fullmatch(RUN_ID, name):
        raise ConfigError(f"{run}: '{name}' is not the id of a run", "was the directory renamed?")
    return name


def is_known(run: Path, record: Record) -> bool:
    """Whether this machine's kit made the run, in this directory, and has not finished it."""
    entry = registry.find(run_id(run, record))
    return (
        entry is not None
        and entry.path == str(run.resolve())
        and registry.digest(entry.token) == record.token_sha256
    )


def is_made(path: Path) -> bool:
    """Whether this machine's kit made the run or series in this directory, or has agreed to resume it."""
    if registry.is_remembered(path.name, path):
        return True
    try:
        return is_known(path, read_journal(path / "journal.jsonl"))
    except (KitError, OSError):
        return False


def describe(run: Path) -> list[str]:
    """What cleaning up would contact and undo, for a person. Contacts nothing. Raises ConfigError."""
    stored, record = stored_hosts(run), read_journal(run / "journal.jsonl")
    name = run_id(run, record)
    lines = [f"{key}: {address}" for key, address in stored.addresses.items()]
    lines.append(f"ssh_config: {stored.ssh_config or 'none but your own'}")
    for item in reversed(record.pending):
        try:
            action = undo.action_of(item, name, real_devices=not stored.in_lab)
            lines.append(f"undo: {action.text(stored.addresses.get(item.host, item.host))}")
        except KitError as error:
            lines.append(f"refused: {error.message}")
    return lines


def clean(
    run: Path,
    progress: Progress,
    agreed: str = "",
    journal: Journal | None = None,
    patience_s: float = 0.0,
) -> Cleaned:
    """Undo all pending changes. Safe to call again. `agreed`: the id of a run that a person was shown.

    `journal`: the run's, if this process has it already. `patience_s`: for how long a run that has just lost
    a host tries to reach it.

    Raises KitError; RunGoesOn while a process has the run, SafetyRefusal for a run that neither this
    machine's kit made nor a person agreed to: then nothing was contacted.
    """
    stored = stored_hosts(run)
    known = _check_agreed(run, read_journal(run / "journal.jsonl"), agreed)
    cleaned = Cleaned(run)
    with ExitStack() as stack:
        journal = journal or stack.enter_context(Journal(run / "journal.jsonl"))
        # Not the journal's own, which is of the moment at which a run opened it.
        record = read_journal(run / "journal.jsonl")
        name, pending = run_id(run, record), len(journal.pending)
        cleaner = _Cleaner(name, journal, record, stored, known, lost_one=patience_s > 0)
        if not stored.in_lab:
            cleaned.powered = _power_on(cleaner, progress)
            keys = {item.host for item in journal.pending}
            waits = patience_s > 0
            patience_s = max(patience_s, _BOOT_S if cleaned.powered else 0.0)
            cleaner.hosts.update(_open_all(stored, keys, stack, cleaned, patience_s))
            # The tokens before anything else, also before the server's lock.
            if "server" in [key for key in cleaner.hosts if cleaner.may_touch(key)]:
                # Of a server that was just lost the run's own lock lives until its silence is noticed.
                stack.enter_context(_lock(cleaner.hosts["server"], name, SILENCE_S if waits else 0.0))
        with ignore_interrupts(progress.note), progress.step(f"cleaning up after {run.name}"):
            cleaned.left = journal.teardown(partial(_told, progress, cleaner), cleaner.by_hand)
        cleaned.said = remains.grouped(cleaned.left, cleaner.short_names, run)
        cleaned.undone = pending - max(len(cleaned.left), len(journal.pending))
        if journal.settled:
            registry.leave(name)
    return cleaned


def _told(progress: Progress, cleaner: _Cleaner, item: Undo, left: frozenset[str]) -> None:
    """Undo `item`, and say which one it is."""
    progress.detail(item.text)
    cleaner.undo(item, left)


def _power_on(cleaner: _Cleaner, progress: Progress) -> int:
    """Turn on what a run has cut, before a host is contacted: it may be the one. Returns how many.

    What fails is left, and said with all that is left: hosts that are up are cleaned nevertheless.
    """
    here = [each for each in cleaner.journal.pending if each.host == power_undos.CONTROLLER]
    turned_on = 0
    for item in here:
        try:
            with progress.step(item.text):
                cleaner.journal.undo_now(item.number, lambda each: cleaner.undo(each, frozenset()))
            turned_on += 1
        except KitError as error:
            cleaner.failed[item.number] = error
    return turned_on


def _check_agreed(run: Path, record: Record, agreed: str) -> bool:
    """Whether this machine's kit made it. Raises SafetyRefusal if not, and it was not agreed to."""
    known, name = is_known(run, record), run_id(run, record)
    entry = registry.find(name)
    # The copy of a run is not the file that the run has locked.
    if entry and not known and (goes_on := held_by(Path(entry.path) / "journal.jsonl")):
        raise goes_on
    if not known and agreed != name and record.pending:
        raise SafetyRefusal(
            f"{run} is not a run that this machine's kit knows it made and has not finished; nothing was "
            "contacted",
            f"`hsp clean {run}` shows its hosts and what it would undo there; `--agree {name}` agrees to it",
        )
    return known


@dataclass
class _Cleaner:
    """Undoes one after the other. `known`: this machine's kit made the run; `lost_one`: it has just lost a
    host."""

    run: str
    journal: Journal
    record: Record
    stored: StoredHosts
    known: bool
    lost_one: bool
    hosts: dict[str, Host] = field(default_factory=dict)
    # What was tried before the hosts were contacted, by the undo's number: it is not tried twice.
    failed: dict[int, KitError] = field(default_factory=dict)
    allowed: dict[str, Allowed | KitError] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def undo(self, item: Undo, left: frozenset[str]) -> None:
        """Raises KitError."""
        if self.stored.in_lab:
            # The guest ended with the run.
            return
        if item.number in self.failed:
            raise self.failed[item.number]
        if item.host in self.stored.addresses and item.host not in self.hosts:
            raise HostLost(f"{self.stored.addresses[item.host]} was not reached")
        proven = item.host in self.hosts and self._look(item.host) == "proven"
        undo.undo(item, self.hosts, left, self.run, real_devices=True, proven=proven, lost=self.lost)

    def by_hand(self, item: Undo) -> tuple[str, ...]:
        return undo.by_hand(item, {**self.stored.addresses, **self._names}, self.run)

    @property
    def _names(self) -> dict[str, str]:
        return {key: host.name for key, host in self.hosts.items()}

    @property
    def short_names(self) -> dict[str, str]:
        """Of the hosts, also of those that are not reached."""
        addresses = self.stored.addresses.items()
        return {key: parse_address(each).name for key, each in addresses} | self._names

    def _rebooted(self, key: str, now: HostIdentity) -> bool:
        then = self.record.hosts.get(key)
        return then is not None and then.boot_id != now.boot_id

    def may_touch(self, key: str) -> bool:
        """Whether something may be undone on the host."""
        with contextlib.suppress(KitError):
            return bool(self._look(key))
        return False

    def _look(self, key: str) -> Allowed:
        """What may be undone on the host; it is looked at once. Raises KitError: nothing."""
        if key not in self.allowed:
            try:
                self.allowed[key] = self._allow(key, self.hosts[key])
            except KitError as error:
                self.allowed[key] = error
        allowed = self.allowed[key]
        if isinstance(allowed, KitError):
            raise allowed
        return allowed

    def _allow(self, key: str, host: Host) -> Allowed:
        allowed = self._allowed_by_token(key, host)
        # A host that hears nothing of the kit ends the run's commands by itself.
        more_s = SILENCE_S if self.lost_one else 0.0
        writers.refuse_any(host, self.run, self._devices(key), more_s)
        return allowed

    def _devices(self, key: str) -> list[str]:
        """Those of the undos on a host. An undo that is damaged or foreign is refused later."""
        used: list[str] = []
        for item in self.journal.pending:
            if item.host == key:
                with contextlib.suppress(KitError):
                    used += undo.action_of(item, self.run, real_devices=True).devices_used
        return used

    def _allowed_by_token(self, key: str, host: Host) -> Allowed:
        then, now = self.record.hosts.get(key), read_identity(host)
        if then and then.machine_id != now.machine_id:
            raise SafetyRefusal(
                f"{host.name} is another machine than the run's: machine id {now.machine_id}, "
                f"the run's had {then.machine_id}",
                "nothing was done there",
            )
        owner = work_directory.owner(host, self.run, self.record.token_sha256)
        if owner == "this run":
            return "all"
        if owner == "another":
            raise SafetyRefusal(
                f"{host.name}: {work_directory.path_of(self.run)} has the token of another run",
                "nothing was done there",
            )
        # The directory is made first and removed last. It has no token where a run, or the removal, was
        # interrupted; it is gone after a restart, and where the journal could not be written any more.
        only_directory = all(u.kind == work_directory.KIND for u in self.journal.pending if u.host == key)
        if owner == "none" and (only_directory or self.known or self._rebooted(key, now)):
            return "proven"
        if only_directory and self.known:
            return "proven"
        raise SafetyRefusal(
            f"{host.name} does not have the token of the run in {work_directory.path_of(self.run)}",
            "so it is not known whether what is there is the run's; nothing was done there",
        )


def _lock(server: Host, run: str, more_s: float = 0.0) -> Locks:
    """Take the server's lock. The lock of a killed run ends by itself after a while."""
    end = time.monotonic() + _LOCK_WAIT_S + more_s
    while True:
        try:
            return Locks(server, [], run)
        except SafetyRefusal:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _open_all(
    stored: StoredHosts, keys: Container[str], stack: ExitStack, cleaned: Cleaned, patience_s: float
) -> dict[str, Host]:
    """Those of `keys` that can be reached within `patience_s`; undos of the others stay pending."""
    hosts: dict[str, Host] = {}
    end = time.monotonic() + patience_s
    for key, address in stored.addresses.items():
        if address in ("none", "lab") or key not in keys:
            continue
        try:
            left_s = end - time.monotonic()
            deadline_s = (
                min(max(left_s, _LAST_TRY_S), CONNECT_DEADLINE_S) if patience_s else CONNECT_DEADLINE_S
            )
            opening = partial(open_host, parse_address(address), stored.ssh_config, deadline_s)
            hosts[key] = stack.enter_context(open_when_up(opening, left_s))
        except KitError as error:
            cleaned.unreachable.append(error)
    return hosts


def advice(run: str) -> str:
    """What to do about a run that has left something, by whether it still lives."""
    entry = registry.find(run)
    if entry is None:
        return (
            f"this machine's kit does not know {run}: if it still goes on, wait for it; else `hsp clean` its "
            "directory on the machine that made it"
        )
    try:
        goes_on = held_by(Path(entry.path) / "journal.jsonl")
    except (KitError, OSError):
        goes_on = None
    if goes_on:
        return f"{goes_on.message}: wait for it"
    return f"that run was ended before it could clean up: `hsp clean {entry.path}`"
