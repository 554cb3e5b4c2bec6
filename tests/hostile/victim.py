"""What a run may do on a host while it is undone, and a host where all that could be hit is there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kit.config.workload import TUNABLE
from kit.devices import clear_label, partition, write_cache
from kit.devices.array import node_of
from kit.hosts import file_settings, latency_preset
from kit.nfs import server_threads
from kit.recovery.action import names_of
from kit.trace import nfsd_tracer
from tests.fakes import Answer, Command, ScriptedHost
from tests.kit.devices.facts import one_device

RUN, OTHER = "20260101T000000Z-abcdef", "20260102T030405Z-012345"
MACHINE, BOOT = "0123456789abcdef0123456789abcdef", "00000000-0000-0000-0000-000000000001"
POOL, WORK, TARGET, DIRECTORY = "hsp-abcdef", f"/run/hsp/{RUN}", f"/mnt/hsp-{RUN}", f"hsp-{RUN}"
HELD = f"{TARGET}.hsp-still-held"
# The run's array and somebody else's, by their names in the kernel.
_THREADS = "/proc/fs/nfsd/threads"
ARRAY_UUID, ARRAY, OTHER_ARRAY = "5" * 32, "md127", "md126"
NOT_THERE = (1, "", "No such file or directory")
BY_ID = r"/dev/disk/by-[a-z]+/[A-Za-z0-9#+.:=@_\\-]+"

# --- What may reach a host -------------------------------------------------------------------------------

_READ = {
    "/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/proc/mounts", "/proc/self/mountinfo",
    "/proc/fs/nfsfs/volumes", "/proc/spl/kstat/zfs/arcstats", "/proc/net/rpc/nfsd.export/content",
    "/proc/net/rpc/nfsd.fh/content", _THREADS, f"{WORK}/token", HELD,
}  # fmt: skip
_DEVICE = re.compile(BY_ID)
_PARAMETER = re.compile(rf"/sys/module/zfs/parameters/{TUNABLE}")
_FILE = re.compile(rf"{TARGET}/{DIRECTORY}/[A-Za-z0-9][A-Za-z0-9_-]*")
_GUID, _NUMBER = re.compile(r"[0-9]{1,20}"), re.compile(r"-?[0-9]{1,20}\n")
_SOURCE = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]_%-]*:(/[A-Za-z0-9._@+-]+)+")
_OPTIONS = re.compile(r"[a-z_]+(=[A-Za-z0-9.:-]+)?(,[a-z_]+(=[A-Za-z0-9.:-]+)?)*")
_REFUSED_OPTIONS = {"remount", "bind", "soft", "bg", "move", "exec=x"}
_MODEL_DEVICE = re.compile(r"[a-z][a-z0-9_-]*")
# Of every file but those of OpenZFS, what is written must be as it was before the run.
_RESCAN = "/sys/class/block/sdz/device/rescan"
_CLIENT = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]%-]*")


def _zpool(argv: tuple[str, ...]) -> bool:
    verb, last = argv[1], argv[-1]
    if verb == "list":
        return argv[2:] == ("-H", "-o", "name")
    if verb == "import":
        places = [word for word in argv[2:] if word not in ("-d", "-o", "cachefile=none", "-N")]
        devices = places[:-1] if "-N" in argv else places
        return all(map(_DEVICE.fullmatch, devices)) and ("-N" not in argv or bool(_GUID.fullmatch(last)))
    if verb == "labelclear":
        return len(argv) == 3 and bool(_DEVICE.fullmatch(last))
    if verb == "online":
        return argv[2] == POOL and len(argv) == 4 and bool(_DEVICE.fullmatch(last))
    return last == POOL and verb in ("get", "destroy", "export")


def _cat(argv: tuple[str, ...]) -> bool:
    if argv[1] == "--":
        return bool(re.fullmatch(file_settings.PATH, argv[2]) or argv[2].endswith("/sdz/queue/write_cache"))
    return set(argv[1:]) <= _READ


def _of_preset(paths: Sequence[str]) -> bool:
    return bool(paths) and all(re.fullmatch(latency_preset.PRESET_PATH, each) for each in paths)


def _tee(argv: tuple[str, ...]) -> bool:
    if _of_preset(argv[1:]):
        return True
    written = _PARAMETER.fullmatch(argv[1]) or re.fullmatch(file_settings.PATH, argv[1]) or argv[1] == _RESCAN
    return bool(written) and len(argv) == 2


def _mdadm(argv: tuple[str, ...]) -> bool:
    """Of arrays that somebody else has made, none is stopped."""
    if argv[1] == "--stop":
        return argv[2:] == (f"/dev/{ARRAY}",)
    if argv[1] == "--detail":
        return argv[2] == "--export"
    return argv[1] in ("--examine", "--zero-superblock") and bool(_DEVICE.fullmatch(argv[-1]))


def _cache(argv: tuple[str, ...]) -> bool:
    """A command that reads or switches the write cache of a disk, or of a model."""
    tool = "model" if argv[: len(_MODEL)] == _MODEL else argv[0]
    place = argv[len(_MODEL)] if tool == "model" else argv[-1]
    right = _MODEL_DEVICE if tool == "model" else _DEVICE
    known = [tuple(write_cache.argv_of(tool, place, value)) for value in ("", "on", "off")]
    return bool(right.fullmatch(place)) and argv in known


_READ_PRESET = ("env", "grep", "--recursive", "--no-messages", "--with-filename", "")
_MODEL = tuple(write_cache.MODEL_COMMAND)


def _mount(argv: tuple[str, ...]) -> bool:
    options = argv[4].split(",")
    kinds = argv[1:4] == ("-t", "nfs", "-o") and argv[6:] == (TARGET,)
    own = bool(_OPTIONS.fullmatch(argv[4]) and _SOURCE.fullmatch(argv[5]) and "/../" not in argv[5])
    return kinds and own and not _REFUSED_OPTIONS & set(options)


def _exportfs(argv: tuple[str, ...]) -> bool:
    if argv[1:] == ("-f",):
        return True
    client, _, path = argv[2].rpartition(":")
    return argv[1] == "-u" and path == f"{WORK}/pool/bench" and bool(_CLIENT.fullmatch(client))


def _partition(argv: tuple[str, ...]) -> bool:
    if argv[3] != "del":
        return False
    device, size = argv[4], int(argv[6])
    return list(argv) == partition.remove_command(device, size) and bool(_DEVICE.fullmatch(device))


def _probe(argv: tuple[str, ...]) -> bool:
    """What looks at devices, and at processes of the run."""
    if argv[3:4] == ("list",):
        asked = json.loads(argv[4])
        right = asked["names"] == sorted(names_of(RUN) - {RUN}) and asked["directory"] == WORK
        return right and all(map(_DEVICE.fullmatch, asked["devices"]))
    asked = json.loads(argv[3]) if argv[3].startswith("{") else {}
    return all(map(_DEVICE.fullmatch, asked.get("paths", [""])))


def _sh(argv: tuple[str, ...]) -> bool:
    ends = list(argv) == nfsd_tracer.end_left_command(WORK)
    wipes = [clear_label.wipe_command(argv[-1], POOL, types) for types in ("zfs_member", "gpt,PMBR")]
    return ends or (list(argv) in wipes and bool(_DEVICE.fullmatch(argv[-1])))


def _nfsd(argv: tuple[str, ...]) -> bool:
    """Threads for a stopped nfsd, and what it listens on."""
    threads, listeners = argv[4] if len(argv) > 4 else "", argv[5:]
    known = argv == tuple(server_threads.start_command(threads, listeners)) and threads.isdecimal()
    return known and all(re.fullmatch(server_threads.LISTENER, each) for each in listeners)


_ALLOWED = {
    "cat": _cat,
    "find": lambda argv: (
        argv[1] in (WORK, "/sys/class/block/sdz/holders") or argv[1:3] == ("-P", f"{TARGET}/{DIRECTORY}")
    )
    and "-delete" not in argv
    and "-exec" not in argv,
    "grep": lambda argv: all(map(_PARAMETER.fullmatch, argv[3:])),
    "env": lambda argv: argv[:6] == _READ_PRESET and _of_preset(argv[6:]),
    "tee": _tee,
    "mdadm": _mdadm,
    "hdparm": _cache,
    "sdparm": _cache,
    _MODEL[0].rpartition("/")[2]: _cache,
    "readlink": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "zpool": _zpool,
    "zfs": lambda argv: argv[1] == "get" and argv[-1] == POOL,
    # What the kernel mounts again when it is looked at.
    "umount": lambda argv: (
        (argv[-1] == TARGET and set(argv[1:-1]) <= {"-f", "-l"}) or argv[1:] == (nfsd_tracer.TRACING,)
    ),
    "mkdir": lambda argv: argv[1:] in (("-p", TARGET), ("-p", "-m", "0700", f"{clear_label.BACKUPS}/{POOL}")),
    "mount": _mount,
    "rmdir": lambda argv: argv[-1] in (TARGET, f"{TARGET}/{DIRECTORY}"),
    "exportfs": _exportfs,
    "wipefs": lambda argv: argv[1] == "--noheadings" and bool(_DEVICE.fullmatch(argv[-1])),
    "lsblk": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "zdb": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "blkid": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "blockdev": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "test": lambda argv: bool(_DEVICE.fullmatch(argv[-1])),
    "udevadm": lambda argv: argv[1] == "settle",
    "sleep": lambda argv: argv[1] in ("1", "2"),
    "sh": _sh,
    "python3": lambda argv: _partition(argv) or _nfsd(argv) or _probe(argv),
    "rm": lambda argv: argv[1:] == ("-r", "-f", "--one-file-system", "--", WORK)
    or (argv[1:3] == ("-f", "--") and bool(_FILE.fullmatch(argv[3]) or argv[3] in (HELD, node_of(POOL)))),
}  # fmt: skip


def is_own(command: Command) -> bool:
    """Whether a command acts on the run's own things only, or looks at what every run looks at."""
    program = command.argv[0].rpartition("/")[2]
    allowed = _ALLOWED.get(program)
    if program == "tee" and not _is_value(command.argv[1], command.stdin.decode()):
        return False
    return allowed is not None and allowed(command.argv)


