"""Runs on the host that is looked at, with its own Python; the kit sends it over as text.

    python3 -I - '{"paths": [...] or null, "content": true, "health": false, "deadline_s": 60}'

Reads sysfs, mounts of all mount namespaces and swaps, and runs the tools that know more, each with a
deadline. Prints one JSON line with what was found, undigested: what it means is decided by whoever asked.
Nothing is written. `paths` limits the costly look at contents to the disks they lead to (null: all).
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

SYS = "/sys/class/block"
LSBLK = "NAME,KNAME,TYPE,SIZE,SERIAL,MODEL,WWN,TRAN,RO,LOG-SEC,DISC-MAX,FSTYPE"
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
    """What a file says, None if it is not there."""
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
    """What sysfs says of one block device."""
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
    """One entry a mount of each mount namespace; and processes whose namespace could not be read."""
    seen = set()
    found: Any = []
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
        found += [[process, space, line] for line in lines]
    return found, unread


def tool(argv: Any, deadline_s: float) -> Any:
    """How a tool ended and what it said."""
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
        try:
            child.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel; whoever asked is told all the same
        out, err, code = b"", f"did not end within {deadline_s} s".encode(), None
    if len(out) > LIMIT:
        out, err, code = b"", b"said more than can be its answer", None
    return {
        "argv": argv,
        "code": code,
        "out": out.decode("utf-8", "replace"),
        "err": err.decode("utf-8", "replace")[-500:],
    }


def may_have_label(path: str) -> bool:
    """False only if nothing at all lies where a ZFS label has its configuration.

    zdb knows what lies there, but takes long: a blank disk need not wait for it.
    """
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
    """wipefs of all disks with their partitions at once; if that does not work, also of each."""
    trees = {name: ["/dev/" + n for n in [name, *parts_of(name, devices)]] for name in disks}
    argv = ["wipefs", "--no-act", "--json"]
    every = tool(argv + [path for name in disks for path in trees[name]], deadline_s)
    if every["code"] == 0:
        return every, {name: None for name in disks}
    return every, {name: tool(argv + trees[name], deadline_s) for name in disks}


def parts_of(name: str, devices: Any) -> Any:
    return sorted(n for n in devices if devices[n]["parent"] == name)


def open_alone(path: str, deadline_s: float) -> str:
    """Only the kernel knows for certain who uses a device: it gives one in use to nobody else.

    Returns "" or the reason. In a child, because opening a dying disk may never return.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK))
        except OSError as error:
            said = error.strerror or str(error)
        os.write(writer, said.encode())
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


def chosen_disks(paths: Any, devices: Any) -> Any:
    """Kernel names of the whole disks to look at closely: those asked for, and their NVMe siblings."""
    disks = [name for name in sorted(devices) if is_disk(name, devices[name])]
    if paths is None:
        return disks
    wanted = set()
    for path in paths:
        name = os.path.basename(os.path.realpath(path))
        wanted.add(devices.get(name, {}).get("parent") or name)
    controllers = {devices[name]["controller"] for name in wanted if name in devices} - {None}
    siblings = {n for n in disks if n.startswith("nvme") and devices[n]["controller"] in controllers}
    return sorted(n for n in wanted | siblings if n in devices)


def look_into(name: str, devices: Any, asked: Any) -> Any:
    """The tools' words about one disk and its partitions."""
    deadline_s = asked["deadline_s"]
    found: Any = {"alone": open_alone("/dev/" + name, deadline_s)}
    if asked["content"]:
        nodes = [name, *parts_of(name, devices)]
        found["zdb"] = {
            n: tool(["zdb", "-l", "/dev/" + n], deadline_s) if may_have_label("/dev/" + n) else None
            for n in nodes
        }
    if asked["health"]:
        if name.startswith("nvme"):
            found["nvme"] = tool(["nvme", "smart-log", "/dev/" + name, "--output-format=json"], deadline_s)
        if found.get("nvme", {}).get("code") != 0 and not name.startswith(WITHOUT_SMART):
            found["smartctl"] = tool(["smartctl", "--json", "--all", "/dev/" + name], deadline_s)
    return found


def main(asked: Any) -> Any:
    devices = {name: block_device(name) for name in names_in(SYS)}
    mounted, unread = mounts()
    links = {}
    for path in sorted(glob.glob("/dev/disk/by-id/*")) + list(asked["paths"] or []):
        links[path] = os.path.realpath(path)
    swaps = text_of("/proc/swaps")
    for line in (swaps or "").splitlines()[1:]:
        path = line.split(" ")[0].encode().decode("unicode_escape")
        links[path] = os.path.realpath(path)
    sources = {line.rpartition(" - ")[2].split(" ")[1] for _, _, line in mounted if " - " in line}
    for source in sources:
        if source.startswith("/dev/"):
            links[source] = os.path.realpath(source)
    tools = {"lsblk": ["lsblk", "--json", "--bytes", "--list", "--output", LSBLK]}
    disks = chosen_disks(asked["paths"], devices)
    looked = {name: look_into(name, devices, asked) for name in disks}
    if asked["content"]:
        tools["guids"] = ["zpool", "list", "-H", "-p", "-o", "name,guid"]
        tools["imported"] = ["zpool", "list", "-H", "-v", "-P", "-L"]
        # It looks at every disk of the host, and only labels make it say anything.
        if any(label for found in looked.values() for label in found["zdb"].values()):
            tools["importable"] = ["zpool", "import"]
        every, each = signatures(disks, devices, asked["deadline_s"])
        for name in disks:
            looked[name]["wipefs"] = each[name]
    said = {name: tool(argv, asked["deadline_s"]) for name, argv in tools.items()}
    if asked["content"]:
        said["wipefs"] = every
    return {
        "format": 1,
        "devices": devices,
        "links": links,
        "mounts": mounted,
        "unread": unread,
        "own": os.readlink("/proc/self/ns/mnt"),
        "swaps": swaps,
        "tools": said,
        "disks": looked,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
