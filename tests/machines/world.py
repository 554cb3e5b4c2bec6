"""The state of machines, and the connections of the kit to them, which may break at any command."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from kit.hosts.base import HostLost
from tests.fakes import Answer

HERE = "here"
"""The machine that runs the kit."""
LIT = "/lit"
"""A file there: without it the others have no power, and do not answer."""
LOCKS = "/run/hsp/locks"
KEPT = "/var/lib/hsp/removed/"
"""Where copies of removed signatures are kept for good."""
_COPY = re.compile(rf"{KEPT}hsp-[0-9a-f]+(/wipefs-\w+-0x[0-9a-f]+\.bak)?")
DISK_BYTES = 128 << 20
Tree = dict[str, str | None]
"""By path the content of a file, or None for a directory."""


@dataclass
class Disk:
    """`table`: of `zpool create`; `part_bytes`: a partition that only the kernel knows; `label`: in either.

    A label is the pool's name, its GUID and the role of the device.
    """

    kernel_name: str
    serial: str
    table: bool = False
    part_bytes: int = 0
    label: tuple[str, str, str] | None = None
    superblock: tuple[str, str] | None = None
    cache: str = "1"

    @property
    def parts(self) -> dict[str, int]:
        """Sizes in bytes, by number."""
        if self.table:
            return {"1": DISK_BYTES - (10 << 20), "9": 8 << 20}
        return {"1": self.part_bytes} if self.part_bytes else {}

    @property
    def signatures(self) -> list[tuple[str, str, str]]:
        """Kernel name, kind and offset, as wipefs finds them."""
        of_disk = [("gpt", "0x200"), ("PMBR", "0x1fe")] if self.table else []
        of_disk += [("linux_raid_member", "0x1000")] if self.superblock else []
        of_part = [(f"{self.kernel_name}1", "zfs_member", "0x3f000")] if self.label and self.parts else []
        return [(self.kernel_name, kind, offset) for kind, offset in of_disk] + of_part


@dataclass
class Pool:
    guid: str
    run: str
    mount_root: str
    devices: dict[str, str]
    datasets: dict[str, dict[str, str]] = field(default_factory=dict)
    mounted: set[str] = field(default_factory=set)
    offline: set[str] = field(default_factory=set)
    imported: bool = True


@dataclass
class Running:
    """A process. `with_connection`: it ends with the connection; `holds`: locks, and devices it has open."""

    argv: tuple[str, ...]
    with_connection: bool = True
    holds: tuple[str, ...] = ()


@dataclass
class Machine:
    number: int
    disks: dict[str, Disk] = field(default_factory=dict)
    tree: Tree = field(default_factory=dict)
    effects: dict[str, str] = field(
        default_factory=lambda: {"zfs_arc_max": "4000000000", "zfs_arc_min": "64000000"}
    )
    pools: dict[str, Pool] = field(default_factory=dict)
    exports: dict[tuple[str, str], str] = field(default_factory=dict)
    # Paths in nfsd's caches since a client's access.
    held: set[str] = field(default_factory=set)
    mounts: list[tuple[str, str, str]] = field(default_factory=list)
    array: tuple[str, str, tuple[str, ...]] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    listeners: list[str] = field(default_factory=lambda: ["tcp 0.0.0.0 2049", "tcp :: 2049"])
    processes: dict[int, Running] = field(default_factory=dict)
    # How often the NFS server was started by its service.
    nfsd: int = 1
    boot: int = 1

    @property
    def machine_id(self) -> str:
        return str(self.number) * 32

    def disk(self, path: str) -> tuple[Disk, str] | None:
        """The disk of a path, and the number of the partition or ""."""
        base, _, number = path.partition("-part")
        return (self.disks[base], number) if base in self.disks else None

    def has_node(self, path: str) -> bool:
        found = self.disk(path)
        return found is not None and (not found[1] or found[1] in found[0].parts)

    def label(self, path: str) -> tuple[str, str, str] | None:
        disk, number = self.disk(path) or (None, "")
        return disk.label if disk and number == "1" and self.has_node(path) else None

    def in_use(self, path: str, but: int | None = None) -> bool:
        """By an imported pool, an array, or a process that has claimed it; `but`: that process."""
        base = path.partition("-part")[0]
        claims = {name for pid, each in self.processes.items() if pid != but for name in each.holds}
        pools = [pool for pool in self.pools.values() if pool.imported]
        used = {device.partition("-part")[0] for pool in pools for device in pool.devices}
        used |= {*self.array[2]} if self.array else set()
        return base in used or (base in self.disks and f"/dev/{self.disks[base].kernel_name}" in claims)


@dataclass
class World:
    """`addresses`: machines by their address; `shares`: files of an appliance, by what a client mounts."""

    machines: dict[str, Machine]
    addresses: dict[str, str] = field(default_factory=dict)
    shares: dict[str, Tree] = field(default_factory=dict)
    hangs: list[str] = field(default_factory=list)
    last_pid: int = 100

    def copy(self) -> World:
        copied: World = pickle.loads(pickle.dumps(self))
        return copied

    def connections_end(self, to: Collection[str] = ()) -> None:
        """Those to some machines, or to all."""
        for machine in (self.machines[name] for name in to or self.machines):
            gone = [pid for pid, each in machine.processes.items() if each.with_connection]
            for pid in gone:
                del machine.processes[pid]
            for path in [path for path in machine.tree if path.startswith(f"{LOCKS}/ready-")]:
                del machine.tree[path]

    def restart(self, name: str, fresh: Machine) -> None:
        """The machine boots again: what only its kernel knew is as on the `fresh` one, its disks are kept."""
        old = self.machines[name]
        now: Machine = pickle.loads(pickle.dumps(fresh))
        now.boot, now.disks, now.settings = old.boot + 1, old.disks, old.settings
        now.tree |= {path: content for path, content in old.tree.items() if path.startswith(KEPT)}
        for disk in now.disks.values():
            disk.part_bytes, disk.cache = 0, "1"
            # It lies in a partition that is gone: nobody can see it any more.
            disk.label = disk.label if disk.table or not disk.label or disk.label[0] == "tank" else None
        for pool_name, pool in old.pools.items():
            pool.imported, pool.mounted = False, set()
            now.pools.setdefault(pool_name, pool)
        self.machines[name] = now


def differences(before: World, after: World) -> list[str]:
    """What is not as it was; "" if all is."""
    found = [f"a client hangs: {each}" for each in after.hangs]
    found += [f"shares: {after.shares}"] if before.shares != after.shares else []
    for name, old in before.machines.items():
        for key, value in vars(old).items():
            now = vars(after.machines[name])[key]
            if key == "tree":
                now = {path: content for path, content in now.items() if not _COPY.fullmatch(path)}
            if now != value:
                found.append(f"{name}: {key} was {value}, is {now}")
    return found


class Wire:
    """The connections of one process of the kit, which may break at the command of number `breaks_at`.

    `when`: all of them before it has changed anything, or the one to its machine, in its middle or after it.
    `look` is called after each command and in the middle of some.
    """

    def __init__(
        self,
        world: World,
        breaks_at: int = 0,
        when: str = "before",
        look: Callable[[str], None] | None = None,
    ) -> None:
        self.world, self.breaks_at, self.when, self.look = world, breaks_at, when, look
        self.number, self.lost, self._machine = 0, set[str](), ""
        # By number the moments at which a break leaves something else.
        self.moments: dict[int, list[str]] = {}

    def carry(self, machine: str, text: str, do: Callable[[], Answer]) -> Answer:
        """A command. That of the kit's own machine needs no connection."""
        if machine == HERE:
            answer = do()
            if self.look:
                self.look(text)
            return answer
        if machine in self.lost or LIT not in self.world.machines[HERE].tree:
            raise HostLost("the connection broke")
        self.number, self._machine = self.number + 1, machine
        is_last = self.number == self.breaks_at
        before = repr(self.world) if self.look else ""
        self.moments[self.number] = ["before"]
        if is_last and self.when == "before":
            self._break()
        answer = do()
        self.moments[self.number] += ["after"] if self.look and repr(self.world) != before else []
        if is_last:
            self._break()
        if self.look:
            self.look(text)
        return answer

    def middle(self, text: str) -> None:
        """The command under way has done one of its changes."""
        if self.number == self.breaks_at and self.when == "middle":
            self._break()
        self.moments[self.number] = ["before", "middle"]
        if self.look:
            self.look(f"middle of {text}")

    def _break(self) -> None:
        self.lost = {*self.world.machines} if self.when == "before" else {self._machine}
        self.world.connections_end(self.lost)
        raise HostLost("the connection broke")
