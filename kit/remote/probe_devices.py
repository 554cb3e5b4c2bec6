"""Reads the block devices of a host. Runs there with the host's Python; the kit sends it as text.

    python3 -I - '{"paths": [...] or null, "content": true, "health": false, "deadline_s": 60,
                   "claimer": null}'

Reads sysfs, the mounts of all mount namespaces, the open files of all processes and the swaps, and runs
tools, each with a deadline. `claimer`: the process that holds the devices open exclusively for the kit.
Prints one JSON line with the unparsed facts; kit.devices.probe parses them. Writes nothing. Contents
are read only of the disks of `paths` (null: all disks). {"sysfs": [paths]} reads sysfs alone.
"""

import contextlib
import errno
import glob
import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from typing import Any

SYS = "/sys/class/block"
LSBLK = "NAME,KNAME,TYPE,SIZE,SERIAL,MODEL,WWN,TRAN,RO,LOG-SEC,DISC-MAX,FSTYPE,PARTTYPE"
QUEUE = ("rotational", "logical_block_size", "physical_block_size", "write_cache", "discard_max_bytes")
QUEUE += ("scheduler", "nr_requests", "max_sectors_kb", "fua")
LIMIT = 4 << 20
ENVIRONMENT = dict(os.environ, LC_ALL="C")
ENVIRONMENT["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
# Where a ZFS label has its configuration: label size, offset (include/sys/vdev_impl.h, VDEV_SKIP_SIZE).
LABEL_BYTES = 256 << 10
LABEL_CONFIG_AT = 16 << 10
WITHOUT_SMART = ("vd", "nullb", "ublkb", "loop", "nbd", "zd")
# Their files are never block devices, and looking at them may wait for a server.
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "fuse")
# Who opens a disk for a moment (udev, a monitor) is not its user. OPEN_S: how long that may last.
OPEN_S = 2.0
NVME_TARGETS = "/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path"
SCSI_TARGETS = "/sys/kernel/config/target/core/*/*/udev_path"
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
        "dev": text_of(place + "/dev"), "sectors": text_of(place + "/size"), "ro": text_of(place + "/ro"),
        "removable": text_of(owner + "/removable"), "diskseq": text_of(owner + "/diskseq"),
        "hidden": text_of(place + "/hidden"), "nsid": text_of(place + "/nsid"), "partition": partition,
        "parent": os.path.basename(owner) if partition is not None else None,
        "holders": names_in(place + "/holders"), "slaves": names_in(place + "/slaves"),
        "queue": {key: text_of(owner + "/queue/" + key) for key in QUEUE},
        "controller": os.path.realpath(owner + "/device") if os.path.exists(owner + "/device") else None,
        "firmware": text_of(owner + "/device/firmware_rev") or text_of(owner + "/device/rev"),
        "driver": driver_of(owner), "dm": [text_of(place + "/dm/name"), text_of(place + "/dm/uuid")],
        "md": text_of(place + "/md/level"), "loop": text_of(place + "/loop/backing_file"),
    }  # fmt: skip


def driver_of(disk: str) -> Any:
    """Of NVMe the controller's: its namespaces have none of their own."""
    places = filter(os.path.exists, (disk + "/device/driver", disk + "/device/device/driver"))
    return next((os.path.basename(os.path.realpath(place)) for place in places), None)


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
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        child = subprocess.Popen(argv, env=ENVIRONMENT, **pipes)
    except OSError as error:
        return {"argv": argv, "code": None, "out": "", "err": error.strerror or str(error)}
    try:
        out, err, code = *child.communicate(timeout=deadline_s), child.returncode
    except subprocess.TimeoutExpired:
        out, err, code = b"", f"did not end within {deadline_s} s{waits(child.pid)}".encode(), None
        child.kill()
        # It may hang in the kernel; that is in the result.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=2)
    if len(out) > LIMIT:
        out, err, code = b"", b"its output is too long", None
    texts = {"out": out.decode("utf-8", "replace"), "err": err.decode("utf-8", "replace")[-500:]}
    return {"argv": argv, "code": code, **texts}


