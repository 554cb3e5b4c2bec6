"""The lab guest: start it, reach it over SSH, end it and remove its state."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import select
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import Closing, Host
from kit.hosts.local import LocalHost
from kit.hosts.ssh import SshHost
from kit.lab.qemu import (
    HAND_OVER,
    HAND_OVER_BYTES,
    KEYS_BYTES,
    QEMU,
    QEMU_PACKAGE,
    READY_LINE,
    SSH_PORTS,
    LabSpec,
    SavedGuest,
    command_line,
    installed,
)
from kit.lab.supervisor import LOCK

BOOT_DEADLINE_S = 480.0
RESUME_DEADLINE_S = 120.0
SSH_DEADLINE_S = 120.0
# The first key exchange takes an emulated CPU a few seconds, on a busy machine more.
_SSH_ATTEMPT_S = 40.0
_HANG_UP_S = 0.5
# About once in ninety starts of the tracer, with many commands during it, sshd was left asleep
# in poll with data waiting on its virtio-serial port (docs/decisions/0006); any message wakes it.
_NUDGE_S = 5.0
_PREFIX = "lab-"
# A guest that boots only to be saved is not listed as a lab.
_SAVING_PREFIX = "save-"
_STATES = (_PREFIX, _SAVING_PREFIX)
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_POLL_S = 0.1
_MAKING_S = 60.0
# The flush drops an earlier file from the guest's page cache. Arguments: disk, bytes, target.
_COPY = 'blockdev --flushbufs "$1" && head -c "$2" "$1" >"$3"'
_RESUME_HINT = "if this happens again, the saved guest is damaged: remove it below ~/.cache/hsp/warm"
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")


def runtime_dir() -> Path:
    """A private directory for sockets and keys of running labs. Raises HostError."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(base) / "hsp" if base else Path(tempfile.gettempdir()) / f"hsp-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", "the lab needs it for its sockets") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise HostError(
            f"{path} is not a private directory of this user", "remove it, or set XDG_RUNTIME_DIR"
        )
    return path


def running_labs() -> Iterator[dict[str, Any]]:
    """The description (lab.json) of each running lab; removes the state of labs whose supervisor is dead."""
    for state in sorted(path for path in runtime_dir().iterdir() if path.name.startswith(_STATES)):
        try:
            lab = json.loads((state / "lab.json").read_text())
            pid = int(lab["supervisor_pid"])
        except (OSError, ValueError, KeyError, TypeError):
            lab, pid = None, None
        try:
            alive = _is_supervised(state, pid)
        except OSError:  # just removed by its supervisor, or not to be judged
            continue
        if alive and lab and state.name.startswith(_PREFIX):
            yield {**lab, "state": os.fspath(state), "detached": (state / "detached").exists()}
        elif not alive:
            shutil.rmtree(state, ignore_errors=True)


