"""Module parameters that an unfinished run of this machine has left in force, for all pools of a server."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from kit.core.errors import KitError
from kit.core.text import safe_text
from kit.recovery import host_undos, registry
from kit.recovery.clean import is_known, stored_hosts
from kit.recovery.journal import held_by, read_journal
from kit.zfs import parameters


def left_on(addresses: Collection[str]) -> Iterator[str]:
    """A sentence for each, of the servers at these addresses; nothing of runs that go on."""
    for entry in registry.entries():
        path = Path(entry.path)
        try:
            record, hosts = read_journal(path / "journal.jsonl"), stored_hosts(path).addresses
            if held_by(path / "journal.jsonl") or not is_known(path, record):
                continue
        except (KitError, OSError):
            continue
        for item in record.pending:
            name, address = str(item.arguments.get("name")), hosts.get(item.host)
            parameter = parameters.known().get(name)
            is_unsafe = item.kind == host_undos.UndoTunable.kind and parameter and parameter.keeps_data
            if is_unsafe and address in addresses:
                value = safe_text(str(item.arguments.get("set")))
                yield (
                    f"{name} of {address} was set to {value} by the run {path}, which was ended before it "
                    "could set it back: it changes what keeps the data of all pools there. "
                    f"`hsp clean {path}` sets it back"
                )
