"""NFS for real, on one shared guest: every version, what cannot be had, servers that do not answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.config.fio_job import read_job
from kit.config.tables.nfs_options import VERSIONS, with_keys
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts import ssh
from kit.hosts.base import DeadlineExceeded, Host
from kit.instruments import arc_zil_counters, mount_stats, server_activity
from kit.instruments.base import MeasuredPhase
from kit.instruments.network_floor import NetworkFloor
from kit.load import fio as fio_load
from kit.load.fio import FioFiles
from kit.nfs import export as nfs_export
from kit.nfs import libnfs
from kit.nfs import mount as nfs_mount
from kit.recovery import work_directory
from kit.setup.site import SiteClient
from kit.store.phase import Check
from kit.zfs import openzfs_version, pool
from kit.zfs.openzfs_version import ZfsVersion
from tests.lab.conftest import RunningLab
from tests.lab.pools import dataset, exported, mount

PROTECTS = ("kit/nfs", "kit/trace", "kit/instruments")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

SIZE = 1 << 20
TARGET = "/mnt/nfs-test"


@dataclass
class Served:
    """A dataset with a file of SIZE, exported to one client."""

    guest: Host
    client: SiteClient
    pool: pool.CreatedPool
    path: str
    zfs: ZfsVersion

    @property
    def source(self) -> str:
        return nfs_mount.source_of(self.client.server_address, self.path)

    def counted(self) -> server_activity.ServerConditions:
        return server_activity.read(self.guest, self.pool.name, self.zfs)

    def checks(
        self, was: server_activity.ServerConditions, now: server_activity.ServerConditions, op: str, ios: int
    ) -> list[Check]:
        """Calls and bytes at the server against what was asked for, in I/Os of 512 bytes."""
        found = server_activity.checks(was, now, self.pool.name, {op: ios}, {op: 512}, self.zfs)
        return [
            check for check in found if isinstance(check, Check) and f"NFS {op.upper()} calls" in check.name
        ]


@pytest.fixture(scope="module")
def served(running_lab: RunningLab) -> Iterator[Served]:
    guest, file = running_lab.guest, f"bs=64k count={SIZE >> 16}"
    with (
        dataset(guest, "nfs", size="256MiB", latency="10us", file=file) as (built, path),
        exported(guest, path, 20) as client,
    ):
        yield Served(guest, client, built, path, openzfs_version.read(guest))
        # Twice: what is not there any more is no error.
        nfs_mount.unmount(client.host, TARGET)
        nfs_export.unexport(guest, path, client.address)
        nfs_mount.unmount(client.host, TARGET)


def fio(place: str, *options: str) -> list[str]:
    """`place` first: fio looks a file up where it is when its name is read."""
    return ["fio", "--name=x", *place.split(), "--filename=file", "--bs=512", f"--size={SIZE}", *options]


@pytest.fixture(autouse=True)
def unmounted(served: Served) -> Iterator[None]:
    yield
    nfs_mount.unmount(served.client.host, TARGET)


# Those between are of the same code as their neighbours.
_BETWEEN = ("4.0", "4.1")


@pytest.mark.basic
@pytest.mark.parametrize(
    "version", [pytest.param(v, marks=[pytest.mark.long] * (v in _BETWEEN)) for v in VERSIONS]
)
def test_every_version_is_in_effect_and_its_calls_are_counted(served: Served, version: str) -> None:
    """fio's I/Os are nfsd's calls and the mount's own, of their size, and nothing else is."""
    client = served.client.host
    options = ("hard", "proto=tcp", "nolock", "rsize=131072", "wsize=131072")
    found = mount(client, served.source, TARGET, version, options)
    assert f"vers={version}" in found.options.split(",")
    nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
    kernel = ["--ioengine=psync", "--number_ios=60"]
    for op, more in (("read", ["--rw=randread"]), ("write", ["--rw=write", "--sync=dsync"])):
        for direct, closes in ((1, True), (0, False)) if op == "read" else ((1, True),):
            was, before = served.counted(), mount_stats.read(client, TARGET)
            client.run(fio(f"--directory={TARGET}", *kernel, *more, f"--direct={direct}"))
            now, change = served.counted(), mount_stats.read(client, TARGET)
            checks = [
                *served.checks(was, now, op, 60),
                *mount_stats.checks(
                    change.since(before), {"read": 0, "write": 0, op: 60}, {op: 512}, client.name
                ),
            ]
            assert len(checks) == 5
            broken = [check for check in checks if not check.ok]
            assert (broken == []) == closes, (version, op, direct, checks)
            assert now.calls["commit"] == was.calls["commit"]
    nfs_mount.unmount(client, TARGET)


