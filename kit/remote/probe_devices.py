"""Reads the block devices of a host. Runs there with the host's Python; the kit sends it as text.

    python3 -I - '{"paths": [...] or null, "content": true, "health": false, "deadline_s": 60}'

Reads sysfs, the mounts of all mount namespaces and the swaps, and runs tools, each with a deadline.
Prints one JSON line with the unparsed facts; kit.devices.probe parses them. Writes nothing. Contents
are read only of the disks of `paths` (null: all disks).
"""

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

SYS = "/sys/class/block"
LSBLK = "NAME,KNAME,TYPE,SIZE,SERIAL,MODEL,WWN,TRAN,RO,LOG-SEC,DISC-MAX,FSTYPE,PARTTYPE"
QUEUE = ("rotational", "logical_block_size", "physical_block_size", "write_cache", "discard_max_bytes")
LIMIT = 4 << 20
ENVIRONMENT = dict(os.environ, LC_ALL="C")
ENVIRONMENT["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
# Where a ZFS label has its configuration: label size, offset (include/sys/vdev_impl.h, VDEV_SKIP_SIZE).
LABEL_BYTES = 256 << 10
LABEL_CONFIG_AT = 16 << 10
WITHOUT_SMART = ("vd", "nullb", "ublkb", "loop", "nbd", "zd")
NOT_DISKS = ("ram", "zram", "sr", "fd", "md", "dm-")


def text_of(path: str) -> Any:
    """Content of a file, None if it does not exist."""
    try:
        with open(path, errors="backslashreplace") as file:
            return file.read(LIMIT).strip()
    except (OSError, ValueError):
        return None


def names_in(path: str) -> Any:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def block_device(name: str) -> Any:
    """A block device in sysfs."""
    place = os.path.join(SYS, name)
    real = os.path.realpath(place)
    partition = text_of(place + "/partition")
    owner = os.path.dirname(real) if partition is not None else real
    return {
        "dev": text_of(place + "/dev"),
        "sectors": text_of(place + "/size"),
        "ro": text_of(place + "/ro"),
        "removable": text_of(owner + "/removable"),
        "diskseq": text_of(owner + "/diskseq"),
        "hidden": text_of(place + "/hidden"),
        "nsid": text_of(place + "/nsid"),
        "partition": partition,
        "parent": os.path.basename(owner) if partition is not None else None,
        "holders": names_in(place + "/holders"),
        "slaves": names_in(place + "/slaves"),
        "queue": {key: text_of(owner + "/queue/" + key) for key in QUEUE},
        "controller": os.path.realpath(owner + "/device") if os.path.exists(owner + "/device") else None,
        "dm": [text_of(place + "/dm/name"), text_of(place + "/dm/uuid")],
        "md": text_of(place + "/md/level"),
        "loop": text_of(place + "/loop/backing_file"),
    }


def mounts() -> Any:
    """One entry per mount of each mount namespace, and the processes whose namespace is unreadable."""
    seen = set()
    lines_of_all: Any = []
    unread = []
    for process in sorted((p for p in names_in("/proc") if p.isdigit()), key=int):
        try:
            space = os.readlink(f"/proc/{process}/ns/mnt")
            if space in seen:
                continue
            with open(f"/proc/{process}/mountinfo", errors="backslashreplace") as file:
                lines = file.read().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError as error:
            # EINVAL: a process that is ending has no namespace any more.
            if error.errno != 22:
                unread.append(f"{process}: {error.strerror}")
            continue
        seen.add(space)
        lines_of_all += [[process, space, line] for line in lines]
    return lines_of_all, unread


def tool(argv: Any, deadline_s: float) -> Any:
    """Exit code and output of a tool."""
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
        )
    except OSError as error:
        return {"argv": argv, "code": None, "out": "", "err": error.strerror or str(error)}
    try:
        out, err = child.communicate(timeout=deadline_s)
        code = child.returncode
    except subprocess.TimeoutExpired:
        child.kill()
        # It may hang in the kernel; that is in the result.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=2)
        out, err, code = b"", f"did not end within {deadline_s} s".encode(), None
    if len(out) > LIMIT:
        out, err, code = b"", b"its output is too long", None
    return {
        "argv": argv,
        "code": code,
        "out": out.decode("utf-8", "replace"),
        "err": err.decode("utf-8", "replace")[-500:],
    }


def may_have_label(path: str) -> bool:
    """False if the places of the ZFS labels are empty: then the slow zdb need not run."""
    try:
        with open(path, "rb", buffering=0) as disk:
            end = disk.seek(0, os.SEEK_END) // LABEL_BYTES * LABEL_BYTES
            for label in (0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES):
                disk.seek(max(label, 0) + LABEL_CONFIG_AT)
                if any(disk.read(4096)):
                    return True
    except (OSError, ValueError):
        return True
    return False


def signatures(disks: Any, devices: Any, deadline_s: float) -> Any:
    """wipefs of all disks and partitions at once; if that fails, also of each disk."""
    argv = ["wipefs", "--no-act", "--json"]
    trees = {name: ["/dev/" + n for n in [name, *parts_of(name, devices)]] for name in disks}
    of_all = tool(argv + [path for tree in trees.values() for path in tree], deadline_s)
    failed = of_all["code"] != 0
    return of_all, {name: tool(argv + tree, deadline_s) if failed else None for name, tree in trees.items()}


