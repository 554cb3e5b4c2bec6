"""Locks of a host and of its devices, from the first look at them to the end of the teardown.

They are files below /run/hsp/locks with flock(2), held by a process on the host that ends by itself when the
connection to the kit does: nothing is left behind whatever happens. The device nodes themselves are not
locked for that long, because udev does nothing for a device that is (docs/decisions/0009-device-locks.md).
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import safe_text
from kit.devices.inventory import Node
from kit.hosts.base import Host, Process, Result

DIRECTORY = "/run/hsp/locks"
_HOST_LOCK = "host.lock"
_HELPER = Path(__file__).parents[1] / "remote" / "lock_devices.py"
_HELD = 3
_READY_S = 120.0
_END_S = 30.0
_POLL_S = 0.2
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Owner(BaseModel):
    """Who holds a lock: `run`, and the kit's process `pid` of `user` on `machine`, since `since_unix_s`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    run: str
    user: str
    machine: str
    pid: int
    since_unix_s: Annotated[float, Field(ge=0, lt=1e11)]

    @classmethod
    def this(cls, run: str) -> Owner:
        return cls(
            run=run, user=_user(), machine=socket.gethostname(), pid=os.getpid(), since_unix_s=time.time()
        )

    def describe(self) -> str:
        """For a person, on one line."""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since_unix_s))
        text = f"by run {self.run} (process {self.pid} of {self.user} on {self.machine}, since {when})"
        return safe_text(text)[:500]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def lock_names(node: Node) -> tuple[str, ...]:
    """Two files a device: of what it says it is, and of the number the kernel knows it by. Pure.

    Either is enough to keep a second kit away: a disk that was plugged in again has another number, and
    one without a serial has only its number.
    """
    number = f"device-{node.device_number.replace(':', '-')}.lock"
    if not (node.serial or node.wwn):
        return (number,)
    told = json.dumps([node.serial, node.wwn, node.model, node.size_bytes])
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    readable = _UNSAFE.sub("_", node.serial or node.wwn)[:40]
    return (f"device-{readable}-{digest}.lock", number)


@contextmanager
def locked(host: Host, nodes: Sequence[Node], run: str, *, whole_host: bool = True) -> Iterator[Locks]:
    """Hold the host's lock and each device's for the block. Raises SafetyRefusal (one is held), HostError."""
    locks = Locks(host, nodes, run, whole_host=whole_host)
    try:
        yield locks
    finally:
        locks.release()


class Locks:
    """Locks that are held until `release`."""

    def __init__(self, host: Host, nodes: Sequence[Node], run: str, *, whole_host: bool = True) -> None:
        """Take them at once or not at all. Raises SafetyRefusal that says who holds one; HostError."""
        names = dict.fromkeys([_HOST_LOCK] * whole_host + [n for node in nodes for n in lock_names(node)])
        self._host = host
        self._token = f"ready-{secrets.token_hex(8)}"
        self._by_name = {name: f"/dev/{node.kernel_name}" for node in nodes for name in lock_names(node)}
        owner = Owner.this(run).model_dump_json()
        # As an argument: stdin is closed at once, and what ends the holder is the end of its output's reader.
        program = _HELPER.read_text()
        host.run(["mkdir", "-p", "-m", "0700", str(Path(DIRECTORY).parent)])
        self._process: Process = host.start(
            ["/usr/bin/python3", "-I", "-c", program, DIRECTORY, self._token, owner, *names]
        )
        try:
            self._await()
        except BaseException:
            self.release()
            raise

    def _await(self) -> None:
        end = time.monotonic() + _READY_S
        while self._process.running():
            if self._host.run(["test", "-e", f"{DIRECTORY}/{self._token}"], check=False).returncode == 0:
                return
            if time.monotonic() > end:
                raise HostError(
                    f"on {self._host.name}: the locks were not there within {_READY_S:g} s",
                    "is the host much busier than usual?",
                )
            time.sleep(_POLL_S)
        ended = self._process.wait(_END_S)
        if ended.returncode == _HELD:
            raise self._held(ended)
        raise HostError(
            f"on {self._host.name}: devices cannot be locked: {ended.stderr.strip()[-500:]}",
            "needed are flock (util-linux), python3 and a writable /run there",
        )

    def _held(self, ended: Result) -> SafetyRefusal:
        try:
            answer = json.loads(ended.stdout)
            what = self._by_name.get(str(answer["name"]), "the host")
            said = str(answer["owner"])
        except (ValueError, KeyError, TypeError):
            what, said = "the host or a device", ""
        try:
            owner = Owner.model_validate_json(said).describe()
        except ValueError:
            owner = "by somebody who did not leave a name"
        return SafetyRefusal(
            f"{what} on {self._host.name} is not touched: it is locked {owner}",
            "wait for the end of that run; its locks go by themselves when its process ends",
        )

    def check(self) -> None:
        """That they are still held. Raises SafetyRefusal: without them nothing is written."""
        if not self._process.running():
            raise SafetyRefusal(
                f"the locks on {self._host.name} were lost: what held them has ended",
                "was it killed, or the connection cut? begin again",
            )

    def release(self) -> None:
        """Let go. Safe to call twice, and when the host is lost (then they have gone by themselves)."""
        with contextlib.suppress(HostError):
            if self._process.running():
                self._process.stop(_END_S, "TERM")


__all__ = ["Locks", "Owner", "lock_names", "locked"]
