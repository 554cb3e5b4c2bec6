"""fio's `nfs` engine: reads through libnfs, a library in user space, without a mount.

What it cannot do is refused: libnfs has no O_DSYNC (a WRITE is stable only when the caller asks for a
COMMIT after it), so nothing is written through it. It has no page cache, and is told not to read
ahead: each read of fio is one READ call at the server. Sources: fio engines/nfs.c; libnfs lib/init.c
(arguments of a URL).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.workload import Workload
from kit.core.errors import ConfigError, HostError
from kit.hosts.base import Host

# What a URL takes as it is, and neither fio nor libnfs take for something else.
_PATH = re.compile(r"(/[A-Za-z0-9._+@-]+)+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")
_ARGUMENTS = "version=3&readahead=0&auto-traverse-mounts=0"
# The kit says these itself: `directory` would be one of the client's own.
_REPLACED = frozenset({"ioengine", "directory"})


def url(server_address: str, path: str) -> str:
    """The export `path` of the server, for fio's nfs_url. Raises ConfigError where it cannot be one."""
    if not _PATH.fullmatch(path):
        raise ConfigError(f"{path!r} cannot be named in an NFS URL", 'use [nfs] engine = "kernel"')
    return f"nfs://{_host(server_address)}{path}?{_ARGUMENTS}"


def _host(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        if _HOST.fullmatch(address):
            return address
        raise ConfigError(
            f"{address!r} cannot be the server of an NFS URL",
            "give the server's name or address: [server] address in the testbed",
        ) from None
    return f"[{found}]" if found.version == 6 else str(found)


def check_workload(workload: Workload, jobs: Mapping[str, FioJob], path: Path) -> None:
    """Raises ConfigError where `engine = "libnfs"` is asked for what it cannot do; `path` is the file's."""
    if workload.nfs.engine != "libnfs":
        return
    if workload.power_loss:
        raise ConfigError(
            f'{path}: nfs.engine = "libnfs" cannot be with [power_loss]: its records are written with '
            "O_DSYNC, which libnfs does not have",
            'use engine = "kernel"',
        )
    for name, job in sorted(jobs.items()):
        for section in job.sections:
            where = f'{path.parent / name}: [{section.name}] with nfs.engine = "libnfs"'
            if "write" in section.operations:
                raise ConfigError(
                    f"{where}: it writes (rw={section.options.get('rw')}); libnfs cannot do O_DSYNC: "
                    "a write would be told to be done before it is on stable storage",
                    'libnfs is for reads; measure writes with engine = "kernel"',
                )
            if section.options.get("sync", "none") not in ("none", "0"):
                raise ConfigError(
                    f"{where}: sync={section.options['sync']}: libnfs cannot do O_DSYNC or "
                    "O_SYNC, and fio would not say so",
                    'remove it, or use engine = "kernel"',
                )


def through(job: FioJob, nfs_url: str, directory: str = "") -> FioJob:
    """The checked job with libnfs in the place of its own engine; the rest of it is unchanged.

    `directory`: where its files are, below the export.
    """
    lines = [f"[global]\nioengine=nfs\nnfs_url={nfs_url}"]
    for line in job.text.split("\n"):
        name = _option(line)
        if name == "filename" and directory:
            lines.append(f"filename={directory}/{_bare(line).partition('=')[2].strip()}")
        elif name not in _REPLACED:
            lines.append(line)
    return replace(job, text="\n".join(lines))


def _bare(line: str) -> str:
    """A line of a checked job without its comment."""
    return re.split("[;#]", line, maxsplit=1)[0].strip()


def _option(line: str) -> str:
    """The name of the option on a line; "" for headings and comments."""
    return "" if _bare(line).startswith("[") else _bare(line).partition("=")[0].strip()


def check_client(client: Host) -> None:
    """The client's fio has the engine. Raises HostError."""
    answer = client.run(["fio", "--enghelp=nfs"], check=False)
    if "nfs_url" not in answer.stdout:
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        raise HostError(
            f"fio on {client.name} has no engine for libnfs ({said[0][:200] if said else 'it says nothing'})",
            'install a fio that was built with libnfs (Debian\'s is), or use [nfs] engine = "kernel"',
        )