_IPV6 = """\
set -e
ip addr add fd97::1/64 dev srv20 nodad
ip -n client20 addr add fd97::2/64 dev eth0 nodad
"""


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_over_ipv6_the_same_options_are_in_effect(served: Served, version: str) -> None:
    client = served.client.host
    served.guest.run(["sh", "-c", f"ip addr show dev srv20 | grep -q fd97:: || {{ {_IPV6} }}"])
    nfs_export.export_command(served.path, "fd97::2").run(served.guest)
    try:
        options = ("hard", "proto=tcp", "nolock", "rsize=131072", "wsize=131072")
        found = mount(client, nfs_mount.source_of("fd97::1", served.path), TARGET, version, options)
        assert found.source == f"[fd97::1]:{served.path}"
        assert {f"vers={version}", "proto=tcp6", "rsize=131072"} <= set(found.options.split(","))
        nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
        lines = nfs_export.effective_export(served.guest, served.path)
        assert any("fd97::2" in line for line in lines)
    finally:
        nfs_mount.unmount(client, TARGET)
        for _ in range(2):
            nfs_export.unexport(served.guest, served.path, "fd97::2")


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_connections_are_counted_and_those_of_another_mount_are_refused(served: Served, version: str) -> None:
    client, other, path = served.client.host, "/mnt/nfs-other", served.source
    four = with_keys(("hard", "nolock"), "tcp", 4)
    mount(client, path, TARGET, version, four)
    assert nfs_mount.transports(client, TARGET) == ("tcp",) * 4
    nfs_mount.unmount(client, TARGET)
    # The first mount of a server sets the connections of all.
    mount(client, path, other, version, ("hard", "nolock"))
    try:
        assert nfs_mount.transports(client, other) == ("tcp",)
        with pytest.raises(HostError, match=r"with nconnect=4, in effect is rw.*unmounted again") as caught:
            mount(client, path, TARGET, version, four)
        assert "mounts of one server share a connection" in caught.value.hint
    finally:
        nfs_mount.unmount(client, other)
    with pytest.raises(HostError, match=r"proto=rdma,port=20049: ") as caught:
        mount(client, path, TARGET, version, with_keys(("hard",), "rdma", None))
    assert "rdma 20049" in caught.value.hint and not nfs_mount.is_mounted(client, TARGET)


def test_a_delay_of_the_network_is_in_null_and_in_each_read(served: Served, tmp_path: Path) -> None:
    """Nothing else changes: what is left of a read is what it was."""
    client, clock, delay_us = served.client.host, Clock("virtual", 4), 2000.0
    mount(client, served.source, TARGET, "3", ("hard", "proto=tcp", "nolock"))
    delayed = NetworkFloor([client], TARGET, clock, tmp_path / "read")
    job = ["--ioengine=psync", "--number_ios=200", "--rw=randread", "--direct=1", "--output-format=json"]

    def read_us() -> float:
        found = json.loads(client.run(fio(f"--directory={TARGET}", *job)).stdout)
        return float(found["jobs"][0]["read"]["clat_ns"]["mean"]) / 1e3 / clock.dilation

    delayed.begin()
    before_us = read_us()
    served.guest.run(["tc", "-n", "client20", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "8ms"])
    try:
        after_us = read_us()
        delayed.end()
    finally:
        served.guest.run(["tc", "-n", "client20", "qdisc", "del", "dev", "eth0", "root"])
    measured = MeasuredPhase({"read": 512}, 1, 0, 1, {}, 0, clock)
    (found,) = delayed.report(measured).entry["network"]
    assert found.before and found.after and not found.why, found
    added_us = (found.after.mean_ns - found.before.mean_ns) / 1e3
    assert added_us == pytest.approx(delay_us, rel=0.05)
    assert after_us - before_us == pytest.approx(added_us, rel=0.1)
    # What is left is small beside the delay, and as before.
    left_us = [us - each.p50_ns / 1e3 for us, each in ((before_us, found.before), (after_us, found.after))]
    assert 0 < left_us[0] < delay_us / 10 and abs(left_us[1] - left_us[0]) < delay_us / 10
    raw = json.loads((tmp_path / "read-null.json").read_text())
    assert len(raw[client.name]["after"]["calls"]) == found.after.calls


