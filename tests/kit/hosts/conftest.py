"""An OpenSSH server for the tests, on loopback, run by the user of the tests."""

from __future__ import annotations

import contextlib
import getpass
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.hosts import ssh
from kit.hosts.ssh import SshHost

SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))


@dataclass
class Sshd:
    """A running server. `directory` holds its keys; `config` is a client's configuration for it."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]
    user: str

    @property
    def host_key(self) -> Path:
        return self.directory / "host_ed25519"

    @property
    def user_key(self) -> Path:
        return self.directory / "user_ed25519"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def known_line(self, name: str = "", key: Path | None = None) -> str:
        public = (key or self.host_key).with_suffix(".pub").read_text().split()
        return f"{name or f'[127.0.0.1]:{self.port}'} {public[0]} {public[1]}\n"

    def config(
        self,
        directory: Path,
        known: str | None = None,
        *,
        files: str = "",
        alias: str = "far",
        more: str = "",
    ) -> Path:
        """Adds a Host to `directory`/config, which it returns. `known`: text of `directory`/known_hosts, by
        default this server's key. `files`: other known_hosts files instead."""
        if not files:
            (directory / "known_hosts").write_text(self.known_line() if known is None else known)
        with (directory / "config").open("a") as file:
            file.write(
                f"Host {alias}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {self.user}\n"
                f"  IdentityFile {self.user_key}\n  IdentityAgent none\n"
                f"  UserKnownHostsFile {files or directory / 'known_hosts'}\n"
                f"  GlobalKnownHostsFile none\n{more}\n"
            )
        return directory / "config"


def keygen(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def run_sshd(
    directory: Path,
    *,
    options: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (),
    user: str | None = None,
    prepared: Callable[[], object] = lambda: None,
) -> Iterator[Sshd]:
    """Start a server, and end it by its process id. `prefix` runs before sshd (a namespace),
    `prepared` is called when the keys are there."""
    if SSHD is None:
        pytest.fail("sshd is not installed (apt-get install openssh-server); ./hsp test installs it")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    keygen(directory / "host_ed25519")
    keygen(directory / "user_ed25519")
    authorized = directory / "authorized_keys"
    authorized.write_text((directory / "user_ed25519.pub").read_text())
    # The ordinary user of the sudo tests reads it too.
    authorized.chmod(0o644)
    prepared()
    port = free_port()
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": str(directory / "host_ed25519"),
        "AuthorizedKeysFile": str(authorized),
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "PrintMotd": "no",
        # The property tests open many channels at once, the others many connections.
        "MaxSessions": "64",
        "MaxStartups": "100",
        "LogLevel": "VERBOSE",
        **(options or {}),
    }
    config = directory / "sshd_config"
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*prefix, SSHD, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    server = Sshd(directory, port, process, user or getpass.getuser())
    try:
        end = time.monotonic() + 30
        while "Server listening" not in server.log:
            if process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"sshd did not start: {server.log}")
            time.sleep(0.02)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def running(mark: str) -> list[int]:
    """The processes with `mark` among their arguments."""
    processes = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                processes.append(int(entry.name))
    return processes


def sleeping(mark: str) -> int:
    """How many programs `sleep` have `mark`: shells have it before they do what they are told."""
    found = 0
    for pid in running(mark):
        with contextlib.suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    return found


def until(condition: Callable[[], object], deadline_s: float = 60.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def gone(mark: str) -> bool:
    """Whether in time no process had `mark` among its arguments any more."""
    return until(lambda: not running(mark))


def abort(host: SshHost) -> None:
    """Break the connection. From this thread alone the loop would notice at its next event, 5 s later."""
    ssh._loop().call_soon_threadsafe(host.connection.abort)


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with run_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def second_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Another server, with other keys: the far end of a jump."""
    with run_sshd(tmp_path_factory.mktemp("sshd2")) as server:
        yield server


_numbers = itertools.count(random.randrange(10**6))


@pytest.fixture
def mark() -> Iterator[str]:
    """Seconds to sleep that no other process on this machine sleeps; nothing of it is left."""
    text = f"600.{next(_numbers):09d}1"
    yield text
    for pid in running(text):
        os.kill(pid, signal.SIGKILL)
