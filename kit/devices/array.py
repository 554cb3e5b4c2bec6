"""md arrays that a run makes of its devices, and removes again.

Whose an array is, its name and its UUID say: both are derived from the run's id, the UUID from the phase as
well, before there is an array. Only superblocks with both are removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import udev
from kit.devices.serial import check_serial
from kit.hosts.base import Command, Host
from kit.hosts.held_device import HeldDevice

_STOP_TRIES = 3


@dataclass(frozen=True)
class ArraySpec:
    """`name`: its name and that of its nodes; `members`: paths, in order."""

    name: str
    uuid: str
    level: str
    chunk_bytes: int
    members: tuple[str, ...]

    @property
    def path(self) -> str:
        """Where mdadm and udev have it."""
        return f"/dev/md/{self.name}"

    @property
    def node(self) -> str:
        """A node of its own for the load.

        udev watches its node of an md array, locked or not, and reads the array when one that had it
        open for writing closes it (systemd, "Locking Block Device Access": only partitionable devices).
        """
        return node_of(self.name)


def node_of(name: str) -> str:
    """The path of an array's own node."""
    return f"/dev/{name}"


def uuid_of(run: str, phase: str) -> str:
    """32 hexadecimal digits."""
    return hashlib.sha256(f"md array {run} {phase}".encode()).hexdigest()[:32]


def create_commands(spec: ArraySpec) -> list[Command]:
    """Make the array; its own node, of which the kernel gives the number; and what keeps md quiet."""
    return [_create_command(spec), _node_command(spec, "9:NUMBER"), *_stay_active_commands(spec)]


def _node_command(spec: ArraySpec, number: str) -> Command:
    """`number`: the device's, as in sysfs, such as 9:127."""
    return Command(("mknod", "--mode=0600", spec.node, "b", *number.split(":")))


def _create_command(spec: ArraySpec) -> Command:
    """Nothing is resynchronised: the load only needs what it writes itself (--assume-clean).

    --run answers mdadm's question about what lies on the members, which is the run's own; --force is for an
    array of one device. Without a bitmap, which would be written beside the load.
    """
    chunk = [] if spec.level == "raid1" else [f"--chunk={spec.chunk_bytes >> 10}K"]
    redundant = [] if spec.level == "raid0" else ["--assume-clean", "--bitmap=none"]
    one = ["--force"] if len(spec.members) == 1 else []
    argv = (
        "mdadm", "--create", spec.path, f"--level={spec.level}", f"--raid-devices={len(spec.members)}",
        *chunk, *redundant, "--metadata=1.2", f"--uuid={spec.uuid}", f"--name={spec.name}", "--homehost=any",
        "--run", *one, *spec.members,
    )  # fmt: skip
    return Command(argv)


def _stay_active_commands(spec: ArraySpec) -> list[Command]:
    """A write, after which the superblocks say "active" until the array is stopped.

    Else md writes them at the first write of the load, and when it pauses.
    """
    if spec.level == "raid0":
        return []
    write = ["--rw=write", "--bs=4k", "--size=4k", "--direct=1", "--ioengine=psync", "--thread=1"]
    return [Command(("fio", "--name=active", f"--filename={spec.node}", *write, "--output=/dev/null"))]


def check_tools(host: Host, levels: Sequence[str]) -> str:
    """The version of mdadm. Raises HostError where it or the level's module is missing."""
    found = host.run(["mdadm", "--version"], check=False)
    if found.returncode:
        raise HostError(
            f"mdadm does not run on {host.name}: {(found.stderr.strip() or 'it is not there')[:200]}",
            'a phase with target = "array" needs it: install the package mdadm there',
        )
    for level in sorted(set(levels)):
        module = "raid456" if level == "raid5" else level
        if host.run(["modprobe", "--dry-run", "--quiet", module], check=False).returncode:
            raise HostError(
                f"the kernel of {host.name} has no {module}: it cannot make an array of level {level}",
                "install the modules of its kernel (Debian: linux-image, not a minimal one), or choose "
                "another level",
            )
    return (found.stderr or found.stdout).strip().removeprefix("mdadm - ")


def create(host: Host, spec: ArraySpec, commands: Sequence[Command], held: Sequence[HeldDevice] = ()) -> int:
    """Execute `create_commands`; returns the array's size in bytes.

    `held`: the members as they were checked; mdadm takes names alone.

    Raises HostError, SafetyRefusal if a member or the node is another's.
    """
    create_array, _, *stay_active = commands
    for member in held:
        member.check(host)
    create_array.run(host)
    for member in held:
        member.check(host)
    udev.settle(host)
    kernel = _kernel_name(host, spec.path)
    if _identity(host, "--detail", f"/dev/{kernel}") != (spec.name, spec.uuid):
        raise SafetyRefusal(
            f"{spec.path} on {host.name} is not the array that the run has made",
            "look at /proc/mdstat there; the load did not begin",
        )
    number = host.run(["cat", f"/sys/block/{kernel}/dev"]).stdout.strip()
    _node_command(spec, number).run(host)
    if spec.level != "raid0":
        _keep_quiet(host, spec, f"/sys/block/{kernel}/md", stay_active)
    return int(host.run(["cat", f"/sys/block/{kernel}/size"]).stdout) * 512


