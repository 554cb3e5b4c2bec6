"""The rig: what testbeds of real machines are tested on.

A lab guest with disks of its own that have serials and by-id links as real ones have, reached as any host
is: over TCP on 127.0.0.1, with a key and a known_hosts file of the test's own. `hsp` does not know that it
is a guest. Disks are pulled out and made to fail through QEMU's monitor.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.core.clock import Clock
from kit.core.errors import EXIT_HOST, KitError
from kit.core.progress import Progress
from kit.devices import udev
from kit.hosts.ssh import SshHost
from kit.lab.guest import RunningLab
from kit.lab.image.image import Image
from kit.lab.qemu import ExtraDisk, LabSpec, disk_device, monitor
from kit.lab.warm import open_lab
from kit.session.agreement import commands
from kit.session.side import Side
from tests.lab.relay import Relay
from tests.lab.template import Strike, hsp

MIB = 1 << 20
# How often a login is tried, and what is said if it was in vain.
LOGINS = 3
NO_LOGIN = "no SSH connection"
SSH_LINES = 12
_COMMAND_DEADLINE_S = 1500
# Line 0 is the test's own, beside whatever is tested.
OWN_LINE = 0
NVME = "HSPNVME0"

SAVED_DISKS = (
    *(ExtraDisk(f"vd{n}", "virtio", f"HSPVD{n}", 128 * MIB) for n in range(6)),
    *(ExtraDisk(f"sd{n}", "scsi", f"HSPSD{n}", 128 * MIB) for n in range(3)),
    # Large enough for the main job's mirror.
    *(ExtraDisk(f"vd{n}", "virtio", f"HSPVD{n}", 384 * MIB) for n in range(6, 8)),
)
"""By name: eight virtio disks, three of SCSI (named sda... by the kernel). A guest with these can be saved,
and resumed by all files that need no other disks."""

NVME_DISKS = (
    *(disk for disk in SAVED_DISKS if disk.name in ("vd0", "vd1", "vd2", "sd0")),
    *(ExtraDisk(f"ns{n}", "nvme", NVME, 128 * MIB) for n in range(1, 3)),
    ExtraDisk("nvme", "nvme", "HSPNVME1", 128 * MIB),
)
"""Some of them, two namespaces of one NVMe, and an NVMe with one: a guest with such has to boot."""

# NVMe and SCSI are not in the initramfs, and what its udevd knew is gone.
_SETTLE = "modprobe -a sd_mod virtio_scsi; udevadm trigger --action=add --subsystem-match=block --settle"
_LINKS = 'for l in /dev/disk/by-id/*; do echo "$(basename "$(readlink -f "$l")") $l"; done'


@dataclass
class Rig:
    """`host`: the guest, seen by the test itself; `by_id` and `nodes`: link and device node of each disk."""

    lab: RunningLab
    host: SshHost
    relay: Relay
    folder: Path
    disks: Mapping[str, ExtraDisk]
    by_id: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    plugged: int = 0

    @property
    def address(self) -> str:
        return f"ssh://root@127.0.0.1:{self.relay.port}"

    def files(self) -> tuple[Path, Path]:
        """Key and known_hosts, made in the folder by the first who asks."""
        key, known = self.folder / "id_ed25519", self.folder / "known_hosts"
        if known.exists():
            return key, known
        key.write_bytes((self.lab.state / "client.key").read_bytes())
        key.chmod(0o600)
        public = (self.lab.state / "host.pub").read_text().split()
        known.write_text(f"[127.0.0.1]:{self.relay.port} {public[0]} {public[1]}\n")
        return key, known

    def ssh_config(self, path: Path | None = None) -> Path:
        """An ssh_config(5) that knows the key and the host's key; returns its path."""
        key, known = self.files()
        path = path or self.folder / "ssh_config"
        path.write_text(
            "Host 127.0.0.1\n"
            f"    IdentityFile {key}\n"
            "    IdentitiesOnly yes\n"
            "    IdentityAgent none\n"
            f"    UserKnownHostsFile {known}\n"
            "    GlobalKnownHostsFile /dev/null\n"
            "    StrictHostKeyChecking yes\n"
            "    Ciphers aes128-gcm@openssh.com\n"
            "    KexAlgorithms curve25519-sha256\n"
        )
        return path

    def testbed_toml(
        self,
        devices: Mapping[str, Sequence[str]],
        clients: Sequence[str] = (),
        name: str = "rig",
        more: str = "",
    ) -> str:
        """A testbed: disks by role ({"data": ("vd0",)}), `clients` are addresses (none: the rig itself)."""
        lines = [f'name = "{name}"', "", "[server]", f'host = "{self.address}"', ""]
        for client in clients or (self.address,):
            lines += ["[[client]]", f'host = "{client}"', ""]
        for role, names in devices.items():
            for disk in names:
                lines += ["[[device]]", f'name = "{disk}"', f'role = "{role}"', *self.identity(disk), ""]
        return "\n".join(lines) + more

    def identity(self, disk: str) -> list[str]:
        """The lines of a [[device]] that say which disk it is."""
        found = self.disks[disk]
        return [
            f'path = "{self.by_id[disk]}"',
            f'serial = "{found.serial}"',
            f'size = "{found.size_bytes // MIB}MiB"',
        ]

    def monitor(self, command: str, **arguments: Any) -> Any:
        """One command of QEMU's monitor (QMP); its answer. Raises HostError with its refusal."""
        return monitor(self.lab.state, command, **arguments)

    def pull(self, disk: str) -> None:
        """Pull a SCSI disk out; gone from the guest, and QEMU has let go of it, when this returns."""
        node = self.nodes[disk]
        self.monitor("device_del", id=f"dev-{disk}")
        self.host.run(["sh", "-c", 'while [ -b "$1" ]; do sleep 0.1; done', "sh", node], deadline_s=60)
        end = time.monotonic() + 60
        while any(found["device"] == disk for found in self.monitor("query-block")):
            assert time.monotonic() < end, f"QEMU keeps {disk}"
            time.sleep(0.05)

    def plug(self, disk: str, serial: str | None = None) -> None:
        """Put a SCSI disk back in, with its content; another serial makes it another disk."""
        found = self.disks[disk]
        device = disk_device(ExtraDisk(found.name, found.kind, serial or found.serial, found.size_bytes))
        driver, *options = device.split(",")
        # What was pulled out took its drive along. Each layer must be told to pass discards on.
        self.plugged += 1
        node = f"node-{disk}-{self.plugged}"
        file = {"driver": "file", "filename": os.fspath(self.lab.state / disk), "discard": "unmap"}
        raw = {"driver": "raw", "node-name": node, "discard": "unmap", "file": file}
        self.monitor("blockdev-add", **raw)
        pairs = dict(option.split("=", 1) for option in options) | {"drive": node}
        self.monitor("device_add", driver=driver, **pairs)
        link = self.by_id[disk].replace(found.serial, serial or found.serial)
        self.host.run(["sh", "-c", 'until [ -b "$1" ]; do sleep 0.1; done', "sh", link], deadline_s=60)
        udev.settle(self.host)
        self.find_links()

    def find_links(self) -> None:
        """Look up the by-id link of each disk that is there."""
        links: dict[str, list[str]] = {}
        for line in self.host.run(["sh", "-c", _LINKS]).stdout.splitlines():
            kernel_name, link = line.split(" ", 1)
            links.setdefault(kernel_name, []).append(link)
        for name, disk in self.disks.items():
            namespaces = [other.name for other in self.disks.values() if other.serial == disk.serial]
            found = [
                link
                for own in links.values()
                for link in own
                if disk.serial in Path(link).name
                and "-part" not in link
                # The link that says which namespace it is: the kernel names them as it finds them.
                and (disk.kind != "nvme" or link.endswith(f"{disk.serial}_{namespaces.index(name) + 1}"))
            ]
            # Of several, one that says the model too.
            chosen = sorted(found, key=len)
            if chosen:
                self.by_id[name] = chosen[0]
                self.nodes[name] = next(f"/dev/{kernel}" for kernel, own in links.items() if chosen[0] in own)


