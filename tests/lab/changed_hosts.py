"""Hosts that are not what the kit looked at: tools that fail or print garbage, a disk that was exchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import SafetyRefusal
from kit.devices.check import Guard
from kit.hosts.base import CommandResult, Process
from tests.lab.rig import Rig


class Tampered:
    """The guest with other tools: what is in `tools` (name: shell script) comes first in the PATH."""

    def __init__(self, rig: Rig, **tools: str) -> None:
        self.host, self.name = rig.host, rig.host.name
        self.folder = "/run/hsp-test-tools"
        self.host.run(["mkdir", "-p", self.folder])
        for tool, script in tools.items():
            self.host.put(f"#!/bin/sh\n{script}\n".encode(), f"{self.folder}/{tool}")
            self.host.run(["chmod", "0755", f"{self.folder}/{tool}"])

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        path = f"PATH={self.folder}:/usr/sbin:/usr/bin"
        return self.host.run(["env", path, *argv], **options)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        return self.host.start(argv, output, stdin)

    def close(self) -> None:
        self.host.run(["rm", "-r", self.folder])


HANGS = "exec sleep 100000000"
GARBAGE = "head -c 4096 /dev/urandom"


SILENT: tuple[tuple[dict[str, str], str], ...] = (
    ({"zdb": "exit 139"}, "zdb -l /dev/vd"),
    ({"zdb": GARBAGE}, "zdb -l /dev/vd"),
    ({"wipefs": GARBAGE}, "wipefs"),
    ({"lsblk": GARBAGE}, "lsblk --json --bytes"),
    ({"zpool": HANGS}, "did not end within"),
    ({"zpool": 'case "$*" in *guid*) printf "x\\t1\\n";; esac'}, "a pool without devices"),
)
"""Tools that do not tell, and what the refusal names."""

ALSO_SILENT: tuple[tuple[dict[str, str], str], ...] = (
    ({"zdb": HANGS}, "did not end within"),
    ({"wipefs": "exit 1"}, "wipefs --no-act --json: ended with 1"),
    ({"lsblk": 'echo "{}"'}, "lsblk --json --bytes"),
    ({"zpool": "echo 'The ZFS modules are not loaded.' >&2; exit 1"}, "The ZFS modules are not loaded"),
)
"""The same tools in another way."""


@contextlib.contextmanager
def sd1_is_exchanged(rig: Rig, guard: Guard) -> Iterator[str]:
    """A hot swap; the other disk is in the slot then. Gives the link of the first, which is not there."""
    rig.pull("sd1")
    try:
        with pytest.raises(SafetyRefusal, match="plan is void, because it was there and is not"):
            guard.before_writing()
        rig.plug("sd1", serial="HSPOTHER")
        with pytest.raises(SafetyRefusal, match="plan is void, because it was there and is not"):
            guard.before_writing()
        yield rig.by_id["sd1"]
    finally:
        other = rig.host.run(
            ["readlink", "-f", rig.by_id["sd1"].replace("HSPSD1", "HSPOTHER")]
        ).stdout.strip()
        with contextlib.suppress(RuntimeError):  # not plugged in
            rig.monitor("device_del", id="dev-sd1")
        rig.host.run(["sh", "-c", 'while [ -b "$1" ]; do sleep 0.1; done', "sh", other], deadline_s=60)
        rig.host.run(["rm", "-f", rig.by_id["sd1"]])
        rig.plug("sd1")