def _keep_quiet(host: Host, spec: ArraySpec, place: str, stay_active: Sequence[Command]) -> None:
    """Nothing but the load goes on in it. Raises HostError."""
    if (found := host.run(["cat", f"{place}/sync_action"]).stdout.strip()) != "idle":
        raise HostError(f"{spec.path} on {host.name} is not idle: md does a {found}", "it was to be clean")
    host.run(["tee", f"{place}/safe_mode_delay"], stdin=b"0")
    for command in stay_active:
        command.run(host)


def degraded(host: Host, spec: ArraySpec) -> str:
    """Which members md has put out of the array, as text; "" if none, and at raid0, which cannot go on."""
    if spec.level == "raid0":
        return ""
    kernel = _kernel_name(host, spec.path)
    if host.run(["cat", f"/sys/block/{kernel}/md/degraded"]).stdout.strip() == "0":
        return ""
    states = {
        path: host.run(["cat", f"/sys/block/{kernel}/md/dev-{_kernel_name(host, path)}/state"], check=False)
        for path in spec.members
    }
    faulty = [path for path, state in states.items() if state.returncode or "faulty" in state.stdout]
    return ", ".join(faulty) or "a member"


def remove(host: Host, name: str, uuid: str, members: Sequence[str], serials: Sequence[str]) -> None:
    """Stop the array of that name and UUID, remove its superblock from each member, and its own node.

    `serials`: of the members; "" for an emulated one, of which nothing is left when it does not answer: it
    ends with the lab. Raises SafetyRefusal if a member is in another array, HostError.
    """
    failed: list[HostError] = []
    for path, serial in zip(members, serials, strict=True):
        if serial:
            check_serial(host, path, serial)
        for kernel in _holders(host, path):
            _stop(host, kernel, (name, uuid), path)
    udev.settle(host)
    for path, serial in zip(members, serials, strict=True):
        found = _identity(host, "--examine", path)
        if found is None and serial and not _is_readable(host, path):
            failed.append(
                HostError(f"{path} on {host.name} cannot be read: its superblock may be there still")
            )
        if found == (name, uuid):
            if serial:
                check_serial(host, path, serial)
            host.run(zero_command(path))
    host.run(["rm", "-f", "--", node_of(name)])
    udev.settle(host)
    if failed:
        raise HostError(
            "; ".join(error.message for error in failed), "once the device answers again: `hsp clean`"
        )


def stop_command(path: str) -> list[str]:
    """argv."""
    return ["mdadm", "--stop", path]


def zero_command(member: str) -> list[str]:
    """argv."""
    return ["mdadm", "--zero-superblock", member]


def _stop(host: Host, kernel: str, wanted: tuple[str, str], member: str) -> None:
    node = f"/dev/{kernel}"
    if (found := _identity(host, "--detail", node)) != wanted:
        what = f"the array {' '.join(found)}" if found else "no md array that says whose it is"
        raise SafetyRefusal(
            f"{member} on {host.name} is in use by {node}, {what}",
            "that is not the run's; it was not changed",
        )
    for left in reversed(range(_STOP_TRIES)):
        # udev may have it open for a moment.
        stopped = host.run(stop_command(node), check=not left)
        if stopped.returncode == 0:
            return
        udev.settle(host)


def _holders(host: Host, path: str) -> Iterator[str]:
    """Kernel names of what is on a device."""
    place = f"/sys/class/block/{_kernel_name(host, path)}/holders"
    argv = ["find", place, "-mindepth", "1", "-maxdepth", "1", "-printf", r"%f\n"]
    yield from host.run(argv, check=False).stdout.split()


def _kernel_name(host: Host, path: str) -> str:
    return host.run(["readlink", "-f", path]).stdout.strip().removeprefix("/dev/")


def _identity(host: Host, how: str, path: str) -> tuple[str, str] | None:
    """Name and UUID of the array that a device is, or is of (--examine); None where there is none."""
    output = host.run(["mdadm", how, "--export", path], check=False).stdout
    found = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    if not {"MD_NAME", "MD_UUID"} <= found.keys():
        return None
    # Before the colon is the host that made it, if it says.
    return found["MD_NAME"].rpartition(":")[2], found["MD_UUID"].replace(":", "")


def _is_readable(host: Host, path: str) -> bool:
    """mdadm says of a superblock that it cannot read what it says of none."""
    return host.run(["blkid", "-p", "--usages", "nothing", path], check=False).returncode in (0, 2)
