"""Machines with a state: what the commands of the kit change on them, and what they then answer.

Modelled are pools on disks (partitions, labels, L2ARC headers, what is left after `zpool destroy`), datasets,
exports and what nfsd still holds, NFS mounts, module parameters and the ARC's limits in effect, partitions of
the kernel's own, md arrays and their superblocks, write caches, settings that a user's program sets, files,
directories, and processes, with those that end with their connection. Two mistakes that hang a real client
are kept in `World.hangs`. A command of several changes can be broken off in its middle.

Not modelled, so that strikes in the lab still show them: what udev and systemd do with a device, the kernel's
delays, a lazy unmount, the output of a load or a tracer, and commands that go on for a moment after their
connection broke. A command that is not known here is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, Result, checked_argv
from kit.zfs.tunables import EFFECTS
from tests.fakes import Answer, Command, ScriptedHost, ScriptedProcess
from tests.world import Disk, Machine, Pool, Running, Tree, Wire

PARAMETERS = "/sys/module/zfs/parameters"
BOOT_ID = "00000000-0000-0000-0000-00000000000{}"
_PART = "-part1"
_GPT = {
    "1": ("6a898cc3-1dd2-11b2-99a6-080020736631", "zfs-1"),
    "9": ("6a945a3b-1dd2-11b2-99a6-080020736631", ""),
}
_MISSING = (1, "", "No such file or directory")
_ARRAY = "md127"
# Commands that change nothing here.
_CONSTANT = {
    **dict.fromkeys(("sleep", "chmod", "udevadm", "modprobe"), ""),
    "uname": "6.1.0\n", "id": "0\n", "head": "now at 1000 nsecs\n", "df": "avail\n1000000000000\n",
    "dpkg-query": "1.0",
}  # fmt: skip
_VERSIONS = {
    "fio": "fio-3.39\n", "zfs": "zfs-2.3.4-1\nzfs-kmod-2.3.4-1\n", "mdadm": "mdadm - v4.3\n",
    "bpftrace": "bpftrace v0.23.2\n",
}  # fmt: skip


class StatefulProcess(ScriptedProcess):
    def __init__(self, host: StatefulHost, pid: int, result: Result) -> None:
        super().__init__(result)
        self._host, self._pid = host, pid

    def running(self) -> bool:
        return self._host.key not in self._host.wire.lost and self._pid in self._host.machine.processes

    def wait(self, deadline_s: float) -> Result:
        return self.stop(deadline_s)

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        def end() -> Answer:
            gone = self._host.machine.processes.pop(self._pid, None)
            for name in gone.holds if gone else ():
                self._host.machine.tree.pop(name, None)
            return ""

        self._host.wire.carry(self._host.key, f"stop {self.argv[0]}", end)
        return self.result


class StatefulHost(ScriptedHost):
    """A connection to one machine of the world."""

    def __init__(self, wire: Wire, name: str) -> None:
        super().__init__({}, name=name)
        self.wire, self.key, self._stdin = wire, name, ""

    @property
    def machine(self) -> Machine:
        return self.wire.world.machines[self.key]

    def answer(self, command: Command) -> Answer:
        text = f"{self.name}: {' '.join(command.argv)[:150]}"
        return self.wire.carry(self.key, text, lambda: self._act(command.argv, command.stdin))

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> ScriptedProcess:
        words = checked_argv(argv)
        started: list[ScriptedProcess] = []

        def begin() -> Answer:
            started.append(self._start(words))
            return ""

        self.wire.carry(self.key, f"{self.name}: start {words[0]}", begin)
        return started[0]

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        def write() -> Answer:
            tree, place = self._place(path)
            tree[place] = content.decode()
            return ""

        self.wire.carry(self.key, f"{self.name}: put {path}", write)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        content = self._content(path)
        if content is None:
            raise HostError(f"on {self.name}: cannot read {path}")
        return content.encode()

    # --- Files, and processes ---

    def _place(self, path: str) -> tuple[Tree, str]:
        """The files that a path leads to, through a mount too."""
        for source, target, _ in reversed(self.machine.mounts):
            if path == target or path.startswith(f"{target}/"):
                address, _, below = source.partition(":/")
                server = self.wire.world.addresses.get(address)
                rest = path.removeprefix(target)
                if server:
                    return self.wire.world.machines[server].tree, f"/{below}{rest}"
                return self.wire.world.shares[source], rest or "/"
        return self.machine.tree, path

    def _there(self, path: str) -> bool:
        tree, place = self._place(path)
        return place in tree

    def _content(self, path: str) -> str | None:
        machine = self.machine
        made = {
            "/proc/sys/kernel/random/boot_id": f"{BOOT_ID.format(machine.boot)}\n",
            "/etc/machine-id": f"{machine.machine_id}\n",
            "/proc/mounts": "".join(f"{s} {t} nfs {o} 0 0\n" for s, t, o in machine.mounts),
            "/proc/spl/kstat/zfs/arcstats": "".join(
                f"{EFFECTS[name]} 4 {value}\n" for name, value in machine.effects.items()
            ),
            "/proc/net/rpc/nfsd.export/content": "".join(f"{path} c\n" for path in machine.held),
            "/proc/net/rpc/nfsd.fh/content": "",
            "/proc/self/mountinfo": "",
        }  # fmt: skip
        if machine.array:
            made |= {f"/sys/block/{_ARRAY}/dev": "9:127\n", f"/sys/block/{_ARRAY}/size": "2048\n"}
            made |= {f"/sys/block/{_ARRAY}/md/sync_action": "idle\n"}
        if path.endswith("/queue/write_cache"):
            return "write back\n"
        if path in made:
            return made[path]
        tree, place = self._place(path)
        return tree.get(place)

    def _run_process(
        self, argv: tuple[str, ...], *, with_connection: bool = True, holds: tuple[str, ...] = ()
    ) -> int:
        self.wire.world.last_pid += 1
        self.machine.processes[self.wire.world.last_pid] = Running(argv[:3], with_connection, holds)
        return self.wire.world.last_pid

    def _start(self, argv: tuple[str, ...]) -> ScriptedProcess:
        done = Result(self.name, argv, 0, "", "")
        if argv[1:3] == ("-I", "-c"):
            return self._start_lock(argv)
        if "bpftrace" in argv:
            words = argv[argv.index("bpftrace") :]
            output, hold, program = words[4], words[6], words[7]
            # Its shell may go on without the connection.
            pid = self._run_process(("bpftrace", program), with_connection=False)
            self.wire.middle("start bpftrace")
            for path in (output, argv[4], hold.split()[-1]):
                self.machine.tree[path] = str(pid)
            return StatefulProcess(self, pid, done)
        if argv[:2] == ("sh", "-c"):
            assert argv[2].startswith("until test -e"), argv
            return ScriptedProcess(done)
        return StatefulProcess(self, self._run_process(argv), done)

    def _start_lock(self, argv: tuple[str, ...]) -> ScriptedProcess:
        directory, token, _, *names = argv[4:]
        for each in self.machine.processes.values():
            if held := set(names) & set(each.holds):
                said = json.dumps({"name": held.pop(), "owner": "busy"})
                return ScriptedProcess(Result(self.name, argv, 3, said, ""))
        ready = f"{directory}/{token}"
        pid = self._run_process(("lock", *names), holds=(*names, ready))
        self.machine.tree[ready] = str(pid)
        return StatefulProcess(self, pid, Result(self.name, argv, 0, "", ""))

    # --- Commands ---

    def _act(self, argv: tuple[str, ...], stdin: bytes = b"") -> Answer:
        program = argv[0].rpartition("/")[2]
        if program in _CONSTANT:
            return _CONSTANT[program]
        if argv[1:] in (("--version",), ("version",)):
            return _VERSIONS[program]
        act = getattr(self, f"_do_{program}", None)
        assert act is not None, f"the model does not know {argv}"
        self._stdin = stdin.decode()
        answer: Answer = act(list(argv[1:]))
        return answer

    def _do_cat(self, words: list[str]) -> Answer:
        contents = [self._content(path) for path in words if path != "--"]
        if None in contents:
            return _MISSING
        return "".join(each or "" for each in contents)

    def _do_tee(self, words: list[str]) -> Answer:
        (path,) = words
        machine, value = self.machine, self._stdin.strip()
        name = path.removeprefix(f"{PARAMETERS}/")
        if name in EFFECTS and value != "0":
            machine.effects[name] = value
        if path == "/proc/fs/nfsd/threads" and value == "0":
            machine.listeners = []
        if path.endswith(("device/rescan", "safe_mode_delay")):
            return ""
        self._place(path)[0][self._place(path)[1]] = self._stdin if "token" in path else f"{value}\n"
        return ""

    def _do_grep(self, words: list[str]) -> Answer:
        if words[-1] == "/proc/kallsyms":
            names = re.findall(r"\((\w[^()]*)\)\(", words[-2])[0].split("|")
            return "".join(f"0 t {name}\n" for name in names)
        paths = [word for word in words if word.startswith("/")]
        found = [
            f"{path}:{text}"
            for path, text in self.machine.tree.items()
            if text is not None and any(path == each or path.startswith(f"{each}/") for each in paths)
        ]
        return "".join(found)

    def _do_install(self, words: list[str]) -> Answer:
        tree, place = self._place(words[-1])
        tree[place] = None if "-d" in words else ""
        return ""

    def _do_mkdir(self, words: list[str]) -> Answer:
        tree, place = self._place(words[-1])
        if place in tree and "-p" not in words:
            return 1, "", "File exists"
        tree[place] = None
        return ""

    def _do_touch(self, words: list[str]) -> Answer:
        self.machine.tree[words[-1]] = ""
        return ""

    def _do_rmdir(self, words: list[str]) -> Answer:
        path = words[-1]
        tree, place = self._place(path)
        if place not in tree:
            return _MISSING
        if any(each.startswith(f"{place}/") for each in tree) or any(
            path == t for _, t, _ in self.machine.mounts
        ):
            return 1, "", "Directory not empty"
        del tree[place]
        return ""

    def _do_rm(self, words: list[str]) -> Answer:
        paths = [word for word in words if word.startswith("/")]
        for path in paths:
            tree, place = self._place(path)
            if "-r" not in words:
                tree.pop(place, None)
                continue
            if any(pool.mounted and pool.mount_root.startswith(path) for pool in self.machine.pools.values()):
                return 1, "", "Device or resource busy"
            gone = sorted(
                (each for each in tree if each == place or each.startswith(f"{place}/")), reverse=True
            )
            for each in gone:
                del tree[each]
                self.wire.middle(f"rm {each}")
        return ""

    def _do_find(self, words: list[str]) -> Answer:
        if words[0] == "-P":
            return self._find_access(words)
        place = words[0]
        if place.endswith("/holders"):
            disk = next(
                path for path, disk in self.machine.disks.items() if disk.kernel_name == place.split("/")[-2]
            )
            array = self.machine.array
            return f"{_ARRAY}\n" if array and disk in array[2] else ""
        if not self._there(place):
            return _MISSING
        below = [path.removeprefix(f"{place}/") for path in self.machine.tree if path.startswith(f"{place}/")]
        if "%f\\n" in words:
            return "".join(f"{name}\n" for name in below if "/" not in name)
        # Of a run's directory: anything but an empty token.
        return "".join(f"{n}\n" for n in below if n != "token" or self.machine.tree[f"{place}/{n}"])

    def _find_access(self, words: list[str]) -> Answer:
        paths = [word for word in words if word.startswith("/")]
        if "-type" in words:
            # Nobody has put a link there.
            return ""
        return "".join(
            f"{'d 1777' if self._content(path) is None else 'f 666'} 1 rw\n"
            for path in paths
            if self._there(path)
        )

    def _do_test(self, words: list[str]) -> Answer:
        path = words[1]
        if path.startswith("/sys/kernel/tracing"):
            return 0
        disk = self._disk(path)
        there = self._has_node(*disk) if disk else self._there(path)
        return 0 if there else 1

    def _do_stat(self, words: list[str]) -> Answer:
        content = self._content(words[-1])
        return _MISSING if content is None else f"{content}\n"

    def _do_readlink(self, words: list[str]) -> Answer:
        path = words[-1]
        if path.startswith("/dev/md/"):
            return f"/dev/{_ARRAY}\n"
        return f"/dev/{self.machine.disks[path].kernel_name}\n" if path in self.machine.disks else f"{path}\n"

    def _do_kill(self, words: list[str]) -> Answer:
        return 0 if self.machine.processes.pop(int(words[-1]), None) else 1

    def _do_env(self, words: list[str]) -> Answer:
        own = [word for word in words if word != "LC_ALL=C.UTF-8"]
        if own[:2] == ["sh", "-c"] and own[2].startswith("command -v"):
            return 0
        return self._act(tuple(own), self._stdin.encode())

    def _do_sh(self, words: list[str]) -> Answer:
        script, rest = words[1], words[3:]
        if script.startswith("cd / || exit"):
            return self._act(tuple(rest), self._stdin.encode())
        if script.startswith("file=$1"):
            return self._act(tuple(rest[1:]))
        assert script.startswith("found()"), script
        for pid, each in list(self.machine.processes.items()):
            if each.argv[:2] == ("bpftrace", f"{rest[0]}/nfsd.bt"):
                del self.machine.processes[pid]
        return 0

    def _do_fio(self, words: list[str]) -> Answer:
        options = dict(word[2:].split("=", 1) for word in words if "=" in word)
        path = "/".join(filter(None, (options.get("directory"), options["filename"])))
        if not path.startswith("/dev/"):
            tree, place = self._place(path)
            tree[place] = "0"
            self.wire.middle(f"fio on {path}")
            tree[place] = options["size"]
        return {"jobs": [{"jobname": "fill", "error": 0}]}

    def _do_ctl(self, words: list[str]) -> Answer:
        """The user's program: `show NAME`, `set NAME=VALUE`. Setting `a` to on sets `b` to off."""
        name, _, value = words[1].partition("=")
        if words[0] == "set":
            self.machine.settings[name] = value
            self.wire.middle(" ".join(words))
            if (name, value) == ("a", "on"):
                self.machine.settings["b"] = "off"
        return f"{self.machine.settings[name]}\n"

    # --- NFS ---

    def _do_exportfs(self, words: list[str]) -> Answer:
        machine = self.machine
        if words[0] == "-v":
            return "".join(f"{path} {client}({o})\n" for (client, path), o in machine.exports.items())
        if words[0] == "-f":
            machine.held.clear()
            return ""
        client, _, below = words[-1].partition(":/")
        key = (client, f"/{below}")
        if words[0] == "-o":
            machine.exports[key] = words[1]
            return ""
        if key not in machine.exports:
            return 1, "", f"exportfs: Could not find '{words[-1]}' to unexport"
        world = self.wire.world
        at_client = world.machines[world.addresses[client]].mounts if client in world.addresses else []
        if any(source.endswith(f":/{below}") for source, _, _ in at_client):
            world.hangs.append(f"{words[-1]} was unexported below a mount")
        del machine.exports[key]
        return ""

    def _do_mount(self, words: list[str]) -> Answer:
        options, source, target = words[3:6]
        address, _, below = source.partition(":/")
        server = self.wire.world.addresses.get(address)
        if not self._there(target):
            return 32, "", "mount point does not exist"
        if server:
            of_server = self.wire.world.machines[server]
            if all(path != f"/{below}" for _, path in of_server.exports):
                return 32, "", "access denied by server"
            of_server.held.add(f"/{below}")
        self.machine.mounts.append((source, target, f"rw,{options.replace(',retry=1', '')}"))
        return ""

    def _do_umount(self, words: list[str]) -> Answer:
        last = next((each for each in reversed(self.machine.mounts) if each[1] == words[-1]), None)
        if last is None:
            return 32, "", "not mounted"
        self.machine.mounts.remove(last)
        return ""

    # --- Disks ---

    def _disk(self, path: str) -> tuple[Disk, str] | None:
        base = re.sub(r"-part\d$", "", path)
        return (self.machine.disks[base], path.removeprefix(base)) if base in self.machine.disks else None

    def _has_node(self, disk: Disk, part: str) -> bool:
        return not part or disk.table or (part == _PART and disk.part_bytes > 0)

    def _label(self, path: str) -> tuple[str, str, str] | None:
        disk, part = self._disk(path) or (None, "")
        return disk.label if disk and part and self._has_node(disk, part) else None

    def _in_use(self, path: str) -> bool:
        """By an imported pool, an array, or a process that has claimed it."""
        disk, _ = self._disk(path) or (None, "")
        base = re.sub(r"-part\d$", "", path)
        claims = {name for each in self.machine.processes.values() for name in each.holds}
        pools = (path for pool in self.machine.pools.values() if pool.imported for path in pool.devices)
        used = {re.sub(r"-part\d$", "", each) for each in pools} | set(
            self.machine.array[2] if self.machine.array else ()
        )
        return base in used or (disk is not None and f"/dev/{disk.kernel_name}" in claims)

    def _do_lsblk(self, words: list[str]) -> Answer:
        disk = self.machine.disks.get(words[-1])
        if disk is None:
            return 32, "", "not a block device"
        if "SERIAL" in words:
            return f"{disk.serial}\n"
        return "disk\n" + "part\n" * (2 if disk.table else 1 if disk.part_bytes else 0)

    def _do_blockdev(self, words: list[str]) -> Answer:
        disk, _ = self._disk(words[-1]) or (None, "")
        return f"{disk.part_bytes}\n" if disk and words[0] == "--getsize64" else ""

    def _do_blkid(self, words: list[str]) -> Answer:
        if "--usages" in words:
            return 2
        kind, name = _GPT[words[-1][-1]]
        disk, part = self._disk(words[-1]) or (None, "")
        of_zfs = "TYPE=zfs_member\n" if disk and disk.label and part == _PART else ""
        return (
            f"PART_ENTRY_TYPE={kind}\nPART_ENTRY_NAME={name}\n{of_zfs}"
            if disk and disk.table
            else (2, "", "")
        )

    def _do_wipefs(self, words: list[str]) -> Answer:
        disk, part = self._disk(words[-1]) or (None, "")
        assert disk is not None
        if "--all" not in words:
            return "zfs_member\n" if disk.label and part == _PART else ""
        if self._in_use(words[-1]):
            return 1, "", "Device or resource busy"
        if part:
            self._clear_label(disk)
        else:
            disk.table, disk.superblock = False, None
        return ""

    def _do_zdb(self, words: list[str]) -> Answer:
        label = self._label(words[-1])
        if label is None:
            return 2, "", "failed to unpack label"
        name, guid, role = label
        if role == "cache":
            return f"LABEL 0\n    state: 4\n    guid: 7\nL2ARC header\n    pool_guid: {guid}\n"
        return f"LABEL 0\n    name: '{name}'\n    state: 0\n    pool_guid: {guid}\n"

    def _do_hdparm(self, words: list[str]) -> Answer:
        disk = self.machine.disks[words[-1]]
        if words[0] != "-W":
            disk.cache = words[0][-1]
        return f" write-caching =  {disk.cache} (x)\n"

    def _do_mknod(self, words: list[str]) -> Answer:
        self.machine.tree[words[1]] = ""
        return ""

    def _do_mdadm(self, words: list[str]) -> Answer:
        machine = self.machine
        if words[0] == "--create":
            return self._create_array(words)
        if words[0] == "--stop":
            machine.array = None
            return ""
        disk = machine.disks.get(words[-1])
        if words[0] == "--zero-superblock":
            assert disk is not None
            if self._in_use(words[-1]):
                return 1, "", "busy"
            disk.superblock = None
            return ""
        found = machine.array[:2] if words[0] == "--detail" and machine.array else disk and disk.superblock
        return f"MD_NAME=any:{found[0]}\nMD_UUID={found[1]}\n" if found else (1, "", "no md superblock")

    def _create_array(self, words: list[str]) -> Answer:
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        members = tuple(word for word in words if word.startswith("/dev/disk/"))
        if any(self._in_use(path) for path in members):
            return 1, "", "Device or resource busy"
        for path in members:
            self.machine.disks[path].superblock = (options["name"], options["uuid"])
            self.wire.middle("mdadm --create")
        self.machine.array = (options["name"], options["uuid"], members)
        return ""

    # --- Programs of kit/remote, by their first argument ---

    def _do_python3(self, words: list[str]) -> Answer:
        assert words[:2] == ["-I", "-"] and self._stdin, words
        verb, *rest = words[2:]
        machine = self.machine
        if verb in ("create", "snapshot"):
            pool = machine.pools[rest[0].partition("/")[0]]
            pool.datasets[rest[0]] = {"hsp:run": rest[1], "recordsize": rest[-1]}
            return {"name": rest[0], "exists": True}
        if verb in ("add", "del"):
            if self._in_use(rest[0]) and verb == "del":
                return 1, "", "Device or resource busy"
            machine.disks[rest[0]].part_bytes = int(rest[2]) if verb == "add" else 0
            return ""
        if verb == "look":
            return "".join(f"{each}\n" for each in machine.listeners)
        if verb == "start":
            machine.listeners = rest[1:]
            self.wire.middle("start nfsd")
            machine.tree["/proc/fs/nfsd/threads"] = f"{rest[0]}\n"
            return ""
        # Of driver and firmware of the disks nothing is known: a note in the report.
        return "{}"

    # --- ZFS ---

    def _do_zfs(self, words: list[str]) -> Answer:
        name = words[-1]
        pool = self.machine.pools.get(name.partition("/")[0])
        if pool is None or not pool.imported:
            return 1, "", "dataset does not exist"
        path = f"{pool.mount_root}/{name.partition('/')[2]}"
        if words[0] == "mount":
            pool.mounted.add(name)
            self.machine.tree |= {pool.mount_root: None, path: None}
            return ""
        own = pool.datasets.setdefault(name, {})
        if words[0] == "set":
            own |= dict(word.split("=", 1) for word in words[1:-1])
            return ""
        assert words[0] == "get", words
        values = {"objsetid": "54", "sync": "standard", "mountpoint": path, "hsp:run": pool.run, **own}
        return self._values(words, values)

    def _values(self, words: list[str], values: dict[str, str]) -> Answer:
        names = words[-2].split(",")
        if "property,value" in words:
            return "".join(f"{name}\t{values.get(name, 'default')}\n" for name in names)
        return f"{values[names[0]]}\n"

    def _do_zpool(self, words: list[str]) -> Answer:
        verb, name = words[0], words[-1]
        if verb in ("create", "import", "list", "labelclear"):
            act: Callable[[list[str]], Answer] = getattr(self, f"_zpool_{verb}")
            return act(words)
        if verb == "sync":
            return ""
        if verb in ("get", "destroy"):
            pool = self.machine.pools.get(name)
        else:
            pool = self.machine.pools.get(next(word for word in words[1:] if not word.startswith("-")))
        if pool is None or not pool.imported:
            return 1, "", "no such pool"
        if verb == "get":
            return self._values(words, {"guid": pool.guid})
        if verb == "destroy":
            return self._destroy(name, pool)
        if verb == "remove":
            for path in words[3:]:
                del pool.devices[path]
                self.wire.middle("zpool remove")
            return ""
        assert verb in ("offline", "online"), words
        pool.offline ^= {name} if (name in pool.offline) == (verb == "online") else set()
        return ""

    def _zpool_list(self, words: list[str]) -> Answer:
        pools = {name: pool for name, pool in self.machine.pools.items() if pool.imported}
        if "-v" in words:
            return "".join(f"\t{path}\n" for path in pools[words[-1]].devices)
        return "".join(f"{name}\n" for name in pools)

    def _zpool_create(self, words: list[str]) -> Answer:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        devices, role = {}, "data"
        for word in words:
            role = word if word in ("log", "cache") else role
            if word.startswith("/dev/"):
                devices[word] = role
        pairs = pairwise(words)
        name = next(after for word, after in pairs if "=" in word and not after.startswith("-"))
        if any(self._in_use(path) or self._label(path) for path in devices):
            return 1, "", "one or more vdevs refer to the same device, or are in use"
        for path in devices:
            disk, part = self._disk(path) or (None, "")
            assert disk is not None and self._has_node(disk, part)
            disk.table = disk.table or not part
            self.wire.middle("zpool create")
        guid = str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16))
        for path, its_role in devices.items():
            disk, _ = self._disk(path) or (None, "")
            assert disk is not None
            disk.label = (name, guid, its_role)
        self.machine.pools[name] = Pool(guid, options["hsp:run"], options["mountpoint"], devices)
        return ""

    def _zpool_import(self, words: list[str]) -> Answer:
        places = [after for word, after in pairwise(words) if word == "-d"]
        seen = {label[1] for path in places if (label := self._label(path))}
        there = {n: p for n, p in self.machine.pools.items() if not p.imported and p.guid in seen}
        if words[-1].isdecimal():
            for pool in there.values():
                pool.imported = pool.imported or pool.guid == words[-1]
            return ""
        return "".join(f"   pool: {name}\n     id: {pool.guid}\n" for name, pool in there.items()) or 1

    def _zpool_labelclear(self, words: list[str]) -> Answer:
        if self._in_use(words[-1]) or not self._label(words[-1]):
            return 1, "", "no label, or in use"
        disk, _ = self._disk(words[-1]) or (None, "")
        assert disk is not None
        self._clear_label(disk)
        return ""

    def _clear_label(self, disk: Disk) -> None:
        """A pool that is not imported is gone with its last label."""
        disk.label = None
        left = {each.label[1] for each in self.machine.disks.values() if each.label}
        pools = self.machine.pools.items()
        self.machine.pools = {name: pool for name, pool in pools if pool.imported or pool.guid in left}

    def _destroy(self, name: str, pool: Pool) -> Answer:
        below = f"{pool.mount_root}/"
        if any(path.startswith(below) for path in self.machine.held):
            return 1, "", "pool is busy"
        for machine in self.wire.world.machines.values():
            if any(below in f"{source}/" for source, _, _ in machine.mounts):
                self.wire.world.hangs.append(f"{name} was destroyed below a mount")
        del self.machine.pools[name]
        for path in [p for p in self.machine.tree if p == pool.mount_root or p.startswith(below)]:
            del self.machine.tree[path]
        return ""
