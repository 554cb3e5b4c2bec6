"""Finishing what a run that crashed has left on its hosts.

Everything is in the run's directory: which hosts (plan.json), and what is to be undone (journal.jsonl).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kit.config.address import parse_address
from kit.core.errors import ConfigError, KitError, SafetyRefusal
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts
from kit.devices.locks import Locks
from kit.hosts.base import Host
from kit.hosts.connect import open_host
from kit.recovery import undo
from kit.recovery.journal import Journal, Leftover, read_journal

_LOCK_WAIT_S = 30.0


@dataclass
class Cleaned:
    """What came of one run. `left` is what could not be undone, `unreachable` which hosts were not there."""

    run: Path
    undone: int = 0
    left: list[Leftover] = field(default_factory=list)
    unreachable: list[KitError] = field(default_factory=list)


def unfinished(results: Path) -> Iterator[Path]:
    """Directories of runs whose journal was begun and not finished, oldest first."""
    for path in sorted(results.glob("*/*/journal.jsonl"), key=lambda p: p.parent.name):
        if not path.parent.is_symlink() and not read_journal(path).finished:
            yield path.parent


@dataclass(frozen=True)
class StoredHosts:
    """Where the hosts of a run are, by the journal's keys, and the SSH configuration that it used."""

    addresses: dict[str, str]
    ssh_config: str | None


def stored_hosts(run: Path) -> StoredHosts:
    """As it was started then. Raises ConfigError."""
    path = run / "plan.json"
    try:
        plan = json.loads(path.read_text())
        if "hosts" not in plan and plan["testbed"]["server"]["host"] == "lab":
            # Of a version that knew only the lab, whose guests go with their process.
            return StoredHosts({"server": "lab"}, None)
        hosts = {str(key): str(host) for key, host in plan["hosts"].items()}
        for host in (hosts["server"], *hosts.values()):
            parse_address(host)
        config = plan["ssh_config"]
        return StoredHosts(hosts, None if config is None else str(config))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} does not say which hosts the run used: {str(error).splitlines()[0]}",
            "is this the directory of a run, made by this version?",
        ) from None


def shares_hosts(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether both use a host that can keep something; guests of the lab go with their process."""
    return bool(set(one.values()) & set(other.values()) - {"lab", "none"})


def clean(run: Path, progress: Progress) -> Cleaned:
    """Undo what is pending, and say what is left. Safe to call again. Raises KitError
    if it is still going on."""
    cleaned, stored = Cleaned(run), stored_hosts(run)
    is_lab = stored.addresses["server"] == "lab"
    with ExitStack() as stack:
        hosts = {} if is_lab else _open_all(stored, stack, cleaned)
        if "server" in hosts:
            stack.enter_context(_lock(hosts["server"], run.name))
        with Journal(run / "journal.jsonl") as journal:
            pending = len(journal.pending)
            with ignore_interrupts(progress.note), progress.step(f"cleaning up after {run.name}"):
                cleaned.left = _undo(journal, hosts, is_lab)
            cleaned.undone = pending - len(journal.pending)
    return cleaned


@contextmanager
def _lock(server: Host, run: str) -> Iterator[None]:
    """The server's lock. That of a run that was killed goes by itself, but not at once."""
    end = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            locks = Locks(server, [], run)
            break
        except SafetyRefusal:
            if time.monotonic() > end:
                raise
            time.sleep(1)
    try:
        yield
    finally:
        locks.release()


def _undo(journal: Journal, hosts: Mapping[str, Host], is_lab: bool) -> list[Leftover]:
    if is_lab:
        # The guest was the run's own, and went with it.
        return journal.teardown(lambda item, kinds: None)
    return journal.teardown(
        lambda item, kinds: undo.undo(item, hosts, kinds), lambda item: undo.by_hand(item, hosts)
    )


def _open_all(stored: StoredHosts, stack: ExitStack, cleaned: Cleaned) -> dict[str, Host]:
    """As many as can be reached: what is on the others stays pending."""
    hosts: dict[str, Host] = {}
    for key, address in stored.addresses.items():
        if address == "none":
            continue
        try:
            hosts[key] = stack.enter_context(open_host(parse_address(address), stored.ssh_config))
        except KitError as error:
            cleaned.unreachable.append(error)
    return hosts
