"""Undo the changes that a crashed run left on its hosts.

The run directory has all data: the hosts (plan.json) and the pending undos (journal.jsonl).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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
    """The result for one run. `left`: failed undos; `unreachable`: errors of hosts that cannot be reached."""

    run: Path
    undone: int = 0
    left: list[Leftover] = field(default_factory=list)
    unreachable: list[KitError] = field(default_factory=list)


def unfinished(results: Path) -> Iterator[Path]:
    """Run directories with an unfinished journal, oldest first."""
    for path in sorted(results.glob("*/*/journal.jsonl"), key=lambda p: p.parent.name):
        if not path.parent.is_symlink() and not read_journal(path).finished:
            yield path.parent


@dataclass(frozen=True)
class StoredHosts:
    """Addresses of a run's hosts, by the journal's keys, and the SSH configuration of the run."""

    addresses: dict[str, str]
    ssh_config: str | None


def stored_hosts(run: Path) -> StoredHosts:
    """The hosts in plan.json. Raises ConfigError."""
    path = run / "plan.json"
    try:
        plan = json.loads(path.read_text())
        hosts = {str(key): str(host) for key, host in plan["hosts"].items()}
        for host in (hosts["server"], *hosts.values()):
            parse_address(host)
        config = plan["ssh_config"]
        return StoredHosts(hosts, None if config is None else str(config))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} does not name the hosts of the run: {str(error).splitlines()[0]}",
            "is this the directory of a run?",
        ) from None


def shares_hosts(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    """Whether both use the same host. Guests of the lab do not count: they end with their process."""
    return bool(set(a.values()) & set(b.values()) - {"lab", "none"})


def clean(run: Path, progress: Progress) -> Cleaned:
    """Undo all pending changes. Safe to call again. Raises KitError; SafetyRefusal while the run goes on."""
    cleaned, stored = Cleaned(run), stored_hosts(run)
    is_lab = stored.addresses["server"] == "lab"
    with ExitStack() as stack:
        hosts = {} if is_lab else _open_all(stored, stack, cleaned)
        if "server" in hosts:
            stack.enter_context(_lock(hosts["server"], run.name))
        with Journal(run / "journal.jsonl") as journal:
            pending = len(journal.pending)
            with ignore_interrupts(progress.note), progress.step(f"cleaning up after {run.name}"):
                # The lab's guest ended with the run.
                cleaned.left = (
                    journal.teardown(lambda item, kinds: None) if is_lab else undo.tear_down(journal, hosts)
                )
            cleaned.undone = pending - len(journal.pending)
    return cleaned


def _lock(server: Host, run: str) -> Locks:
    """Take the server's lock. The lock of a killed run ends by itself after a while."""
    end = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            return Locks(server, [], run)
        except SafetyRefusal:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _open_all(stored: StoredHosts, stack: ExitStack, cleaned: Cleaned) -> dict[str, Host]:
    """All hosts that can be reached; undos of the others stay pending."""
    hosts: dict[str, Host] = {}
    for key, address in stored.addresses.items():
        if address == "none":
            continue
        try:
            hosts[key] = stack.enter_context(open_host(parse_address(address), stored.ssh_config))
        except KitError as error:
            cleaned.unreachable.append(error)
    return hosts
