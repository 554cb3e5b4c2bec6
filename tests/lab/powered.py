"""A machine whose power can be cut: a QEMU guest of its own, killed and started again with the same disks.

    powered.py off|on STATE            what `off` and `on` of [power] run
    powered.py count STATE SERIAL      how often the disk of that serial has lost its power

STATE has the machine: machine.json (QEMU's argv), qemu.pid, root.img, console.log. The guest's clock is this
machine's (no instruction count), its root is a copy of the lab's image that keeps what is written, and it is
reached over TCP as any machine is. Two such machines have a network of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncssh

from kit.lab.image.image import Image
from kit.lab.qemu import QEMU

_MEMORY_MIB = 1024
_SSHD = """\
ListenAddress 0.0.0.0
HostKey /etc/ssh/hsp_host
AuthorizedKeysFile /etc/ssh/hsp_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
StrictModes no
LoginGraceTime 0
MaxStartups 100
MaxSessions 64
"""
# In place of what the image's init does from the NFS server on. As on many servers sshd lets in before disks
# and NFS server are there. The first card leads to this machine, the second one to the other guest.
SERVER = """\
modprobe virtio_net
ip link set eth0 up; ip address add 10.0.2.15/24 dev eth0
ip link set eth1 up; ip address add {address}/24 dev eth1
/usr/sbin/sshd -e -f /etc/ssh/hsp_sshd_powered
sleep 3
modprobe -a zfs nfsd nfsv3 nfsv4 sunrpc sd_mod nvme
udevadm trigger --action=add --subsystem-match=block --settle
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
mkdir -p /var/lib/nfs/sm /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
rpcbind -w
rpc.mountd
sleep 3
exportfs -r
rpc.nfsd 4
echo "hsp-guest: ready" >/dev/ttyS0
while :; do sleep 1000; done
"""
# Of a machine that serves a pool of its own, with its datasets and /etc/exports, as soon as it has booted.
APPLIANCE = """\
modprobe virtio_net
ip link set eth0 up; ip address add 10.0.2.15/24 dev eth0
ip link set eth1 up; ip address add {address}/24 dev eth1
modprobe -a zfs nfsd nfsv3 nfsv4 sunrpc sd_mod nvme
udevadm trigger --action=add --subsystem-match=block --settle
zpool import -a -f -d /dev/disk/by-id
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
mkdir -p /var/lib/nfs/sm /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
rpcbind -w
rpc.mountd
exportfs -r
rpc.nfsd 4
/usr/sbin/sshd -e -f /etc/ssh/hsp_sshd_powered
echo "hsp-guest: ready" >/dev/ttyS0
while :; do sleep 1000; done
"""
_LATER = "modprobe -a zfs"
_CPU = "qemu64,-cx16,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,+rdrand,+rdtscp"
_GONE_S = 20.0


def make(
    image: Image, state: Path, address: str, port: int, peer: Path, devices: Sequence[str] = (),
    services: str = SERVER,
) -> Path:  # fmt: skip
    """The machine's files; off. `port`: of its sshd on 127.0.0.1; `peer`: the other machine's state.

    `devices`: QEMU's arguments for its disks; `services`: what it starts.
    Returns the path of the key that it lets in.
    """
    state.mkdir()
    host_key, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    init = subprocess.run(
        ["debugfs", "-R", "cat /usr/local/sbin/hsp-init", image.path / "root.img"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    before, found, _ = init.partition(_LATER)
    assert found, "the image's init has changed"
    files: Mapping[str, tuple[bytes, int]] = {
        "/usr/local/sbin/hsp-init": ((before + services.format(address=address)).encode(), 0o755),
        "/etc/ssh/hsp_sshd_powered": (_SSHD.encode(), 0o644),
        "/etc/ssh/hsp_host": (host_key.export_private_key(), 0o600),
        "/etc/ssh/hsp_keys": (key.export_public_key(), 0o600),
        "/etc/machine-id": (f"{uuid.uuid4().hex}\n".encode(), 0o444),
    }
    root = state / "root.img"
    subprocess.run(["cp", "--sparse=always", image.path / "root.img", root], check=True)
    commands = []
    for number, (path, (content, mode)) in enumerate(files.items()):
        file = state / f"file-{number}"
        file.write_bytes(content)
        commands += [f"rm {path}", f"write {file} {path}", f"sif {path} mode 0{0o100000 | mode:o}"]
    subprocess.run(["debugfs", "-w", "-f", "-", root], input="\n".join(commands), text=True, check=True,
                   capture_output=True)  # fmt: skip
    (state / "key").write_bytes(key.export_private_key())
    (state / "key").chmod(0o600)
    public = host_key.export_public_key().decode().split()
    (state / "known").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    mac = f"52:54:00:00:00:{int(address.rpartition('.')[2]):02x}"
    argv = [
        QEMU, "-nodefaults", "-no-user-config", "-nographic", "-machine", "q35",
        "-accel", "tcg,thread=multi", "-cpu", _CPU, "-smp", "1", "-m", str(_MEMORY_MIB), "-rtc", "base=utc",
        "-kernel", os.fspath(image.path / "vmlinuz"), "-initrd", os.fspath(image.path / "initrd.img"),
        "-append", "root=/dev/vda rootfstype=ext4 rw init=/usr/local/sbin/hsp-init console=ttyS0 quiet "
        "panic=-1 nokaslr mitigations=off nowatchdog random.trust_cpu=on audit=0 selinux=0 apparmor=0 "
        "net.ifnames=0",
        "-drive", "file=root.img,if=none,id=root,format=raw", "-device", "virtio-blk-pci,drive=root",
        "-netdev", f"user,id=here,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=here,romfile=",
        "-netdev", "dgram,id=other,local.type=unix,local.path=net.sock,"
        f"remote.type=unix,remote.path={peer / 'net.sock'}",
        "-device", f"virtio-net-pci,netdev=other,romfile=,mac={mac}",
        "-device", "virtio-rng-pci",
        "-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console",
        *devices,
    ]  # fmt: skip
    (state / "machine.json").write_text(json.dumps(argv))
    return state / "key"


def _pid(state: Path) -> int | None:
    """Of its QEMU, if that runs."""
    try:
        pid = int((state / "qemu.pid").read_text())
        # A process that is only left to be waited for has no words.
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        return pid if program.endswith(QEMU.encode()) else None
    except (OSError, ValueError):
        return None


def off(state: Path) -> None:
    """Kill QEMU: nothing that is in its memory, or in its guest's, reaches a disk any more."""
    pid = _pid(state)
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + _GONE_S
    while _pid(state) is not None:
        assert time.monotonic() < end, f"QEMU {pid} is still there"
        time.sleep(0.02)


def on(state: Path) -> None:
    if _pid(state) is not None:
        return
    argv = json.loads((state / "machine.json").read_text())
    with (state / "qemu.log").open("ab") as log:
        started = subprocess.Popen(
            argv, cwd=state, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (state / "qemu.pid").write_text(str(started.pid))


def remove(state: Path) -> None:
    off(state)
    shutil.rmtree(state)


def main(word: str, state: Path, serial: str = "") -> None:
    if word == "count":
        # The serial of a disk is its name, in capitals.
        print((state.parent / f"{serial.lower()}.cuts").read_text())
        return
    {"off": off, "on": on}[word](state)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
