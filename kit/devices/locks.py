"""Locks of a host and of its devices, from the first check to the end of the teardown.

A lock is a file below /run/hsp/locks with flock(2). A process on the host holds it and ends with the
connection to the kit, so no lock remains. The device nodes are not locked that long, because udev
ignores locked devices (docs/decisions/0009-device-locks.md).
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import json_value, safe_text
from kit.devices.inventory import Node
from kit.hosts.base import Closing, CommandResult, Host, Process

DIRECTORY = "/run/hsp/locks"
_HOST_LOCK = "host.lock"
_HELPER = Path(__file__).parents[1] / "remote" / "lock_devices.py"
_HELD = 3
_READY_S = 120.0
_END_S = 30.0
_POLL_S = 0.2
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Owner(BaseModel):
    """The owner of a lock: `run`, and the kit's process `pid` of `user` on `machine`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    run: str
    user: str
    machine: str
    pid: int
    since_unix_s: Annotated[float, Field(ge=0, lt=1e11)]

    def describe(self) -> str:
        """As text on one line."""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since_unix_s))
        text = f"by run {self.run} (process {self.pid} of {self.user} on {self.machine}, since {when})"
        return safe_text(text)[:500]


def _this_process(run: str) -> Owner:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Owner(run=run, user=user, machine=socket.gethostname(), pid=os.getpid(), since_unix_s=time.time())


def lock_names(node: Node) -> tuple[str, ...]:
    """Names of the two lock files of a device: by its identity and by its device number. Pure.

    Both are needed: a disk that was reconnected has another number, and a disk without a serial has
    only a number.
    """
    number = f"device-{node.device_number.replace(':', '-')}.lock"
    if not (node.serial or node.wwn):
        return (number,)
    identity = json.dumps([node.serial, node.wwn, node.model, node.size_bytes])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    readable = _UNSAFE.sub("_", node.serial or node.wwn)[:40]
    return (f"device-{readable}-{digest}.lock", number)


class Locks(Closing):
    """The locks of a host and of its devices, held until `close`."""

    _noun = "locks"

    def __init__(self, host: Host, nodes: Sequence[Node], run: str, *, whole_host: bool = True) -> None:
        """Take all locks or none. Raises SafetyRefusal with the owner of a held lock, HostError."""
        by_name = {name: f"/dev/{node.kernel_name}" for node in nodes for name in lock_names(node)}
        self._start(host, {_HOST_LOCK: "the host"} | by_name if whole_host else by_name, run)

    def _start(self, host: Host, by_name: Mapping[str, str], run: str) -> None:
        """Start the holder of `by_name`: names of locks and what each is of."""
        self._host, self._by_name = host, by_name
        self._token = f"ready-{secrets.token_hex(8)}"
        host.run(["mkdir", "-p", "-m", "0700", str(Path(DIRECTORY).parent)])
        # The program is an argument: stdin is closed at once, and the holder ends when its output is closed.
        argv = ["/usr/bin/python3", "-I", "-c", _HELPER.read_text(), DIRECTORY, self._token]
        self._process: Process = host.start([*argv, _this_process(run).model_dump_json(), *by_name])
        try:
            self._await()
        except BaseException:
            self.close()
            raise

    def _await(self) -> None:
        end = time.monotonic() + _READY_S
        while self._process.running():
            if self._host.run(["test", "-e", f"{DIRECTORY}/{self._token}"], check=False).returncode == 0:
                return
            if time.monotonic() > end:
                raise HostError(
                    f"on {self._host.name}: the locks were not taken within {_READY_S:g} s",
                    "is the host much busier than usual?",
                )
            time.sleep(_POLL_S)
        result = self._process.wait(_END_S)
        if result.returncode == _HELD:
            raise self._held(result)
        raise HostError(
            f"on {self._host.name}: devices cannot be locked: {result.stderr.strip()[-500:]}",
            "needed are flock (util-linux), python3 and a writable /run there",
        )

    def _held(self, ended: CommandResult) -> SafetyRefusal:
        name, owner_json = _told(ended)
        subject = self._by_name.get(name, "the host") if name else "the host or a device"
        try:
            owner = Owner.model_validate_json(owner_json).describe()
        except ValueError:
            owner = "by an unknown owner"
        return SafetyRefusal(
            f"{subject} on {self._host.name} is not touched: it is locked {owner}",
            "wait for the end of that run; its locks end with its process",
        )

    def check(self) -> None:
        """Check that they are still held. Raises SafetyRefusal if not."""
        if not self._process.running():
            raise SafetyRefusal(
                f"the {self._noun} on {self._host.name} were lost: the process that held them has ended",
                "was it killed, or the connection broken? start again",
            )

    def close(self) -> None:
        """Release the locks. Safe to call twice, and when the host is lost (its locks ended with it)."""
        with contextlib.suppress(HostError):
            if self._process.running():
                self._process.stop(_END_S, "TERM")


class ExclusiveClaim(Locks):
    """Devices opened exclusively (O_RDONLY | O_EXCL) until `close`: no other program mounts or formats them.

    `pid`: the process on the host that holds them, for kit.devices.probe.
    """

    _noun = "claims of the devices"

    def __init__(self, host: Host, kernel_names: Sequence[str], run: str) -> None:
        """Open all or none. Raises SafetyRefusal if one is in use, HostError."""
        self._start(host, {path: path for path in map(_device_path, kernel_names)}, run)
        self.pid = int(host.run(["cat", f"{DIRECTORY}/{self._token}"]).stdout)

    def _held(self, ended: CommandResult) -> SafetyRefusal:
        path, error = map(safe_text, _told(ended))
        return SafetyRefusal(
            f"{path or 'a device'} on {self._host.name} is not touched: it cannot be opened exclusively "
            f"({error or 'unknown error'})",
            "something began to use it just now; find it with lsblk and fuser; check with `hsp host disks`",
        )


def _told(ended: CommandResult) -> tuple[str, str]:
    """Of the holder that could not take all: which one, and its owner or why; twice "" if it does not say."""
    try:
        output = json_value(ended.stdout)
        return str(output["name"]), str(output["owner"])
    except (ValueError, KeyError, TypeError):
        return "", ""


def _device_path(kernel_name: str) -> str:
    return f"/dev/{kernel_name.replace('!', '/')}"