def test_what_the_server_does_not_have_is_refused_before_any_load(served: Served) -> None:
    client = served.client.host
    with pytest.raises(HostError, match=r"with rsize=67108864, in effect is rw.*unmounted again"):
        mount(client, served.source, TARGET, "4.2", ("hard", "rsize=67108864"))
    assert not nfs_mount.is_mounted(client, TARGET)
    for version in ("3", "4.2"):
        with pytest.raises(HostError, match=rf"cannot mount .*/none with vers={version}"):
            mount(client, f"{served.source}/none", TARGET, version, ("hard",))
    assert client.run(["test", "-e", TARGET], check=False).returncode == 0
    nfs_mount.unmount(client, TARGET)
    assert client.run(["test", "-e", TARGET], check=False).returncode == 1
    # Above the export there is NFSv4's pseudo file system: it can be mounted, and has not the file.
    above = served.source.rpartition("/")[0]
    mount(client, above, TARGET, "4.2", ("hard",))
    with pytest.raises(HostError, match="No such file"):
        nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
    nfs_mount.unmount(client, TARGET)


def test_a_version_that_the_server_was_told_not_to_speak(served: Served) -> None:
    guest, client = served.guest, served.client.host
    guest.run(["rpc.nfsd", "0"])
    guest.run(["rpc.nfsd", "--no-nfs-version", "4.2", "4"])
    try:
        with pytest.raises(HostError, match=r"cannot mount .* with vers=4\.2,hard: ") as caught:
            mount(client, served.source, TARGET, "4.2", ("hard",))
        assert "speak this version" in caught.value.hint
    finally:
        guest.run(["rpc.nfsd", "0"])
        guest.run(["rpc.nfsd", "--nfs-version", "4.2", "4"])


def test_a_stale_handle_is_found(served: Served) -> None:
    guest, client, address = served.guest, served.client.host, served.client.address
    mount(client, served.source, TARGET, "3", ("hard", "nolock"))
    nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
    nfs_export.unexport(guest, served.path, address)
    # The same filesystem to somebody who looks; another one to who has a handle of it.
    guest.run(["exportfs", "-o", "rw,sync,no_subtree_check,fsid=4711", f"{address}:{served.path}"])
    try:
        # What the client knows of a file it believes for up to a minute.
        client.run(["sleep", "90"])
        with pytest.raises(HostError, match="Stale file handle") as caught:
            nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
        assert "another fsid" in caught.value.hint.replace("\n", " ")
        nfs_mount.unmount(client, TARGET)
    finally:
        nfs_export.unexport(guest, served.path, address)
        nfs_export.export_command(served.path, address).run(guest)


def test_libnfs_reads_are_calls_of_the_server(served: Served) -> None:
    client = served.client.host
    libnfs.check_client(client)
    url = libnfs.url(served.client.server_address, served.path)
    was = served.counted()
    client.run(fio(f"--ioengine=nfs --nfs_url={url}", "--rw=randread", "--number_ios=60"))
    now = served.counted()
    found = served.checks(was, now, "read", 60)
    assert len(found) == 2 and all(check.ok for check in found)