def waits(process: int) -> str:
    """Where the threads of a process wait in the kernel, and the disks with requests in flight."""
    places = {text_of(path) for path in glob.glob(f"/proc/{process}/task/*/wchan")} - {"0", None}
    busy = {name: (text_of(f"{SYS}/{name}/inflight") or "").split() for name in names_in(SYS)}
    flying = [f"{name} {'+'.join(n)}" for name, n in busy.items() if set(n) - {"0"}]
    return f"; in the kernel: {sorted(places)}; reads+writes in flight: {', '.join(flying) or 'none'}"


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

    def opened() -> str:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    found = in_child(opened, deadline_s)
    return f"opening it gave no answer within {deadline_s} s" if found is None else str(found)


def device_of(path: str) -> Any:
    """(kind, "MAJOR:MINOR") of a device node, None of anything else."""
    status = os.stat(path)
    kind = "b" if stat.S_ISBLK(status.st_mode) else "c" if stat.S_ISCHR(status.st_mode) else ""
    return (kind, f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}") if kind else None


def nodes_of(names: Any, devices: Any) -> Any:
    """Device numbers of disks and partitions, and of their character devices (SCSI and NVMe generic)."""
    numbers = {}
    for name in names:
        for node in [name, *parts_of(name, devices)]:
            numbers["b", devices[node]["dev"]] = node
        generic = glob.glob(f"{SYS}/{name}/device/scsi_generic/*/dev")
        generic += glob.glob(f"/sys/class/nvme-generic/{name.replace('nvme', 'ng', 1)}/dev")
        for path in generic:
            numbers["c", text_of(path)] = name
    return numbers


def remote_mounts(process: str) -> Any:
    """Ids of the mounts of remote file systems that a process sees."""
    ids = set()
    with open(f"/proc/{process}/mountinfo", errors="backslashreplace") as file:
        for line in file:
            kind = line.rpartition(" - ")[2].split(" ")[0]
            if kind in REMOTE or kind.startswith("fuse."):
                ids.add(line.split(" ")[0])
    return ids


def is_remote(process: str, number: str, remote: Any) -> bool:
    with open(f"/proc/{process}/fdinfo/{number}") as file:
        return any(line.split()[1] in remote for line in file if line.startswith("mnt_id:"))


def mapped_files(process: str) -> Any:
    """Links to devices that a process has mapped: it may have closed their descriptors. Raises OSError."""
    with open(f"/proc/{process}/maps", errors="backslashreplace") as file:
        ranges = {line.split()[5]: line.split()[0].split("-") for line in file if " /dev/" in line}
    return [f"/proc/{process}/map_files/{int(a, 16):x}-{int(b, 16):x}" for a, b in ranges.values()]


def fixed_files(process: str, number: str) -> Any:
    """Devices that are registered with an io_uring, whose descriptors may be closed. Raises OSError."""
    text = str(text_of(f"/proc/{process}/fdinfo/{number}")).partition("UserFiles:")[2]
    paths = [f"/proc/{process}/root{line.split()[1]}" for line in text.splitlines() if " /dev/" in line]
    return filter(os.path.exists, paths)


def open_files(process: str, numbers: Any) -> Any:
    """Names of the devices that a process has open or mapped. Raises OSError."""
    found = {numbers.get(device_of(path)) for path in mapped_files(process) if os.path.exists(path)}
    folder = f"/proc/{process}/fd/"
    remote = None
    for number in os.listdir(folder):
        try:
            target = os.readlink(folder + number)
            if "io_uring" in target:
                found |= {numbers.get(device_of(path)) for path in fixed_files(process, number)}
            if not target.startswith("/"):
                continue  # a socket, a pipe...
            if not target.startswith("/dev/"):
                if remote is None:
                    remote = remote_mounts(process)
                if remote and is_remote(process, number, remote):
                    continue
            found.add(numbers.get(device_of(folder + number)))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it was closed
        except OSError as error:
            # Of a file system of a server that is gone, unmounted while in use: no device.
            if error.errno not in (errno.ESTALE, errno.ENOTCONN):
                raise
    return found - {None}


