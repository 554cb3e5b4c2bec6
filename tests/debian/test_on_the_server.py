"""`sudo hsp observe` on the server itself, with the kit installed there, as an ordinary user types it.

pytest -m long tests/debian/test_on_the_server.py        needs root, and a package index
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian.guests import ROOT, Machine, Site, inside, open_site
from tests.debian.look import changes, states

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

_WRITES = 100
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")
_HSP = """\
#!/bin/sh
# QEMU 7.2 has no cx16 that can be relied on, which Polars would like to have.
POLARS_SKIP_CPU_CHECK=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/opt/hsp exec python3 -m kit.cli "$@"
"""
_MAKE = """\
disk() { echo "/dev/$(lsblk -dno NAME,SERIAL | awk -v serial="$1" '$2 == serial {print $1; exit}')"; }
zpool create tank "$(disk TANKSER)" log "$(disk VIRTIOSER)"
zfs create -o sharenfs="rw=@10.9.0.0/24,no_root_squash" tank/share
useradd --create-home --shell /bin/bash operator1
echo 'operator1 ALL=(root) NOPASSWD: ALL' >/etc/sudoers.d/operator1
udevadm settle
"""
_CLEAR = """\
rm /etc/sudoers.d/operator1
userdel --remove operator1 2>/dev/null
zpool destroy tank
for serial in TANKSER VIRTIOSER; do
    disk=/dev/$(lsblk -dno NAME,SERIAL | awk -v serial="$serial" '$2 == serial {print $1; exit}')
    zpool labelclear -f "$(lsblk -pnro NAME "$disk" | sed -n 2p)"
    wipefs -aq "$disk"
    blockdev --rereadpt "$disk"
done
udevadm settle
"""
# A shell's command in the background gets no Ctrl-C, so it ends by itself.
_OBSERVE = """\
cd /home/operator1
setsid sh -c 'sudo hsp observe --for 90s --results /home/operator1/results >out 2>err; echo $? >code' \\
  </dev/null >/dev/null 2>&1 &
until sudo grep -qs '"observe"' results/observe/2*/journal.jsonl; do
    if [ -e code ]; then cat code out err >&2; exit 1; fi
    sleep 0.5
done
"""
_END = """\
cd /home/operator1
until [ -e code ]; do sleep 0.5; done
cat code out err
"""
_LOAD = f"""\
mkdir -p /mnt/share
mount -t nfs -o vers=4.2 nas:/tank/share /mnt/share
fio --name=w --ioengine=psync --bs=4k --size=1m --number_ios={_WRITES} --rw=randwrite --sync=dsync \\
  --filename=/mnt/share/w >/dev/null
umount /mnt/share
rmdir /mnt/share
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Debian 13 as server: observations need its bpftrace."""
    if os.geteuid():
        pytest.skip("the network of the machines needs root")
    with tempfile.TemporaryDirectory(prefix="hsp-", dir="/var/tmp") as folder:
        with open_site(Path(folder), {"nas": "trixie", "client1": "bookworm"}, runs_numpy=True) as found:
            found.nas.sh("modprobe zfs && systemctl start zfs-zed")
            yield found


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *words], check=True, timeout=1200)


@pytest.fixture(scope="module")
def installed(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The kit and what it needs, for the Python of the server. It has no way to a package index."""
    folder = tmp_path_factory.mktemp("wheels")
    version = site.nas.sh("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
    pip("wheel", "--no-deps", "-w", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    target = folder / "lib"
    pip(
        "install", "--target", str(target), "--python-version", version, "--implementation", "cp",
        "--only-binary=:all:", *platforms, str(wheel),
    )  # fmt: skip
    site.nas.sh("cat >/usr/local/bin/hsp && chmod 755 /usr/local/bin/hsp && mkdir /opt/hsp", stdin=_HSP)
    copy(site, target)
    return site.nas


def copy(site: Site, folder: Path) -> None:
    """A folder's content, to /opt/hsp."""
    words = ["ssh", "-F", "ssh_config", "root@nas", "--", "tar", "-C", "/opt/hsp", "-xf", "-"]
    with subprocess.Popen(["tar", "-C", str(folder), "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(
            [*inside(site.network), *words], cwd=site.folder, stdin=tar.stdout, check=True, timeout=1800
        )


@pytest.fixture
def served(installed: Machine, site: Site) -> Iterator[Machine]:
    installed.sh(_MAKE)
    try:
        yield installed
    finally:
        site.nas.sh(_CLEAR)


def as_operator(machine: Machine, script: str) -> str:
    return machine.run(["su", "operator1", "-s", "/bin/sh", "-c", f"set -eu; {script}"]).stdout


def test_an_observation_on_the_server_itself(site: Site, served: Machine) -> None:
    before = states(site)
    as_operator(served, _OBSERVE)
    site.client.sh(_LOAD)
    print(as_operator(served, _END))
    summary = json.loads(served.sh("cat /home/operator1/results/observe/latest/summary.json"))
    assert summary["verdict"] == "valid", summary["reasons"]
    rows = {(row["file_system"], row["op"], row["tier"]): row["ios"] for row in summary["observed"]}
    assert rows == {("tank/share", "write", "slog"): _WRITES}
    assert served.sh("cat /home/operator1/code").strip() == "0"
    served.sh("cd /home/operator1 && rm -r results out err code")
    assert changes(site, before) == []
