"""The threads of the Linux NFS server, stopped and started again with the listeners that it had (nfsd(7))."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import HostError
from kit.core.text import safe_text
from kit.hosts.base import Host

THREADS = "/proc/fs/nfsd/threads"
HELPER = Path(__file__).parents[1] / "remote" / "start_nfsd.py"
LISTENER = r"^(?:(?:tcp|udp) [0-9a-f.:]{2,45}|rdma -) [1-9][0-9]{0,4}$"
"""A listener: transport, address, port."""
_PYTHON = ["python3", "-I", "-"]


def start_command(threads: str, listeners: Sequence[str]) -> list[str]:
    """argv; its stdin is the helper's text."""
    return [*_PYTHON, "start", threads, *listeners]


def listeners(host: Host) -> list[str]:
    """Of a server that runs. Raises HostError if one is there that could not be made again."""
    answer = host.run([*_PYTHON, "look"], stdin=HELPER.read_bytes(), check=False)
    found = answer.stdout.splitlines()
    wrong = [line for line in found if not re.match(LISTENER, line)]
    if answer.returncode or wrong or not found:
        said = safe_text(answer.stderr.strip() or ", ".join(wrong) or "it has none")[:200]
        raise HostError(
            f"on {host.name}: what the NFS server listens on cannot be read: {said}",
            'a fault "nfsd-restart" stops it and must start it as it was: take the fault out of the workload',
        )
    return found


def start(host: Host, threads: str, listeners: Sequence[str]) -> None:
    """Of a server that is stopped. Raises HostError if it is not as before."""
    answer = host.run(start_command(threads, listeners), stdin=HELPER.read_bytes(), check=False)
    observed = host.run(["cat", THREADS], check=False).stdout.strip()
    if answer.returncode or observed != threads:
        raise HostError(
            f"on {host.name}: the NFS server was started with {threads} threads and has {observed}: "
            f"{safe_text((answer.stderr or answer.stdout).strip())[-200:]}",
            "start it by hand: systemctl restart nfs-server",
        )
