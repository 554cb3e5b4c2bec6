"""Settings of the server that must be the same before and after a run.

Sources: /sys/module/{zfs,spl,nfsd,sunrpc}/parameters; the ARC's limits in effect (arcstats);
/sys/block/*/queue (write cache, scheduler); nfsd's threads and versions below /proc/fs/nfsd; transparent huge
pages; the governor of the first CPU.
"""

from __future__ import annotations

from kit.hosts.base import Host
from kit.hosts.file_settings import chosen
from kit.hosts.held_device import kernel_name
from kit.zfs.tunables import EFFECTS, parse_files, read_effects

# Path -> value, of every file that could be read; the chosen one of those that list several.
Settings = dict[str, str]

_FOLDERS = tuple(f"/sys/module/{module}/parameters" for module in ("zfs", "spl", "nfsd", "sunrpc"))
_FILES = (
    "/proc/fs/nfsd/threads", "/proc/fs/nfsd/versions", "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
)  # fmt: skip
_QUEUE = ("write_cache", "scheduler", "nr_requests", "read_ahead_kb")


def read(server: Host, device_paths: tuple[str, ...]) -> Settings:
    """Read the current settings; those of OpenZFS where it is loaded. Raises HostError."""
    names = [name for path in device_paths if (name := kernel_name(server, path))]
    queues = [f"/sys/class/block/{name}/queue/{knob}" for name in names for knob in _QUEUE]
    # Exit code 2: some files cannot be read (write-only parameters); the others are in the output.
    argv = ["grep", "--recursive", "--no-messages", "--with-filename", "", *_FOLDERS, *_FILES, *queues]
    contents = parse_files(server.run(argv, check=False).stdout)
    settings = {path: chosen(content) for path, content in contents.items()}
    if not any(path.startswith(_FOLDERS[0]) for path in settings):
        return settings
    effects = read_effects(server, list(EFFECTS))
    return settings | {f"arcstats {EFFECTS[name]}": value for name, value in effects.items()}


def between(before: Settings, after: Settings) -> list[str]:
    """Texts of all changed values. A missing file is not a change: its device or module was removed."""
    return [
        f"{path} was '{before[path]}' and is '{after[path]}'"
        for path in sorted(before)
        if path in after and after[path] != before[path]
    ]