@pytest.mark.parametrize("how", ["kernel", "libnfs"])
def test_which_writes_without_o_dsync_are_asynchronous(served: Served, how: str) -> None:
    """Past its page cache the kernel's client sends each as a stable WRITE; libnfs does not."""
    guest, client = served.guest, served.client.host
    url = libnfs.url(served.client.server_address, served.path)
    place = f"--ioengine=nfs --nfs_url={url}"
    if how == "kernel":
        mount(client, served.source, TARGET, "3", ("hard", "nolock"))
        place = f"--directory={TARGET} --ioengine=psync --direct=1"
    objset = int(pool.properties_of(guest, "zfs", f"{served.pool.name}/bench", ["objsetid"])["objsetid"])
    was, before = served.counted(), arc_zil_counters.read(guest, served.pool.name, objset, served.zfs)
    client.run(fio(place, "--rw=write", "--number_ios=60"))
    change = arc_zil_counters.read(guest, served.pool.name, objset, served.zfs).since(before)
    now = served.counted()
    assert all(check.ok for check in served.checks(was, now, "write", 60))
    commits, asked = change.zil["zil_commit_count"], now.calls["commit"] - was.calls["commit"]
    # Of libnfs: when the file is opened, and the COMMIT when it is closed.
    assert (commits >= 60, asked) == ((True, 0) if how == "kernel" else (False, 1)), (commits, asked)


@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_a_load_that_is_ended_leaves_no_job(served: Served, signal: str) -> None:
    """A job of fio that is a process has its own session: it goes on when fio is killed."""
    guest, files = served.guest, FioFiles("/tmp/ended")
    job = read_job(WORKLOADS / "top-speeds-write.fio")
    guest.run(["mkdir", files.directory])
    values = fio_load.variables(files.directory, SIZE, 600 * 10**9, Clock(), 1)
    guest.put(fio_load.job_text(job, files, values, "every I/O", together=False), files.job)
    load = guest.start(fio_load.command(files))
    guest.run(["sh", "-c", f"until test -s {files.directory}/working-set; do sleep 0.1; done"])
    load.stop(60, signal)
    left = guest.run(["pgrep", "-f", files.job], check=False).stdout
    guest.run(["rm", "-r", files.directory])
    assert left == ""


# Version 3 and a link that is down: tests/lab/test_appliance.py. Deadlines: tests/kit/nfs/test_mount.py.
@pytest.mark.parametrize(
    ("version", "fault"), [pytest.param("3", "link", marks=pytest.mark.long), ("4.2", "nfsd")]
)
def test_a_server_that_stops_answering_hangs_nobody_but_the_load(
    served: Served, version: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load hangs, for that is what hard means; looking, unmounting and going on does not."""
    guest, client = served.guest, served.client.host
    for deadline in ("_LOOK_DEADLINE_S", "_UNMOUNT_DEADLINE_S"):
        monkeypatch.setattr(nfs_mount, deadline, 8.0)
    # What hangs in the kernel does not end when it is killed.
    monkeypatch.setattr(ssh, "_KILL_GRACE_S", 2.0)
    mount(client, served.source, TARGET, version, ("hard", "nolock", "proto=tcp"))
    forever = ["--rw=randread", "--direct=1", "--time_based", "--runtime=1h", "--ioengine=psync"]
    load = client.start(fio(f"--directory={TARGET}", *forever))
    client.run(["sleep", "1"])
    off = {"nfsd": ["rpc.nfsd", "0"], "link": ["ip", "link", "set", "srv20", "down"]}[fault]
    on = {"nfsd": ["rpc.nfsd", "4"], "link": ["ip", "link", "set", "srv20", "up"]}[fault]
    guest.run(off)
    started = time.monotonic()
    try:
        client.run(["sleep", "30"])
        assert load.running()
        assert nfs_mount.is_mounted(client, TARGET)
        with pytest.raises(HostError):
            nfs_mount.check_file(client, f"{TARGET}/file", SIZE)
        # fio's jobs are in sessions of their own: those that hang survive it until their I/O ends.
        with pytest.raises(DeadlineExceeded):
            load.stop(5)
        try:
            nfs_mount.unmount(client, TARGET)
        except HostError as error:
            assert "reboot this client" in error.hint
    finally:
        guest.run(on)
    # The short deadlines were for the time without a server.
    monkeypatch.undo()
    print(f"{fault} {version}: {time.monotonic() - started:.1f} s")
    for _ in range(2):
        nfs_mount.unmount(client, TARGET)
    assert not nfs_mount.is_mounted(client, TARGET)
    assert client.run(["ls", "/mnt"]).stdout.split() == []
    assert work_directory.left_by(client) == []