def _is_supervised(state: Path, pid: int | None) -> bool:
    """Whether the supervisor of `state` lives: it holds a lock there. `pid`: its process id, if known.

    Raises OSError if that cannot be determined.
    """
    try:
        lock = os.open(state / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        if pid is None:  # just being made, or its supervisor was killed before it had the lock
            return time.time() - state.lstat().st_mtime < _MAKING_S
        return is_supervisor(pid)  # made by a version of the kit without locks
    try:
        # Shared, because other readers may look at the same moment.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def is_supervisor(pid: int) -> bool:
    """Whether process `pid` is a supervisor. Raises OSError if that cannot be determined."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return re.search(rb"kit[./]lab[./]supervisor", command) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False


class RunningLab(Closing):
    """One guest. Use as a context manager; `close` ends it and removes its state.

    `resume`: a saved guest to resume (kit.lab.warm). `root`: an overlay of the image's disk for the guest's
    writes; such a guest gets no keys and waits for them.
    """

    def __init__(self, spec: LabSpec, resume: SavedGuest | None = None, root: Path | None = None) -> None:
        installed(QEMU, QEMU_PACKAGE)
        self.spec, self._resumed = spec, resume is not None
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        client_key = asyncssh.generate_private_key("ssh-ed25519")
        keys = {
            "etc/ssh/hsp_host_ed25519": host_key.export_private_key(),
            "etc/ssh/hsp_authorized_keys": client_key.export_public_key(),
            "run/hsp-random-seed": _random_seed(spec.seed),
        }
        self._supervisor = _Supervisor(
            files={
                "keys.tar": bytes(KEYS_BYTES) if root else _tar(keys),
                "client.key": client_key.export_private_key(),
                "host.pub": host_key.export_public_key(),
            },
            argv=command_line(spec, root, resume),
            prefix=_SAVING_PREFIX if root else _PREFIX,
            sparse={HAND_OVER: HAND_OVER_BYTES, **{disk.name: disk.size_bytes for disk in spec.extra_disks}},
            one_cpu=spec.clock.kind == "virtual",
            info={
                "clock": spec.clock.kind,
                "dilation": spec.clock.dilation,
                "image": os.fspath(spec.image_dir),
            },
        )
        self.state = self._supervisor.state

    def wait_ready(self, deadline_s: float | None = None, line: str = READY_LINE) -> None:
        """Wait until the guest's init prints `line` on the console. Raises HostError with the cause."""
        if deadline_s is None:
            deadline_s = RESUME_DEADLINE_S if self._resumed else BOOT_DEADLINE_S
        end = time.monotonic() + deadline_s
        while line not in self.console():
            cause = self.diagnose()
            if cause or time.monotonic() > end:
                why = f": {cause}" if cause else f" within {deadline_s:g} s"
                hint = _RESUME_HINT if self._resumed else self._console_hint()
                raise HostError(f"the lab guest did not come up{why}", hint)
            time.sleep(_POLL_S)

    def host(self, port: int = 0) -> SshHost:
        """The guest as a host, over serial line `port`."""
        return open_host(self.state, port, self.diagnose)

    def hand_over(self, guest: Host, content: bytes, target: str, deadline_s: float) -> None:
        """Copy `content` to the guest's file `target` through the transfer disk. Raises HostError."""
        if len(content) > HAND_OVER_BYTES:
            raise HostError(f"{len(content)} bytes are too many for the lab's transfer disk")
        path, source = self.state / HAND_OVER, f"/dev/disk/by-id/virtio-hsp-{HAND_OVER}"
        try:
            with path.open("r+b") as disk:
                try:
                    disk.write(content)
                    disk.flush()
                    guest.run(
                        ["sh", "-c", _COPY, "sh", source, str(len(content)), target], deadline_s=deadline_s
                    )
                finally:
                    # The file may be in a tmpfs: free its memory.
                    disk.truncate(0)
                    disk.truncate(HAND_OVER_BYTES)
        except OSError as error:
            raise HostError(
                f"{path}: {error.strerror}", "free some space there, or set XDG_RUNTIME_DIR"
            ) from error

    def inner_host(self, guest: SshHost, name: str, address: str) -> SshHost:
        """An sshd in the guest's own networks as a host, reached through the guest. Raises HostLost."""

        async def connect() -> asyncssh.SSHClientConnection:
            options = _ssh_options(self.state)
            return await asyncssh.connect(address, tunnel=guest.connection, options=options)

        return SshHost(name, connect, SSH_DEADLINE_S, self.diagnose, _NUDGE_S)

    def console(self) -> str:
        """Console output of the guest's kernel and init."""
        return _text(self.state / "console.log")

    def _console_hint(self) -> str:
        lines = [line for line in self.console().splitlines() if line.strip()][-5:]
        shown = "\n".join(f"  {''.join(c for c in line if c.isprintable())}" for line in lines)
        return f"the last lines of its console:\n{shown}" if shown else "its console is empty"

    def diagnose(self) -> str:
        """Why the guest ended or crashed; "" if no problem is known."""
        if panic := _PANIC.search(self.console()):
            return f"guest kernel panic: {panic[1].strip()}"
        code = self._supervisor.exit_code()
        if code is not None:
            output = _text(self.state / "qemu.log").strip()[-500:]
            return f"QEMU ended with {code}" + (f": {output}" if output else "")
        return ""

    def versions(self) -> dict[str, str]:
        """Version of QEMU."""
        match = re.search(r"version (\S+)", LocalHost().run([QEMU, "--version"]).stdout)
        return {"qemu": match[1] if match else "unknown"}

    def detach(self) -> None:
        """Let the guest run on after the end of this process."""
        (self.state / "detached").touch()
        self._supervisor.detach()

    def close(self) -> None:
        """End the guest and remove its state. Safe to call twice."""
        self._supervisor.close()


class _Supervisor:
    """The CLI's end of the pipe to kit.lab.supervisor, whose first line has `files` and the other `keys`."""

    def __init__(self, files: dict[str, bytes], **keys: Any) -> None:
        encoded = {name: base64.b64encode(content).decode() for name, content in files.items()}
        base = os.fspath(runtime_dir())
        spec = {"base": base, "prefix": _PREFIX, "files": encoded, "sparse": {}, "one_cpu": False, **keys}
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", os.fspath(_SUPERVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._exit_code: int | None = None
        self._detached = False
        assert self._child.stdin and self._child.stdout
        try:
            self._child.stdin.write(json.dumps(spec).encode() + b"\n")
            self._child.stdin.flush()
            answer = json.loads(self._child.stdout.readline() or b"{}")
            if "state" not in answer:
                raise HostError(f"the lab could not be started: {answer.get('error', 'no answer')}")
        except BaseException:
            self.close()
            raise
        self.state = Path(answer["state"])

    def exit_code(self) -> int | None:
        """QEMU's exit code; None while it runs."""
        assert self._child.stdout
        if self._exit_code is None and select.select([self._child.stdout], [], [], 0)[0]:
            line = self._child.stdout.readline()
            self._exit_code = json.loads(line)["exited"] if line else -1
        return self._exit_code

    def detach(self) -> None:
        assert self._child.stdin
        self._child.stdin.write(b"detach\n")
        self._child.stdin.close()
        self._detached = True

    def close(self) -> None:
        assert self._child.stdin and self._child.stdout
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        if not self._detached:
            self._child.wait()
        self._child.stdout.close()


def open_host(state: Path, port: int, diagnose: Callable[[], str] | None = None) -> SshHost:
    """Connect to a running guest by its state directory. Raises HostLost."""

    async def connect() -> asyncssh.SSHClientConnection:
        # A broken session may still occupy the serial line; it ends when this side hangs up.
        while True:
            try:
                return await asyncio.wait_for(attempt(), _SSH_ATTEMPT_S)
            except (TimeoutError, asyncssh.ConnectionLost, asyncssh.ProtocolError):
                if diagnose and diagnose():
                    raise
                await asyncio.sleep(_HANG_UP_S)

    async def attempt() -> asyncssh.SSHClientConnection:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        line.connect(os.fspath(state / f"ssh{port}.sock"))
        return await asyncssh.connect("hsp-lab", sock=line, options=_ssh_options(state))

    return SshHost("lab", connect, SSH_DEADLINE_S, diagnose, _NUDGE_S)


def _ssh_options(state: Path) -> asyncssh.SSHClientConnectionOptions:
    """SSH options for the sshds of a lab: this boot's keys, and algorithms that are fast under emulation."""
    return asyncssh.SSHClientConnectionOptions(
        username="root",
        client_keys=[asyncssh.read_private_key(state / "client.key")],
        known_hosts=([asyncssh.read_public_key(state / "host.pub")], [], []),
        config=None,
        agent_path=None,
        # The guest's clock is not ours: asyncssh's own timers must not end the session.
        login_timeout=0,
        connect_timeout=0,
        keepalive_interval=0,
        kex_algs=["curve25519-sha256"],
        encryption_algs=["aes128-gcm@openssh.com"],
        compression_algs=None,
    )


def free_port() -> int:
    """A serial line for a shell beside a run, which uses line 0."""
    return 1 + os.getpid() % (SSH_PORTS - 1)


def probe_real_clock(spec: LabSpec, deadline_s: float = 30.0) -> str:
    """Boot once with KVM; returns "" on success, else why the real clock cannot be used.

    Even with a working /dev/kvm a guest can hang before its first message: only a complete boot is proof.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm is missing, or this user must not use it"
    try:
        with RunningLab(replace(spec, clock=Clock("real"))) as lab:
            lab.wait_ready(deadline_s)
    except HostError as error:
        return error.message
    return ""


def _random_seed(seed: int | None) -> bytes:
    """Seed for the random numbers of the guest's kernel: 64 bytes."""
    return secrets.token_bytes(64) if seed is None else hashlib.sha512(str(seed).encode()).digest()


def _tar(files: dict[str, bytes]) -> bytes:
    """A tar archive, padded to the size of the disk with the keys."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue().ljust(KEYS_BYTES, b"\0")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
