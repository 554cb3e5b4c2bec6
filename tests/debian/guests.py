"""Two full Debian machines under plain emulation: a server with many kinds of disks, and a client.

They, and `hsp`, are in a network namespace of their own, which needs root. Writes to their root disks are
forgotten when they end; a reboot keeps them.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.lab.image.image import Image
from kit.lab.qemu import QEMU, monitor
from tests.debian.image import image_of

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
ADDRESSES = {"nas": "10.9.0.1", "client1": "10.9.0.11"}
_MACS = {"nas": "52:54:00:09:00:01", "client1": "52:54:00:09:00:11"}
_MEMORY_MIB = {"nas": 3072, "client1": 1024}
_CPUS = {"nas": 2, "client1": 1}
_BOOT_DEADLINE_S = 1200.0
_COMMAND_DEADLINE_S = 3600.0

# Of the server, by the name of their file: size, and what QEMU makes of it. The 7200-turn disks differ in
# serial and WWN; `twin` has two paths; `plain` has no serial number.
_SCSI = "scsi-hd,bus=scsi.0,serial={serial},wwn={wwn},vendor=SEAGATE,product=EXOS-7E8,ver=SN05,{more}"
_DISKS = {
    "hdd0": (3, [_SCSI.format(serial="HDD0SER", wwn="0x5000c500a1b2c301", more="rotation_rate=7200")]),
    "hdd1": (3, [_SCSI.format(serial="HDD1SER", wwn="0x5000c500a1b2c302", more="rotation_rate=7200")]),
    "tank": (2, [_SCSI.format(serial="TANKSER", wwn="0x5000c500a1b2c303", more="rotation_rate=7200")]),
    "twin": (2, 2 * [_SCSI.format(serial="TWINSER", wwn="0x5000c500a1b2c304", more="share-rw=on")]),
    "nvme0": (2, ["nvme,serial=NVMECACHE"]),
    "nvme1": (2, ["nvme-ns,bus=two,nsid=1"]),
    "nvme2": (1, ["nvme-ns,bus=two,nsid=2"]),
    "virtio": (2, ["virtio-blk-pci,serial=VIRTIOSER"]),
    "plain": (2, ["virtio-blk-pci"]),
    "usb": (2, ["usb-storage,bus=usb.0,serial=USBSER"]),
}
_CONTROLLERS = ["virtio-scsi-pci,id=scsi", "nvme,id=two,serial=NVMELOG", "qemu-xhci,id=usb"]


@dataclass
class Machine:
    """One guest; `state` is its directory. `run` is what the helpers of tests/lab ask of a host."""

    name: str
    image: Image
    state: Path
    network: str
    process: subprocess.Popen[bytes] | None = None

    def start(self, key: str) -> None:
        """Power on; `key`: the public key that root and, once there is such a user, hsp log in with."""
        credential = base64.b64encode(f"{key}\n".encode()).decode()
        number = list(ADDRESSES).index(self.name) + 1
        kernel_args = (
            "root=LABEL=hsp-root rw console=ttyS0 mitigations=off "
            f"systemd.hostname={self.name} systemd.machine_id={number:032x}"
        )
        argv = [
            QEMU, "-name", self.name, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35",
            "-accel", "tcg,thread=multi", "-cpu", "max,-cx16",
            "-smp", str(_CPUS[self.name]), "-m", str(_MEMORY_MIB[self.name]),
            "-serial", "file:console.log", "-qmp", "unix:qmp.sock,server=on,wait=off",
            "-kernel", os.fspath(self.image.path / "vmlinuz"),
            "-initrd", os.fspath(self.image.path / "initrd.img"), "-append", kernel_args,
            "-drive", f"file={self.image.path / 'root.img'},if=none,id=root,format=raw,snapshot=on",
            "-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci",
            "-netdev", f"tap,id=lan,ifname={self.name},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=lan,mac={_MACS[self.name]}",
            "-smbios", f"type=11,value=io.systemd.credential.binary:ssh.authorized_keys.root={credential}",
            *(self._disks() if self.name == "nas" else ()),
        ]  # fmt: skip
        environment = os.environ | {"TMPDIR": os.fspath(self.state)}
        command = [*inside(self.network), *argv]
        self.process = subprocess.Popen(command, cwd=self.state, env=environment)

    def _disks(self) -> list[str]:
        argv = [word for device in _CONTROLLERS for word in ("-device", device)]
        for name, (gib, devices) in _DISKS.items():
            with (self.state / name).open("wb") as file:
                file.truncate(gib * GIB)
            locking = ",file.locking=off" if len(devices) > 1 else ""
            for path, device in enumerate(devices):
                drive = f"file={name},if=none,id={name}-{path},format=raw,cache=unsafe,discard=unmap{locking}"
                argv += ["-drive", drive, "-device", f"{device},drive={name}-{path}"]
        return argv

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def run(
        self, argv: Sequence[str], check: bool = True, deadline_s: float = 600, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """A command as root over SSH. Raises CalledProcessError, TimeoutExpired."""
        words = ["ssh", "-F", "ssh_config", f"root@{self.name}", "--", shlex.join(argv)]
        done = subprocess.run(
            [*inside(self.network), *words], cwd=self.state.parent, input=stdin, text=True,
            capture_output=True, timeout=deadline_s,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{self.name}: {shlex.join(argv)}: {done.returncode}\n{done.stderr}")
        return done

    def sh(self, script: str, stdin: str = "") -> str:
        return self.run(["sh", "-euc", script], stdin=stdin).stdout

    def wait_ready(self) -> None:
        """Until systemd has started all. Raises AssertionError, with the end of the console."""
        end = time.monotonic() + _BOOT_DEADLINE_S
        while time.monotonic() < end:
            assert self.process and self.process.poll() is None, f"QEMU of {self.name} has ended"
            with contextlib.suppress(subprocess.TimeoutExpired):
                said = self.run(["systemctl", "is-system-running", "--wait"], check=False).stdout.strip()
                if said in ("running", "degraded"):
                    return
            time.sleep(1)
        console = (self.state / "console.log").read_text(errors="replace")
        raise AssertionError(f"{self.name} is not up:\n{console[-3000:]}")

    def reset(self) -> None:
        """The reset button: nothing is written back before."""
        monitor(self.state, "system_reset")

    def link(self, state: str) -> None:
        """Its network cable: `up` or `down`."""
        subprocess.run([*_ip(self.network), "link", "set", self.name, state], check=True)


@dataclass
class Site:
    """Both machines, and the folder with key, known_hosts and results."""

    folder: Path
    network: str
    machines: dict[str, Machine] = field(default_factory=dict)

    @property
    def nas(self) -> Machine:
        return self.machines["nas"]

    @property
    def client(self) -> Machine:
        return self.machines["client1"]

    def start_hsp(self, *words: str, cwd: Path = ROOT, own: Path | None = None) -> subprocess.Popen[str]:
        """`own`: a directory that is ~/.ssh for it, whose `config` knows the machines."""
        before: list[str] = []
        if own:
            # OpenSSH takes the home directory from the table of users, whatever HOME says.
            (Path.home() / ".ssh").mkdir(mode=0o700, exist_ok=True)
            script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
            before = ["unshare", "--mount", "sh", "-ec", script, "sh", str(own), str(Path.home() / ".ssh")]
        return subprocess.Popen(
            [*inside(self.network), *before, sys.executable, "-m", "kit.cli", *words], cwd=cwd,
            env=os.environ | {"PYTHONPATH": os.fspath(ROOT)},
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def hsp(self, *words: str, cwd: Path = ROOT, own: Path | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start_hsp(*words, cwd=cwd, own=own)
        out, err = process.communicate(timeout=_COMMAND_DEADLINE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def testbed(self, user: str = "root", devices: str = "", name: str = "mynas", server: Any = None) -> Path:
        """A testbed as docs/examples/mynas.toml has it. `devices`: its blocks; `server`: lines instead."""
        lines = [f'name = "{name}"', 'ssh_config = "ssh_config"', "", "[server]"]
        lines += server or [f'host = "ssh://{user}@nas"']
        lines += ["", "[[client]]", f'host = "ssh://{user}@client1"', "", devices]
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines))
        return path


def inside(network: str) -> list[str]:
    return ["ip", "netns", "exec", network]


def _ip(network: str) -> list[str]:
    return ["ip", "-n", network]


@contextlib.contextmanager
def _network(name: str) -> Iterator[None]:
    """A namespace with a bridge: 10.9.0.254 is this machine."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        lines = [
            "link set lo up",
            "link add lan type bridge",
            "addr add 10.9.0.254/24 dev lan",
            "link set lan up",
        ]
        for machine in ADDRESSES:
            lines += [f"tuntap add {machine} mode tap", f"link set {machine} master lan up"]
        for line in lines:
            subprocess.run([*_ip(name), *line.split()], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextlib.contextmanager
def open_site(folder: Path, suites: dict[str, str]) -> Iterator[Site]:
    """Boot both machines; `suites`: the Debian release of each. Needs root."""
    images = {name: image_of(suite) for name, suite in suites.items()}
    site = Site(folder, f"hsp-{os.getpid()}")
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.fspath(key)], check=True)
    hosts = "".join(f"Host {name}\n    HostName {address}\n" for name, address in ADDRESSES.items())
    (folder / "ssh_config").write_text(
        f"{hosts}Host *\n    IdentityFile {key}\n    IdentitiesOnly yes\n    IdentityAgent none\n"
        f"    UserKnownHostsFile {folder / 'known_hosts'}\n    GlobalKnownHostsFile /dev/null\n"
        "    ConnectTimeout 20\n    LogLevel ERROR\n"
    )
    with _network(site.network), contextlib.ExitStack() as stack:
        for name, image in images.items():
            (folder / name).mkdir()
            machine = site.machines[name] = Machine(name, image, folder / name, site.network)
            stack.callback(machine.stop)
            machine.start((folder / "id_ed25519.pub").read_text().strip())
        _trust(site)
        for machine in site.machines.values():
            machine.wait_ready()
        yield site


def _trust(site: Site) -> None:
    """Write known_hosts as soon as both answer, with the keys of all types, by name."""
    end = time.monotonic() + _BOOT_DEADLINE_S
    text = ""
    for name, address in ADDRESSES.items():
        found = ""
        while not found:
            assert time.monotonic() < end, f"sshd of {name} does not answer"
            words = ["ssh-keyscan", "-T", "20", address]
            found = subprocess.run(
                [*inside(site.network), *words], capture_output=True, text=True
            ).stdout.replace(address, f"{name},{address}")
        text += found
    (site.folder / "known_hosts").write_text(text)
