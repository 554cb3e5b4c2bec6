"""Settings of the server that a run must leave as it found them, whether it meant to change them or not.

Sources: /sys/module/{zfs,spl,nfsd,sunrpc}/parameters; what is in effect of the ARC's limits (arcstats);
/sys/block/*/queue (write cache, scheduler); nfsd's threads and versions below /proc/fs/nfsd.
"""

from __future__ import annotations

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.zfs.tunables import EFFECTS, read_effects

# Path -> content, of every file that could be read.
Settings = dict[str, str]

_FOLDERS = tuple(f"/sys/module/{module}/parameters" for module in ("zfs", "spl", "nfsd", "sunrpc"))
_FILES = ("/proc/fs/nfsd/threads", "/proc/fs/nfsd/versions")
_QUEUE = ("write_cache", "scheduler", "nr_requests", "read_ahead_kb")


def read(server: Host, device_paths: tuple[str, ...]) -> Settings:
    """Now. Raises HostError if not even one of OpenZFS's parameters can be read."""
    names = [name for path in device_paths if (name := _kernel_name(server, path))]
    queues = [f"/sys/class/block/{name}/queue/{knob}" for name in names for knob in _QUEUE]
    # Files that cannot be read (some parameters are write-only) make it end with 2; the rest is there.
    argv = ["grep", "--recursive", "--no-messages", "--with-filename", "", *_FOLDERS, *_FILES, *queues]
    found = parse(server.run(argv, check=False).stdout)
    if not any(path.startswith(_FOLDERS[0]) for path in found):
        raise HostError(
            f"on {server.name}: the parameters of OpenZFS cannot be read ({_FOLDERS[0]})", "is zfs loaded?"
        )
    effects = read_effects(server, list(EFFECTS))
    return found | {f"arcstats {EFFECTS[name]}": value for name, value in effects.items()}


def _kernel_name(server: Host, path: str) -> str:
    answer = server.run(["readlink", "--canonicalize-existing", "--", path], check=False)
    return answer.stdout.strip().rpartition("/")[2]


def parse(text: str) -> Settings:
    """From grep's `path:line`; of several lines of a file, all."""
    found: Settings = {}
    for line in text.splitlines():
        path, colon, value = line.partition(":")
        if colon:
            found[path] = f"{found[path]}\n{value}" if path in found else value.strip()
    return found


def between(was: Settings, now: Settings) -> list[str]:
    """What is not as it was, in words. A file that is gone went with its device or module."""
    return [
        f"{path} was '{was[path]}' and is '{now[path]}'"
        for path in sorted(was)
        if path in now and now[path] != was[path]
    ]