def parts_of(name: str, devices: Any) -> Any:
    return sorted(n for n in devices if devices[n]["parent"] == name)


def open_exclusively(path: str, deadline_s: float) -> str:
    """Open a device exclusively, which fails if it is in use. Returns "" or the error.

    In a child process, because opening a failing disk may never return.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        message = ""
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK))
        except OSError as error:
            message = error.strerror or str(error)
        os.write(writer, message.encode())
        os._exit(0)
    os.close(writer)
    end = time.monotonic() + deadline_s
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            return f"opening it did not end within {deadline_s} s"
        time.sleep(0.005)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


def is_disk(name: str, entry: Any) -> bool:
    return (
        entry["partition"] is None
        and entry["sectors"] not in (None, "0")
        and entry["hidden"] != "1"
        and not name.startswith(NOT_DISKS)
        and not (name.startswith("loop") and not entry["loop"])
    )


def chosen_disks(paths: Any, devices: Any, lsblk: Any) -> Any:
    """Kernel names of the disks to examine: of `paths`, their NVMe siblings, and other paths to all these."""
    disks = [name for name in sorted(devices) if is_disk(name, devices[name])]
    if paths is None:
        return disks
    names = set()
    for path in paths:
        name = os.path.basename(os.path.realpath(path))
        names.add(devices.get(name, {}).get("parent") or name)
    controllers = {devices[name]["controller"] for name in names if name in devices} - {None}
    siblings = {n for n in disks if n.startswith("nvme") and devices[n]["controller"] in controllers}
    return sorted(n for n in with_other_paths(names | siblings, lsblk) if n in devices)


def with_other_paths(names: Any, lsblk: Any) -> Any:
    """The disks, and all of the same size with the same serial or WWN; kit.devices.inventory decides."""
    try:
        entries = [entry for entry in json.loads(lsblk["out"])["blockdevices"] if entry["type"] == "disk"]
        keys = {
            entry["kname"]: {(entry["size"], key, entry[key]) for key in ("serial", "wwn") if entry[key]}
            for entry in entries
        }
    except (ValueError, KeyError, TypeError):
        return names  # the kit refuses all disks then
    known = set().union(*(keys.get(name, set()) for name in names))
    return names | {name for name in keys if keys[name] & known}


def disk_contents(name: str, devices: Any, request: Any) -> Any:
    """Outputs of the tools for one disk and its partitions."""
    deadline_s = request["deadline_s"]
    facts: Any = {"alone": open_exclusively("/dev/" + name, deadline_s)}
    if request["content"]:
        nodes = [name, *parts_of(name, devices)]
        facts["zdb"] = {
            n: tool(["zdb", "-l", "/dev/" + n], deadline_s) if may_have_label("/dev/" + n) else None
            for n in nodes
        }
    if request["health"]:
        if name.startswith("nvme"):
            facts["nvme"] = tool(["nvme", "smart-log", "/dev/" + name, "--output-format=json"], deadline_s)
        if facts.get("nvme", {}).get("code") != 0 and not name.startswith(WITHOUT_SMART):
            facts["smartctl"] = tool(["smartctl", "--json", "--all", "/dev/" + name], deadline_s)
    return facts


def main(request: Any) -> Any:
    devices = {name: block_device(name) for name in names_in(SYS)}
    mount_lines, unread = mounts()
    paths = sorted(glob.glob("/dev/disk/by-id/*")) + list(request["paths"] or [])
    swaps = text_of("/proc/swaps")
    swap_lines = (swaps or "").splitlines()[1:]
    paths += [line.split(" ")[0].encode().decode("unicode_escape") for line in swap_lines]
    sources = {line.rpartition(" - ")[2].split(" ")[1] for _, _, line in mount_lines if " - " in line}
    paths += [source for source in sources if source.startswith("/dev/")]
    lsblk = tool(["lsblk", "--json", "--bytes", "--list", "--output", LSBLK], request["deadline_s"])
    commands = {}
    disks = chosen_disks(request["paths"], devices, lsblk)
    disk_facts = {name: disk_contents(name, devices, request) for name in disks}
    if request["content"]:
        commands["guids"] = ["zpool", "list", "-H", "-p", "-o", "name,guid"]
        commands["imported"] = ["zpool", "list", "-H", "-v", "-P", "-L"]
        # It reads every disk of the host, and prints something only if there are labels.
        if any(label for contents in disk_facts.values() for label in contents["zdb"].values()):
            commands["importable"] = ["zpool", "import"]
        wipefs_of_all, wipefs_of_each = signatures(disks, devices, request["deadline_s"])
        for name in disks:
            disk_facts[name]["wipefs"] = wipefs_of_each[name]
    results = {name: tool(argv, request["deadline_s"]) for name, argv in commands.items()}
    results["lsblk"] = lsblk
    if request["content"]:
        results["wipefs"] = wipefs_of_all
    return {
        "format": 1,
        "devices": devices,
        "links": {path: os.path.realpath(path) for path in paths},
        "mounts": mount_lines,
        "unread": unread,
        "own": os.readlink("/proc/self/ns/mnt"),
        "swaps": swaps,
        "tools": results,
        "disks": disk_facts,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