def kernel_users(numbers: Any, devices: Any) -> Any:
    """Devices that the kernel uses without opening them exclusively: loop, NVMe and SCSI targets."""
    places = {name: entry["loop"] for name, entry in devices.items() if entry["loop"]}
    for pattern, part in ((NVME_TARGETS, -4), (SCSI_TARGETS, -2)):
        for path in glob.glob(pattern):
            places["target " + path.split("/")[part]] = text_of(path)
    found = []
    for user, place in sorted(places.items()):
        try:
            name = numbers.get(device_of(place)) if place and place.startswith("/dev/") else None
        except OSError:
            continue  # of another mount namespace, or deleted: the kernel has it open, without a path here
        if name:
            found.append([name, "", user])
    return found


def open_devices(names: Any, devices: Any, claimer: str) -> Any:
    """Who has a disk open: [device, process, its name]; unreadable processes; what `claimer` has open."""
    numbers = nodes_of(names, devices)
    unread = {}
    processes = sorted({*filter(str.isdigit, names_in("/proc"))} - {claimer})
    claimed = set()
    if claimer:
        try:
            claimed = open_files(claimer, numbers)
        except OSError:
            pass  # it has ended, and claims nothing
    found: Any = None
    end = time.monotonic() + OPEN_S
    while found is None or (found and time.monotonic() < end):
        if found is not None:
            time.sleep(0.2)
            processes = sorted({process for _, process in found})
        now = {}
        for process in processes:
            try:
                for name in open_files(process, numbers):
                    now[name, process] = text_of(f"/proc/{process}/comm") or "?"
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            except OSError as error:
                unread[process] = error.strerror
        found = {key: now[key] for key in now if found is None or key in found}
    users = [[name, process, comm] for (name, process), comm in sorted(found.items())]
    users += kernel_users(numbers, devices)
    return users, [f"{process}: {reason}" for process, reason in sorted(unread.items())], sorted(claimed)


def in_child(function: Any, deadline_s: float) -> Any:
    """The result of `function`, by a child process, because it may never return; None without an answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            json.dump(function(), pipe)
        os._exit(0)
    os.close(writer)
    poll = select.poll()
    end, content = time.monotonic() + deadline_s, b""
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        poll.register(pipe, select.POLLIN)
        while True:
            if not poll.poll(max(end - time.monotonic(), 0) * 1000):
                os.kill(child, signal.SIGKILL)
                return None
            more = pipe.read(1 << 16)
            if not more:
                break
            content += more
    os.waitpid(child, 0)
    try:
        return json.loads(content)
    except ValueError:
        return None


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


def disk_contents(name: str, devices: Any, request: Any, claimed: Any) -> Any:
    """Outputs of the tools for one disk and its partitions."""
    deadline_s = request["deadline_s"]
    # The kit's own exclusive open of this disk keeps others from theirs.
    facts: Any = {"alone": "" if name in claimed else open_exclusively("/dev/" + name, deadline_s)}
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
    deadline_s = request["deadline_s"]
    listed = in_child(lambda: open_devices(disks, devices, str(request["claimer"] or "")), deadline_s)
    # Looking at a file may wait for what does not answer.
    hangs = [f"(unknown): not read within {deadline_s} s"]
    users, unread_files, claimed = listed or ([], hangs, [])
    disk_facts = {name: disk_contents(name, devices, request, claimed) for name in disks}
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
        "format": 1, "devices": devices, "links": {path: os.path.realpath(path) for path in paths},
        "mounts": mount_lines, "unread": unread, "open": users, "unread_files": unread_files,
        "own": os.readlink("/proc/self/ns/mnt"), "swaps": swaps, "tools": results, "disks": disk_facts,
    }  # fmt: skip


def in_sysfs(paths: Any) -> Any:
    """The devices at some paths, by path, without what takes time."""
    return {path: block_device(os.path.realpath(path)[len("/dev/") :].replace("/", "!")) for path in paths}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(in_sysfs(asked["sysfs"]) if "sysfs" in asked else main(asked)))
