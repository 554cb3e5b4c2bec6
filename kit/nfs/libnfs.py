"""fio's `nfs` engine: reads and asynchronous writes through libnfs, a library in user space, without a mount.

Synchronous writes are refused: fio opens files without O_DSYNC there, and has no fsync. libnfs has no
page cache, and read-ahead is off: each read of fio is one READ call at the server, each write one unstable
WRITE. Sources: fio engines/nfs.c; libnfs lib/init.c (arguments of a URL), lib/nfs_v3.c (nfs3_pwrite_async).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kit.config.fio_job import FioJob
from kit.config.toml import Place, Text
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource
from kit.core.errors import ConfigError, HostError
from kit.hosts.base import Host
from kit.nfs.export import single_host

# Characters that URLs, fio and libnfs do not interpret.
_PATH = re.compile(r"(/[A-Za-z0-9._+@-]+)+")
_ARGUMENTS = "version=3&readahead=0&auto-traverse-mounts=0"
_SYNCING = ("fsync", "fdatasync", "end_fsync")
# The kit sets these: `directory` would be a local directory of the client.
_REPLACED = frozenset({"ioengine", "directory"})


def url(server_address: str, path: str) -> str:
    """The nfs_url of fio for an export. Raises ConfigError for a path or address that a URL cannot have."""
    if not _PATH.fullmatch(path):
        raise ConfigError(f"{path!r} cannot be named in an NFS URL", 'use [nfs] engine = "kernel"')
    if not (host := single_host(server_address)):
        raise ConfigError(
            f"{server_address!r} cannot be the server of an NFS URL",
            "give the server's name or address: [server] address in the testbed",
        )
    return f"nfs://{host}{path}?{_ARGUMENTS}"


def problems(
    workload: Workload, jobs: Mapping[str, FioJob], source: WorkloadSource
) -> list[tuple[Place, Text]]:
    """Place and text where a workload with `engine = "libnfs"` needs synchronous writes."""
    if workload.nfs.engine != "libnfs":
        return []
    found: list[tuple[Place, Text]] = []
    if workload.power_loss:
        text = (
            'nfs.engine = "libnfs" cannot be with it: its records are written with O_DSYNC, which libnfs '
            'does not have: use engine = "kernel"'
        )
        found += source.placed([(("power_loss",), text)])
    for _, job in sorted(jobs.items()):
        for section in job.sections:
            where = f'[{section.name}] with nfs.engine = "libnfs"'
            for option in ("sync", *_SYNCING):
                value = section.options.get(option, "0")
                if value not in ("none", "0", ""):
                    text = (
                        f"{where}: {option}={value}: fio has no O_DSYNC, O_SYNC or fsync through libnfs, so "
                        "its writes are asynchronous: remove it to measure these, or measure synchronous "
                        'writes with engine = "kernel"'
                    )
                    found.append((section.place_of(option), text))
    return found


def through(job: FioJob, nfs_url: str, directory: str = "") -> FioJob:
    """The checked job with libnfs as its engine; everything else is unchanged.

    `directory`: the directory of its files, relative to the export.
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
    """A line of a checked job without comment."""
    return re.split("[;#]", line, maxsplit=1)[0].strip()


def _option(line: str) -> str:
    """Name of the option in a line; "" for headings and comments."""
    return "" if _bare(line).startswith("[") else _bare(line).partition("=")[0].strip()


def check_client(client: Host) -> None:
    """Raises HostError if the client's fio does not have the engine."""
    result = client.run(["fio", "--enghelp=nfs"], check=False)
    if "nfs_url" not in result.stdout:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        raise HostError(
            f"fio on {client.name} has no engine for libnfs ({lines[0][:200] if lines else 'no message'})",
            'install a fio that was built with libnfs (Debian\'s is), or use [nfs] engine = "kernel"',
        )