@contextlib.contextmanager
def open_rig(image: Image, folder: Path, disks: Sequence[ExtraDisk] = SAVED_DISKS) -> Iterator[Rig]:
    """Boot it; gone with its disks at the end."""
    # A guest's clock is not ours: what is silent for a minute there may be so for a second here.
    os.environ["HSP_SILENCE_S"] = "0"
    spec = LabSpec(
        image.path, Clock("virtual", 4), memory_mib=2048, extra_disks=tuple(disks), ssh_ports=SSH_LINES
    )
    with open_lab(spec, image, Progress(quiet=True)) as lab:
        lab.wait_ready()
        with lab.host(OWN_LINE) as host, contextlib.ExitStack() as stack:
            host.run(["sh", "-c", _SETTLE])
            relay = Relay(lab.state, range(OWN_LINE + 1, SSH_LINES))
            stack.callback(relay.close)
            rig = Rig(lab, host, relay, folder, {disk.name: disk for disk in disks})
            rig.find_links()
            rig.ssh_config()
            missing = sorted(set(rig.disks) - set(rig.by_id))
            if missing:
                raise RuntimeError(f"no /dev/disk/by-id link for {missing}: {host.run(['lsblk']).stdout}")
            yield rig


class Bed:
    """A testbed file on the rig, beside the SSH configuration that it names; results go to its folder.

    `roles`: disks by role. `trace`: the server's key of that name; "" leaves it out.
    """

    def __init__(self, rig: Rig, folder: Path, roles: Mapping[str, Sequence[str]], trace: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.rig, self.folder, self.path = rig, folder, folder / "rig.toml"
        head = f'name = "rig"\nssh_config = "{rig.ssh_config(folder / "ssh_config").name}"\n'
        text = rig.testbed_toml(roles).replace('name = "rig"\n', head, 1)
        if trace:
            text = text.replace("[server]\n", f'[server]\ntrace = "{trace}"\n', 1)
        self.path.write_text(text)
        serials = [rig.disks[name].serial for names in roles.values() for name in names]
        self.agreed = [word for serial in serials for word in ("--erase-serial", serial)]
        self.results = ["--results", os.fspath(folder)]

    def run_words(self, workload: Path) -> list[str]:
        """The command that runs `workload` here; where its results go is to be added."""
        agreed = [*self.agreed, *agreed_commands(workload, self.path)]
        return ["run", os.fspath(workload), "--testbed", os.fspath(self.path), *agreed]

    def hsp(self, *words: str, strike: Strike | None = None) -> subprocess.CompletedProcess[str]:
        return call(words, strike)


def agreed_commands(workload: Path, testbed: Path) -> list[str]:
    """The option that agrees to what the testbed makes a run of the workload execute."""
    with contextlib.suppress(KitError):
        lines = commands.listed(Side(os.fspath(workload), testbed).plan())
        return ["--agree", commands.code_of(lines)] if lines else []
    # The command itself is to say what is wrong.
    return []


def call(words: Sequence[str], strike: Strike | None = None) -> subprocess.CompletedProcess[str]:
    """`hsp` with these words. A login that the guest slept through (docs/decisions/0006) is tried again.

    Nothing has happened then, and a person would call again, too.
    """
    for _ in range(LOGINS):
        done = hsp(words, _COMMAND_DEADLINE_S, strike)
        if done.returncode != EXIT_HOST or NO_LOGIN not in done.stderr:
            break
    return done
