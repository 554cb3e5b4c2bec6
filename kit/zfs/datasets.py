"""The dataset of the pool under test: what makes it, its snapshots and its properties, on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.config.toml import Setting
from kit.core.errors import HostError
from kit.core.text import json_value, safe_text
from kit.core.units import parse_size_bytes
from kit.hosts.base import Command, Host
from kit.zfs.pool import properties_of, setting
from kit.zfs.properties import exact

ENCRYPTION = "encryption"
_HELPER = Path(__file__).parents[1] / "remote" / "create_dataset.py"


def create_dataset(
    server: Host, commands: Sequence[Command], dataset: str, properties: dict[str, Setting]
) -> None:
    """Execute `dataset_commands`, and check all values. Raises HostError."""
    create, *others = commands
    with_pyzfs(server, create)
    for command in others:
        command.run(server)
    in_effect = properties_of(server, "zfs", dataset, list(properties))
    for name, value in properties.items():
        expected = str(record_bytes(properties)) if name == "recordsize" else exact(name, value)
        # "on" is the cipher that OpenZFS takes by default.
        is_on = name == ENCRYPTION and expected == "on" and in_effect[name] != "off"
        if in_effect[name] != expected and not is_on:
            raise HostError(
                f"{dataset}: {name} was set to {expected} but is {in_effect[name]}",
                "this OpenZFS does not accept the value as the workload has it",
            )


def dataset_commands(
    dataset: str, run_id: str, properties: dict[str, Setting], key_file: str = ""
) -> list[Command]:
    """Create it with libzfs_core, which sets what cannot be set later, set the other properties, mount it.

    `key_file`: is made, with the key of an encrypted dataset.
    """
    others = {name: value for name, value in properties.items() if name not in ("recordsize", ENCRYPTION)}
    cipher = setting(properties[ENCRYPTION]) if is_encrypted(properties) else ""
    rest = [f"{name}={exact(name, value)}" for name, value in others.items()]
    return [
        _pyzfs_command(
            "create", dataset, run_id, str(record_bytes(properties)), *((cipher, key_file) if cipher else ())
        ),
        *([Command(("zfs", "set", *rest, dataset))] if rest else []),
        Command(("zfs", "set", "canmount=noauto", dataset)),
        Command(("zfs", "mount", dataset)),
    ]


def is_encrypted(properties: Mapping[str, Setting]) -> bool:
    return setting(properties.get(ENCRYPTION, "off")) != "off"


def snapshot_command(name: str, run_id: str) -> Command:
    """Snapshot DATASET@NAME, tagged with the run id."""
    return _pyzfs_command("snapshot", name, run_id)


def _pyzfs_command(*arguments: str) -> Command:
    """The program that calls libzfs_core: a verb, a name and more."""
    argv = ("/usr/bin/python3", "-I", "-", *arguments)
    return Command(argv, "kit/remote/create_dataset.py", _HELPER.read_bytes())


def with_pyzfs(server: Host, command: Command) -> None:
    """Execute a command of libzfs_core, and check that what it makes exists. Raises HostError."""
    answer = command.run(server)
    try:
        exists = json_value(answer.stdout)["exists"] is True
    except (ValueError, TypeError, KeyError):
        exists = False
    if not exists:
        said = safe_text(answer.stdout.strip()[:200])
        raise HostError(f"on {server.name}: libzfs_core did not create {command.argv[4]}: {said}")


def record_bytes(properties: dict[str, Setting]) -> int:
    """recordsize in bytes: a number, or a size with its unit. Raises ValueError for anything else."""
    value = properties.get("recordsize", 131072)
    size = parse_size_bytes(value) if isinstance(value, str) else int(value)
    if size < 512 or size > 16 << 20 or size & (size - 1):
        raise ValueError(f"recordsize must be a power of two from 512 to 16MiB, found {value!r}")
    return size


def mountpoint(server: Host, dataset: str) -> str:
    """Where the dataset is mounted on the server."""
    return server.run(["zfs", "get", "-H", "-p", "-o", "value", "mountpoint", dataset]).stdout.strip()