def _is_value(path: str, text: str) -> bool:
    """Whether a file may get this content."""
    if path == _RESCAN:
        return text == "1\n"
    if _PARAMETER.fullmatch(path):
        return bool(_NUMBER.fullmatch(text))
    if _of_preset([path]):
        return text.endswith("\n") and bool(re.fullmatch(latency_preset.PRESET_VALUE, text[:-1]))
    return text.endswith("\n") and bool(re.fullmatch(file_settings.VALUE, text[:-1]))


# --- Hosts where all that could be hit is there ----------------------------------------------------------


class Victim(ScriptedHost):
    """A host with other people's pools, mounts and disks; `moods` makes its answers vary."""

    def __init__(self, token: str, moods: dict[str, str]) -> None:
        super().__init__(name="victim")
        self._token, self._moods, self._value = token, moods, {}

    def answer(self, command: Command) -> Answer:
        argv = command.argv
        mood = self._moods
        # "none": a client that was restarted.
        mounted = f"nas:/x {TARGET} {mood['mount']} rw 0 0\n" if mood["mount"] != "none" else ""
        tokens = {"own": self._token, "other": "f" * 32}
        contents = {"own": f"{WORK}/x", "other": f"{WORK}/x", "empty": ""}
        arrays = {"own": (POOL, ARRAY_UUID), "other": ("tank", "6" * 32)}
        looks: dict[tuple[str, ...], Answer] = {
            ("cat", "/proc/sys/kernel/random/boot_id"): f"{mood['boot']}\n{mood['machine']}\n",
            ("cat", f"{WORK}/token"): tokens.get(mood["token"], NOT_THERE),
            ("cat", "/proc/mounts"): f"x:/ / ext4 rw 0 0\n{mounted}",
            ("cat", HELD): NOT_THERE,
            ("cat", "/proc/spl/kstat/zfs/arcstats"): "c_max 4 7\nc_min 4 7\n",
            ("find", "-P"): "",
            ("find", "/sys/class/block/sdz/holders"): ARRAY if mood["array"] == "own" else OTHER_ARRAY,
            ("readlink",): "/dev/sdz\n",
            ("mdadm", "--detail", "--export", f"/dev/{ARRAY}"): _export(*arrays["own"]),
            ("mdadm", "--detail"): _export(*arrays["other"]),
            ("mdadm", "--examine"): _export(*arrays[mood["array"]]),
            ("find",): contents.get(mood["token"], NOT_THERE),
            ("zpool", "list"): f"tank\n-\n{mood['pool']}\nrpool\n",
            ("zpool", "get"): f"{mood['guid']}\n",
            ("zpool", "import"): f"   pool: tank\n     id: {mood['guid']}\n",
            ("zfs", "get"): f"{mood['property']}\n",
            ("lsblk", "--nodeps"): f"{mood['serial']}\n",
            ("lsblk", "--noheadings"): "disk\npart\npart\n",
            ("zdb",): f"LABEL 0\n    name: '{mood['label']}'\n",
            ("exportfs", "-u"): (1, "", "Could not find"),
        }  # fmt: skip
        if argv[0] == "grep":
            return "".join(f"{path}:{self._value.get(path, mood['value'])}\n" for path in argv[3:])
        if argv[:6] == _READ_PRESET:
            return "".join(f"{path}:{self._value.get(path, mood['value'])}\n" for path in argv[6:])
        if argv[0] == "tee":
            self._value |= dict.fromkeys(argv[1:], command.stdin.decode().strip())
        if argv[0] == "cat" and re.fullmatch(file_settings.PATH, argv[-1]):
            return f"{self._value.get(argv[-1], mood['value'])}\n"
        if argv[:3] == ("/usr/bin/python3", "-I", "-") and argv[3] == "list":
            return "[]"
        if argv[:3] == ("/usr/bin/python3", "-I", "-") and argv[3].startswith("{"):
            (path,) = json.loads(argv[3])["paths"]
            return one_device(path, "sdz", 1 << 30, mood["serial"])
        if argv[0] == "sdparm":
            return self._cache(argv)
        for words, answer in looks.items():
            if argv[: len(words)] == words:
                return answer
        return ""

    def _cache(self, argv: tuple[str, ...]) -> str:
        """sdparm: the cache is on, until it is switched, but where the mood has the value from before."""
        if argv[1] != "--get=WCE":
            self._value["WCE"] = "1" if argv[1] == "--set=WCE" else "0"
        state = self._value.get("WCE", "0" if self._moods["value"] == "5" else "1")
        return f"WCE           {state}  [cha: y, def:  1, sav:  1]\n"


def _export(name: str, uuid: str) -> str:
    """As mdadm --export prints an array."""
    return (
        f"MD_LEVEL=raid1\nMD_NAME=any:{name}\nMD_UUID={':'.join(uuid[n : n + 8] for n in range(0, 32, 8))}\n"
    )
