"""Disks of a machine: what is on them, who uses them, and the programs that look at them and change them."""

from __future__ import annotations

import json

from kit.hosts.held_device import PLACE
from tests.fakes import Answer
from tests.machines.files import FileHost
from tests.machines.inventory import TYPES, facts, number_of, zdb_text
from tests.machines.world import Disk

# Of the partitions of `zpool create`.
_NAMES = {"1": "zfs-1", "9": ""}


class DiskHost(FileHost):
    def _disk(self, path: str) -> Disk:
        disk, _ = self.machine.disk(path) or (None, "")
        assert disk is not None, path
        return disk

    def _do_lsblk(self, words: list[str]) -> Answer:
        disk = self.machine.disks.get(words[-1])
        if disk is None:
            return 32, "", "not a block device"
        if "SERIAL" in words:
            return f"{disk.serial}\n"
        return "disk\n" + "part\n" * len(disk.parts)

    def _do_blockdev(self, words: list[str]) -> Answer:
        return f"{self._disk(words[-1]).part_bytes}\n" if words[0] == "--getsize64" else ""

    def _do_blkid(self, words: list[str]) -> Answer:
        if "--usages" in words:
            return 2
        disk, number = self.machine.disk(words[-1]) or (None, "")
        if disk is None or not disk.table:
            return 2, "", ""
        of_zfs = "TYPE=zfs_member\n" if self.machine.label(words[-1]) else ""
        return f"PART_ENTRY_TYPE={TYPES[number]}\nPART_ENTRY_NAME={_NAMES[number]}\n{of_zfs}"

    def _do_wipefs(self, words: list[str]) -> Answer:
        disk = self._disk(words[-1])
        name = f"{disk.kernel_name}{words[-1].partition('-part')[2]}"
        found = [(kind, offset) for place, kind, offset in disk.signatures if place == name]
        if "--all" not in words:
            return "".join(f"{kind}\n" for kind, _ in found)
        if self.machine.in_use(words[-1]):
            return 1, "", "Device or resource busy"
        types = words[words.index("--types") + 1].split(",")
        for kind, offset in found:
            if kind not in types:
                continue
            if "--backup" not in words or self._home not in self.machine.tree:
                return 1, "", "cannot write the backup"
            self.machine.tree[f"{self._home}/wipefs-{name}-{offset}.bak"] = kind
            self.wire.middle(f"wipefs {kind}")
            if kind == "zfs_member":
                self._clear_label(disk)
            disk.table = disk.table and kind != "gpt"
        return ""

    def _clear_label(self, disk: Disk) -> None:
        """A pool that is not imported is gone with its last label."""
        disk.label = None
        left = {each.label[1] for each in self.machine.disks.values() if each.label}
        pools = self.machine.pools.items()
        self.machine.pools = {name: pool for name, pool in pools if pool.imported or pool.guid in left}

    def _do_zdb(self, words: list[str]) -> Answer:
        return zdb_text(self.machine, words[-1]) or (2, "failed to unpack label 0\n", "")

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
            if self.machine.in_use(words[-1]):
                return 1, "", "busy"
            disk.superblock = None
            return ""
        found = machine.array[:2] if words[0] == "--detail" and machine.array else disk and disk.superblock
        return f"MD_NAME=any:{found[0]}\nMD_UUID={found[1]}\n" if found else (1, "", "no md superblock")

    def _create_array(self, words: list[str]) -> Answer:
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        members = tuple(word for word in words if word.startswith("/dev/disk/"))
        if any(self.machine.in_use(path) for path in members):
            return 1, "", "Device or resource busy"
        for path in members:
            self.machine.disks[path].superblock = (options["name"], options["uuid"])
            self.wire.middle("mdadm --create")
        self.machine.array = (options["name"], options["uuid"], members)
        return ""

    # --- Programs of kit/remote, by their first argument ---

    def _do_python3(self, words: list[str]) -> Answer:
        if words[:3] == ["-I", "-S", "-c"]:
            return self._on_held(words[4:])
        assert words[:2] == ["-I", "-"] and self._stdin, words
        verb, *rest = words[2:]
        if verb.startswith('{"paths"'):
            return facts(self.machine, json.loads(verb))
        if verb == "list":
            return json.dumps(self._processes_of(json.loads(rest[0])))
        machine = self.machine
        if verb in ("create", "snapshot"):
            pool = machine.pools[rest[0].partition("/")[0]]
            pool.datasets[rest[0]] = {"hsp:run": rest[1], "recordsize": rest[-1]}
            return {"name": rest[0], "exists": True}
        if verb in ("add", "del"):
            return self._partition(verb, *rest)
        if verb == "look":
            return "".join(f"{each}\n" for each in machine.listeners)
        if verb == "start":
            machine.listeners = rest[1:]
            self.wire.middle("start nfsd")
            machine.tree["/proc/fs/nfsd/threads"] = f"{rest[0]}\n"
            return ""
        # Of driver and firmware of the disks nothing is known: a note in the report.
        return "{}"

    def _partition(self, verb: str, path: str, start: str = "", size: str = "") -> Answer:
        """A partition that only the kernel knows, at 1 MiB."""
        disk = self.machine.disks[path]
        if verb == "add":
            disk.part_bytes = int(size)
            return ""
        if size and size != str(disk.part_bytes):
            return 3, f"{disk.part_bytes} bytes at {start}\n", ""
        if self.machine.in_use(path):
            return 1, "", "Device or resource busy"
        disk.part_bytes = 0
        return ""

    def _on_held(self, words: list[str]) -> Answer:
        """A command on a device that is opened and compared before (kit/remote/open_device.py)."""
        path, number, sequence, *argv = words
        disk = self.machine.disks.get(path)
        if disk is None or (number_of(self.machine, disk), str(self.machine.boot)) != (number, sequence):
            return 4, "", f"{path} leads to another device now"
        return self._act(tuple(word.replace(PLACE, path) for word in argv), self._stdin.encode())

    def _processes_of(self, request: dict[str, list[str]]) -> list[tuple[int, str, str]]:
        """What kit/remote/processes.py says: processes, their names, and what shows whose they are."""
        nodes = {f"/dev/{self._disk(path).kernel_name}" for path in request["devices"]}
        found = []
        for pid, each in self.machine.processes.items():
            if any(but in word for but in request["but"] for word in each.argv):
                continue
            named = [name for name in request["names"] if any(name in word for word in each.argv)]
            opened = [h for h in each.holds if h in nodes or h.startswith(f"{request['directory']}/")]
            found += [(pid, each.argv[0], f"it has or names {what}") for what in (named + opened)[:1]]
        return found
