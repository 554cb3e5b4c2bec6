"""Machines with a state: what the commands of the kit change on them, and what they then answer.

Modelled are pools on disks (partitions, labels, L2ARC headers, what is left after `zpool destroy`), datasets,
exports and what nfsd still holds, NFS mounts, module parameters and the ARC's limits in effect, partitions of
the kernel's own, md arrays and their superblocks, copies of removed signatures, write caches, settings that a
user's program sets, files, directories, and processes, with those that end with their connection. Two
mistakes that hang a real client are kept in `World.hangs`. A command of several changes can be broken off in
its middle.

Not modelled, so that strikes in the lab still show them: what udev and systemd do with a device, the kernel's
delays, a lazy unmount, the output of a load or a tracer, and commands and writers that go on after their
connection broke. A command that is not known here is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise

from tests.fakes import Answer
from tests.machines.disks import DiskHost
from tests.machines.world import Pool


class StatefulHost(DiskHost):
    """A connection to one machine of the world."""

    def close(self) -> None:
        self.wire.world.connections_end([self.key])

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
        # As the kernel prints them.
        shown = options.replace(",retry=1", "").replace(
            "actimeo=0", "acregmin=0,acregmax=0,acdirmin=0,acdirmax=0"
        )
        self.machine.mounts.append((source, target, f"rw,{shown}"))
        return ""

    def _do_umount(self, words: list[str]) -> Answer:
        last = next((each for each in reversed(self.machine.mounts) if each[1] == words[-1]), None)
        if last is None:
            return 32, "", "not mounted"
        self.machine.mounts.remove(last)
        return ""

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
        if words[0] == "create":
            return ""
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
        return self._changed(verb, pool, words)

    def _changed(self, verb: str, pool: Pool, words: list[str]) -> Answer:
        """An imported pool after zpool export, remove, add, offline or online."""
        name = words[-1]
        if verb == "export":
            if any(path.startswith(f"{pool.mount_root}/") for path in self.machine.held):
                return 1, "", "pool is busy"
            self.wire.middle("zpool export")
            pool.imported = False
            pool.mounted.clear()
            return ""
        if verb == "add":
            self.wire.middle("zpool add")
            pool.devices |= dict.fromkeys(words[3:], words[2])
            return ""
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
            listed = "".join(f"\t{path}\t1024\t250\t750\n" for path in pools[words[-1]].devices)
            return f"{words[-1]}\t1000\t250\t750\t-\t-\t0\n{listed}"
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
        if any(self.machine.in_use(path) or self.machine.label(path) for path in devices):
            return 1, "", "one or more vdevs refer to the same device, or are in use"
        for path in devices:
            assert self.machine.has_node(path)
            disk = self._disk(path)
            disk.table = disk.table or path in self.machine.disks
            self.wire.middle("zpool create")
        guid = str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16))
        for path, its_role in devices.items():
            self._disk(path).label = (name, guid, its_role)
        self.machine.pools[name] = Pool(guid, options["hsp:run"], options["mountpoint"], devices)
        return ""

    def _zpool_import(self, words: list[str]) -> Answer:
        places = [after for word, after in pairwise(words) if word == "-d"]
        seen = {label[1] for path in places if (label := self.machine.label(path))}
        there = {n: p for n, p in self.machine.pools.items() if not p.imported and p.guid in seen}
        if words[-1].isdecimal():
            for pool in there.values():
                pool.imported = pool.imported or pool.guid == words[-1]
            return ""
        return "".join(f"   pool: {name}\n     id: {pool.guid}\n" for name, pool in there.items()) or 1

    def _zpool_labelclear(self, words: list[str]) -> Answer:
        if self.machine.in_use(words[-1]) or not self.machine.label(words[-1]):
            return 1, "", "no label, or in use"
        self._clear_label(self._disk(words[-1]))
        return ""

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
