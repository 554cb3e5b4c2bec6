"""What an observation may do on a server: a closed list."""

from __future__ import annotations

import pytest

from kit.core.errors import SafetyRefusal
from kit.observe import probe_cost
from kit.observe.local import FIND_CALLS
from kit.observe.looking import LookingHost, is_read
from kit.observe.removal_guard import command
from kit.trace import nfsd_tracer
from tests.fakes import ScriptedHost

OWN = "/run/hsp/20261121T053000Z-ab12cd"


@pytest.fixture
def host() -> LookingHost:
    return LookingHost(ScriptedHost(name="nas"), OWN)


@pytest.mark.parametrize(
    "argv",
    [
        ["cat", "/proc/self/mountinfo"], ["tail", "-v", "-n", "+1", "/proc/net/rpc/nfsd", "/proc/uptime"],
        ["zpool", "list", "-v", "-H", "-P", "-p", "tank"], ["zdb", "-l", "/dev/disk/by-id/nvme-a-part1"],
        ["grep", "--extended-regexp", r" (arc_read|dmu_sync)(\s|$)", "/proc/kallsyms"],
        list(FIND_CALLS),
        ["zfs", "get", "-H", "-t", "filesystem", "-o", "name,value", "sync"],
        nfsd_tracer.follow_command(nfsd_tracer.TracerFiles(OWN), 12),
        ["kill", "-TERM", "758"], ["umount", nfsd_tracer.TRACING],
        ["install", "-d", "-m", "0711", "/run/hsp"], ["install", "-m", "0600", "/dev/null", f"{OWN}/token"],
        ["install", "-d", "-m", "0700", OWN], ["tee", f"{OWN}/token"],
        ["rm", "-r", "-f", "--one-file-system", "--", OWN], command(OWN, mounts=True),
        nfsd_tracer.end_left_command(OWN), ["sh", "-c", probe_cost.WINDOW, "sh", OWN, "4711", "nfs"],
    ],
)  # fmt: skip
def test_it_reads_and_writes_into_its_own_directory(host: LookingHost, argv: list[str]) -> None:
    host._check(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["zpool", "create", "tank", "/dev/sda"], ["zpool", "list", "-v", "-H", "-P", "-p", "tank", "destroy"],
        ["zpool", "destroy", "tank"], ["zfs", "set", "sync=disabled", "tank"],
        ["zfs", "get", "-H", "all", "tank"],
        nfsd_tracer.follow_command(nfsd_tracer.TracerFiles("/etc"), 12), ["exportfs", "-ra"],
        ["sh", "-c", "echo 1 >/sys/module/zfs/parameters/zfs_arc_max"], ["sh", "-c", "rm -rf /", "sh", OWN],
        ["sh", "-c", probe_cost.WINDOW, "sh", "/etc", "4711", "nfs"], ["tee", probe_cost.STATS],
        ["tee", "/sys/module/zfs/parameters/zfs_arc_max"], ["rm", "-r", "-f", "--", "/tank"],
        ["rm", "-r", "-f", "--", f"{OWN}/../other"], ["rm", "-f", f"{OWN}/a", "/etc/exports"],
        ["cat", "/etc/shadow"], ["cat", "/proc/../etc/shadow"], ["umount", "/tank"], ["kill", "-KILL", "1"],
        ["kill", "-TERM", "-1"], ["fio", "x"], ["systemctl", "restart", "nfs-server"], ["rm"],
        ["rm", "-r", "-f", "--", "/run/hsp"], ["tee", "/dev/null"], ["rm", OWN, "etc"], ["install"],
        ["find", OWN, "-delete"], [*FIND_CALLS, "-delete"],
        [word.replace("grep", "rm").replace("-HE", "-rf") for word in FIND_CALLS],
        ["install", "-m", "0600", "/dev/null", "/etc/exports"],
        ["cat", "/proc/uptime", "/etc/shadow"], ["cat"],
    ],
)  # fmt: skip
def test_nothing_else_is_sent(host: LookingHost, argv: list[str]) -> None:
    for send in (host.run, host.start):
        with pytest.raises(SafetyRefusal, match="an observation changes nothing on the server"):
            send(argv)
    assert not is_read(argv)


def test_files_go_into_its_own_directory_alone(host: LookingHost) -> None:
    for path in ("/etc/exports", "/run/hsp/other/file", f"{OWN}x/file", f"{OWN}/../file"):
        with pytest.raises(SafetyRefusal):
            host.put(b"", path)
